"""Codex's payloads, and how a refusal is spelled for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.agents.children import News, Spawn
from broker.agents.codex.hook import CodexDialect
from broker.agents.hooks import HookCall, Outcome
from broker.errors import BrokerError, InputError

CALL = {
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "tool_use_id": "call_1",
    "cwd": "/ws",
}


def read(**changed: object) -> HookCall:
    """Read a payload with some fields changed."""
    return CodexDialect().read(json.dumps({**CALL, **changed}).encode())


def test_a_payload_is_a_call() -> None:
    """Tool, arguments, call id, folder and actor are taken as they stand."""
    assert read() == HookCall(
        "PreToolUse", "Bash", {"command": "ls"}, "call_1", "/ws", None, "main"
    )
    assert read(agent_id="a1", agent_type="default").actor == "agent:default:a1"


def test_a_patch_is_judged_as_a_patch() -> None:
    """What Codex tells as the command of a patch is the patch of every other agent's tool."""
    text = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n"
    found = read(tool_name="apply_patch", tool_input={"command": text})
    assert found.arguments == {"patch": text}
    odd = {"command": text, "workdir": "/etc"}
    assert read(tool_name="apply_patch", tool_input=odd).arguments == odd


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


def test_a_refusal_has_a_reason_and_nothing_else() -> None:
    """Codex takes any other field, or a reason that is empty, for no refusal."""
    answer = json.loads(CodexDialect().deny("PreToolUse", "because").stdout)
    assert set(answer) == {"hookSpecificOutput"}
    assert answer["hookSpecificOutput"]["permissionDecisionReason"] == "because"


@given(
    changed=st.dictionaries(
        st.sampled_from([*CALL, "agent_id", "agent_type"]),
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
    """Every payload that a real Codex sent before a call is a call with its tool."""
    files = sorted((shared / "agents/captures/codex").rglob("PreToolUse*.json"))
    assert len(files) > 20
    for file in files:
        found = json.loads(file.read_text())
        call = CodexDialect().read(file.read_bytes())
        assert call.tool == found["tool_name"]
        assert call.call_id == found["tool_use_id"]
        assert (call.actor != "main") == ("agent_id" in found)


@pytest.mark.parametrize("name", ["spawn_agent", "collaborationspawn_agent"])
def test_a_call_that_starts_a_subagent_says_what_it_is_told(name: str) -> None:
    """Its task is one text, or the texts of a list; its kind may be left out."""
    found = read(tool_name=name, tool_input={"message": "look", "agent_type": "explorer"})
    assert found.spawn == Spawn(name, "explorer", "look")
    items = [{"type": "text", "text": "one"}, {"type": "image"}, "x"]
    assert read(tool_name=name, tool_input={"items": items}).spawn == Spawn(name, "", "one")
    assert read(tool_name=f"{name}s_on_csv").spawn == Spawn(f"{name}s_on_csv", many=True)
    assert read().spawn is None


@pytest.mark.parametrize(
    ("answer", "agent"),
    [
        ('{"agent_id":"a1","nickname":"Kepler"}', "id:a1"),
        ({"agent_id": "a1"}, "id:a1"),
        ("collab spawn failed", None),
        ('{"agent_id":7}', None),
        ("[1]", None),
        (None, None),
    ],
)
def test_the_end_of_a_call_tells_whom_it_started(answer: object, agent: str | None) -> None:
    """As an object or as its text; anything else tells nothing."""
    found = read(hook_event_name="PostToolUse", tool_name="spawn_agent", tool_response=answer)
    assert found.news == (None if agent is None else News("paired", agent, call="call_1"))
    assert found.tool == ""
    assert found.ended == Outcome("call_1", True, answer)


def test_an_end_that_is_told_twice_counts_once() -> None:
    """A call that starts a subagent is told by two hooks, and each tells whom it started."""
    told = {**CALL, "hook_event_name": "PostToolUse", "tool_response": '{"agent_id":"a1"}'}
    dialect = CodexDialect()

    def again(tool: str, call: str) -> HookCall:
        said = {**told, "tool_name": tool, "tool_use_id": call}
        return dialect.read(json.dumps(said).encode())

    first, second = again("spawn_agent", "c1"), again("spawn_agent", "c1")
    assert first.news == second.news == News("paired", "id:a1", call="c1")
    assert first.ended is not None
    assert second.ended is None
    assert again("spawn_agent", "c2").ended is not None
    assert again("Bash", "c3").ended == Outcome("c3", True, '{"agent_id":"a1"}')


def test_the_beginning_and_the_end_of_a_subagent_are_news() -> None:
    """They carry no call."""
    for event, what in (("SubagentStart", "begun"), ("SubagentStop", "ended")):
        found = read(hook_event_name=event, agent_id="a1", agent_type="default")
        assert found == HookCall(event, news=News(what, "id:a1", "default"))  # type: ignore[arg-type]  # one of the two
