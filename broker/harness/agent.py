"""
The loop: a turn of the model, its calls, their results, and the next turn.

Decided here: that a subagent is the same loop under a narrower ticket, and what is told to
whoever watches. Not decided here: how a call is handled (``broker.harness.gate``) and what the
model says (``broker.harness.script``).

A rule a maintainer keeps: a call reaches a tool through the gate and in no other way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from broker.harness.files import ToolError
from broker.harness.gate import Caller, Gate, Result
from broker.harness.script import Model, Script, ToolCall
from broker.limits import MAX_AGENT_DEPTH


@dataclass(frozen=True, slots=True)
class Said:
    """The model said something."""

    actor: str
    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """A call is about to be handled."""

    actor: str
    call: ToolCall


@dataclass(frozen=True, slots=True)
class Ended:
    """A call was handled; ``as_expected`` is false when the script expected something else."""

    actor: str
    call: ToolCall
    result: Result
    as_expected: bool


Watcher = Callable[[Said | Called | Ended], None]


@dataclass(slots=True)
class Agent:
    """A run of one script: the first agent and the subagents that it calls."""

    gate: Gate
    script: Script
    watch: Watcher
    surprises: int = 0
    _calls: int = field(default=0)
    _helpers: int = field(default=0)

    def run(self) -> str:
        """
        Run the first agent to the end of its lane and return the last thing it said.

        ``surprises`` then counts the calls that came out otherwise than the script expects.
        """
        return self._follow(self.script.model(), "main", "", 0)

    def _follow(self, model: Model, actor: str, ticket: str, depth: int) -> str:
        def delegate(prompt: str, narrow: Callable[[str], str]) -> str:
            if depth == MAX_AGENT_DEPTH:
                raise ToolError(f"a subagent has at most {MAX_AGENT_DEPTH} agents above it")
            helper = self.script.model(prompt)
            name = f"helper-{self._helpers + 1}"
            narrower = narrow(name)
            self._helpers += 1
            return self._follow(helper, name, narrower, depth + 1)

        caller = Caller(actor, ticket, delegate)
        results: list[str] = []
        last = ""
        while (turn := model.turn(results)) is not None:
            if turn.text:
                last = turn.text
                self.watch(Said(actor, turn.text))
            results = [self._one(call, caller).text for call in turn.calls]
        return last or "done"

    def _one(self, call: ToolCall, caller: Caller) -> Result:
        self._calls += 1
        number = f"call-{self._calls}"
        self.watch(Called(caller.actor, call))
        result = self.gate.call(call, caller, number)
        as_expected = result.meets(call.expect)
        self.surprises += not as_expected
        self.watch(Ended(caller.actor, call, result, as_expected))
        return result
