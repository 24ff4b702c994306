"""What the hooks of all agents share: how a call is answered, and how a refusal is worded."""

from __future__ import annotations

import json

import pytest

from broker.agents.children import Spawn
from broker.agents.hooks import (
    AgentHook,
    HookCall,
    actor_of,
    arguments_of,
    caller_of,
    denied,
    event_of,
    explained,
    server_of,
    text_of,
)
from broker.calls import Refusal
from broker.errors import InputError
from broker.service.protocol import HookRefusal
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


class Plain:
    """An agent whose payload is the tool's name, with a refusal of exit code and text."""

    def read(self, payload: bytes) -> HookCall:
        """Take the payload for the tool's name; nothing at all for a start."""
        if payload == b"broken":
            raise InputError("broken")
        return HookCall("before", payload.decode(), {"file_path": "src/a.py"})

    def deny(self, event: str, reason: str) -> HookRefusal:
        """Say the event and the reason on standard error."""
        return HookRefusal(2, b"", f"{event}: {reason}".encode())


def test_each_payload_is_judged_and_answered_in_the_agents_own_words(bench: Bench) -> None:
    """An allow says nothing, a refusal goes through the dialect, a start is only remembered."""
    session, hook = bench.open(), AgentHook(Plain(), "before")
    assert hook.answer(b"", session) is None
    assert hook.started.is_set()
    assert (session.allowed, session.refused) == (0, 0)
    assert hook.answer(b"Read", session) is None
    refusal = hook.answer(b"Bash", session)
    assert refusal is not None
    assert refusal.stderr.startswith(b"before: refused by `tools` (Bash): ")
    assert (session.allowed, session.refused) == (1, 1)


def test_a_payload_that_cannot_be_read_starts_nothing(bench: Bench) -> None:
    """It is no sign of life, and its refusal is in the agent's words too."""
    hook = AgentHook(Plain(), "before")
    with pytest.raises(InputError):
        hook.answer(b"broken", bench.open())
    assert not hook.started.is_set()
    assert hook.refusal("why").stderr == (
        b"before: refused: why; do not work around this; ask the person"
    )


def test_a_refusal_in_words_is_well_formed() -> None:
    """Text of any kind can be printed for the agent, and a long value is cut."""
    assert json.loads(denied("PreToolUse", '"\ud800\n').stdout)
    assert explained(Refusal("paths", "x" * 999, "r")) == f"refused by `paths` ({'x' * 200}): r"
    assert explained(Refusal("session", "", "r")) == "refused by `session`: r"


def test_the_shape_of_a_denial_has_no_other_field() -> None:
    """One object with the three fields that all of its readers know, and nothing beside it."""
    refusal = denied("PreToolUse", "because")
    assert (refusal.exit, refusal.stderr) == (0, b"")
    assert json.loads(refusal.stdout) == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "because",
        }
    }


@pytest.mark.parametrize("value", [None, "", 1, [], {}, True])
def test_a_field_that_is_needed_is_text(value: object) -> None:
    """Missing, empty and of another kind are one error, which names the field."""
    with pytest.raises(InputError, match="`tool_name`"):
        text_of({"tool_name": value}, "tool_name")


@pytest.mark.parametrize("name", [None, "", 1, [], {}])
def test_a_server_without_a_name_is_an_error(name: object) -> None:
    """Whoever says *server* must say which one."""
    with pytest.raises(InputError):
        server_of(name, "mcp__x__y")


@pytest.mark.parametrize("agent", ["", "a:b", 7, [], True])
def test_an_agent_that_cannot_be_told_is_an_error(agent: object) -> None:
    """A subagent that might miss its own ticket is not taken for the main agent."""
    with pytest.raises(InputError):
        actor_of(agent, "x")


@pytest.mark.parametrize("event", [None, "", "after", 1])
def test_an_event_that_is_not_held_is_an_error(event: object) -> None:
    """A hook that was set before anything else is not answered with an allow."""
    with pytest.raises(InputError):
        event_of({"hook_event_name": event}, ("before",))
    assert event_of({"hook_event_name": "before"}, ("before",)) == "before"


@pytest.mark.parametrize("given", [None, "", [], 1, "{}"])
def test_arguments_are_an_object(given: object) -> None:
    """Anything else cannot be judged."""
    with pytest.raises(InputError, match="`tool_input`"):
        arguments_of(given)


def test_odd_ids_are_recorded_and_lend_nothing(bench: Bench) -> None:
    """A subagent of any id, started by a call of any id, is held to what it was handed."""
    odd = "x\ud800\n #/" + "y" * 999
    session, hook = bench.open(("tools=Agent,Read,Edit", "paths=src/**")), AgentHook(Odd(odd))
    assert hook.answer(b"Agent main", session) is None
    assert hook.answer(b"Read sub", session) is None
    refusal = hook.answer(b"Edit sub", session)
    assert refusal is not None
    assert b"refused by `tools`" in refusal.stderr
    session.seal()
    found = bench.entries(session.sid)
    (handed,) = [data for kind, data in found if kind == "delegate"]
    held = [data["ticket"] for kind, data in found if kind == "decision"]
    assert held[1:] == [handed["ticket"]] * 2


def test_whoever_claims_the_id_of_another_holds_its_ticket(bench: Bench) -> None:
    """A payload that names another's id, under whatever kind, gets that one's ticket."""
    session, hook = bench.open(("tools=Agent,Read,Edit", "paths=src/**")), AgentHook(Odd("a1"))
    assert hook.answer(b"Agent main", session) is None
    assert hook.answer(b"Edit sub", session) is not None
    assert hook.answer(b"Edit other", session) is not None
    assert hook.answer(b"Edit main", session) is None


class Odd(Plain):
    """An agent whose payload is a tool and who calls it; its one subagent has a given id."""

    def __init__(self, ident: str) -> None:
        self._ident = ident

    def read(self, payload: bytes) -> HookCall:
        """Take the payload apart; a call of ``Agent`` starts a subagent that may only read."""
        tool, who = payload.decode().split()
        agent = None if who == "main" else self._ident
        kind = "other" if who == "other" else "general"
        spawn = Spawn(tool, "general", "scope: tools=Read") if tool == "Agent" else None
        return HookCall(
            "before",
            tool,
            {} if spawn else {"file_path": "src/a.py", "old_string": "", "new_string": ""},
            self._ident,
            actor=actor_of(agent, kind),
            caller=caller_of(agent, kind),
            spawn=spawn,
        )
