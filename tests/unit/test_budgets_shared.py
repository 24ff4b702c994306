"""A budget that asks a store: judging, reserving, witnessing, and what goes wrong."""

from __future__ import annotations

import os

import pytest

from broker.budget import Counts
from broker.budgets.memory import MemoryStore
from broker.budgets.shared import SharedBudget
from broker.budgets.store import Revoked
from broker.calls import ALLOW, Call, Decision, Refusal
from broker.caveats import calls, tools
from broker.errors import StoreError
from broker.guard import TicketGuard
from broker.ticket import mint
from tests.budgetkit import NO, Clock, Network, up_to


def budget_on(network: Network, clock: Clock | None = None, name: str = "h") -> SharedBudget:
    """Return a budget with the tree `r` begun."""
    budget = SharedBudget(network, name, time=(clock or Clock()).time(), deadline_s=1.0)
    budget.begin("r")
    return budget


@pytest.fixture
def network() -> Network:
    """A store behind a network that does well until told otherwise."""
    return Network(MemoryStore())


def test_what_no_count_lets_through_is_not_asked_about(network: Network) -> None:
    """A call that the ticket refuses anyway takes no request, so no server is needed to refuse."""
    budget = budget_on(network)
    network.faults = ["unsent"] * 9
    no = Decision(Refusal("tools", "x", "not in tools"))
    assert budget.settle(("r",), 1, lambda _: no, limits=(5,)) == no
    assert len(network.faults) == 9


def test_a_lost_answer_is_asked_for_again_and_counts_once(network: Network) -> None:
    """However often the answer is lost within the deadline, the call is counted once."""
    budget, network.faults = budget_on(network), ["unanswered", "unsent", "unanswered"]
    assert budget.settle(("r",), 1, up_to(5), limits=(5,)).allowed
    assert budget.spent(("r",)) == (1,)


def test_no_answer_in_time_refuses_and_costs_nothing(network: Network) -> None:
    """The wait ends with the deadline; what was counted unheard is taken back by the next call."""
    clock = Clock()
    budget, network.faults = budget_on(network, clock), ["unanswered"] * 99
    refusal = budget.settle(("r",), 1, up_to(5), limits=(5,)).refusal
    assert refusal is not None
    assert (refusal.caveat, "cannot be asked" in refusal.reason) == ("session", True)
    assert 0.5 < clock.now_s <= 1.0
    waited, network.faults = clock.now_s, ["unsent"] * 99
    assert not budget.settle(("r",), 1, up_to(5), limits=(5,)).allowed
    assert clock.now_s == waited  # nobody waits again for a store that just gave no answer
    network.faults = []
    assert budget.spent(("r",)) == (1,)  # counted, and nobody was told
    assert budget.settle(("r",), 1, up_to(5), limits=(5,)).allowed
    network.deliver()
    assert budget.spent(("r",)) == (1,)


def test_a_witness_that_refuses_takes_the_call_back(network: Network) -> None:
    """What could not be written down costs nothing, and its number is not shown again."""
    budget = budget_on(network)
    seen: list[int | None] = []

    def witness(decision: Decision) -> Decision:
        seen.append(budget.debit)
        return NO

    assert budget.settle(("r",), 1, up_to(5), limits=(5,), witness=witness) == NO
    assert budget.spent(("r",)) == (0,)
    assert budget.settle(("r",), 1, up_to(5), limits=(5,)).allowed
    assert budget.debit is not None
    assert seen == [budget.debit - 1]


def test_a_witness_sees_each_decision_once(network: Network) -> None:
    """Allowed, refused by a number, revoked, or not decided: it is shown once."""
    budget = budget_on(network)
    seen: list[str] = []

    def witness(decision: Decision) -> Decision:
        seen.append("" if decision.refusal is None else decision.refusal.caveat)
        return decision

    def settle(limit: int) -> None:
        budget.settle(("r", "a"), 1, up_to(limit, None), limits=(limit, None), witness=witness)

    settle(1)
    settle(1)
    network.faults = ["unsent"] * 99
    settle(5)
    network.faults = []
    network.revoke(Revoked("a", "enough", 1))
    settle(5)
    assert seen == ["", "calls", "session", "revoked"]


def test_a_forked_process_counts_nothing(network: Network) -> None:
    """A copy of a holder's place would use its numbers twice, so a fork is refused."""
    budget = budget_on(network)
    child = os.fork()
    if child == 0:
        os._exit(int(budget.settle(("r",), 1, lambda _: ALLOW, limits=(5,)).allowed))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_tree_that_was_not_begun_here_is_refused(network: Network) -> None:
    """A ticket of another tree, or limits that are not given, count nothing."""
    budget = budget_on(network)
    for line, limits in ((("other",), (5,)), (("r",), ())):
        refusal = budget.settle(line, 1, lambda _: ALLOW, limits=limits).refusal
        assert refusal is not None
        assert "counts nothing under this ticket" in refusal.reason


def test_a_judge_who_knows_less_than_the_store_never_allows(network: Network) -> None:
    """Where the store says full and the judge would allow, it is refused as not decided."""
    budget = budget_on(network)
    refusal = budget.settle(("r",), 2, lambda _: ALLOW, limits=(1,)).refusal
    assert refusal is not None
    assert "could not be decided" in refusal.reason
    assert budget.spent(("r",)) == (0,)


def test_a_holder_goes_on_after_its_process(network: Network) -> None:
    """With its last recorded number it goes on; one that the store never had means lost counts."""
    budget = budget_on(network)
    budget.settle(("r",), 1, up_to(5), limits=(5,))
    last = budget.debit
    assert last is not None
    budget.settle(("r",), 1, up_to(5), limits=(5,), witness=lambda d: d)  # and is not recorded
    again = SharedBudget(network, "h", trees=("r",), at_least=last)
    assert again.spent(("r",)) == (1,)
    with pytest.raises(StoreError) as raised:
        SharedBudget(network, "h", trees=("r",), at_least=2**50)
    assert raised.value.code == "store.lost"
    refusal = again.settle(("r",), 1, up_to(5), limits=(5,)).refusal
    assert refusal is not None
    assert "lost" in refusal.reason


def test_a_guard_counts_and_stops_by_it(network: Network) -> None:
    """A ticket's numbers hold among the guards of two holders, and so does a revocation."""
    root = mint([tools("read"), calls(3)], key=bytes(32), sid="s", minted_at=0)
    mine = SharedBudget(network, "mine")
    mine.begin(root.id)
    guard = TicketGuard(root, mine)
    other = TicketGuard(root, SharedBudget(network, "other", trees=(root.id,)))
    child = other.narrowed(calls(2))
    assert [g.check(Call("read"), 0).allowed for g in (guard, child, guard, child)] == [
        True,
        True,
        True,
        False,
    ]
    free = mint([tools("read")], key=bytes(32), sid="s", minted_at=0, nonce="1")
    mine.begin(free.id)
    unlimited = TicketGuard(free, mine)
    assert unlimited.check(Call("read"), 0).allowed
    network.revoke(Revoked(free.id, "enough", 1))
    refusal = unlimited.check(Call("read"), 0).refusal
    assert refusal is not None
    assert (refusal.caveat, refusal.value) == ("revoked", free.id)


def test_counts_that_cannot_be_told_are_none(network: Network) -> None:
    """A store that is gone, or never heard of a line, tells no counts."""

    class Gone(Network):
        def counts(self, line: tuple[str, ...]) -> Counts:
            raise StoreError("gone")

    assert SharedBudget(Gone(MemoryStore()), "h").spent(("r",)) is None
    assert SharedBudget(network, "h").spent(("r",)) is None
