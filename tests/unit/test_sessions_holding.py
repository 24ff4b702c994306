"""Which tickets judge a call, in a session whose subagents hold tickets of their own."""

from __future__ import annotations

import pytest

from broker.calls import Refusal
from broker.errors import AttenuationError
from broker.session import Session
from tests.sessionkit import Bench, bench, drop

__all__ = ["bench"]

LOOK = "mcp__notes__look"
SCOPE = ("tools=Read,mcp__notes__look,mcp__notes__drop", "calls=9")


def look(session: Session, call: str, **more: object) -> str:
    """Call the server's tool, and return the caveat that refused, or nothing."""
    decision = session.decide(LOOK, {}, call_id=call, server="notes", **more)  # type: ignore[arg-type]  # tests pass what they like
    return "" if decision.refusal is None else decision.refusal.caveat


def test_all_of_several_tickets_must_let_a_call_through(bench: Bench) -> None:
    """The call is one entry and one debit of the root, and a resumed session counts the same."""
    session = bench.open(SCOPE)
    one, two = session.delegate(["tools=Read"]), session.delegate(["calls=2"])
    both = [one.id, two.id]
    for _ in range(2):
        assert session.decide("Read", {"file_path": "src/a.py"}, among=both).allowed
    third = session.decide("Read", {"file_path": "src/a.py"}, among=both)
    assert third.refusal is not None
    assert third.refusal.caveat == "calls"
    assert look(session, "c", among=both) == "tools"
    assert session.spent() == (2,)
    found = [data for kind, data in bench.entries(session.sid) if kind == "decision"]
    assert [data["also"] for data in found] == [[two.id], [two.id], [one.id], [two.id]]
    drop(session)
    again = Session.resume(session.sid, home=bench.home, outside=bench.outside)
    assert again.spent() == (2,)
    assert again.spent(two) == (2, 2)


def test_what_was_kept_for_an_actor_holds_as_well(bench: Bench) -> None:
    """A ticket of its type is never lost to one that was handed down."""
    session = bench.open(SCOPE)
    session.delegate(["tools=Read"], holder="agent:explore")
    handed = session.delegate([])
    assert look(session, "c", actor="agent:explore:7", among=[handed.id]) == "tools"
    assert look(session, "c", actor="agent:other:7", among=[handed.id]) == ""
    assert len(session.holds("agent:explore:7", [handed.id])) == 2
    assert session.holds("main") == (session.ticket,)


def test_a_veto_is_recorded_and_costs_nothing(bench: Bench) -> None:
    """What an adapter refuses by itself is a decision like any other."""
    session = bench.open(SCOPE)
    decision = session.decide("Read", {}, veto=Refusal("tools", "x", "why"))
    assert decision.refusal == Refusal("tools", "x", "why")
    assert session.spent() == (0,)
    (found,) = [data for kind, data in bench.entries(session.sid) if kind == "decision"]
    assert (found["decision"], found["caveat"]) == ("refuse", "tools")


def test_a_gateway_finds_what_a_subagent_was_allowed(bench: Bench) -> None:
    """It asks without knowing for whom, and the call is neither decided nor debited again."""
    session = bench.open(SCOPE)
    child = session.delegate(["calls=1"])
    session.at_work([child.id])
    assert look(session, "h1", among=[child.id]) == ""
    assert look(session, "g1", again=True) == ""
    assert session.spent(child) == (1, 1)
    session.result("g1", ok=True)
    session.result("h1", ok=True)
    found = [data["call"] for kind, data in bench.entries(session.sid) if kind == "result"]
    assert found == ["h1"]


def test_what_no_hook_told_of_may_be_anybodys(bench: Bench) -> None:
    """A call at a gateway that no hook was asked about passes only if all who work may make it."""
    session = bench.open(SCOPE)
    child = session.delegate(["tools=Read"])
    session.at_work([child.id])
    assert look(session, "g1", again=True) == "tools"
    session.at_work([])
    assert look(session, "g2", again=True) == ""


def test_a_widening_is_recorded_before_it_is_an_error(bench: Bench) -> None:
    """The receipt tells who asked for more than there is."""
    session = bench.open(SCOPE)
    with pytest.raises(AttenuationError):
        session.delegate(["tools=Bash"], asked_by="agent:x:1")
    (found,) = [data for kind, data in bench.entries(session.sid) if kind == "delegate"]
    assert (found["decision"], found["asked_by"]) == ("refuse", "agent:x:1")


def test_a_receipt_that_names_an_unknown_ticket_is_broken(bench: Bench) -> None:
    """Counts cannot be rebuilt from a line whose tickets are not all recorded."""
    from broker.errors import Break
    from broker.sessions.past import Past

    past = Past(bytes(32))
    past.tickets["a" * 16] = bench.open(SCOPE).ticket
    allowed = {"decision": "allow", "ticket": "a" * 16}
    past.take("decision", allowed, 1)
    for also in (["b" * 16], [None], "x", [7]):
        with pytest.raises(Break):
            past.take("decision", {**allowed, "also": also}, 1)
