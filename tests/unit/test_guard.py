"""One ticket with its budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.budget import FileBudget, MemoryBudget
from broker.calls import ALLOW, Call, Decision, Refusal
from broker.caveats import calls, paths, tools, until
from broker.errors import AttenuationError, InputError
from broker.guard import TicketGuard
from broker.ticket import mint

KEY = bytes(range(32))
READ = Call("read")


def guard(*caveats: object, **more: object) -> TicketGuard:
    """Return the guard of a fresh ticket."""
    return TicketGuard(mint(caveats, key=KEY, sid="s", minted_at=0), **more)  # type: ignore[arg-type]  # tests pass what they like


def test_ten_children_of_a_ten_call_ticket_make_ten_calls() -> None:
    """Children spend what is their parent's, however many there are."""
    parent = guard(calls(10))
    children = [parent.narrowed(tools("read")) for _ in range(10)]
    allowed = [child.check(READ, 0).allowed for child in children for _ in range(10)]
    assert allowed.count(True) == 10
    assert parent.check(READ, 0).refusal is not None


def test_a_child_has_a_count_of_its_own_too() -> None:
    """Equal siblings each have their own smaller budget, within their parent's."""
    parent = guard(calls(5))
    one, two = parent.narrowed(calls(2)), parent.narrowed(calls(2))
    assert one.ticket.id != two.ticket.id
    assert [one.check(READ, 0).allowed for _ in range(3)] == [True, True, False]
    assert [two.check(READ, 0).allowed for _ in range(3)] == [True, True, False]
    assert parent.spent() == (4,)


def test_a_refused_call_costs_nothing() -> None:
    """A call that another caveat refuses leaves the budget as it was."""
    held = guard(tools("read"), calls(1))
    assert not held.check(Call("shell"), 0).allowed
    assert held.spent() == (0,)
    assert held.check(READ, 0).allowed


def test_a_call_with_calls_inside_counts_for_each() -> None:
    """A call that holds two others counts for three, or is refused whole."""
    batch = Call("batch", nested=(READ, READ))
    held = guard(calls(5))
    assert held.check(batch, 0).allowed
    assert not held.check(batch, 0).allowed
    assert held.spent() == (3,)


def test_a_widening_is_refused_by_name() -> None:
    """Delegation names the caveat that would widen, and gives no guard."""
    held = guard(tools("read"), calls(2), paths("src/**"))
    for caveat, kind in ((tools("*"), "tools"), (calls(3), "calls"), (paths("**"), "paths")):
        with pytest.raises(AttenuationError) as caught:
            held.narrowed(caveat)
        assert caught.value.kind == kind


def test_no_ticket_of_another_tree_is_held() -> None:
    """A ticket that another root minted does not spend from this budget."""
    other = mint([calls(100)], key=KEY, sid="s", minted_at=1)
    with pytest.raises(InputError):
        guard(calls(1)).holding(other)


def test_a_count_that_cannot_be_told_refuses_only_where_it_matters(tmp_path: Path) -> None:
    """A broken budget refuses by `calls`; a ticket without `calls` never asks it."""
    broken = FileBudget(tmp_path / "missing")
    refusal = guard(calls(5), budget=broken).check(READ, 0).refusal
    assert refusal is not None
    assert refusal.caveat == "calls"
    assert guard(tools("read"), budget=broken).check(READ, 0).allowed


def test_a_witness_that_refuses_prevents_the_debit() -> None:
    """A decision that could not be written down is no decision, and costs nothing."""
    held = guard(calls(1))
    lost = Decision(Refusal("session", "", "not written"))
    assert held.check(READ, 0, witness=lambda _: lost) == lost
    assert held.spent() == (0,)
    seen: list[Decision] = []
    assert held.check(READ, 0, witness=lambda d: seen.append(d) or d) == ALLOW
    assert held.check(READ, 0, witness=lambda d: seen.append(d) or d).refusal is not None
    assert [d.allowed for d in seen] == [True, False]


def test_the_instant_is_given() -> None:
    """A guard knows no clock: the same ticket is alive and over as the caller says."""
    held = guard(until(100))
    assert held.check(READ, 99).allowed
    assert not held.check(READ, 100).allowed
    assert not held.check(READ, None).allowed


def test_a_guard_without_a_resolver_reads_no_arguments() -> None:
    """Deciding a tool and its arguments needs a resolver, and says so."""
    with pytest.raises(InputError):
        guard(budget=MemoryBudget()).decide("read", {}, 0)


def test_walls_hold_no_narrower_ticket() -> None:
    """A sandbox holds the paths and hosts of the root, not the narrower ones of a delegate."""
    parent = guard(tools("sh", "read"), paths("src/**"), sandboxed=True)
    shell = Call("sh", opaque=True)
    assert parent.check(shell, 0).enforcement == "kernel"
    assert parent.narrowed(calls(3)).check(shell, 0).enforcement == "kernel"
    assert parent.narrowed(paths("src/a/**")).check(shell, 0).enforcement == "none"
    assert (
        parent.narrowed(paths("src/a/**")).narrowed(calls(1)).check(shell, 0).enforcement == "none"
    )
