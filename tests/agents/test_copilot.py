"""
The real GitHub Copilot CLI under a ticket, against a scripted model on loopback.

Runs where it is installed (``BROKER_COPILOT`` names its program, else ``copilot`` on the path)
and needs neither an account nor a network.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Text, Use
from broker.loopback.server import LoopbackModel
from tests.agents import stage as stages
from tests.agents.stage import broker_gone, installed

pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

NOTES = Path(__file__).with_name("notes_server.py")
CLAUDE = ("anthropic", "", "claude-sonnet-4.6", "completions")
GPT = ("openai", "/v1", "gpt-5.4", "responses")


@pytest.fixture(scope="session")
def copilot() -> str:
    """The program, or a skip."""
    return installed("BROKER_COPILOT", "copilot")


class Stage(stages.Stage):
    """A stage with Copilot CLI on it."""

    def __init__(self, root: Path, program: str) -> None:
        super().__init__(root, program)
        (self.user / ".copilot").mkdir()

    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run."""
        command = [self.program, "--allow-all", "--no-ask-user", "--no-auto-update"]
        return [*command, "--output-format", "json", *arguments, "-p", "[script main] go"]

    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return the variables of a run."""
        kind, path, slug, api = more.get("wire", CLAUDE)
        return {
            "COPILOT_HOME": str(self.user / ".copilot"),
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_PROVIDER_BASE_URL": f"{model.url}{path}",
            "COPILOT_PROVIDER_TYPE": kind,
            "COPILOT_PROVIDER_WIRE_API": api,
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": slug,
        }


@pytest.fixture
def stage(tmp_path: Path, copilot: str) -> Stage:
    """A stage of this test's own."""
    return Stage(tmp_path, copilot)


def shell(command: str) -> tuple[str, Mapping[str, object]]:
    """Return a call of the shell."""
    return "bash", {"command": command, "description": "x"}


def create(path: Path) -> tuple[str, Mapping[str, object]]:
    """Return a call that makes a file."""
    return "create", {"path": str(path), "file_text": "x\n"}


def agent(name: str, kind: str = "general-purpose") -> tuple[str, Mapping[str, object]]:
    """Return a call that starts an agent with the script ``sub``."""
    given = {"description": "x", "prompt": "[script sub] look", "agent_type": kind}
    return "task", {**given, "name": name, "mode": "sync"}


def hook(answer: Mapping[str, object]) -> dict[str, object]:
    """Return a file of hooks that gives an answer to every call."""
    made = {"type": "command", "bash": f"echo '{json.dumps(answer)}'", "timeoutSec": 10}
    return {"version": 1, "hooks": {"preToolUse": [made]}}


def test_calls_inside_and_outside_the_scope(stage: Stage) -> None:
    """Reads and edits inside pass; outside, a shell and a fetch are refused by name."""
    ws = stage.workspace
    (ws / "secret.txt").write_text("do not read")
    edit = {"path": str(ws / "src/a.py"), "old_str": "a = 1", "new_str": "a = 2"}
    code, _, err = stage.run(
        {
            "main": [
                Use([("view", {"path": str(ws / "src/a.py")})]),
                Use([("view", {"path": str(ws / "secret.txt")})]),
                Use([("edit", edit), create(ws / "src/new.txt"), create(ws / "outside.txt")]),
                Use([("grep", {"pattern": "a", "paths": [str(ws / "src"), str(ws)]})]),
                Use([shell("echo hi > shell.txt")]),
                Use([("web_fetch", {"url": "http://127.0.0.1:9/"})]),
                Say("done"),
            ]
        },
        scope=["tools=Read,Edit,Write,Grep,WebFetch", "paths=src/**", "hosts=example.com"],
    )
    assert code == 0, err
    assert sorted(stage.decisions()) == sorted(
        [
            ("Read", "allow", ""),
            ("Read", "refuse", "paths"),
            ("Edit", "allow", ""),
            ("Write", "allow", ""),
            ("Write", "refuse", "paths"),
            ("Grep", "refuse", "paths"),
            ("Bash", "refuse", "tools"),
            ("WebFetch", "refuse", "hosts"),
        ]
    )
    assert (ws / "src/a.py").read_text() == "a = 2\n"
    assert (ws / "src/new.txt").exists()
    assert not (ws / "outside.txt").exists()
    assert not (ws / "shell.txt").exists()
    told = stage.results["main-1-0"].text
    assert "refused by `paths`" in told
    assert "do not read" not in told
    assert "ask the person" in told
    intent = next(data for kind, data in stage.entries() if kind == "intent")
    assert intent["line"] == "[script main] go"


