"""A holder as the hooks of an agent ask it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.calls import Decision, Refusal
from broker.errors import AttenuationError, InputError
from broker.frameworks.asked import AskedHolder
from broker.frameworks.holding import Holder, session
from broker.service.client import SessionClient
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


@pytest.fixture
def held(bench: Bench) -> Iterator[Holder]:
    """A session whose scope admits two tools."""
    scope = ["tools=read,note,Agent", "calls=9"]
    given = {"workspace": bench.workspace, "home": bench.home, "outside": bench.outside}
    with session(scope, environ={}, **given) as opened:  # type: ignore[arg-type]  # one table for all
        yield opened


def decide(
    asked: AskedHolder,
    tool: str,
    actor: str,
    among: tuple[str, ...] = (),
    veto: Refusal | None = None,
) -> Decision:
    """Have a call decided."""
    more = {"call_id": "c", "server": None, "cwd": None, "veto": veto}
    return asked.decide(tool, {}, actor=actor, among=among, **more)  # type: ignore[arg-type]  # one table for all


def test_the_main_agent_is_the_holder(bench: Bench, held: Holder) -> None:
    """What the started agent calls is decided under the holder's ticket, in the holder's name."""
    with held.narrowed("tools=note", name="few") as few:
        assert decide(AskedHolder(few), "note", "main").allowed
        refused = decide(AskedHolder(few), "read", "main").refusal
        (few_ticket,) = AskedHolder(few).holds("main")
    assert refused is not None
    assert refused.caveat == "tools"
    found = [d for kind, d in bench.entries(held.sid) if kind == "decision"]
    assert {d["actor"] for d in found} == {few.actor}
    assert {d["ticket"] for d in found} == {few_ticket.id} == {few.ticket}


def test_nobody_is_held_to_more(bench: Bench, held: Holder) -> None:
    """A subagent of which nothing is known is held to the holder's ticket, never to the root's."""
    with held.narrowed("tools=note", name="few") as few:
        asked = AskedHolder(few)
        assert not decide(asked, "read", "agent:x:1").allowed
        assert decide(asked, "note", "agent:x:1").allowed
        assert [ticket.id for ticket in asked.holds("agent:x:1")] == [few.ticket]


def test_a_subagent_has_a_ticket_of_its_own(bench: Bench, held: Holder) -> None:
    """What is handed down is asked for in the holder's name, and holds whoever it is kept for."""
    asked = AskedHolder(held)
    (root,) = asked.holds("main")
    child = asked.delegate(["tools=read"], parent=root.id, asked_by="main", holder="call:1")
    assert decide(asked, "read", "agent:x:1", (child.id,)).allowed
    assert not decide(asked, "note", "agent:x:1", (child.id,)).allowed
    with pytest.raises(AttenuationError):
        asked.delegate(["tools=shell"], parent=root.id, asked_by="main", holder="call:2")
    kinds = [kind for kind, _ in bench.entries(held.sid)]
    assert kinds.count("delegate") == 2


def test_a_veto_is_recorded(bench: Bench, held: Holder) -> None:
    """What the hook refuses by itself is refused, and stands in the receipt."""
    refused = decide(AskedHolder(held), "Agent", "main", veto=Refusal("tools", "", "too much"))
    assert refused.refusal == Refusal("tools", "", "too much")
    (data,) = [d for kind, d in bench.entries(held.sid) if kind == "decision"]
    assert (data["decision"], data["reason"]) == ("refuse", "too much")


def test_ends_are_recorded(bench: Bench, held: Holder) -> None:
    """The end of a call goes to the session; who is at work is not kept, since each call says."""
    asked = AskedHolder(held)
    assert decide(asked, "read", "main").allowed
    asked.result("c", ok=True, output="text")
    asked.at_work(["no ticket at all"])
    assert decide(asked, "read", "main").allowed
    assert [d["ok"] for kind, d in bench.entries(held.sid) if kind == "result"] == [True]


def test_a_session_elsewhere_tells_no_subagents_apart(bench: Bench) -> None:
    """Where another process decides, subagents and what they call are refused, whoever asks."""
    asked = AskedHolder(Holder(SessionClient(str(bench.workspace / "nothing"))))
    with pytest.raises(InputError, match="cannot be told apart"):
        asked.holds("main")
    refused = decide(asked, "read", "agent:x:1").refusal
    assert refused is not None
    assert "cannot be told apart" in refused.reason
    veto = Refusal("call", "", "no")
    assert decide(asked, "Agent", "main", veto=veto).refusal == veto
    main = decide(asked, "read", "main").refusal
    assert main is not None
    assert "cannot be asked" in main.reason
