"""Claude Code's payloads, and how a refusal is spelled for it."""

from __future__ import annotations

import json

import pytest

from broker.agents.children import News, Spawn
from broker.agents.claude.hook import ClaudeDialect
from broker.agents.hooks import AgentHook, HookCall, Outcome
from broker.errors import InputError
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

CALL = {
    "hook_event_name": "PreToolUse",
    "tool_name": "Read",
    "tool_input": {"file_path": "src/a.py"},
    "tool_use_id": "toolu_1",
    "cwd": "/ws",
}


def read(**changed: object) -> HookCall:
    """Read a payload with some fields changed."""
    return ClaudeDialect().read(json.dumps({**CALL, **changed}).encode())


def test_a_payload_is_a_call() -> None:
    """Tool, arguments, call id and folder are taken as they stand."""
    assert read() == HookCall(
        "PreToolUse", "Read", {"file_path": "src/a.py"}, "toolu_1", "/ws", None, "main"
    )


def test_a_subagent_is_another_actor() -> None:
    """A call of a subagent carries its type and its id."""
    assert read(agent_id="a1", agent_type="plug:in").actor == "agent:plug:in:a1"
    assert read(agent_id="a1").actor == "agent:unknown:a1"
    assert read(agent_id="a1", agent_type="").actor == "agent:unknown:a1"
    assert read(agent_id=None, agent_type="x").actor == "main"


@pytest.mark.parametrize("agent", ["", "a:b", 7, [], True])
def test_an_agent_that_cannot_be_told_is_refused(agent: object) -> None:
    """A subagent that might miss its own ticket is not taken for the main agent."""
    with pytest.raises(InputError):
        read(agent_id=agent, agent_type="x")


@pytest.mark.parametrize(
    ("tool", "server", "found"),
    [
        ("mcp__fs__read", {"name": "fs", "source": "user"}, "fs"),
        ("mcp__my_server__read", {"name": "my server"}, "my_server"),
        ("mcp__fs__x__read", {"name": "fs__x"}, "fs__x"),
        ("mcp__fs__x__read", {"name": "fs"}, "fs"),
        ("mcp__fs__read", {"name": "evil"}, None),
        ("Read", {"name": "fs"}, None),
        ("mcp__fs__read", None, None),
    ],
)
def test_a_server_counts_when_the_tools_name_agrees(
    tool: str, server: object, found: str | None
) -> None:
    """A server whose name is not in the tool's leaves it unknown, so no star reaches the tool."""
    assert read(tool_name=tool, mcp_server=server).server == found


@pytest.mark.parametrize("server", [{}, {"name": ""}, {"name": 1}, "fs", [], 0])
def test_a_server_without_a_name_is_refused(server: object) -> None:
    """A payload that says *server* and not which one cannot be judged."""
    with pytest.raises(InputError):
        read(mcp_server=server)


@pytest.mark.parametrize("event", ["PostToolBatch", "UserPromptSubmit", "pretooluse", "", None])
def test_other_events_are_refused(event: object) -> None:
    """A hook that was set in front of anything else is not answered with an allow."""
    with pytest.raises(InputError):
        read(hook_event_name=event)


def test_a_start_shows_that_hooks_are_alive(bench: Bench) -> None:
    """The start of a session has no call; it is let through, and remembered."""
    session, hook = bench.open(), AgentHook(ClaudeDialect())
    assert not hook.started.is_set()
    assert hook.answer(b'{"hook_event_name":"SessionStart"}', session) is None
    assert hook.started.is_set()
    assert (session.allowed, session.refused) == (0, 0)


def test_an_allow_says_nothing_and_a_refusal_one_object(bench: Bench) -> None:
    """Allowed calls are left to the agent's own rules; refused ones say by which caveat."""
    session, hook = bench.open(), AgentHook(ClaudeDialect())
    inside = json.dumps({**CALL, "cwd": str(session.workspace)}).encode()
    assert hook.answer(inside, session) is None
    refusal = hook.answer(json.dumps({**CALL, "tool_name": "Bash"}).encode(), session)
    assert refusal is not None
    assert (refusal.exit, refusal.stderr) == (0, b"")
    (answer,) = json.loads(refusal.stdout).values()
    assert answer["permissionDecision"] == "deny"
    reason = answer["permissionDecisionReason"]
    for word in ("`tools`", "`Bash`", "Read, Edit", "do not work around this", "ask the person"):
        assert word in reason


