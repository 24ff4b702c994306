"""
The real Gemini CLI under a ticket, against a scripted model on loopback.

Runs where Gemini CLI is installed (``BROKER_GEMINI`` names its program, else ``gemini`` on the
path) and needs neither an account nor a network.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Use
from broker.loopback.server import LoopbackModel
from tests.agents import stage as stages
from tests.agents.stage import installed

pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

SETTINGS = {
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
}
NOTES = {"command": sys.executable, "args": [str(Path(__file__).with_name("notes_server.py"))]}


@pytest.fixture(scope="session")
def gemini() -> str:
    """The program, or a skip."""
    return installed("BROKER_GEMINI", "gemini")


class Stage(stages.Stage):
    """A stage with Gemini CLI on it."""

    def __init__(self, root: Path, program: str) -> None:
        super().__init__(root, program)
        (self.workspace / ".gemini").mkdir()
        self.own = self.write(self.user / ".gemini/settings.json", SETTINGS)

    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run."""
        command = [self.program, "-m", "gemini-2.5-pro", "-o", "stream-json", "--yolo"]
        return [*command, *arguments, "-p", "[script main] go"]

    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return the variables of a run."""
        return {
            "GOOGLE_GEMINI_BASE_URL": model.url,
            "GEMINI_API_KEY": "none",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            **more,
        }


@pytest.fixture
def stage(tmp_path: Path, gemini: str) -> Stage:
    """A stage of this test's own."""
    return Stage(tmp_path, gemini)


Call = tuple[str, Mapping[str, object]]


def shell(command: str) -> Call:
    """Return a call of the shell."""
    return "run_shell_command", {"command": command}


def write(name: str) -> Call:
    """Return a call that makes a file."""
    return "write_file", {"file_path": name, "content": "hello\n"}


def read(name: str) -> Call:
    """Return a call that reads a file."""
    return "read_file", {"file_path": name}


def delegate(task: str) -> Call:
    """Return a call that starts a subagent."""
    return "invoke_agent", {"agent_name": "generalist", "prompt": task}


REPORT = Use([("complete_task", {"result": {"response": "done"}})])


def test_calls_inside_and_outside_the_scope(stage: Stage) -> None:
    """What the scope names passes, all else is refused by name, and the model is told."""
    (stage.workspace / "notes.txt").write_text("secret\n")
    code, _, err = stage.run(
        {
            "main": [
                Use([read("src/a.py")]),
                Use([read("notes.txt")]),
                Use([write("src/new.txt")]),
                Use([write(stage.file("outside.txt"))]),
                Use([("replace", {"file_path": stage.file("notes.txt"), "old_string": "s"})]),
                Use([shell("echo hi > shell.txt")]),
                Use([("web_fetch", {"prompt": "what does https://a.example/x say?"})]),
                Say("done"),
            ]
        },
        scope=["tools=read_file,write_file,replace,web_fetch", "paths=src/**", "hosts=b.example"],
    )
    assert code == 0, err
    found = stage.decisions()
    assert found[:4] == [
        ("read_file", "allow", ""),
        ("read_file", "refuse", "paths"),
        ("write_file", "allow", ""),
        ("write_file", "refuse", "paths"),
    ]
    assert ("run_shell_command", "refuse", "tools") in found
    assert found[-1] == ("web_fetch", "refuse", "hosts")
    assert (stage.workspace / "src/new.txt").read_text() == "hello\n"
    assert not (stage.workspace / "outside.txt").exists()
    assert not (stage.workspace / "shell.txt").exists()
    assert "refused by `paths`" in stage.results["main-1-0"].text
    assert "ask the person" in stage.results["main-1-0"].text
    assert "secret" not in "".join(told.text for told in stage.results.values())
    intent = next(data for kind, data in stage.entries() if kind == "intent")
    assert intent["line"] == "[script main] go"


def test_nothing_of_the_persons_is_edited(stage: Stage, tmp_path: Path) -> None:
    """Settings are byte for byte what they were, and the person's own hooks still run."""
    seen = tmp_path / "seen"
    hook = {"type": "command", "command": f"cat > {seen}"}
    stage.own.write_text(json.dumps({**SETTINGS, "hooks": {"BeforeTool": [{"hooks": [hook]}]}}))
    before = stage.own.read_bytes()
    code, _, err = stage.run(
        {"main": [Use([read("src/a.py")]), Say("done")]}, scope=["tools=read_file"]
    )
    assert code == 0, err
    assert stage.own.read_bytes() == before
    assert stage.decisions() == [("read_file", "allow", "")]
    assert "read_file" in seen.read_text()


def test_tools_of_servers(stage: Stage) -> None:
    """A tool of a server passes under its server's name, and another one is not even shown."""
    stage.own.write_text(json.dumps({**SETTINGS, "mcpServers": {"notes": NOTES}}))
    code, _, err = stage.run(
        {"main": [Use([("mcp_notes_look", {})]), Use([("mcp_notes_drop", {})]), Say("done")]},
        scope=["tools=mcp__notes__look"],
    )
    assert code == 0, err
    stage.only_look()


