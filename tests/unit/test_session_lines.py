"""A session whose scope looks into the typed line: bound to it, concealed, resumed, delegated."""

from __future__ import annotations

import pytest

from broker.api import check, from_scope
from broker.errors import AttenuationError, InputError, TicketFormatError
from broker.intent import typed_text
from broker.session import Session
from broker.sessions.conceal import Disclosures
from tests.sessionkit import Bench, bench, drop

__all__ = ["bench"]

SCOPE = ("tools=pay(to in intent, amount<=50)",)
LINE = "pay Anna 20"


def pays(session: Session, to: str, **more: object) -> bool:
    """Whether a payment passes; a refusal is one of `tools`."""
    decision = session.decide("pay", {"to": to, "amount": 20}, **more)
    assert decision.allowed or decision.refusal.caveat == "tools"
    return decision.allowed


def again(bench: Bench, session: Session) -> Session:
    """The session once more, from its receipt."""
    sid = session.sid
    drop(session)
    return Session.resume(sid, home=bench.home, outside=bench.outside)


def test_a_session_is_held_to_its_line(bench: Bench) -> None:
    """What stands in the typed line passes; the ticket and the receipt carry its digest."""
    session = bench.open(SCOPE, intent=LINE)
    assert (pays(session, "Anna"), pays(session, "Eve")) == (True, False)
    (told,) = (data for kind, data in bench.entries(session.sid) if kind == "intent")
    assert told["digest"] == session.ticket.intent == typed_text(LINE).digest
    resumed = again(bench, session)
    assert (pays(resumed, "Anna"), pays(resumed, "Eve")) == (True, False)


def test_without_a_line_no_such_session_opens(bench: Bench) -> None:
    """A scope that looks into a line is an error where nobody typed one."""
    with pytest.raises(InputError, match="needs the line"):
        bench.open(SCOPE)


def test_a_concealed_line_holds_as_well(bench: Bench) -> None:
    """The ticket is bound to the salted line, and a resumed session finds it where it is kept."""
    session = bench.open(SCOPE, intent=LINE, conceal=("intent",))
    assert session.ticket.intent != typed_text(LINE).digest
    assert (pays(session, "Anna"), pays(session, "Eve")) == (True, False)
    resumed = again(bench, session)
    assert (pays(resumed, "Anna"), pays(resumed, "Eve")) == (True, False)


def test_an_erased_line_refuses_by_name(bench: Bench) -> None:
    """Once the concealed line is erased, what must stand in it is refused, and the reason told."""
    session = bench.open(SCOPE, intent=LINE, conceal=("intent",))
    kept = Disclosures(session.folder)
    assert kept.erase(list(kept.read())) == 1
    resumed = again(bench, session)
    refusal = resumed.decide("pay", {"to": "Anna", "amount": 20}).refusal
    assert "the line that the person typed is not here" in refusal.reason


def test_a_line_with_a_secret_is_blanked_and_then_refuses(bench: Bench) -> None:
    """A receipt never keeps a secret; a resumed session then has no line to look into."""
    session = bench.open(SCOPE, intent=f"{LINE} with ghp_{'a1B2' * 9}")
    assert pays(session, "Anna")
    assert not pays(again(bench, session), "Anna")


def test_a_delegate_is_held_to_the_same_line(bench: Bench) -> None:
    """A narrower ticket looks into the line of its root, and cannot leave the look out."""
    session = bench.open(SCOPE, intent=LINE)
    child = session.delegate(["tools=pay(to in intent, amount<=20)"])
    assert pays(session, "Anna", ticket=child.id)
    assert not pays(session, "Eve", ticket=child.id)
    for wider in ('tools=pay(to="Eve", amount<=20)', "tools=pay(to in intent, amount<=51)"):
        with pytest.raises(AttenuationError) as caught:
            session.delegate([wider])
        assert caught.value.kind == "tools"


def test_a_ticket_s_wire_form_is_used_by_its_bearer(bench: Bench) -> None:
    """A wire form that came back is held to the line too; one with a changed rule is not read."""
    session = bench.open(SCOPE, intent=LINE)
    wire = session.delegate(["tools=pay(to in intent, amount<=9)"]).wire()
    assert not session.decide("pay", {"to": "Anna", "amount": 20}, ticket=wire).allowed
    assert session.decide("pay", {"to": "Anna", "amount": 9}, ticket=wire).allowed
    changed = wire.replace('"range",0,9', '"range",0,99')
    assert changed != wire
    assert session.decide("pay", {"to": "Anna", "amount": 20}, ticket=changed).refusal.caveat == (
        "session"
    )


def test_a_harness_gives_the_line_itself() -> None:
    """In one process the line is an argument, and nothing else opens it."""
    guard = from_scope(list(SCOPE), intent=LINE)
    assert check(guard, "pay", {"to": "Anna", "amount": 1}).allowed
    assert not check(guard, "pay", {"to": "Eve", "amount": 1}).allowed
    child = guard.narrowed(*guard.ticket.caveats)
    assert check(child, "pay", {"to": "Anna", "amount": 1}).allowed
    with pytest.raises(InputError, match="needs the line"):
        from_scope(list(SCOPE))


def test_an_old_reader_s_rule_of_thumb_holds() -> None:
    """An item of `tools` that is neither text nor a rule is never passed over."""
    from broker.ticket import verify_chain
    from broker.wire import mac, root_block

    block = root_block("s", 0, "", "", ()).replace(b"[]]", b'[["tools","read",{"tool":"pay"}]]]')
    wire = b"\n".join([block, mac(bytes(32), block).hex().encode()])
    with pytest.raises(TicketFormatError, match="not text"):
        verify_chain(wire, bytes(32))
