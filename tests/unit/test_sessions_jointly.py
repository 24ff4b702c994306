"""One call under several tickets: all must let it through, and each link counts it once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.calls import Call, Decision, Refusal
from broker.caveats import Caveat, calls, tools
from broker.guard import TicketGuard
from broker.sessions.jointly import check_all
from broker.ticket import mint

NAMES = ("read", "edit", "shell")
LISTS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(lambda names: tools(*names))
CAVEATS = st.lists(st.one_of(LISTS, st.integers(0, 3).map(calls)), max_size=2)


def guard(*caveats: Caveat) -> TicketGuard:
    """Return the guard of a fresh root."""
    return TicketGuard(mint(caveats, key=bytes(32), sid="s", minted_at=0))


def same(decision: Decision, _: TicketGuard) -> Decision:
    """Leave a decision as it is."""
    return decision


@given(
    st.lists(CAVEATS, min_size=1, max_size=3),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=6),
)
def test_together_they_are_the_conjunction(held: list[list[Caveat]], made: list[str]) -> None:
    """A call passes exactly when every ticket alone would let it through, as often as all did."""
    root, alone = guard(calls(4)), guard(calls(4))
    together = [root.narrowed(*caveats) for caveats in held]
    apart = [alone.narrowed(*caveats) for caveats in held]
    spent = 0
    for name in made:
        counts = [(spent,) * len(each.ticket.line) for each in apart]
        expected = all(
            each.judge(Call(name), 0, count).allowed
            for each, count in zip(apart, counts, strict=True)
        )
        assert check_all(together, Call(name), 0, same).allowed == expected
        spent += expected
    assert root.spent() == (spent,)


def test_a_refusal_names_the_ticket_that_refused() -> None:
    """The witness is shown the guard that said no, and what it answers is what counts."""
    root = guard(calls(9))
    one, two = root.narrowed(tools("read")), root.narrowed(tools("edit"))
    seen: list[TicketGuard] = []

    def witness(decision: Decision, by: TicketGuard) -> Decision:
        seen.append(by)
        return decision

    assert not check_all([one, two], Call("read"), 0, witness).allowed
    assert seen == [two]
    unwritten = Decision(Refusal("session", "", "not written"))
    assert not check_all([one], Call("read"), 0, lambda *_: unwritten).allowed
    assert not check_all([one, one], Call("read"), 0, lambda *_: unwritten).allowed
    assert root.spent() == (0,)


def test_tickets_without_a_count_need_none() -> None:
    """Where no link of any line sets a number, nobody counts."""
    root = guard(tools("read", "edit"))
    both = [root.narrowed(tools("read")), root.narrowed()]
    assert check_all(both, Call("read"), 0, same).allowed
    assert not check_all(both, Call("edit"), 0, same).allowed
    mixed = [root.narrowed(calls(1)), root.narrowed()]
    assert [check_all(mixed, Call("read"), 0, same).allowed for _ in range(2)] == [True, False]