def test_parallel_calls_share_the_budget(stage: Stage) -> None:
    """Of ten calls at once under a budget of four, four run."""
    calls = [shell(f"echo x > src/{n}.txt") for n in range(10)]
    code, _, err = stage.run(
        {"main": [Use(calls), Say("done")]}, scope=["tools=run_shell_command", "calls=4"]
    )
    assert code == 0, err
    found = [decision for _, decision, _ in stage.decisions()]
    assert (found.count("allow"), found.count("refuse")) == (4, 6)
    assert len(list((stage.workspace / "src").glob("?.txt"))) == 4


def test_a_ticket_that_ends_during_the_run(stage: Stage) -> None:
    """What came before the end passed, what comes after it is refused."""
    stage.run(
        {"main": [Use([shell("sleep 9")]), Use([shell("echo x > late.txt")]), Say("done")]},
        scope=["tools=run_shell_command", "until=9s"],
    )
    assert stage.decisions()[0][1:] == ("allow", "")
    assert stage.decisions()[-1] == ("run_shell_command", "refuse", "until")
    assert not (stage.workspace / "late.txt").exists()


def test_a_link_that_leads_outside(stage: Stage, tmp_path: Path) -> None:
    """A file below a link that an earlier call made is judged by where the link leads."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    stage.run(
        {
            "main": [
                Use([shell(f"ln -s {elsewhere} src/link")]),
                Use([write(stage.file("src/link/new.txt"))]),
                Say("done"),
            ]
        },
        "--include-directories",  # else it refuses by itself
        str(elsewhere),
        scope=["tools=run_shell_command,write_file", "paths=src/**"],
    )
    assert stage.decisions()[-1] == ("write_file", "refuse", "paths")
    assert list(elsewhere.iterdir()) == []


def test_a_subagent_is_held_to_its_own_ticket(stage: Stage) -> None:
    """It has what its task asks for and no more, and afterwards its parent has its own again."""
    code, _, err = stage.run(
        {
            "main": [
                Use([delegate("[script sub] look\nscope: tools=read_file"), write("src/m.txt")]),
                Use([write("src/after.txt")]),
                Say("done"),
            ],
            "sub": [Use([read("src/a.py"), write("src/sub.txt")]), REPORT],
        },
        scope=["tools=read_file,write_file,invoke_agent", "paths=src/**", "calls=9"],
    )
    assert code == 0, err
    assert sorted(stage.decisions("actor")) == sorted(
        [
            ("invoke_agent", "allow", "", "main"),
            ("write_file", "allow", "", "main"),
            ("read_file", "allow", "", "agent:generalist:1"),
            ("write_file", "refuse", "tools", "agent:generalist:1"),
            ("write_file", "allow", "", "main"),
        ]
    )
    assert "GOAL" in stage.results["main-0-0"].text
    assert (stage.workspace / "src/after.txt").exists()
    assert not (stage.workspace / "src/sub.txt").exists()
    (kept,) = [data for kind, data in stage.entries() if kind == "delegate"]
    assert kept["asked_by"] == "main"


def test_a_subagent_cannot_be_given_more(stage: Stage) -> None:
    """A task that asks for a wider scope is refused, and its subagent never starts."""
    stage.run(
        {
            "main": [
                Use([delegate("[script sub] go\nscope: tools=read_file,run_shell_command")]),
                Say("done"),
            ],
            "sub": [Use([read("src/a.py")]), REPORT],
        },
        scope=["tools=read_file,invoke_agent", "paths=src/**"],
    )
    assert "scope that this task asks for" in stage.results["main-0-0"].text
    assert "sub-0-0" not in stage.results


def test_subagents_at_once_lend_each_other_nothing(stage: Stage) -> None:
    """Where it cannot be told which of two calls, both tickets must allow it."""
    code, _, err = stage.run(
        {
            "main": [
                Use(
                    [
                        delegate("[script one] go\nscope: tools=read_file"),
                        delegate("[script two] go\nscope: paths=src/two/**"),
                    ]
                ),
                Say("done"),
            ],
            "one": [Use([write("src/two/one.txt")]), REPORT],
            "two": [Use([shell("sleep 3")]), REPORT],
        },
        scope=["tools=read_file,write_file,run_shell_command,invoke_agent", "paths=src/**"],
    )
    assert code == 0, err
    assert not (stage.workspace / "src/two/one.txt").exists()
    assert "refused by" in stage.results["one-0-0"].text


def test_a_report_of_a_search_is_no_change(stage: Stage) -> None:
    """Tools that fill in arguments of their own are not taken for changed calls."""
    code, _, err = stage.run(
        {
            "main": [
                Use(
                    [
                        ("grep_search", {"pattern": "a =", "dir_path": "src"}),
                        ("glob", {"pattern": "*.py", "dir_path": "src"}),
                        ("list_directory", {"dir_path": "src"}),
                        ("list_directory", {"dir_path": "."}),
                    ]
                ),
                Say("done"),
            ]
        },
        scope=["tools=@reads", "paths=src/**"],
    )
    assert code == 0, err
    answers = sorted(decision for _, decision, _ in stage.decisions())  # the hooks run at once
    assert answers == [*["allow"] * 3, "refuse"]
    assert [data["ok"] for kind, data in stage.entries() if kind == "result"] == [True] * 3
    notes = [data["source"] for kind, data in stage.entries() if kind == "note"]
    assert sorted(notes) == ["canary", "launch"]  # none on a changed call
