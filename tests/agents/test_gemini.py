"""
What is of Gemini CLI alone: the real one under a ticket, against a scripted model on loopback.

What holds for every agent is in ``test_conformance`` and ``test_breaks``. Runs where it is
installed (``BROKER_GEMINI`` names its program, else ``gemini`` on the path), and needs neither
an account nor a network.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.loopback.script import Say, Use
from tests.agents.stages import GeminiStage
from tests.agents.tongues import GEMINI

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]

REWRITES = """
cat > /dev/null
echo '{"hookSpecificOutput":{"tool_input":{"file_path":"outside.txt","content":"x"}}}'
"""
REPORT = GEMINI.report
read, write, shell = GEMINI.read, GEMINI.write, GEMINI.shell


@pytest.fixture
def stage(tmp_path: Path) -> GeminiStage:
    """A stage of this test's own."""
    made = GEMINI.on(tmp_path)
    assert isinstance(made, GeminiStage)
    return made


def delegate(task: str) -> tuple[str, dict[str, object]]:
    """Return a call that starts a subagent."""
    return "invoke_agent", {"agent_name": "generalist", "prompt": task}


def outside(stage: GeminiStage) -> Use:
    """Return a turn that writes outside the scope."""
    return Use([write(stage.file("outside.txt"))])


def test_nothing_of_the_persons_is_edited(stage: GeminiStage, tmp_path: Path) -> None:
    """Settings are byte for byte what they were, and the person's own hooks still run."""
    seen = tmp_path / "seen"
    hook = {"type": "command", "command": f"cat > {seen}"}
    stage.own.write_text(
        json.dumps({**GeminiStage.SETTINGS, "hooks": {"BeforeTool": [{"hooks": [hook]}]}})
    )
    before = stage.own.read_bytes()
    code, _, err = stage.run(
        {"main": [Use([read("src/a.py")]), Say("done")]}, scope=["tools=read_file"]
    )
    assert code == 0, err
    assert stage.own.read_bytes() == before
    assert stage.decisions() == [("read_file", "allow", "")]
    assert "read_file" in seen.read_text()


def test_subagents_at_once_lend_each_other_nothing(stage: GeminiStage) -> None:
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


def test_a_report_of_a_search_is_no_change(stage: GeminiStage) -> None:
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


def test_a_folder_that_is_not_trusted(stage: GeminiStage) -> None:
    """Gemini CLI would run no hook there, so nothing is started."""
    code, _, err = stage.run(
        {"main": [outside(stage), Say("done")]},
        scope=["tools=write_file"],
        GEMINI_CLI_TRUST_WORKSPACE="",
    )
    assert code == 2
    assert "--skip-trust" in err
    assert stage.asked == []


def test_a_hook_that_changes_what_was_decided(stage: GeminiStage) -> None:
    """A hook of the person's own that turns an allowed call into another one ends the run."""
    hooks = {"BeforeTool": [{"matcher": "write_file", "hooks": [_command(REWRITES)]}]}
    stage.own.write_text(json.dumps({**GeminiStage.SETTINGS, "hooks": hooks}))
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


def test_a_hook_that_allows_does_not_outvote_ours(stage: GeminiStage) -> None:
    """Another hook's yes leaves a refusal a refusal."""
    allow = json.dumps({"decision": "allow", "hookSpecificOutput": {"permissionDecision": "allow"}})
    hooks = {"BeforeTool": [{"hooks": [_command(f"echo '{allow}'")], "sequential": True}]}
    stage.own.write_text(json.dumps({**GeminiStage.SETTINGS, "hooks": hooks}))
    code, _, err = stage.run(
        {"main": [outside(stage), Say("done")]}, scope=["tools=write_file", "paths=src/**"]
    )
    assert code == 0, err
    assert "refused by `paths`" in stage.results["main-0-0"].text
    assert not (stage.workspace / "outside.txt").exists()


def test_the_persons_settings_are_closed_to_tools(stage: GeminiStage) -> None:
    """No ticket lets a tool read or write them, nor the broker's own folder."""
    code, _, err = stage.run(
        {"main": [Use([write(str(stage.own)), read(str(stage.own))]), Say("done")]},
        "--include-directories",
        str(stage.user),
        scope=["tools=read_file,write_file"],
    )
    assert code == 0, err
    assert {decision for _, decision, _ in stage.decisions()} == {"refuse"}
    assert json.loads(stage.own.read_text()) == GeminiStage.SETTINGS


def _command(text: str) -> dict[str, object]:
    return {"type": "command", "command": text}
