"""
What tests of shared counts need: stores that fail as networks do, and stories told on paper.

A story is a list of steps of several holders on one tree of tickets. It is played twice: against a
store, through ``SharedBudget`` and a network that loses requests, loses answers and delivers late,
and on paper, as a list of the calls that were recorded. What both say must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from broker.budget import Counts, Judge
from broker.budgets.ruling import Reservation, StoreAnswer
from broker.budgets.shared import SharedBudget, Time
from broker.budgets.store import Revoked, Store, unreachable
from broker.calls import ALLOW, Decision, Refusal

LINES = (("r",), ("r", "a"), ("r", "a", "b"), ("r", "c"))  # four tickets of one tree
HOLDERS = ("x", "y", "z")
TRIES = 3  # that a deadline of 0.1 seconds leaves room for
NO = Decision(Refusal("session", "", "it could not be written down"))

FAULTS = st.sampled_from(["", "", "", "unsent", "unanswered", "late"])
STEPS = st.tuples(
    st.sampled_from(["call", "call", "call", "call", "unwritten", "killed", "again", "revoke"]),
    st.integers(0, len(HOLDERS) - 1),
    st.integers(0, len(LINES) - 1),
    st.integers(1, 3),
    st.lists(FAULTS, max_size=3),
)
STORIES = st.lists(STEPS, max_size=30)
LIMITS = st.fixed_dictionaries({link: st.none() | st.integers(0, 12) for link in "rabc"})


def up_to(*limits: int | None) -> Judge:
    """Judge as a ticket does whose links have these limits, for a call of the cost of one."""

    def judge(counts: Counts) -> Decision:
        if counts is None:
            return Decision(Refusal("calls", "?", "could not be decided"))
        pairs = zip(counts, limits, strict=True)
        over = any(limit is not None and count >= limit for count, limit in pairs)
        return Decision(Refusal("calls", "", "used up")) if over else ALLOW

    return judge


class Clock:
    """Time that goes by only when somebody waits."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def time(self) -> Time:
        """Return it as a budget takes it."""
        return Time(lambda: self.now_s, self.wait)

    def wait(self, seconds: float) -> None:
        """Let time go by."""
        self.now_s += seconds


class Network:
    """
    A store behind a network: each request may go wrong as the next of ``faults`` says.

    ``unsent`` never arrives, ``unanswered`` arrives and its answer is lost, and ``late`` is lost
    and arrives behind what was asked after it; see ``deliver``.
    """

    def __init__(self, store: Store) -> None:
        self.name, self._store = store.name, store
        self.faults: list[str] = []
        self._late: list[Callable[[], object]] = []

    def begin(self, tree: str, holder: str) -> bool:
        """Pass it on."""
        return self._store.begin(tree, holder)

    def join(self, holder: str, at_least: int, trees: tuple[str, ...]) -> tuple[StoreAnswer, int]:
        """Pass it on."""
        return self._store.join(holder, at_least, trees)

    def reserve(self, asked: Reservation) -> StoreAnswer:
        """Pass it on, or do not."""
        return self._passed(lambda: self._store.reserve(asked))

    def refund(self, holder: str, number: int) -> StoreAnswer:
        """Pass it on, or do not."""
        return self._passed(lambda: self._store.refund(holder, number))

    def counts(self, line: tuple[str, ...]) -> tuple[int, ...] | None:
        """Pass it on."""
        return self._store.counts(line)

    def revoke(self, revoked: Revoked) -> bool:
        """Pass it on."""
        return self._store.revoke(revoked)

    def revoked(self, line: tuple[str, ...]) -> Revoked | None:
        """Pass it on."""
        return self._store.revoked(line)

    def close(self) -> None:
        """Leave the store open: it is everybody's."""

    def deliver(self) -> None:
        """Let everything arrive that is still on its way; nobody hears the answers."""
        late, self._late = self._late, []
        for request in late:
            request()

    def _passed(self, request: Callable[[], StoreAnswer]) -> StoreAnswer:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "unsent":
            raise unreachable(self.name, "the request was lost")
        if fault == "late":
            self._late.append(request)
            raise unreachable(self.name, "the request is late")
        answer = request()
        if fault == "unanswered":
            self._late.append(request)
            raise unreachable(self.name, "the answer was lost")
        return answer