def test_a_skills_own_command_is_judged_like_bash(bench: Bench) -> None:
    """A command that a skill's text runs by itself is refused by exit code, with the reason."""
    session, hook = bench.open(), AgentHook(ClaudeDialect())
    payload = {**CALL, "hook_event_name": "PreSkillShellCommand", "tool_name": "Bash"}
    refusal = hook.answer(
        json.dumps({**payload, "tool_input": {"command": "ls"}}).encode(), session
    )
    assert refusal is not None
    assert (refusal.exit, refusal.stdout) == (2, b"")
    assert b"`tools`" in refusal.stderr


AGENT = {"prompt": "look", "subagent_type": "Explore", "description": "x"}


def test_a_call_that_starts_subagents_says_of_which_kind() -> None:
    """One with its kind and its task, or maybe some that nobody tells apart."""
    assert read(tool_name="Agent", tool_input=AGENT).spawn == Spawn("Agent", "Explore", "look")
    assert read(tool_name="Task", tool_input={"prompt": "x"}).spawn == Spawn("Task", "", "x")
    scoped = read(tool_name="Agent", tool_input={**AGENT, "scope": ["calls=1"]}).spawn
    assert scoped is not None
    assert scoped.scope == ("calls=1",)
    assert read(tool_name="Skill", tool_input={}).spawn == Spawn("Skill", many=True)
    assert read().spawn is None


@pytest.mark.parametrize(
    "given", [{"subagent_type": 7}, {"prompt": ["x"]}, {"scope": 7}, {"scope": [7]}]
)
def test_a_task_that_cannot_be_read_starts_nobody(given: dict[str, object]) -> None:
    """What is asked for must be known."""
    with pytest.raises(InputError):
        read(tool_name="Agent", tool_input={**AGENT, **given})


def test_the_beginning_and_the_end_of_a_subagent_are_news() -> None:
    """They carry no call, whatever else they carry."""
    for event, what in (("SubagentStart", "begun"), ("SubagentStop", "ended")):
        found = read(hook_event_name=event, agent_id="a1", agent_type="Explore")
        assert found == HookCall(event, news=News(what, "id:a1", "Explore"))  # type: ignore[arg-type]  # one of the two
        with pytest.raises(InputError):
            read(hook_event_name=event)


def test_the_end_of_a_call_tells_whom_it_started() -> None:
    """The answer of a call names its subagent; a failed one started nobody."""
    answer = {"status": "async_launched", "agentId": "a1"}
    after = read(hook_event_name="PostToolUse", tool_name="Agent", tool_response=answer)
    assert after.news == News("paired", "id:a1", call="toolu_1")
    assert after.ended == Outcome("toolu_1", True, answer)
    assert after.tool == ""
    failed = read(hook_event_name="PostToolUseFailure", tool_name="Agent", error="no")
    assert (failed.news, failed.ended) == (
        News("failed", call="toolu_1"),
        Outcome("toolu_1", False, "no"),
    )
    plain = read(hook_event_name="PostToolUse", tool_response={"agentId": "a1"})
    assert plain.news is None


def test_an_id_in_an_argument_is_no_id() -> None:
    """Who calls is told by the payload, and never by what a model wrote."""
    found = read(tool_input={"file_path": "a", "agent_id": "a1"}, agent_id="a2")
    assert found.caller.agent == "id:a2"


def test_how_a_call_ended_is_recorded_and_never_refused(bench: Bench) -> None:
    """A session that is over takes no result, and the agent is not told so."""
    session, hook = bench.open(), AgentHook(ClaudeDialect())
    payload = json.dumps({**CALL, "hook_event_name": "PostToolUse", "tool_response": "x"})
    assert hook.answer(payload.encode(), session) is None
    session.seal()
    assert hook.answer(payload.encode(), session) is None
    found = [data for kind, data in bench.entries(session.sid) if kind == "result"]
    assert [(data["call"], data["ok"]) for data in found] == [("toolu_1", True)]