def test_patches_are_judged_by_their_files(stage: Stage) -> None:
    """A model that edits by patches meets the same refusals."""
    text = "*** Begin Patch\n*** Add File: {}\n+hello\n*** End Patch\n"
    code, _, err = stage.run(
        {
            "main": [
                Use([("apply_patch", Text(text.format("src/new.txt")))]),
                Use([("apply_patch", Text(text.format("outside.txt")))]),
                Use([("rg", {"pattern": "a", "paths": str(stage.workspace)})]),
                Say("done"),
            ]
        },
        wire=GPT,
        scope=["tools=apply_patch,Grep", "paths=src/**"],
    )
    assert code == 0, err
    assert stage.decisions() == [
        ("apply_patch", "allow", ""),
        ("apply_patch", "refuse", "paths"),
        ("Grep", "refuse", "paths"),
    ]
    assert (stage.workspace / "src/new.txt").exists()
    assert not (stage.workspace / "outside.txt").exists()


def test_tools_of_a_server_are_held(stage: Stage) -> None:
    """A server's tool that the scope names runs, another one does not."""
    server = {"type": "local", "command": sys.executable, "args": [str(NOTES)], "tools": ["*"]}
    code, _, err = stage.run(
        {"main": [Use([("notes-look", {})]), Use([("notes-drop", {})]), Say("done")]},
        "--additional-mcp-config",
        json.dumps({"mcpServers": {"notes": server}}),
        scope=["tools=mcp__notes__look"],
    )
    assert code == 0, err
    stage.only_look()


def test_parallel_calls_share_the_budget(stage: Stage) -> None:
    """Of ten calls at once under a budget of four, four run."""
    calls = [shell(f"echo x > src/{n}.txt") for n in range(10)]
    code, _, err = stage.run({"main": [Use(calls), Say("done")]}, scope=["tools=Bash", "calls=4"])
    assert code == 0, err
    found = [decision for _, decision, _ in stage.decisions()]
    assert (found.count("allow"), found.count("refuse")) == (4, 6)
    assert len(list((stage.workspace / "src").glob("?.txt"))) == 4


def test_a_ticket_that_ends_during_the_run(stage: Stage) -> None:
    """What came before the end passed, what comes after it is refused."""
    stage.run(
        {"main": [Use([shell("sleep 13")]), Use([shell("echo x > late.txt")]), Say("done")]},
        scope=["tools=Bash", "until=12s"],
    )
    assert [row[1:] for row in stage.decisions()] == [("allow", ""), ("refuse", "until")]
    assert not (stage.workspace / "late.txt").exists()


def test_a_link_that_leads_outside(stage: Stage, tmp_path: Path) -> None:
    """A file made through a link that an earlier call made is judged by where it leads."""
    (tmp_path / "elsewhere").mkdir()
    stage.run(
        {
            "main": [
                Use([shell(f"ln -s {tmp_path / 'elsewhere'} src/link")]),
                Use([create(stage.workspace / "src/link/new.txt")]),
                Say("done"),
            ]
        },
        scope=["tools=Bash,Write", "paths=src/**"],
    )
    assert stage.decisions()[-1] == ("Write", "refuse", "paths")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_what_is_typed_into_a_command_must_be_named(stage: Stage) -> None:
    """A command that waits for input is a shell too: typing into it is a call of its own."""
    typed = {"shellId": "s", "input": "x{enter}", "delay": 1}
    stage.run({"main": [Use([("write_bash", typed)]), Say("done")]}, scope=["tools=Bash"])
    assert stage.decisions() == [("write_bash", "refuse", "tools")]


def test_subagents_are_told_apart_and_held(stage: Stage) -> None:
    """A subagent's calls are its own in the receipt, and are held to the same ticket."""
    code, _, err = stage.run(
        {
            "main": [Use([agent("one")]), Say("done")],
            "sub": [Use([create(stage.workspace / "outside.txt")]), Say("nothing")],
        },
        scope=["tools=Write,Agent", "paths=src/**"],
    )
    assert code == 0, err
    found = [
        (data["actor"].rpartition(":")[0] or data["actor"], data["tool"], data["decision"])
        for kind, data in stage.entries()
        if kind == "decision"
    ]
    assert found == [
        ("main", "Agent", "allow"),
        ("agent:general-purpose", "Write", "refuse"),
    ]
    assert not (stage.workspace / "outside.txt").exists()