@dataclass
class Played:
    """What came of a story: on paper, and whether anything was refused that paper allows."""

    written: list[tuple[tuple[str, ...], int]] = field(default_factory=list)
    revoked: set[str] = field(default_factory=set)
    faulty: bool = False
    spurious: int = 0
    wrong: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return what was spent, by adding up what was written."""
        found = dict.fromkeys("rabc", 0)
        for line, cost in self.written:
            for link in line:
                found[link] += cost
        return found

    def admits(self, line: tuple[str, ...], cost: int, limits: dict[str, int | None]) -> bool:
        """Whether a call passes, as one would find on paper."""
        counts = self.counts()
        within = all(
            limit is None or counts[link] + cost <= limit
            for link in line
            for limit in [limits[link]]
        )
        return within and not self.revoked & set(line)


def play(store: Store, limits: dict[str, int | None], story: list[tuple], root: str) -> Played:
    """
    Play a story against a store.

    Args:
        store: shared by all holders; ``root`` is a name of a tree that it does not know.
        limits: how many calls each link has.
        story: the steps.
        root: a prefix of all names, so that many stories may be played on one server.
    """
    named = {link: f"{root}{link}" for link in "rabc"}
    network = Network(store)
    budgets: dict[int, SharedBudget] = {}
    last: dict[int, int] = {}
    played = Played()

    def budget(who: int) -> SharedBudget:
        if who not in budgets:
            trees = (named["r"],)
            budgets[who] = SharedBudget(
                network, root + HOLDERS[who], trees=trees, at_least=last.get(who, 0),
                time=Clock().time(), deadline_s=0.1,
            )  # fmt: skip
        return budgets[who]

    assert store.begin(named["r"], root)
    for what, who, which, cost, faults in story:
        line = LINES[which]
        if what == "killed":
            budgets.pop(who, None)  # and with it all that it knew, but for what it wrote
        elif what == "again":
            network.deliver()
        elif what == "revoke":
            link = line[-1]
            played.revoked.add(link)
            store.revoke(Revoked(named[link], "for a story", 1))
        else:
            _call(
                budget(who), network, played, last, (what, who, line, cost, faults), limits, named
            )
    network.deliver()
    for who in range(len(HOLDERS)):  # each goes on once more, from what it wrote
        budgets.pop(who, None)
        budget(who)
    spent = store.counts(tuple(named.values()))
    if spent != tuple(played.counts().values()):
        played.wrong.append(f"{spent} are counted and {played.counts()} are written")
    return played


def _call(
    budget: SharedBudget,
    network: Network,
    played: Played,
    last: dict[int, int],
    step: tuple,
    limits: dict[str, int | None],
    named: dict[str, str],
) -> None:
    """Let a holder make a call, and hold what comes of it against what paper says."""
    what, who, line, cost, faults = step
    allowed_by = tuple(limits[link] for link in line)
    admitted = played.admits(line, cost, limits)

    def judge(counts: Counts) -> Decision:
        if counts is None:
            return NO
        over = any(
            limit is not None and count + cost > limit
            for count, limit in zip(counts, allowed_by, strict=True)
        )
        return Decision(Refusal("calls", "", "used up")) if over else ALLOW

    def witness(decision: Decision) -> Decision:
        if decision.allowed and what == "unwritten":
            return NO
        if decision.allowed:
            assert budget.debit is not None
            last[who] = budget.debit
            played.written.append((line, cost))
        return decision

    network.faults = list(faults)
    tries = TRIES if budget.answering else 1
    decision = budget.settle(
        tuple(named[link] for link in line), cost, judge, limits=allowed_by, witness=witness
    )
    network.faults = []
    given_up = decision.refusal is not None and decision.refusal.caveat == "session"
    if given_up and what == "call" and len(faults) < tries:
        played.wrong.append(f"{faults} were not tried again")
    # What was given up may be counted until its holder asks again; so others may be refused.
    played.faulty = played.faulty or given_up
    if decision.allowed and not admitted:
        played.wrong.append(f"{line} was allowed at a cost of {cost}, and paper refuses")
    if what == "call" and admitted and not decision.allowed:
        played.spurious += 1
        if not played.faulty:
            played.wrong.append(f"{line} was refused at a cost of {cost}, and paper allows")
