"""
The real Cline CLI when something or somebody breaks its run: it is refused, or it is stopped.

Every test has the model ask for a file outside the scope after the damage was done; that file
must never be there.
"""

from __future__ import annotations

import json
import signal
import time

import pytest

from broker.loopback.script import Say, Use
from broker.loopback.server import LoopbackModel
from tests.agents.clinestage import Stage, cline, stage
from tests.agents.test_cline import read, shell, write
from tests.hookkit import within
from tests.runkit import finished

__all__ = ["cline", "stage"]
pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

RUNS = "#!/bin/sh\ncat > /dev/null\ntouch {there}\n"
PLUGIN = 'require("fs").writeFileSync({there}, "x"); module.exports = {{}}'


def outside(stage: Stage) -> Use:
    """Return a turn that writes outside the scope."""
    return Use([write(stage.file("outside.txt"))])


def stopped(stage: Stage, code: int, err: str) -> None:
    """Check that the run was ended before the call outside its scope, and is on record."""
    assert code != 0
    assert "the agent was stopped" in err
    assert not (stage.workspace / "outside.txt").exists()
    assert stage.entries()[-1][1]["reason"] == "interrupted"


@pytest.mark.parametrize("name", [".cline/hooks/PreToolUse", ".clinerules/hooks/TaskStart.sh"])
def test_a_workspace_that_brings_hooks(stage: Stage, name: str) -> None:
    """Its programs never run: the run does not start, and says which folder is the reason."""
    there = stage.root / "there"
    path = stage.workspace / name
    path.parent.mkdir(parents=True)
    path.write_text(RUNS.format(there=there))
    path.chmod(0o700)
    code, _, err = stage.run({"main": [outside(stage), Say("done")]}, scope=["tools=editor"])
    assert code == 2
    assert str(path.parent) in err
    assert not there.exists()
    assert stage.results == {}


def test_a_workspace_that_brings_plugins(stage: Stage) -> None:
    """Its code never runs inside Cline, where ours is."""
    there = stage.root / "there"
    path = stage.workspace / ".cline/plugins/evil.js"
    path.parent.mkdir(parents=True)
    path.write_text(PLUGIN.format(there=json.dumps(str(there))))
    code, _, err = stage.run({"main": [outside(stage), Say("done")]}, scope=["tools=editor"])
    assert code == 2
    assert "plugins" in err
    assert not there.exists()


def test_files_that_its_own_runtime_would_obey(stage: Stage) -> None:
    """`.env` and `bunfig.toml` of the workspace set nothing and start nothing."""
    there = stage.root / "there"
    code = f'require("fs").writeFileSync({json.dumps(str(there))}, "x")'
    (stage.workspace / "evil.js").write_text(code)
    (stage.workspace / "bunfig.toml").write_text('preload = ["./evil.js"]\n')
    (stage.workspace / ".env").write_text(
        f"NODE_OPTIONS=--require={stage.file('evil.js')}\nCLINE_SESSION_BACKEND_MODE=hub\n"
    )
    turn = Use([shell("env > src/env.txt"), write(stage.file("outside.txt"))])
    status, _, err = stage.run(
        {"main": [turn, Say("done")]}, scope=["tools=run_commands,editor", "paths=src/**"]
    )
    assert status == 0, err
    assert not there.exists()
    assert "NODE_OPTIONS" not in (stage.workspace / "src/env.txt").read_text()
    assert stage.decisions()[-1] == ("editor", "refuse", "paths")


@pytest.mark.parametrize("name", [".cline/hooks", ".cline/plugins"])
def test_a_workspace_that_is_changed_during_the_run(stage: Stage, name: str) -> None:
    """What would free the next start of the agent ends this one."""
    turn = Use([shell(f"mkdir -p {name}; echo x > {name}/PreToolUse.js; sleep 20")])
    code, _, err = stage.run(
        {"main": [turn, outside(stage), Say("done")]},
        scope=["tools=run_commands,editor", "paths=src/**"],
    )
    stopped(stage, code, err)


@pytest.mark.parametrize("what", ["*/broker-cline.js", "*/ask.mjs", "*/package.json"])
def test_a_plugin_that_is_deleted(stage: Stage, what: str) -> None:
    """A shell that takes the plugin away ends the run."""
    folder = f"{stage.bench.home.state}/sessions/$BROKER_SESSION/cline-home/plugins"
    turn = Use([shell(f"rm {folder}/{what}; sleep 20")])
    code, _, err = stage.run(
        {"main": [turn, outside(stage), Say("done")]},
        scope=["tools=run_commands,editor", "paths=src/**"],
    )
    stopped(stage, code, err)


