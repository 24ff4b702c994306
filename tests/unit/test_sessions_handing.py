"""A ticket that another session handed over."""

from __future__ import annotations

import pytest

from broker.caveats import calls, tools
from broker.errors import AttenuationError, TicketFormatError, TicketVerificationError
from broker.receipt.keys import Key
from broker.scope import parse_scope
from broker.sessions.handing import handed_over
from broker.ticket import attenuate, mint, session_key

KEY = Key.of(bytes(range(32)))
NOTHING = parse_scope([], at=0)
ROOT = mint(
    [tools("read"), calls(9)], key=session_key(KEY.secret, "first"), sid="first", minted_at=0
)


def test_nothing_handed_over_is_nothing() -> None:
    """A session without one mints its own ticket, with its own key."""
    assert handed_over(None, NOTHING, KEY, bytes) == (None, None)


def test_it_is_believed_by_the_key_of_its_own_session() -> None:
    """The ticket is the very same, and its tree's key comes with it, from the installation's."""
    child = attenuate(ROOT, calls(2), nonce="1")
    key, ticket = handed_over(child.wire() + "\n", NOTHING, KEY, bytes)
    assert ticket == child
    assert key == session_key(KEY.secret, "first")


def test_what_is_typed_beside_it_narrows() -> None:
    """It becomes a link below, with a nonce of its own, so that its calls are counted apart."""
    scope = parse_scope(["calls=3"], at=0)
    found = [handed_over(ROOT.wire(), scope, KEY, lambda n, b=b: bytes([b] * n))[1] for b in (1, 2)]
    assert all(ticket is not None and ticket.line[:1] == ROOT.line for ticket in found)
    assert len({ticket.id for ticket in found if ticket is not None}) == 2
    with pytest.raises(AttenuationError):
        handed_over(ROOT.wire(), parse_scope(["calls=10"], at=0), KEY, bytes)


def test_another_key_and_other_text_are_refused() -> None:
    """A ticket of an installation with another key, and what is no ticket, is worth nothing."""
    with pytest.raises(TicketVerificationError):
        handed_over(ROOT.wire(), NOTHING, Key.of(bytes(range(1, 33))), bytes)
    with pytest.raises(TicketFormatError):
        handed_over("no ticket", NOTHING, KEY, bytes)
