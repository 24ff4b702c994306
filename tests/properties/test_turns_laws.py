"""Turns and attempts under any order of requests and answers, beside a naive reference."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.records.model import Failure, ProviderRequest, ProviderResponse, Record
from broker.records.turns import Turns, count, derived

BRANCHES = ("main", "helper-1", "helper-2")


def naive(records: list[Record]) -> dict[str, tuple[int, int]]:
    """
    Say turns and attempts again, by looking back over everything at each request.

    The turn of a request is how many different turns of its branch were closed before it, and its
    attempt how many requests of that turn came before.
    """
    places: dict[str, tuple[int, int]] = {}
    for at, record in enumerate(records):
        if not isinstance(record, ProviderRequest):
            continue
        before = records[:at]
        same = [r for r in before if isinstance(r, ProviderRequest) and r.branch == record.branch]
        first: dict[str, bool] = {}  # the first answer to each request, and whether it was whole
        for earlier in before:
            if isinstance(earlier, ProviderResponse):
                first.setdefault(earlier.id, earlier.failure is None)
        closed = {places[r.id][0] for r in same if first.get(r.id)}
        turn = len(closed)
        places[record.id] = (turn, sum(places[r.id][0] == turn for r in same))
    return places


class Conversations(RuleBasedStateMachine):
    """Requests of several branches on their way at once, answered in any order or never."""

    @initialize()
    def begin(self) -> None:
        """Nothing was asked yet."""
        self.records: list[Record] = []
        self.turns = Turns()
        self.given: dict[str, tuple[int, int]] = {}

    def write(self, record: Record) -> None:
        """Put a record behind the others, and count it."""
        self.records.append(record)
        count(self.turns, record, self.given)

    @rule(branch=st.sampled_from(BRANCHES))
    def ask(self, branch: str) -> None:
        """A request leaves."""
        name = f"r{len(self.records)}"
        self.write(ProviderRequest(name, 0, 0, 0, branch, "h", "m", "a", "", 0, None))

    @precondition(lambda self: self.given)
    @rule(data=st.data(), whole=st.booleans())
    def answer(self, data: st.DataObject, whole: bool) -> None:
        """An answer comes, whole or not, perhaps to one that was answered before."""
        name = data.draw(st.sampled_from(sorted(self.given)))
        failure = None if whole else Failure("provider", "")
        self.write(ProviderResponse(name, 0, 200, None, {}, 0, failure, "", 0, None))

    @invariant()
    def agrees(self) -> None:
        """What was given at the time, what is derived afterwards, and the reference agree."""
        assert self.given == derived(self.records) == naive(self.records)


TestConversations = Conversations.TestCase
