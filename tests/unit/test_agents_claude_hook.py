"""Claude Code's payloads, and how a refusal is spelled for it."""

from __future__ import annotations

import json

import pytest

from broker.agents.claude.hook import ClaudeDialect
from broker.agents.hooks import AgentHook, HookCall
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