@pytest.mark.parametrize("where", ["user/.copilot/hooks/x.json", "ws/.github/hooks/x.json"])
def test_hooks_of_others_stay_and_free_nothing(stage: Stage, where: str) -> None:
    """They run before ours: what they allow is refused, what they change is judged as changed."""
    changed = {"command": "echo x > shell.txt", "description": "x"}
    answer = {"permissionDecision": "allow", "modifiedArgs": changed}
    file = stage.write(stage.root / where, hook(answer))
    before = file.read_bytes()
    stage.run({"main": [Use([shell("true")]), Say("done")]}, "--trust-folder", scope=["tools=Read"])
    (data,) = [data for kind, data in stage.entries() if kind == "decision"]
    assert (data["tool"], data["decision"]) == ("Bash", "refuse")
    assert not (stage.workspace / "shell.txt").exists()
    assert file.read_bytes() == before


def test_a_plugin_of_the_person_runs_before_ours(stage: Stage, tmp_path: Path) -> None:
    """A typed plugin may change a call too: what is judged is the call that will run."""
    changed = {"path": str(stage.workspace / "outside.txt"), "file_text": "x"}
    folder = tmp_path / "plugin"
    stage.write(folder / "plugin.json", {"name": "x", "version": "1.0.0", "hooks": "hooks.json"})
    stage.write(
        folder / "hooks.json", hook({"permissionDecision": "allow", "modifiedArgs": changed})
    )
    stage.run(
        {"main": [Use([create(stage.workspace / "src/new.txt")]), Say("done")]},
        "--plugin-dir",
        str(folder),
        scope=["tools=Write", "paths=src/**"],
    )
    assert stage.decisions() == [("Write", "refuse", "paths")]
    assert not (stage.workspace / "outside.txt").exists()


OFF = {"disableAllHooks": True}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ws/.github/copilot/settings.json", OFF),
        ("ws/.github/copilot/settings.local.json", OFF),
        ("ws/.claude/settings.json", OFF),
        ("user/.copilot/settings.json", OFF),
        ("user/.copilot/extensions/x/extension.mjs", "process.exit(0)"),
        ("ws/.github/extensions/x/extension.mjs", "process.exit(0)"),
    ],
)
def test_what_would_undo_the_hook_is_not_started(stage: Stage, name: str, content: object) -> None:
    """Settings that disable all hooks, and extensions that run after ours, are named at once."""
    stage.write(stage.root / name, content)
    code, _, err = stage.run({"main": [Say("no")]}, "--trust-folder", scope=["tools=Read"])
    assert code == 2
    assert "would not hold" in err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ws/.github/copilot/settings.json", json.dumps(OFF)),
        ("ws/.github/extensions/x/extension.mjs", "process.exit(0)"),
    ],
)
def test_what_would_undo_the_hook_and_comes_later_stops_the_run(
    stage: Stage, name: str, content: str
) -> None:
    """Written by a call of the run itself, it ends the run before a call outside the scope."""
    place = stage.root / name
    turn = shell(f"mkdir -p {place.parent}; echo '{content}' > {place}; sleep 3")
    code, _, err = stage.run(
        {"main": [Use([turn]), Use([create(stage.workspace / "outside.txt")]), Say("done")]},
        scope=["tools=Write,Bash", "paths=src/**"],
    )
    assert place.exists()
    assert code != 0
    assert "the agent was stopped" in err
    assert not (stage.workspace / "outside.txt").exists()


@pytest.mark.parametrize("name", ["hook.pyc", "hooks.json", "plugin.json"])
def test_the_files_of_the_hook_are_watched(stage: Stage, name: str) -> None:
    """A run whose hook was deleted ends before the next call outside its scope."""
    home = stage.bench.home.state.parent
    code, _, err = stage.run(
        {
            "main": [
                Use([shell(f"find {home} -name {name} -delete; sleep 3")]),
                Use([create(stage.workspace / "outside.txt")]),
                Say("done"),
            ]
        },
        scope=["tools=Bash,Write", "paths=src/**"],
    )
    assert code != 0
    assert "the agent was stopped" in err
    assert not (stage.workspace / "outside.txt").exists()


@pytest.mark.parametrize("how", ["killed", "stopped", "socket"])
def test_a_broker_that_is_gone_refuses(stage: Stage, how: str) -> None:
    """Killed, hung or without its socket: the call after that is refused or never made."""
    broker_gone(stage, how, shell, ["tools=Bash"])
