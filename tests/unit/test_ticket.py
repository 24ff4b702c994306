"""Tickets: minted, narrowed, written down, and believed again or not."""

from __future__ import annotations

import dataclasses
import hmac
import re

import pytest

from broker import limits
from broker.caveats import Caveat, calls, hosts, paths, tools, until
from broker.errors import (
    AttenuationError,
    InputError,
    LimitError,
    TicketFormatError,
    TicketVerificationError,
)
from broker.ticket import (
    Ticket,
    UnverifiedTicket,
    attenuate,
    describe,
    mint,
    session_key,
    verify_chain,
    widening,
)

KEY = bytes(range(32))


def minted(*caveats: Caveat, nonce: str = "") -> Ticket:
    """A root ticket of these caveats."""
    return mint(caveats, key=KEY, sid="s1", minted_at=7, intent="ab" * 32, nonce=nonce)


def test_a_ticket_knows_where_it_came_from() -> None:
    """The session, the instant, the intent and every step are those it was made with."""
    root = minted(tools("a", "b"), calls(9))
    child = attenuate(root, tools("a"))
    assert (child.sid, child.minted_at, child.intent) == ("s1", 7, "ab" * 32)
    assert child.steps == ((tools("a", "b"), calls(9)), (tools("a"),))
    assert child.caveats == (tools("a", "b"), calls(9), tools("a"))
    assert [link.caveats for link in child.links] == list(child.steps)
    assert child.line == (root.id, child.id) == tuple(link.id for link in child.links)
    assert child.root_id == root.id == root.root_id


def test_the_wire_form_survives_a_process_boundary() -> None:
    """What was written down is believed again, equal and with the same bounds."""
    child = attenuate(minted(paths("src/**"), until(10)), calls(3), nonce="x")
    again = verify_chain(child.wire(), KEY)
    assert again == child
    assert hash(again) == hash(child)
    assert (again.bounds, again.until, again.limits) == (child.bounds, 10, (None, 3))
    assert verify_chain(child.wire().encode() + b"\n", KEY) == child
    assert verify_chain(UnverifiedTicket.parse(child.wire()), KEY) == child


def test_the_bytes_of_a_ticket() -> None:
    """The format is these bytes: another implementation would write the same ones."""
    root = f'["ticket/1","s1",0,7,"{"ab" * 32}","",[["tools","a"],["until",1,500000000]]]'
    link = '["",[["calls",2]]]'
    root_tag = hmac.digest(KEY, root.encode(), "sha256")
    tag = hmac.digest(root_tag, link.encode(), "sha256").hex()
    ticket = attenuate(minted(tools("a"), until(1_500_000_000)), calls(2))
    assert ticket.wire() == f"{root}\n{link}\n{tag}"


def test_an_id_reveals_no_mac() -> None:
    """An id is 16 hex digits and no part of the MAC, since it stands in the receipt."""
    ticket = minted(tools("a"))
    assert re.fullmatch("[0-9a-f]{16}", ticket.id)
    assert ticket.id not in ticket.wire()


def test_a_nonce_tells_siblings_apart() -> None:
    """Two children with the same caveats have ids and counts of their own if asked for."""
    root = minted()
    one, two = (attenuate(root, calls(1), nonce=n) for n in "12")
    assert one.id != two.id
    assert attenuate(root, calls(1), nonce="1") == one
    assert minted(nonce="1") != minted(nonce="2")


def test_a_ticket_cannot_be_changed() -> None:
    """No field of a ticket can be set."""
    ticket = minted()
    for field in dataclasses.fields(ticket):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(ticket, field.name, None)


def test_a_ticket_is_no_other_thing() -> None:
    """A ticket equals another ticket with the same links, and nothing else."""
    assert minted() != minted().wire()
    assert minted() == minted()
    assert len({minted(), minted(), minted(calls(1))}) == 2


@pytest.mark.parametrize("at", [0, 1])
def test_a_dropped_link_is_not_believed(at: int) -> None:
    """Neither the root nor a later link can be left out."""
    lines = attenuate(attenuate(minted(calls(9)), calls(5)), calls(2)).wire().split("\n")
    del lines[at + 1 if at else 1]
    with pytest.raises(TicketVerificationError):
        verify_chain("\n".join(lines), KEY)


