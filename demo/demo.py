"""
The whole story in under a minute, on a real folder and with real processes.

An agent mends a failing test under a scope that a person typed. It is refused what it was not
asked for, hands a part of the work to a helper that is refused more than it was given, and at the
end a signed receipt tells all of it; one changed byte, and the receipt no longer verifies.

Nothing leaves this machine. The exit code is 0 only when everything came out as it should.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from demo.claude import held_claude  # noqa: E402 - found in the folder above
from demo.stage import PROJECT, Stage, stage  # noqa: E402 - likewise

SCRIPT = ROOT / "demo/fix_the_test.json"
SCOPE = (
    "tools=read,grep,edit,write,shell,task",
    "writes=src/**,tests/**",
    "calls=40",
    "until=10m",
)
INTENT = "fix the failing test"
OUT_OF_REACH = ".github/workflows/ci.yml"


def main() -> int:
    """Play every step and return the exit code."""
    with stage() as here:
        work(here)
        story(here)
        tamper(here)
        held_claude(here)
        return end(here)


def work(here: Stage) -> None:
    """Run the reference agent under a scope, and look at what it did to the folder."""
    here.step(
        "An agent works under a scope",
        "The project has a failing test. A person says what is to be done, and what may be done:",
        "read anything, write below src and tests, run the shell, at most 40 calls, 10 minutes.",
        "The agent's model is a script; its tools, its session and its receipt are real.",
    )
    words = ["broker", "run"]
    for text in SCOPE:
        words += ["--scope", text]
    agent = ["python", "-m", "broker.harness", "--allow", "write,unseen", str(SCRIPT)]
    code, text = here.run([*words, "--intent", INTENT, "--", *agent])
    here.expect(code == 0, "every call of the agent comes out as its script expects")
    here.expect("refused by `writes`" in text, f"writing {OUT_OF_REACH} is refused by `writes`")
    here.expect("refused by `tools`" in text, "fetching a page is refused by `tools`")
    here.expect("refused by `paths`" in text, "the helper's reading is refused by `paths`")
    here.expect("widens" in text, "the helper's request for a shell is refused as a widening")
    mended = (here.project / "src/slug.py").read_text(encoding="utf-8")
    here.expect('"-".join' in mended, "the bug is mended")
    kept = (here.project / OUT_OF_REACH).read_text(encoding="utf-8")
    here.expect(kept == PROJECT[OUT_OF_REACH], "the CI file is as it was")
    code, _ = here.run(["python", "-m", "unittest", "-q"], show=False)
    here.expect(code == 0, "the test passes")


def story(here: Stage) -> None:
    """Let the receipt tell what happened, and verify it."""
    here.step(
        "The receipt tells it, and proves it",
        "Every decision was written down before it was answered: signed, and chained to the last.",
    )
    code, text = here.run(["broker", "receipt"])
    here.expect(code == 0, "the receipt is shown")
    here.expect("fix the failing test" in text, "the receipt says what was typed")
    code, _ = here.run(["broker", "receipt", "--verify"])
    here.expect(code == 0, "the receipt verifies")


def tamper(here: Stage) -> None:
    """Change one byte of the receipt, see that it is found, and put it back."""
    receipt = newest_receipt(here)
    honest = receipt.read_bytes() if receipt is not None else b""
    place = honest.find(b'"decision":"refuse"') + len(b'"decision":"')
    if receipt is None or place < len(b'"decision":"'):
        here.expect(False, "there is a receipt with a refusal in it")
        return
    line = honest[:place].count(b"\n")
    here.step(
        "One byte is changed",
        f"In line {line} of {receipt.name}, a refusal becomes something else: r -> R.",
    )
    receipt.write_bytes(honest[:place] + b"R" + honest[place + 1 :])
    code, text = here.run(["broker", "receipt", "--verify"])
    here.expect(code == 1, "the changed receipt does not verify")
    here.expect(f"line {line}" in text, f"the break is named: line {line}")
    here.tell("\nThe byte is put back:")
    receipt.write_bytes(honest)
    code, _ = here.run(["broker", "receipt", "--verify"])
    here.expect(code == 0, "the receipt verifies again")


def newest_receipt(here: Stage) -> Path | None:
    """Return the file of the latest session's receipt, or None when there is none."""
    folder = Path(here.environ["BROKER_HOME"]) / "state/sessions"
    found = sorted(folder.glob("*/*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    return found[-1] if found else None


def end(here: Stage) -> int:
    """Say how it went."""
    print()
    if here.faults:
        print(f"{len(here.faults)} things did not come out as they should:")
        for fault in here.faults:
            print(f"  - {fault}")
        return 1
    print("Everything came out as it should. The folder of this demo is removed again.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
