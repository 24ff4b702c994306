"""One budget per ticket tree: the real counting agrees with a naive one, however it is kept."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.budget import Budget, FileBudget, MemoryBudget, rebuilt
from broker.calls import Call
from broker.caveats import calls, tools
from broker.guard import TicketGuard
from broker.ticket import mint

KEY = bytes(range(32))

# A tree is a list of (parent, own limit); a story is which ticket calls, and at what cost.
LIMITS = st.none() | st.integers(0, 6)
TREES = st.lists(st.tuples(st.integers(0, 7), LIMITS), max_size=7)
STORIES = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 3), st.booleans()), max_size=40)


def grow(
    root_limit: int | None, tree: list[tuple[int, int | None]], budget: Budget
) -> list[TicketGuard]:
    """Return a guard for every ticket of a tree; a limit that would widen is left out."""
    caveats = [tools("read", "batch")] + ([] if root_limit is None else [calls(root_limit)])
    guards = [TicketGuard(mint(caveats, key=KEY, sid="s", minted_at=0), budget)]
    for parent, limit in tree:
        above = guards[parent % len(guards)]
        least = above.ticket.least
        narrower = limit is not None and (least is None or limit <= least)
        guards.append(above.narrowed(*([calls(limit)] if narrower and limit is not None else [])))
    return guards


def naive(guards: list[TicketGuard], story: list[tuple[int, int, bool]]) -> list[bool]:
    """Return what is allowed, by counting in a table as one would on paper."""
    spent: dict[str, int] = {}
    answers = []
    for who, cost, honest in story:
        ticket = guards[who % len(guards)].ticket
        fits = honest and all(
            limit is None or spent.get(link, 0) + cost <= limit
            for link, limit in zip(ticket.line, ticket.limits, strict=True)
        )
        if fits:
            for link in ticket.line:
                spent[link] = spent.get(link, 0) + cost
        answers.append(fits)
    return answers


def call(cost: int, honest: bool) -> Call:
    """Return a call of this cost; a dishonest one is of a tool that is not in scope."""
    return Call("batch" if honest else "shell", nested=(Call("read"),) * (cost - 1))


@settings(max_examples=100)
@given(LIMITS, TREES, STORIES)
def test_law_6_a_tree_spends_one_budget(
    root: int | None, tree: list[tuple[int, int | None]], story: list[tuple[int, int, bool]]
) -> None:
    """Counts in memory and in a file allow exactly what counting on paper allows."""
    with tempfile.TemporaryDirectory() as folder:
        for budget in (MemoryBudget(), FileBudget.create(Path(folder) / "b")):
            guards = grow(root, tree, budget)
            found = [guards[who % len(guards)].check(call(c, h), 0).allowed for who, c, h in story]
            assert found == naive(guards, story)


@settings(max_examples=100)
@given(LIMITS, TREES, STORIES, st.integers(0, 40))
def test_law_6_counts_come_back_after_an_interruption(
    root: int | None,
    tree: list[tuple[int, int | None]],
    story: list[tuple[int, int, bool]],
    cut: int,
) -> None:
    """Rebuilt midway from what was allowed so far, the budget goes on as if uninterrupted."""
    guards = grow(root, tree, MemoryBudget())
    debits, found = [], []
    for number, (who, cost, honest) in enumerate(story):
        if number == cut:
            again = MemoryBudget(rebuilt(debits))
            guards = [TicketGuard(guard.ticket, again) for guard in guards]
        guard = guards[who % len(guards)]
        found.append(guard.check(call(cost, honest), 0).allowed)
        if found[-1]:
            debits.append((guard.ticket.line, cost))
    assert found == naive(guards, story)


@given(st.lists(st.integers(1, 5), max_size=20), st.integers(0, 30))
def test_law_6_refused_calls_cost_nothing(costs: list[int], limit: int) -> None:
    """What is spent is the sum of what was allowed, and never more than the limit."""
    guard = TicketGuard(mint([calls(limit)], key=KEY, sid="s", minted_at=0))
    spent = sum(cost for cost in costs if guard.check(call(cost, True), 0).allowed)
    assert guard.spent() == (spent,)
    assert spent <= limit
