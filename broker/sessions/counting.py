"""
Where the calls of a session are counted.

Decided here: in memory where the configuration says nothing, and else in the store that it names,
under the session's own name; which session's counts may go on where; and that what an abandoned
session had reserved and not recorded is taken back once it is sealed. Not decided here: how counts
are shared (``broker.budgets``).

Rules a maintainer keeps: a session that began with shared counts never goes on with others; its
receipt says so, and which debit was the last.
"""

from __future__ import annotations

import os
from typing import Final

from broker.budget import Budget, MemoryBudget
from broker.budgets.opening import open_store
from broker.budgets.shared import SharedBudget
from broker.budgets.store import Revoked
from broker.calls import Decision
from broker.config import load_config
from broker.errors import ConfigError, StoreError
from broker.guard import TicketGuard
from broker.home import Home
from broker.receipt.keys import Key
from broker.receipt.store import Receipts
from broker.receipt.verify import read_entries
from broker.sessions.past import Past
from broker.sessions.records import Data
from broker.sessions.revoking import Revocations

SHARED: Final = "shared"  # what the first entry of a receipt says of counts


def files_of_counts(home: Home) -> tuple[str, ...]:
    """
    Return the files of shared counts that no tool may touch, by every name.

    Raises:
        ConfigError: the configuration is malformed.
    """
    setting = load_config(home.config).budget
    return () if setting is None else setting.own()


def new_counts(home: Home, sid: str, tree: str = "") -> Budget:
    """
    Return the budget of a new session.

    Args:
        home: the broker's folders.
        sid: the session's name.
        tree: the root of a tree that another session has begun; nothing where it has its own.

    Raises:
        ConfigError: the configuration is malformed, or names no place where that tree is counted.
        InputError, StoreError, UnverifiableError: shared counts cannot be had.
    """
    setting = load_config(home.config).budget
    if setting is not None:
        trees = (tree,) if tree else ()
        return SharedBudget(open_store(setting, os.environ), sid, trees=trees)
    if tree:
        raise ConfigError(
            "a ticket of another session is counted where that one is: name the place under "
            "`[budget]` in broker.toml, on both machines"
        )
    return MemoryBudget()


def past_counts(home: Home, sid: str, past: Past) -> Budget:
    """
    Return the budget of a session that goes on.

    Raises:
        ConfigError: its counts are shared, and the configuration does not say where.
        InputError, StoreError, UnverifiableError: shared counts cannot be had, or are lost.
    """
    if not past.shared:
        return MemoryBudget(past.counts())
    setting = load_config(home.config).budget
    if setting is None:
        raise ConfigError(
            f"session `{sid}` counts its calls with others, and broker.toml has no `[budget]`: "
            "name the place there again"
        )
    trees = tuple(ticket.root_id for ticket in (*past.replaced, past.root()))
    return SharedBudget(open_store(setting, os.environ), sid, trees=trees, at_least=past.debit)


def debited(decision: Decision, guard: TicketGuard | None) -> Data:
    """Return what a ``decision`` entry says of shared counts: the number that they know it by."""
    if guard is None or not decision.allowed or guard.budget.debit is None:
        return {}
    return {"debit": guard.budget.debit}


def revoke_everywhere(revoked: Revoked, home: Home, key: Key) -> tuple[bool, bool]:
    """
    Revoke a ticket on this machine and, where counts are shared, for all who count there.

    Args:
        revoked: the ticket, why, and when.
        home: the broker's folders.
        key: the installation's.

    Returns:
        Whether it was new somewhere, and whether counts are shared.

    Raises:
        ConfigError: the configuration is malformed; it is revoked on this machine.
        InputError, StoreError, UnverifiableError: it could not be written everywhere.
    """
    new = Revocations(home.revoked, key).add(revoked)
    setting = load_config(home.config).budget
    if setting is None:
        return new, False
    store = open_store(setting, os.environ)
    try:
        return store.revoke(revoked) or new, True
    finally:
        store.close()


def settle_up(home: Home, receipts: Receipts, sid: str) -> str:
    """
    Take back what a sealed session had reserved for a call that it never recorded.

    Returns:
        Why that could not be done, or nothing; the call stays counted then.

    Raises:
        Break, UnverifiableError: its receipt does not verify.
    """
    setting = load_config(home.config).budget
    if setting is None:
        return ""
    shared, debit = False, 0
    head = receipts.head_path(sid)
    for entry in read_entries(receipts.path(sid), receipts.key, head, sid=sid):
        shared = shared or (entry.kind == "open" and entry.data.get("counts") == SHARED)
        found = entry.data.get("debit", 0)
        if entry.kind == "decision" and isinstance(found, int):
            debit = max(debit, found)
    if not shared:
        return ""
    try:
        SharedBudget(open_store(setting, os.environ), sid, at_least=debit).close()
    except StoreError as error:
        return f"a call that it did not make may stay counted: {error}"
    return ""
