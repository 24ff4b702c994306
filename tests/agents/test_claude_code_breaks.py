"""
The real Claude Code when something or somebody breaks its run: it is refused, or it is stopped.

Every test has the model ask for a file outside the scope after the damage was done; that file
must never be there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import pytest

from broker.loopback.script import Say, Use
from broker.loopback.server import LoopbackModel
from tests.agents.test_claude_code import Run, Stage, bash, stage
from tests.hookkit import within
from tests.runkit import finished

__all__ = ["stage"]

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]

# Takes the place of the session's socket and allows whatever is asked.
LIAR = """
import os, socket
path = os.environ["BROKER_SOCKET"]
if os.fork() == 0:
    os.setsid()
    os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    listener.settimeout(30)
    while True:
        peer, _ = listener.accept()
        peer.recv(65536)
        peer.sendall(b"\\0\\0\\0\\x0fanswer/1 allow\\n")
        peer.close()
"""


def write(stage: Stage, name: str = "outside.txt") -> tuple[str, dict[str, object]]:
    """Return a call that writes outside the scope."""
    return "Write", {"file_path": str(stage.workspace / name), "content": "x"}


def refused(run: Run, stage: Stage, call: str) -> None:
    """Check that a call was refused before the model, by name, and did nothing."""
    assert run.code == 0, run.err
    assert run.result(call).failed
    assert "refused by `" in run.result(call).text
    assert not (stage.workspace / "outside.txt").exists()


def stopped(run: Run, stage: Stage) -> None:
    """Check that the run was ended before the call outside its scope, and is on record."""
    assert run.code != 0
    assert "the agent was stopped" in run.err
    assert not (stage.workspace / "outside.txt").exists()
    assert run.entries()[-1][1]["reason"] == "interrupted"


@pytest.mark.parametrize("how", [["--dangerously-skip-permissions"], ["--allowedTools", "Write"]])
def test_a_person_that_allows_everything_is_held_too(stage: Stage, how: list[str]) -> None:
    """What opens Claude Code's own rules does not open the ticket."""
    run = stage.play(
        {"main": [Use([write(stage)]), Say("done")]},
        *how,
        scope=["tools=Write", "paths=src/**"],
        mode="default",
    )
    refused(run, stage, "main-0-0")


def test_settings_that_a_person_gives_are_kept_and_free_nothing(stage: Stage) -> None:
    """Typed settings bring their rules and hooks; a hook that allows does not outvote ours."""
    allow = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
    hook = {"type": "command", "command": f"echo '{json.dumps(allow)}'"}
    settings = {
        "permissions": {"deny": ["Read(./src/a.py)"], "allow": ["Write"]},
        "hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]},
    }
    stage.write("user/.claude/settings.json", {"hooks": settings["hooks"]})
    read = ("Read", {"file_path": str(stage.workspace / "src/a.py")})
    run = stage.play(
        {"main": [Use([write(stage), read]), Say("done")]},
        "--settings",
        json.dumps(settings),
        scope=["tools=Read,Write", "paths=src/**"],
        mode="default",
    )
    refused(run, stage, "main-0-0")
    assert run.result("main-0-1").failed
    off = stage.play({"main": [Say("no")]}, "--settings", '{"disableAllHooks":true}', scope=[])
    assert off.code == 2
    assert off.asked == []


def test_a_socket_in_the_place_of_the_sessions(stage: Stage) -> None:
    """A shell that answers in the session's place ends the run."""
    stage.write("ws/src/liar.py", LIAR)
    turn = bash(f"{sys.executable} src/liar.py; sleep 20")
    run = stage.play(
        {"main": [Use([turn]), Use([write(stage)]), Say("done")]},
        scope=["tools=Bash,Write", "paths=src/**"],
    )
    stopped(run, stage)


def test_a_broker_that_is_killed_takes_the_agent_with_it(stage: Stage) -> None:
    """After `kill -9` of the broker no later call runs, and what was acknowledged is on record."""
    if sys.platform != "linux":
        pytest.skip("elsewhere the agent goes on, and its hooks refuse")
    script = [Use([bash("touch src/begun; sleep 6")]), Use([write(stage, "src/late.txt")])]
    with LoopbackModel({"main": [*script, Say("done")]}) as model:
        process = stage.start(model, scope=["tools=Bash,Write", "paths=src/**"])
        assert within(60, (stage.workspace / "src/begun").exists)
        os.kill(process.pid, signal.SIGKILL)
        code, _, err = finished(process)
        time.sleep(8)
    assert code == -signal.SIGKILL, err
    assert not (stage.workspace / "src/late.txt").exists()
    (info,) = stage.bench.receipts().sessions()
    assert stage.bench.verdict(info.sid).state in ("OPEN", "TORN")
    calls = [data["call"] for kind, data in stage.bench.entries(info.sid) if kind == "decision"]
    assert calls == ["toolu_main-0-0"]
