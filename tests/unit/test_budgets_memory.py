"""Shared counts in memory."""

from __future__ import annotations

import threading

from broker.budgets.memory import MemoryStore
from broker.budgets.shared import SharedBudget
from broker.budgets.store import Revoked
from tests.budgetkit import up_to


def test_holders_share_one_budget() -> None:
    """Eight holders with a thread each make exactly as many calls as the tree has."""
    store = MemoryStore()
    assert store.begin("r", "test")
    allowed: list[bool] = []

    def work(name: str) -> None:
        budget = SharedBudget(store, name, trees=("r",))
        for _ in range(40):
            allowed.append(budget.settle(("r",), 1, up_to(100), limits=(100,)).allowed)

    threads = [threading.Thread(target=work, args=(f"h{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert allowed.count(True) == 100
    assert store.counts(("r", "never")) == (100, 0)


def test_a_tree_is_begun_by_one_holder() -> None:
    """The same holder may ask twice, and no other one."""
    store = MemoryStore()
    assert [store.begin("r", who) for who in ("a", "a", "b")] == [True, True, False]
    assert store.counts(("other",)) is None


def test_the_first_revocation_stands() -> None:
    """A second one does not change the reason."""
    store = MemoryStore()
    assert store.revoke(Revoked("a", "first", 1))
    assert not store.revoke(Revoked("a", "second", 2))
    assert store.revoked(("r", "a")) == Revoked("a", "first", 1)
    assert store.revoked(("r",)) is None
    store.close()