def test_another_key_does_not_believe() -> None:
    """A ticket of another session's key is not believed, and the error says no more than that."""
    with pytest.raises(TicketVerificationError, match="not made with this key, or was changed"):
        verify_chain(minted().wire(), bytes(32))


def test_the_bytes_are_authenticated_before_they_are_read() -> None:
    """A malformed link without a right MAC is disbelieved, not explained."""
    wire = f'["ticket/1","s",0,0,"","",[]]\nnonsense\n{"0" * 64}'
    with pytest.raises(TicketVerificationError):
        verify_chain(wire, KEY)


def test_an_upper_case_mac_is_not_believed() -> None:
    """A ticket has one spelling only."""
    lines = minted().wire().split("\n")
    with pytest.raises(TicketVerificationError):
        verify_chain("\n".join([*lines[:-1], lines[-1].upper()]), KEY)


def test_parsing_believes_nothing() -> None:
    """A parsed ticket is of another type, and offers the session that it claims."""
    parsed = UnverifiedTicket.parse(minted().wire())
    assert parsed.sid == "s1"
    assert not isinstance(parsed, Ticket)
    assert not hasattr(parsed, "bounds")
    with pytest.raises(TicketFormatError):
        UnverifiedTicket.parse("hello")


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_has_32_bytes(length: int) -> None:
    """A key of another length neither mints nor verifies."""
    key = bytes(length)
    with pytest.raises(InputError, match="32 bytes"):
        mint([], key=key, sid="s", minted_at=0)
    with pytest.raises(InputError, match="32 bytes"):
        verify_chain(minted().wire(), key)
    with pytest.raises(InputError, match="32 bytes"):
        session_key(key, "s")


def test_every_session_has_a_key_of_its_own() -> None:
    """Keys of two sessions differ, and none is the installation's."""
    keys = {session_key(KEY, "a"), session_key(KEY, "b"), KEY}
    assert len(keys) == 3
    assert session_key(KEY, "a") == session_key(KEY, "a")
    assert {len(key) for key in keys} == {32}


@pytest.mark.parametrize(
    ("root", "asked", "message"),
    [
        (calls(3), calls(4), "`calls=4` widens `calls=3`"),
        (
            until(0),
            until(10**9),
            "`until=1970-01-01T00:00:01Z` widens `until=1970-01-01T00:00:00Z`",
        ),
        (hosts("a.test"), hosts("b.test"), "`b.test` is not within it"),
    ],
)
def test_a_widening_says_what_and_against_what(root: Caveat, asked: Caveat, message: str) -> None:
    """The error names the caveat that was asked for and the one that it widens."""
    with pytest.raises(AttenuationError, match=re.escape(message)) as raised:
        attenuate(minted(root), asked)
    assert raised.value.kind == asked.kind
    found = widening(minted(root), asked)
    assert found is not None
    assert str(found) == str(raised.value)
    assert widening(minted(root), root) is None


def test_a_chain_is_limited() -> None:
    """A chain has MAX_CHAIN_LINKS links and not one more."""
    ticket = minted()
    for _ in range(limits.MAX_CHAIN_LINKS - 1):
        ticket = attenuate(ticket)
    assert verify_chain(ticket.wire(), KEY) == ticket
    with pytest.raises(LimitError):
        attenuate(ticket)


def test_describe_tells_the_custody() -> None:
    """A person reads each link, what it adds, and that nothing means everything."""
    child = attenuate(minted(), paths("src"), calls(2))
    assert describe(child) == (
        f"ticket {child.root_id}",
        "  no caveat: everything is permitted here",
        f"  narrowed to {child.id}",
        "    paths=src",
        "    calls=2",
    )


def test_repr_holds_no_secret() -> None:
    """What lands in a traceback or a log cannot be used as a ticket."""
    ticket = minted(tools("a"))
    assert repr(ticket) == f"<Ticket {ticket.id} tools=a>"
    assert repr(minted()).endswith("unrestricted>")
    assert not any(tag.hex() in repr(ticket) for tag in ticket.macs)
