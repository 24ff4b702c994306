"""
The loop: a turn of the model, its calls, their results, and the next turn.

Decided here: that a subagent is the same loop under a narrower ticket, that a run which changed
something ends only when its check passes, and what is told to whoever watches. Not decided here:
how a call is handled (``broker.harness.pipeline``) and what the model says
(``broker.harness.script``).

A rule a maintainer keeps: a call reaches a tool through the pipeline and in no other way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from broker.harness.outcome import Called, Caller, Ended, Result, Said, Watcher
from broker.harness.pipeline import Pipeline
from broker.harness.script import MAIN, Model, ToolCall, Turn
from broker.harness.verify import VerifyGate
from broker.permissions.depth import USUAL_DEPTH, descend
from broker.permissions.modes import DEFAULT, Mode


class Models(Protocol):
    """Who answers a run: a script, or a provider."""

    def model(self, prompt: str | None = None, actor: str = MAIN) -> Model:
        """Return the model of an agent that has a prompt; without one, the first agent's."""


@dataclass(slots=True)
class Agent:
    """
    One run: the first agent and the subagents that it calls.

    ``mode`` is the first agent's, ``depth`` how many agents may stand above one, and ``verify``
    the check that must pass after something was changed. ``numbered`` counts the calls so far, by
    which each is named.
    """

    pipeline: Pipeline
    models: Models
    watch: Watcher
    mode: Mode = DEFAULT
    depth: int = USUAL_DEPTH
    verify: VerifyGate | None = None
    surprises: int = 0
    numbered: int = 0
    _helpers: int = field(default=0)
    _changed: bool = field(default=False)

    def run(self) -> str:
        """
        Run the first agent to the end of its lane and return the last thing it said.

        ``surprises`` then counts the calls that came out otherwise than the script expects.

        Raises:
            VerifyError: something was changed, and the check did not pass in its attempts.
        """
        return self._follow(self.models.model(), MAIN, "", 0, self.mode)

    def _follow(self, model: Model, actor: str, ticket: str, depth: int, mode: Mode) -> str:
        def delegate(prompt: str, narrow: Callable[[str], str], asked: str | None) -> str:
            below, narrower_mode = descend(depth, self.depth, mode, asked)
            name = f"helper-{self._helpers + 1}"
            helper = self.models.model(prompt, name)
            narrower = narrow(name)
            self._helpers += 1
            return self._follow(helper, name, narrower, below, narrower_mode)

        caller = Caller(actor, ticket, delegate, mode)
        results: list[Result] = []
        last = ""
        while True:
            turn = model.turn(results)
            if turn is None:
                failed = self._verified() if depth == 0 else None
                if failed is None:
                    return last or "done"
                results = [Result("failed", failed)]
                continue
            if turn.text:
                last = turn.text
                self.watch(Said(actor, turn.text))
            results = self._calls_of(turn, caller)

    def _verified(self) -> str | None:
        """Return what the check said when it does not pass; None when it does or need not."""
        if self.verify is None or not self._changed:
            return None
        failed = self.verify.check()
        self._changed = failed is not None
        return failed

    def _calls_of(self, turn: Turn, caller: Caller) -> list[Result]:
        numbered: list[tuple[ToolCall, str]] = []
        for call in turn.calls:
            self.numbered += 1
            numbered.append((call, f"call-{self.numbered}"))
            self.watch(Called(caller.actor, call))
        results = self.pipeline.calls(numbered, caller)
        # Before anybody is told: a watcher that breaks must not hide that the check is due.
        self._changed = self._changed or any(result.changed for result in results)
        for call, result in zip(turn.calls, results, strict=True):
            as_expected = result.meets(call.expect)
            self.surprises += not as_expected
            self.watch(Ended(caller.actor, call, result, as_expected))
        return results
