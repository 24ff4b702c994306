"""A call that a hook allowed, met again by a gateway."""

from __future__ import annotations

from typing import Any

from broker.calls import Call
from broker.caveats import tools
from broker.guard import TicketGuard
from broker.sessions import standing
from broker.sessions.standing import Standing
from broker.ticket import mint
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

TOOL = "mcp__notes__look"
CALL = Call(TOOL, "notes", digest="d1")


def guard(*caveats: Any) -> TicketGuard:
    """Return a guard of a ticket."""
    return TicketGuard(mint(caveats, key=bytes(32), sid="s", minted_at=0))


TICKET = guard().ticket.id


def find(name: str) -> TicketGuard:
    """Return the guard of the one ticket that there is."""
    assert name == TICKET
    return guard()


def test_what_stands_is_taken_once() -> None:
    """The second call of the same kind is decided anew."""
    kept = Standing()
    kept.keep(CALL, [TICKET], "h1")
    found = kept.take(CALL, find, 0, "g1")
    assert found is not None
    assert found.allowed
    assert kept.take(CALL, find, 0, "g2") is None
    assert (kept.name("g1"), kept.name("g1")) == ("h1", "g1")


def test_something_else_does_not_stand() -> None:
    """Another tool, other arguments, and tools that no gateway meets."""
    kept = Standing()
    kept.keep(CALL, [TICKET], "h1")
    kept.keep(Call("Read", digest="d1"), [TICKET], "h2")
    assert kept.take(Call(TOOL, "notes", digest="d2"), find, 0, "g") is None
    assert kept.take(Call("mcp__notes__drop", "notes", digest="d1"), find, 0, "g") is None
    assert kept.take(Call("Read", digest="d1"), find, 0, "g") is None


def test_a_ticket_that_refuses_now_is_not_overruled() -> None:
    """What stood is decided by the ticket once more, and then refused."""
    kept = Standing()
    refusing = guard(tools("Read"))
    kept.keep(CALL, [refusing.ticket.id], "h1")
    assert kept.take(CALL, lambda _: refusing, 0, "g") is None


def test_so_many_may_stand(monkeypatch: Any) -> None:
    """The oldest goes first; what it allowed was debited, and is decided anew."""
    monkeypatch.setattr(standing, "MAX_STANDING", 2)
    kept = Standing()
    for n in range(3):
        kept.keep(Call(TOOL, "notes", digest=f"d{n}"), [TICKET], f"h{n}")
    assert kept.take(Call(TOOL, "notes", digest="d0"), find, 0, "g") is None
    assert kept.take(Call(TOOL, "notes", digest="d2"), find, 0, "g") is not None


def test_one_call_is_debited_and_recorded_once(bench: Bench) -> None:
    """A hook and a gateway ask about two calls: two decisions, and a third finds no budget."""
    session = bench.open(("calls=2", "tools=mcp__notes__look"))
    for n in (1, 2):
        assert session.decide(TOOL, {"n": n}, call_id=f"h{n}", server="notes").allowed
        again = session.decide(TOOL, {"n": n}, call_id=f"g{n}", server="notes", again=True)
        assert again.allowed
        session.result(f"g{n}", ok=True)
    third = session.decide(TOOL, {"n": 1}, call_id="g3", server="notes", again=True)
    assert third.refusal is not None
    assert third.refusal.caveat == "calls"
    assert session.allowed == 2
    session.seal()
    found = bench.entries(session.sid)
    assert [data["call"] for kind, data in found if kind == "result"] == ["h1", "h2"]
    assert [data["call"] for kind, data in found if kind == "decision"] == ["h1", "h2", "g3"]


def test_a_hook_that_did_not_run_changes_nothing(bench: Bench) -> None:
    """The gateway's own question is decided, recorded and debited like any other."""
    session = bench.open(("calls=1", "tools=mcp__notes__look"))
    assert session.decide(TOOL, {}, call_id="g1", server="notes", again=True).allowed
    assert not session.decide(TOOL, {}, call_id="g2", server="notes", again=True).allowed
    assert session.spent() == (1,)
    session.seal()


def test_a_narrower_ticket_spends_its_own_budget(bench: Bench) -> None:
    """What a hook debited to one ticket was not debited to another, which has limits of its own."""
    session = bench.open(("calls=9", "tools=mcp__notes__look"))
    narrow = session.delegate(["calls=1"]).id
    for n in (1, 2, 3):
        assert session.decide(TOOL, {}, call_id=f"h{n}", server="notes").allowed
    found = [
        session.decide(TOOL, {}, call_id=f"g{n}", server="notes", ticket=narrow, again=True)
        for n in (1, 2, 3)
    ]
    assert [decision.allowed for decision in found] == [True, False, False]
    assert found[1].refusal is not None
    assert found[1].refusal.caveat == "calls"
