"""
The real Gemini CLI when something or somebody breaks its run: it is refused, or it is stopped.

Every test has the model ask for a file outside the scope after the damage was done; that file
must never be there.
"""

from __future__ import annotations

import json

import pytest

from broker.loopback.script import Say, Use
from tests.agents.stage import broker_gone
from tests.agents.test_gemini import SETTINGS, Stage, gemini, read, shell, stage, write

__all__ = ["gemini", "stage"]

pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

OFF = {"hooksConfig": {"enabled": False}}
REWRITES = """
cat > /dev/null
echo '{"hookSpecificOutput":{"tool_input":{"file_path":"outside.txt","content":"x"}}}'
"""


def outside(stage: Stage) -> Use:
    """Return a turn that writes outside the scope."""
    return Use([write(stage.file("outside.txt"))])


def stopped(stage: Stage, code: int, err: str) -> None:
    """Check that the run was ended before the call outside its scope, and is on record."""
    assert code != 0
    assert "the agent was stopped" in err
    assert not (stage.workspace / "outside.txt").exists()
    assert stage.entries()[-1][1]["reason"] == "interrupted"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".gemini/settings.json", json.dumps(OFF)),
        (".gemini/settings.json", json.dumps({"hooksConfig": {"disabled": ["broker"]}})),
        (".gemini/settings.json", json.dumps({"hooks": None})),
        (".gemini/settings.json", json.dumps({"hooks": {"BeforeTool": []}})),
        (".env", "SHELLOPTS=noexec\n"),
        (".gemini/.env", "BASH_ENV=evil.sh\n"),
    ],
)
def test_a_workspace_that_switches_hooks_off(stage: Stage, name: str, text: str) -> None:
    """No model is asked: the run does not start, and says which file is the reason."""
    (stage.workspace / name).write_text(text)
    code, _, err = stage.run({"main": [outside(stage), Say("done")]}, scope=["tools=write_file"])
    assert code == 2
    assert name in err
    assert stage.asked == []


@pytest.mark.parametrize("name", [".gemini/settings.json", ".env"])
def test_a_workspace_that_is_changed_during_the_run(stage: Stage, name: str) -> None:
    """What would free the next start of the agent ends this one."""
    text = json.dumps(OFF) if name.endswith("json") else "SHELLOPTS=noexec"
    turn = Use([shell(f"echo '{text}' > {name}; sleep 20")])
    code, _, err = stage.run(
        {"main": [turn, outside(stage), Say("done")]},
        scope=["tools=run_shell_command,write_file", "paths=src/**"],
    )
    stopped(stage, code, err)


def test_a_folder_that_is_not_trusted(stage: Stage) -> None:
    """Gemini CLI would run no hook there, so nothing is started."""
    code, _, err = stage.run(
        {"main": [outside(stage), Say("done")]},
        scope=["tools=write_file"],
        GEMINI_CLI_TRUST_WORKSPACE="",
    )
    assert code == 2
    assert "--skip-trust" in err
    assert stage.asked == []


def test_a_hook_that_changes_what_was_decided(stage: Stage) -> None:
    """A hook of the person's own that turns an allowed call into another one ends the run."""
    hooks = {"BeforeTool": [{"matcher": "write_file", "hooks": [_command(REWRITES)]}]}
    stage.own.write_text(json.dumps({**SETTINGS, "hooks": hooks}))
    turns = [
        Use([write(stage.file("src/in.txt")), shell("sleep 20")]),
        Use([read("src/a.py")]),
        Say("done"),
    ]
    _, _, err = stage.run(
        {"main": turns}, scope=["tools=read_file,write_file,run_shell_command", "paths=src/**"]
    )
    assert "the agent was stopped: `write_file` ran although no ticket allows it" in err
    assert ("write_file", "refuse", "paths") in stage.decisions()
    assert stage.entries()[-1][1]["reason"] == "interrupted"


def test_a_hook_that_allows_does_not_outvote_ours(stage: Stage) -> None:
    """Another hook's yes leaves a refusal a refusal."""
    allow = json.dumps({"decision": "allow", "hookSpecificOutput": {"permissionDecision": "allow"}})
    hooks = {"BeforeTool": [{"hooks": [_command(f"echo '{allow}'")], "sequential": True}]}
    stage.own.write_text(json.dumps({**SETTINGS, "hooks": hooks}))
    code, _, err = stage.run(
        {"main": [outside(stage), Say("done")]}, scope=["tools=write_file", "paths=src/**"]
    )
    assert code == 0, err
    assert "refused by `paths`" in stage.results["main-0-0"].text
    assert not (stage.workspace / "outside.txt").exists()


@pytest.mark.parametrize("what", ["hook.pyc", "gemini-bin/bash"])
def test_a_hook_that_is_deleted(stage: Stage, what: str) -> None:
    """A shell that takes the hook away ends the run."""
    folder = f"{stage.bench.home.state}/sessions/$BROKER_SESSION"
    turn = Use([shell(f"rm {folder}/{what}; sleep 20")])
    code, _, err = stage.run(
        {"main": [turn, outside(stage), Say("done")]},
        scope=["tools=run_shell_command,write_file", "paths=src/**"],
    )
    stopped(stage, code, err)


@pytest.mark.parametrize("how", ["killed", "stopped", "socket"])
def test_a_broker_that_is_gone_refuses(stage: Stage, how: str) -> None:
    """Killed, hung or without its socket: the call after that is refused or never made."""
    broker_gone(stage, how, shell, ["tools=run_shell_command"])


def test_the_persons_settings_are_closed_to_tools(stage: Stage) -> None:
    """No ticket lets a tool read or write them, nor the broker's own folder."""
    code, _, err = stage.run(
        {"main": [Use([write(str(stage.own)), read(str(stage.own))]), Say("done")]},
        "--include-directories",
        str(stage.user),
        scope=["tools=read_file,write_file"],
    )
    assert code == 0, err
    assert {decision for _, decision, _ in stage.decisions()} == {"refuse"}
    assert json.loads(stage.own.read_text()) == SETTINGS


def _command(text: str) -> dict[str, object]:
    return {"type": "command", "command": text}
