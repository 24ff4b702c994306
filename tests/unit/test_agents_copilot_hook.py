"""Copilot CLI's payloads, and how a refusal is spelled for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.agents.children import Children, News, Spawn
from broker.agents.copilot.hook import MAX_RUNNING, CopilotDialect, CopilotHook
from broker.agents.hooks import HookCall, Outcome
from broker.errors import BrokerError, InputError
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

CALL = {
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "cwd": "/ws",
}


def read(*servers: str, **changed: object) -> HookCall:
    """Read a payload with some fields changed."""
    return CopilotDialect(servers).read(json.dumps({**CALL, **changed}).encode())


def test_a_payload_is_a_call() -> None:
    """Tool, arguments, folder and actor are taken as they stand; the call gets a number."""
    found = read()
    assert (found.event, found.tool, found.arguments) == ("PreToolUse", "Bash", {"command": "ls"})
    assert (found.call_id, found.cwd, found.server, found.actor) == ("1", "/ws", None, "main")
    assert read(agent_id="a1", agent_type="explore").actor == "agent:explore:a1"
    assert read(tool_name="skill").tool == "Skill"


@pytest.mark.parametrize(
    ("tool", "given", "judged"),
    [
        ("Read", {"path": "a"}, {"file_path": "a"}),
        ("Write", {"path": "a", "file_text": "x"}, {"file_path": "a", "content": "x"}),
        (
            "Edit",
            {"path": "a", "old_str": "x", "new_str": "y"},
            {"file_path": "a", "old_string": "x", "new_string": "y"},
        ),
        ("Glob", {"pattern": "*", "paths": "a"}, {"pattern": "*", "path": "a"}),
        ("Grep", {"pattern": "x", "paths": ["a", "b"]}, {"pattern": "x", "path": ["a", "b"]}),
        ("WebFetch", {"url": "http://x/", "raw": True}, {"url": "http://x/", "raw": True}),
    ],
)
def test_arguments_are_judged_under_the_names_of_claude_code(
    tool: str, given: object, judged: object
) -> None:
    """One scope and one catalog hold for both; what is not known stays as it is."""
    assert read(tool_name=tool, tool_input=given).arguments == judged


def test_an_argument_under_two_names_is_refused() -> None:
    """Only one of them could be judged, and the agent might take the other."""
    with pytest.raises(InputError, match="twice"):
        read(tool_name="Read", tool_input={"path": "src/a", "file_path": "/etc/passwd"})


def test_a_patch_is_judged_as_a_patch() -> None:
    """What comes as an edit without arguments is the patch of every other agent's tool."""
    found = read(tool_name="Edit", tool_input="*** Begin Patch\n*** End Patch\n")
    assert (found.tool, found.arguments) == (
        "apply_patch",
        {"patch": "*** Begin Patch\n*** End Patch\n"},
    )


@pytest.mark.parametrize(
    ("servers", "name", "server", "tool"),
    [
        (("notes",), "notes-look", "notes", "mcp__notes__look"),
        (("my notes",), "my_notes-look", "my_notes", "mcp__my_notes__look"),
        (("notes",), "notes-", None, "notes-"),
        (("other",), "notes-look", None, "notes-look"),
        (("a", "a-b"), "a-b-c", None, "a-b-c"),
        ((), "notes-look", None, "notes-look"),
    ],
)
def test_a_servers_tool_is_known_by_a_server_of_the_persons(
    servers: tuple[str, ...], name: str, server: str | None, tool: str
) -> None:
    """One of another server, or of either of two, keeps its name, which no catalog knows."""
    found = read(*servers, tool_name=name)
    assert (found.server, found.tool) == (server, tool)


def test_nobody_spells_a_tool_as_another_server_would() -> None:
    """A tool that bears a name of a catalog's without being it is refused."""
    with pytest.raises(InputError, match="no tool"):
        read(tool_name="mcp__filesystem__read_file")


@pytest.mark.parametrize("field", sorted(CALL))
@pytest.mark.parametrize("value", [None, "", 7, []])
def test_a_field_that_is_needed_and_wrong_is_refused(field: str, value: object) -> None:
    """Missing, empty and of another kind are never guessed."""
    with pytest.raises(InputError):
        read(**{field: value})


@pytest.mark.parametrize("event", ["Stop", "PermissionRequest", "preToolUse"])
def test_other_events_are_refused(event: str) -> None:
    """Under Copilot's own name of the event it would not take our refusal for one."""
    with pytest.raises(InputError):
        read(hook_event_name=event)


def test_a_refusal_is_one_object_with_its_reason() -> None:
    """A text before it, or a second object, would be taken for an allow."""
    answer = json.loads(CopilotDialect().deny("PreToolUse", "because").stdout)
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
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
        found = read("a", **changed)
    except BrokerError:
        return
    assert found.tool or found.event == "SessionStart"


