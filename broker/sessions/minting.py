"""
Another root ticket, in a session that is running.

A person may change their mind while the agent works: they type another scope, and its ticket takes
the place of the old one. Decided here: the order in which that happens, and what it needs. Not
decided here: where a person types (``broker.intent``), what the tickets of the old root come to
(``broker.sessions.custody``), how a session goes on from the receipt (``broker.sessions.past``).

Rules a maintainer keeps: only a typed line of a person mints, and each mint has a line of its own;
the line and the ticket stand in the receipt, side by side, before anything is judged by them;
nothing is taken over from the old root in silence, so whatever is to hold is typed again.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.calls import TypedText
from broker.errors import InputError, StoreError
from broker.guard import NONCE_BYTES, TicketGuard
from broker.intent import Intent, Intents, TypedLine
from broker.scope import Scope, render
from broker.sessions.ground import Ground
from broker.sessions.records import Data, intent_data, minted_data
from broker.ticket import Ticket


def replace_root(
    ground: Ground, texts: Sequence[str], line: TypedLine, at: int
) -> tuple[TicketGuard, Intent, Scope]:
    """
    Mint a root from what a person typed, record it, and put it in force.

    Args:
        ground: of a session whose lock is held.
        texts: the whole new scope, as typed; at least one.
        line: what the person typed, in which the scope stands or which says why.
        at: nanoseconds since the Unix epoch.

    Returns:
        The guard of the new root, the intent that it is bound to, and the scope as it was read.

    Raises:
        ScopeError, InputError, LimitError: the scope or the line is malformed; nothing has changed.
        StoreError: it cannot be recorded.
    """
    if not texts:
        raise InputError("say what the new scope is: with none at all, everything is permitted")
    opened = Intents().open(line, at)
    scope = ground.scope(texts, at, typed=True)
    custody, old = ground.custody, ground.custody.root
    custody.check_room()
    typed = ground.concealer.intent(intent_data(opened))
    ticket = minted(ground, scope, typed, at)
    try:
        old.budget.begin(ticket.id)
    except StoreError as error:
        raise InputError(f"{error}; the scope is what it was") from error
    ground.write("intent", typed, at)
    ground.write("ticket", minted_data(ticket, render(scope.caveats), replaces=old.ticket.id), at)
    root = old.rooted(ticket, TypedText(opened.line, ticket.intent))
    custody.replace(root)
    return root, opened, scope


def minted(ground: Ground, scope: Scope, typed: Data, at: int) -> Ticket:
    """Return a new root with the caveats of a scope, bound to the line of an ``intent`` entry."""
    return ground.custody.mint(
        scope.caveats,
        at=at,
        intent=str(typed["digest"]),
        nonce=ground.outside.randomness(NONCE_BYTES).hex(),
    )
