"""
A ticket that another session handed over, on this machine or on another one.

Its wire form is carried over by the person, as a file. What makes it worth something here is the
installation's key, which both have; what makes it one budget are the counts, which both share. So
the session that takes it writes a receipt of its own, and no call is made twice.

Decided here: that such a ticket is believed by the key of the session that minted it, and that what
is typed beside it narrows it. Not decided here: where its calls are counted
(``broker.sessions.counting``), what may be presented to the session later
(``broker.sessions.custody``).

Rule a maintainer keeps: nothing of the text is used before its chain holds.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.guard import NONCE_BYTES
from broker.receipt.keys import Key
from broker.scope import Scope
from broker.ticket import Ticket, UnverifiedTicket, attenuate, session_key, verify_chain


def handed_over(
    wire: str | None, scope: Scope, key: Key, randomness: Callable[[int], bytes]
) -> tuple[bytes | None, Ticket | None]:
    """
    Return the ticket that a session is to work under, and the key that its tree is made with.

    Args:
        wire: the text of the ticket; None where the session mints its own.
        scope: what was typed beside it.
        key: the installation's.
        randomness: for what tells one narrowing from another.

    Raises:
        TicketFormatError, TicketVerificationError: no ticket that this key has made.
        AttenuationError: what was typed would permit more.
    """
    if wire is None:
        return None, None
    unverified = UnverifiedTicket.parse(wire.strip())
    tree_key = session_key(key.secret, unverified.sid)
    ticket = verify_chain(unverified, tree_key)
    if scope.caveats:
        nonce = randomness(NONCE_BYTES).hex()
        ticket = attenuate(ticket, *scope.caveats, nonce=nonce)
    return tree_key, ticket