def test_captured_payloads_are_read(shared: Path) -> None:
    """Every payload that a real Copilot sent before a call is a call with its tool."""
    files = sorted((shared / "agents/captures/copilot/pascal").glob("PreToolUse*.json"))
    assert len(files) > 15
    for file in files:
        found = json.loads(file.read_text())
        call = CopilotDialect(["filesystem"]).read(file.read_bytes())
        assert call.tool.startswith("mcp__filesystem__") or call.tool == found["tool_name"]
        assert (call.server == "filesystem") == found["tool_name"].startswith("filesystem-")
        assert (call.actor != "main") == ("agent_id" in found)


def test_a_subagent_says_who_started_it() -> None:
    """Another subagent that was seen, or else the main agent, whose session it names."""
    dialect = CopilotDialect()

    def caller(**changed: object) -> News:
        return dialect.read(json.dumps({**CALL, **changed}).encode()).caller

    first = caller(agent_id="a1", agent_type="explore", parent_agent_id="session")
    assert first == News("begun", "id:a1", "explore", "main")
    inner = caller(agent_id="a2", agent_type="explore", parent_agent_id="a1")
    assert inner == News("begun", "id:a2", "explore", "id:a1")
    assert caller() == News("begun", "main")


def test_a_call_that_starts_a_subagent_says_of_which_kind() -> None:
    """With its task; a skill may start some that nobody tells apart."""
    given = {"agent_type": "explore", "prompt": "look", "name": "x", "mode": "sync"}
    found = read(tool_name="Agent", tool_input=given)
    assert found.spawn == Spawn("Agent", "explore", "look")
    assert read(tool_name="skill").spawn == Spawn("Skill", many=True)


def test_news_of_a_subagent_carry_no_call() -> None:
    """Its beginning comes without a name for the event, but never with a tool."""
    begun = {"agentName": "x", "agent_id": "a1", "agent_type": "explore", "sessionId": "s"}
    news = CopilotDialect().read(json.dumps(begun).encode()).news
    assert news == News("begun", "id:a1", "explore", "main")
    ended = read(hook_event_name="SubagentStop", agent_id="a1", agent_type="explore").news
    assert ended == News("ended", "id:a1", "explore", "main")
    for tool in ("tool_name", "toolName"):
        with pytest.raises(InputError):
            CopilotDialect().read(json.dumps({**begun, tool: "Bash"}).encode())


def said(event: str, **changed: object) -> bytes:
    """Return a payload of a call, or of its end."""
    return json.dumps({**CALL, "hook_event_name": event, **changed}).encode()


RESULT = {"result_type": "success", "text_result_for_llm": "x"}


def test_an_end_is_that_of_the_first_call_alike_that_runs(bench: Bench) -> None:
    """Once for each call that was let through; never for one that was refused, or for nobody's."""
    hook = CopilotHook(CopilotDialect(), Children())
    session = bench.open(["tools=Bash", "calls=2"])
    for _ in range(3):
        hook.answer(said("PreToolUse"), session)
    hook.answer(said("PreToolUse", tool_name="Read", tool_input={"path": "x"}), session)
    ends = [
        said("PostToolUse", tool_result=RESULT),
        said("PostToolUse", tool_result={"result_type": "failure"}),
        said("PostToolUse", tool_result=RESULT),  # of the call that was refused
        said("PostToolUseFailure", tool_name="Read", tool_input={"path": "x"}, error="x"),
        said("PostToolUse", agent_id="a1", agent_type="x", tool_result=RESULT),
    ]
    for end in ends:
        assert hook.answer(end, session) is None
    found = bench.entries(session.sid)
    decided = [(d["call"], d["decision"]) for kind, d in found if kind == "decision"]
    assert decided == [("1", "allow"), ("2", "allow"), ("3", "refuse"), ("4", "refuse")]
    told = [(d["call"], d["ok"]) for kind, d in found if kind == "result"]
    assert told == [("1", True), ("2", False)]


def test_a_call_that_failed_by_itself_is_told_so() -> None:
    """With its error; and what is remembered of calls that never end is bounded."""
    dialect = CopilotDialect()
    dialect.runs(dialect.read(said("PreToolUse")))
    failed = dialect.read(said("PostToolUseFailure", error="no"))
    assert failed.ended == Outcome("1", False, "no")
    for n in range(MAX_RUNNING + 1):
        dialect.runs(dialect.read(said("PreToolUse", tool_input={"n": n})))
    assert dialect.read(said("PostToolUse", tool_input={"n": 0})).ended is None
    assert dialect.read(said("PostToolUse", tool_input={"n": 1})).ended is not None


def test_captured_ends_are_read(shared: Path) -> None:
    """Every end that a real Copilot told is that of a call before it."""
    folder = shared / "agents/captures/copilot/pascal"
    files = sorted(folder.glob("PostToolUse*.json"))
    assert len(files) > 15
    for file in files:
        dialect = CopilotDialect(["filesystem"])
        told = json.loads(file.read_text())
        dialect.runs(dialect.read(json.dumps({**told, "hook_event_name": "PreToolUse"}).encode()))
        ended = dialect.read(file.read_bytes()).ended
        assert ended is not None
        assert ended.ok == ("Failure" not in file.name)
