"""Qwen Code's payloads, and how a refusal is spelled for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.agents.children import News, Spawn
from broker.agents.hooks import HookCall, Outcome
from broker.agents.qwen.hook import TOOLS, QwenDialect
from broker.catalogs import load_catalogs
from broker.errors import BrokerError, InputError

CALL = {
    "hook_event_name": "PreToolUse",
    "tool_name": "run_shell_command",
    "tool_input": {"command": "ls"},
    "tool_call_id": "call_1",
    "cwd": "/ws",
}


def read(dialect: QwenDialect | None = None, **changed: object) -> HookCall:
    """Read a payload with some fields changed."""
    return (dialect or QwenDialect()).read(json.dumps({**CALL, **changed}).encode())


def start(dialect: QwenDialect, kind: object, call: str = "c1") -> str:
    """Return under which name the start of an agent of a kind is judged."""
    given = {} if kind is None else {"subagent_type": kind}
    return read(dialect, tool_name="agent", tool_input=given, tool_call_id=call).tool


def test_a_payload_is_a_call() -> None:
    """Arguments, call id and folder are taken as they stand, the tool under its shared name."""
    assert read() == HookCall(
        "PreToolUse", "Bash", {"command": "ls"}, "call_1", "/ws", None, "main"
    )
    assert read(tool_name="mcp__notes__look").tool == "mcp__notes__look"


def test_every_name_that_is_translated_to_is_known() -> None:
    """A scope and a catalog know each of them, so that none is judged by its name alone."""
    catalogs = load_catalogs()
    assert all(catalogs.lookup(name) is not None for name in (*TOOLS.values(), "ExternalAgent"))


@pytest.mark.parametrize("name", ["Read", "Bash", "Agent", "ExternalAgent"])
def test_nobody_else_gets_a_name_that_is_translated_to(name: str) -> None:
    """A tool that a workspace brings along cannot pass for one that is known."""
    with pytest.raises(InputError, match="of its own"):
        read(tool_name=name)


def test_a_subagent_is_known_by_the_call_that_started_it() -> None:
    """Its kind is what the call said, dashes or not; one that nobody started is unknown."""
    dialect = QwenDialect()
    assert start(dialect, "general-purpose") == "Agent"
    assert start(dialect, None, "c-2") == "Agent"
    assert read(dialect, agent_id="general-purpose-c1").actor == (
        "agent:general-purpose:general-purpose-c1"
    )
    assert read(dialect, agent_id="general-purpose-c-2").actor == (
        "agent:general-purpose:general-purpose-c-2"
    )
    assert read(dialect, agent_id="Explore-c3").actor == "agent:unknown:Explore-c3"


@pytest.mark.parametrize("kind", ["codex", "Codex", "claude-code", "reviewer", 7])
def test_an_agent_of_another_process_has_a_name_of_its_own(kind: object) -> None:
    """So has every kind that no file defines: it may be one."""
    assert start(QwenDialect(), kind) == "ExternalAgent"


def test_a_file_may_define_an_agent_but_not_one_that_runs_elsewhere() -> None:
    """A definition makes a kind one of the process, save for the kinds known to be outside."""
    dialect = QwenDialect(lambda kind: True)
    assert start(dialect, "reviewer") == "Agent"
    assert start(dialect, "CODEX") == "ExternalAgent"


@pytest.mark.parametrize("field", sorted(CALL))
@pytest.mark.parametrize("value", [None, "", 7, []])
def test_a_field_that_is_needed_and_wrong_is_refused(field: str, value: object) -> None:
    """Missing, empty and of another kind are never guessed."""
    with pytest.raises(InputError):
        read(**{field: value})


@pytest.mark.parametrize("event", ["Stop", "PermissionRequest", "UserPromptSubmit"])
def test_other_events_are_refused(event: str) -> None:
    """A hook that was set in front of anything else is not answered with an allow."""
    with pytest.raises(InputError):
        read(hook_event_name=event)


def test_a_refusal_is_one_object_with_its_reason() -> None:
    """A text before it, or a second object, would be taken for an allow."""
    answer = json.loads(QwenDialect().deny("PreToolUse", "because").stdout)
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert answer["hookSpecificOutput"]["permissionDecisionReason"] == "because"


@given(
    changed=st.dictionaries(
        st.sampled_from([*CALL, "agent_id"]),
        st.none() | st.text(max_size=4) | st.integers() | st.lists(st.text(max_size=2)),
        min_size=1,
    )
)
def test_no_payload_crashes_the_reader(changed: dict[str, Any]) -> None:
    """Whatever fields hold, there is a call with a tool, or a refusal."""
    try:
        found = read(**changed)
    except BrokerError:
        return
    assert found.tool or found.event == "SessionStart"


def test_captured_payloads_are_read(shared: Path) -> None:
    """Every payload that a real Qwen Code sent before a call is a call with its tool."""
    files = sorted((shared / "agents/captures/qwen").glob("PreToolUse*.json"))
    assert len(files) > 15
    for file in files:
        found = json.loads(file.read_text())
        call = QwenDialect().read(file.read_bytes())
        assert call.tool == TOOLS.get(found["tool_name"], found["tool_name"])
        assert call.call_id == found["tool_call_id"]
        assert (call.actor != "main") == ("agent_id" in found)


def test_a_subagent_is_known_by_its_call() -> None:
    """One whose id no call explains is told apart from all that were started."""
    dialect = QwenDialect()
    found = read(dialect, tool_name="agent", tool_input={"prompt": "x"}, tool_call_id="c1")
    assert found.spawn == Spawn("Agent", "general-purpose", "x")
    known = read(dialect, agent_id="general-purpose-c1").caller
    assert known == News("begun", "id:general-purpose-c1", "general-purpose", None, "c1")
    other = read(dialect, agent_id="general-purpose-c2").caller
    assert other.call == "general-purpose-c2"
    assert read(dialect, tool_name="skill").spawn == Spawn("Skill", many=True)


def test_what_has_ended_carries_no_call() -> None:
    """Neither a call's end nor a subagent's is judged."""
    after = read(hook_event_name="PostToolUse", tool_response="x")
    assert (after.tool, after.ended) == ("", Outcome("call_1", True, "x"))
    failed = read(hook_event_name="PostToolUseFailure", error="no")
    assert failed.ended == Outcome("call_1", False, "no")
    over = read(hook_event_name="SubagentStop", agent_id="x-c1")
    assert over.news is not None
    assert (over.tool, over.news.what, over.news.agent) == ("", "ended", "id:x-c1")