@pytest.mark.parametrize("options", [(), ("--yolo",), ("--auto-approve", "false")])
def test_a_plugin_that_does_not_load_leaves_every_tool_closed(
    stage: Stage, options: tuple[str, ...]
) -> None:
    """Cline goes on without a plugin; its tools are closed then, or the run ends."""
    turns = [Use([write(stage.file("src/new.txt"))]), Use([("submit_and_exit", SUBMITTED)])]
    stage.run(
        {"main": [*turns, Say("done")]},
        *options,
        scope=["tools=editor,submit_and_exit"],
        CLINE_JS_RUNTIME_PATH="/bin/false",
    )
    assert not (stage.workspace / "src/new.txt").exists()
    assert stage.decisions() == []


SUBMITTED = {"summary": "all is done", "verified": True}


def test_the_net_lets_a_run_with_its_plugin_be(stage: Stage) -> None:
    """Where no tool is closed, the hook file says nothing as long as the plugin is there."""
    turns = [
        Use([write(stage.file("src/new.txt"))]),
        outside(stage),
        Use([("submit_and_exit", SUBMITTED)]),
    ]
    _, _, err = stage.run(
        {"main": [*turns, Say("done")]},
        "--yolo",
        scope=["tools=editor,submit_and_exit", "paths=src/**"],
    )
    assert stage.decisions()[:2] == [("editor", "allow", ""), ("editor", "refuse", "paths")], err
    assert (stage.workspace / "src/new.txt").exists()
    assert not (stage.workspace / "outside.txt").exists()


def test_a_run_on_a_terminal(stage: Stage) -> None:
    """Nobody is asked for what the ticket permits, and refusals are told when the run is over."""
    turns = [Use([write(stage.file("src/new.txt"))]), outside(stage), Say("done")]
    shown, code = stage.at_terminal({"main": turns}, ["tools=editor", "paths=src/**"])
    assert code == 0, shown
    assert "Approve" not in shown
    assert stage.decisions() == [("editor", "allow", ""), ("editor", "refuse", "paths")]
    assert (stage.workspace / "src/new.txt").exists()
    assert shown.index("broker: refused (paths): editor") > shown.index("new.txt")
    assert "1 allowed, 1 refused (paths 1)" in shown


def test_a_plugin_that_does_not_load_on_a_terminal(stage: Stage) -> None:
    """The net ends the run before a person is asked about a call that nobody judged."""
    turns = [Use([write(stage.file("src/new.txt"))]), Say("done")]
    shown, _ = stage.at_terminal(
        {"main": turns}, ["tools=editor"], CLINE_JS_RUNTIME_PATH="/bin/false"
    )
    assert "Approve" not in shown
    assert stage.decisions() == []
    assert stage.results == {}
    assert not (stage.workspace / "src/new.txt").exists()


@pytest.mark.parametrize("how", ["killed", "stopped", "socket"])
def test_a_broker_that_is_gone_refuses(stage: Stage, how: str) -> None:
    """Killed, hung or without its socket: the call after that is refused or never made."""
    late = Use([write(stage.file("src/late.txt"))])
    turns = [Use([shell("echo $$ > src/first.txt; sleep 3")]), late, Say("done")]
    with LoopbackModel({"main": turns}) as model:
        process = stage.start(model, scope=["tools=run_commands,editor", "paths=src/**"])
        assert within(60, (stage.workspace / "src/first.txt").exists)
        if how == "socket":
            for socket in stage.bench.home.runtime.iterdir():
                socket.unlink()
        else:
            process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        try:
            if how == "stopped":
                assert within(60, lambda: "main-1-0" in model.results)
                assert "did not answer in time" in model.results["main-1-0"].text
            else:
                finished(process, 60)
                time.sleep(6 if how == "killed" else 0)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
                finished(process, 60)
    assert not (stage.workspace / "src/late.txt").exists()


def test_the_persons_settings_are_closed_to_tools(stage: Stage) -> None:
    """No ticket lets a tool read or write credentials, hooks and plugins of Cline's."""
    places = [stage.own / "data/settings/providers.json", stage.own / "hooks/PreToolUse"]
    calls = [write(str(path)) for path in places] + [read(str(path)) for path in places]
    code, _, err = stage.run({"main": [Use(calls), Say("done")]}, scope=["tools=read_files,editor"])
    assert code == 0, err
    assert [decision for _, decision, _ in stage.decisions()] == ["refuse"] * 4
    assert not places[1].exists()
