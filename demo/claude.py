"""The same with Claude Code itself, where it is installed: a real agent, a scripted model."""

from __future__ import annotations

import os
import shutil

from broker.loopback.script import Say, Use
from broker.loopback.server import LoopbackModel
from demo.stage import PROJECT, Stage

PROMPT = "[script demo] Look at the code, then tidy the CI file up."
REACHED = "src/slug.py"
OUT_OF_REACH = ".github/workflows/ci.yml"


def installed() -> str | None:
    """Return where Claude Code is: BROKER_CLAUDE (empty: leave it out), or what the path finds."""
    named = os.environ.get("BROKER_CLAUDE")
    return shutil.which("claude") if named is None else named or None


def held_claude(here: Stage) -> None:
    """Run Claude Code under a scope, its model on loopback, and see one allow and one refusal."""
    program = installed()
    if program is None:
        here.tell("\nClaude Code is not installed here: its part of the demo is left out.")
        return
    here.step(
        "The same with Claude Code",
        "The real agent; only its model is a script, which runs on this machine. It reads a file",
        "and then writes one that the scope does not name.",
    )
    turns = [
        Use([("Read", {"file_path": str(here.project / REACHED)})]),
        Use([("Write", {"file_path": str(here.project / OUT_OF_REACH), "content": "x"})]),
        Say("I could read the code, and was refused the CI file."),
    ]
    with LoopbackModel({"demo": turns}) as model:
        here.environ |= {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "only-for-loopback",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        scope = ["--scope", "tools=Read,Write", "--scope", "writes=src/**", "--scope", "calls=10"]
        code, _ = here.run(["broker", "run", *scope, "--", program, "-p", PROMPT])
    here.expect(code == 0, "Claude Code ends well")
    read, wrote = model.results.get("demo-0-0"), model.results.get("demo-1-0")
    here.expect(read is not None and not read.failed, f"{REACHED} is read")
    refused = wrote is not None and wrote.failed and "refused by `writes`" in wrote.text
    here.expect(refused, f"writing {OUT_OF_REACH} is refused by `writes`, and the model reads it")
    if wrote is not None:
        here.tell(f"\nWhat the model read of its refusal:\n  {wrote.text}")
    kept = (here.project / OUT_OF_REACH).read_text(encoding="utf-8")
    here.expect(kept == PROJECT[OUT_OF_REACH], "the CI file is as it was")
    here.run(["broker", "receipt"])
    code, _ = here.run(["broker", "receipt", "--verify"])
    here.expect(code == 0, "its receipt verifies")
