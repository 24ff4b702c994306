"""
What a replay came to, in figures and in words.

Decided here: what counts as a replay that held. Not decided here: how it is played
(``broker.replay.exact``), how it is shown (``broker.cli.replay``). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.replay.forking import Fork
from broker.replay.isolation import Isolation
from broker.replay.matching import KeptRequest
from broker.replay.playback import Played, tally
from broker.replay.results import ResultsTally


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """
    What a replay came to.

    ``code`` is how the agent ended, ``then`` how it had ended; ``rungs`` says how many requests
    stood on which; ``left`` was recorded and not asked for; ``told`` are the first divergences;
    ``results`` says what became of the tools' results, None where all tools ran.
    """

    run_id: str
    isolation: Isolation
    code: int
    then: int | None
    recorded: int
    rungs: Mapping[int, int]
    left: tuple[KeptRequest, ...]
    told: tuple[Played, ...]
    halted: str
    live: int = 0
    fork: Fork | None = None
    results: ResultsTally | None = None
    lost: str = ""  # why the scratch folder did not follow the recorded one to the end

    @property
    def refused(self) -> int:
        """How many results of tools were asked for that are not on record."""
        return 0 if self.results is None else self.results.refused

    @property
    def reused(self) -> int:
        """How many recorded answers were given again."""
        return sum(count for rung, count in self.rungs.items() if rung < 4)

    @property
    def unmatched(self) -> int:
        """How many requests had no recorded answer."""
        return self.rungs.get(4, 0)

    @property
    def exact(self) -> bool:
        """Whether every request was the same as then, none is missing, and no result either."""
        whole = not self.unmatched and not self.left and not self.refused
        return whole and self.rungs.get(1, 0) == self.reused

    def holds(self, *, strict: bool = False, loose: bool = False) -> bool:
        """
        Whether the replay went as the run, as far as it was recorded.

        With ``strict`` without any divergence; with ``loose`` also where something was live.
        """
        if strict:
            return self.exact
        return loose or not (self.unmatched or self.left or self.refused)

    def __str__(self) -> str:
        """In words, for the person."""
        rungs = tally(sorted(self.rungs.items()))
        live = f" live={self.live}" if self.live or self.fork else ""
        return f"reused={self.reused}/{self.recorded} ({rungs}) unmatched={self.unmatched}{live}"
