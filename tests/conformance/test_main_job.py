"""The main job, as a person does it: run an agent, see a call refused, verify, tamper, verify."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console import COMMAND, process

# An agent that asks before each of its calls, as any script can, and says what it was told.
AGENT = f"""
import subprocess, sys
for words in {{calls!r}}:
    done = subprocess.run([*{COMMAND!r}, "check", *words], capture_output=True, text=True)
    print(done.returncode, done.stdout.partition(":")[0].strip(), flush=True)
{{end}}
"""


def agent(*calls: tuple[str, ...], end: str = "sys.exit(7)") -> list[str]:
    """Return the command of an agent that makes these calls and then ends."""
    return [sys.executable, "-c", AGENT.format(calls=calls, end=end)]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with a little in it."""
    (tmp_path / "ws" / "src").mkdir(parents=True)
    return tmp_path / "ws"


def test_the_main_job(workspace: Path, broker_home: Path) -> None:
    """A call outside the scope is refused by name, the receipt verifies, a changed one does not."""
    scope = ("--scope", "paths=src/**", "--scope", "calls=2", "--intent", "tidy up")
    inside, outside = ("write_file", "path=src/a", "content=x"), ("read_file", "path=b")
    run = process("run", *scope, "--", *agent(inside, outside, inside, inside), cwd=workspace)
    assert run.code == 7
    assert run.out.splitlines() == [
        "0 allowed",
        "1 refused (paths)",
        "0 allowed",
        "1 refused (calls)",
    ]
    last = run.err.splitlines()[-1]
    assert "2 allowed, 2 refused" in last
    assert "broker receipt" in last

    said = process("receipt", cwd=workspace)
    assert said.code == 0
    assert "intent     tidy up" in said.out
    assert said.out.count("  allowed  ") == said.out.count("  refused  ") == 2
    assert process("receipt", "--verify").code == 0

    (receipt,) = broker_home.glob("state/sessions/*/receipt.jsonl")
    receipt.write_bytes(receipt.read_bytes().replace(b'"refuse"', b'"allow"', 1))
    broken = process("receipt", "--verify")
    assert broken.code == 1
    assert "not verified (mac)" in broken.out


def test_quiet(workspace: Path) -> None:
    """--quiet leaves out what is ordinary; warnings, and that nothing holds the agent, are said."""
    scope = ("--scope", "calls=1", "--scope", "calls=2")
    command = ("--", sys.executable, "-c", "print('hello')")
    loud = process("run", *scope, *command, cwd=workspace)
    quiet = process("run", *scope, "--quiet", *command, cwd=workspace)
    assert (loud.code, loud.out) == (quiet.code, quiet.out) == (0, "hello\n")
    assert "0 allowed, 0 refused" in loud.err
    assert "allowed, " not in quiet.err
    assert "warning: " in quiet.err
    assert "has no hook" in quiet.err


def test_require_enforcement(workspace: Path) -> None:
    """A call that nothing can hold runs when its tool is named, unless that is asked for."""
    scope = ("--scope", "tools=shell", "--scope", "paths=src/**")
    shell = agent(("shell", "command=ls"), end="")
    named = process("run", *scope, "--", *shell, cwd=workspace)
    assert named.out == "0 allowed (enforcement\n"
    held = process("run", *scope, "--require-enforcement", "--", *shell, cwd=workspace)
    assert held.out == "1 refused (enforcement)\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--scope", "path=src", "--", "true"), "no such key `path`"),
        (("--scope", "calls=1", "--", "no-such-program-anywhere"), "no-such-program-anywhere"),
    ],
)
def test_nothing_starts_on_bad_input(
    workspace: Path, broker_home: Path, words: tuple[str, ...], said: str
) -> None:
    """A malformed scope or a missing program is 2, and leaves no session behind."""
    run = process("run", *words, cwd=workspace)
    assert (run.code, run.out) == (2, "")
    assert said in run.err
    assert list(broker_home.glob("state/sessions/*/receipt.jsonl")) == []


def test_terminated(workspace: Path) -> None:
    """A run that is told to end leaves a receipt that verifies as interrupted."""
    waiting = agent(("read_file", "path=src/a"), end="import time; time.sleep(60)")
    with subprocess.Popen(
        [*COMMAND, "run", "--scope", "calls=5", "--", *waiting],
        cwd=workspace,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"0 allowed\n"
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=60)
    verified = process("receipt", "--verify")
    assert verified.code == 0
    assert "INTERRUPTED" in verified.out


def test_killed(workspace: Path) -> None:
    """A broker that is killed leaves a receipt that verifies and has what was acknowledged."""
    waiting = agent(("read_file", "path=src/a"), end="import time; time.sleep(60)")
    with subprocess.Popen(
        [*COMMAND, "run", "--scope", "calls=5", "--", *waiting],
        cwd=workspace,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"0 allowed\n"
        run.kill()
        run.wait(60)
        run.stdout.close()
    said = process("receipt")
    assert said.code == 0
    assert "  allowed  " in said.out
    assert "verified: OPEN" in said.out or "verified: TORN" in said.out
    sessions = process("sessions", "--json").json()
    assert [s["state"] for s in sessions] in (["OPEN"], ["TORN"])


def test_a_ticket_is_narrowed_inside_a_run(workspace: Path) -> None:
    """A process narrows the live ticket, hands it to a child by its environment, and it holds."""
    (workspace / "src").mkdir(exist_ok=True)
    (workspace / "src" / "a.py").write_text("a = 1\n", encoding="utf-8")
    broker = f"{sys.executable} -c 'from broker.cli.main import main; main()'"
    script = f"""
        {broker} ticket show
        {broker} ticket attenuate --scope tools=Read --scope calls=1 > child.ticket
        {broker} ticket verify child.ticket
        {broker} ticket attenuate --scope tools=Bash
        export BROKER_TICKET="$(cat child.ticket)"
        {broker} check Read file_path=src/a.py
        {broker} check Edit file_path=src/a.py
        {broker} check Read file_path=src/a.py
    """
    done = process(
        "run", "--scope", "tools=Read,Edit", "--scope", "calls=9", "--", "sh", "-c", script,
        cwd=workspace,
    )  # fmt: skip
    assert "tools=Read,Edit" in done.out
    assert ", 2 links, each within the one before it" in done.out
    assert "`tools=Bash` widens `tools=Read,Edit`" in done.err
    said = [line.split(":")[0] for line in done.out.splitlines()[-3:]]
    assert said == ["allowed", "refused (tools)", "refused (calls)"]
    outside = process("ticket", "show", cwd=workspace)
    assert (outside.code, "inside `broker run`" in outside.err) == (2, True)
