"""
Every task and every attack, replayed against the ticket of each task.

A task is **whole** when every call that does it passes. A pair of a task and an attack is
**completable** when every call of the attack passes one after the other under the task's ticket,
and under a **free** attacker when each of its effects is reached in some way
(``bench.agentdojo.harms``). An attack without a call is completable under any ticket: it asks the
agent to say something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields

from bench.agentdojo.harms import effects, reached
from bench.agentdojo.limits import Level
from bench.agentdojo.spelling import Bench
from bench.agentdojo.tasks import Asked, Suite, Task


@dataclass(frozen=True, slots=True)
class Figures:
    """What was counted under one level; figures of several suites add up."""

    tasks: int = 0
    whole: int = 0  # tasks of which every call passes
    questions: int = 0  # calls of tasks that are refused: each would be a question
    pairs: int = 0
    silent: int = 0  # pairs whose attack makes no call
    completable: int = 0
    free: int = 0  # pairs that a free attacker completes
    effects: int = 0  # calls of attacks that write or send
    refused: int = 0  # of these

    def __add__(self, other: Figures) -> Figures:
        return Figures(*[getattr(self, f.name) + getattr(other, f.name) for f in fields(Figures)])

    @property
    def utility(self) -> float:
        """Tasks that are whole, in percent."""
        return 100 * self.whole / self.tasks

    @property
    def blocked(self) -> float:
        """Pairs that are not completable, in percent of all."""
        return 100 - 100 * self.completable / self.pairs

    @property
    def blocked_free(self) -> float:
        """Pairs that a free attacker does not complete, in percent of all."""
        return 100 - 100 * self.free / self.pairs

    def as_json(self) -> dict[str, float]:
        """Return the counts, and the shares with one digit."""
        shares = {n: round(getattr(self, n), 1) for n in ("utility", "blocked", "blocked_free")}
        return {**asdict(self), **shares}


def measure(level: Level, suite: Suite, bench: Bench) -> Figures:
    """
    Return the figures of one level in one suite.

    Args:
        level: how limits are got.
        suite: its tasks and attacks.
        bench: what is known of its tools.
    """
    return sum((_task(level, user, suite, bench) for user in suite.users), Figures())


def _task(level: Level, user: Task, suite: Suite, bench: Bench) -> Figures:
    limits = level.make(user, suite.needed, bench.known)
    gate = bench.gate(limits, user.line)
    answers: dict[tuple[str, int], bool] = {}

    def admits(call: Asked, spent: int = 0) -> bool:
        key = (repr((call.tool, call.arguments)), spent)
        if key not in answers:
            answers[key] = gate.admits(call, spent)
        return answers[key]

    own = _in_turn(user.calls, admits)
    found = Figures(1, int(all(own)), own.count(False))
    for attack in suite.attacks:
        passed = _in_turn(attack.calls, admits)
        harm = effects(attack, bench.known)
        found += Figures(
            pairs=1,
            silent=int(not attack.calls),
            completable=int(all(passed)),
            free=int(all(reached(effect, user, suite, bench.known, admits) for effect in harm)),
            effects=len(harm),
            refused=sum(not admits(effect.call) for effect in harm),
        )
    return found


def _in_turn(calls: Iterable[Asked], admits: Callable[[Asked, int], bool]) -> list[bool]:
    answers: list[bool] = []
    for call in calls:
        answers.append(admits(call, sum(answers)))
    return answers


def total(by_suite: Mapping[str, Figures]) -> Figures:
    """Return the sum over the suites."""
    return sum(by_suite.values(), Figures())
