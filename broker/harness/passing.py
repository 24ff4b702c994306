"""
One call on its way through the pipeline, and the words in which it is stopped.

Decided here: what is known of a call between two stages. Not decided here: the stages
(``pipeline``) and how a tool is run (``execution``).

A rule a maintainer keeps: whoever needs the arguments thaws a copy from the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.calls import Call, Decision
from broker.errors import Refused
from broker.harness.files import ToolError
from broker.harness.hooks import HookStop
from broker.harness.items import Tool
from broker.harness.outcome import STAGES, Caller, Result, Stop
from broker.harness.registry import Registered
from broker.harness.schemas import Schema
from broker.harness.script import ToolCall
from broker.harness.snapshot import Snapshot

Places = Mapping[str, str] | ToolError


@dataclass(slots=True)
class Passing:
    """
    One call on its way; ``result`` is there as soon as its outcome is known.

    ``text`` is what the model asked for, as JSON; ``live`` what hooks may change; ``handed`` every
    copy that a hook was given before that; ``kept`` every copy that somebody may still have, and
    what it said when it ceased to count; ``own`` a copy of what was frozen that nobody is given.
    ``filled`` says that defaults were put in, ``decided`` that the ticket allowed the call,
    ``call`` is what the session resolved it to, where that is known,
    ``brings`` that its result may be a stranger's words, ``changes`` that it may change something.
    """

    asked: ToolCall
    caller: Caller
    number: str
    registered: Registered
    began_ns: int
    text: str = "null"
    tool: Tool | None = None
    schema: Schema | None = None
    live: dict[str, object] = field(default_factory=dict)
    handed: list[dict[str, object]] = field(default_factory=list)
    kept: list[tuple[dict[str, object], str]] = field(default_factory=list)
    filled: bool = False
    snapshot: Snapshot | None = None
    own: dict[str, object] = field(default_factory=dict)
    places: Places = field(default_factory=dict)
    decided: bool = False
    call: Call | None = None
    brings: bool = False
    changes: bool = False
    stage: int = 0
    result: Result | None = None

    def stop(self, outcome: Result) -> None:
        """End it here, with this outcome."""
        self.result = outcome

    def thawed(self) -> dict[str, object]:
        """Return a copy of the frozen arguments; none before they were frozen."""
        return {} if self.snapshot is None else self.snapshot.thaw()


def invalid(one: Passing, why: str) -> Result:
    """Return the failure of a call whose arguments do not fit."""
    where = "a hook left" if one.handed else "there are"
    text = f"{where} arguments that do not fit `{one.asked.tool}`: {why}"
    return Result("failed", text, stop="invalid_arguments")


def stopped_by(stop: HookStop) -> Result:
    """Return what the model reads of a call that a hook stopped."""
    if stop.how == "blocked":
        return Result("refused", f"the hook `{stop.hook}` says no: {stop.reason}", "hook", stop.how)
    text = f"the hook `{stop.hook}` did not answer, so the call was not made: {stop.reason}"
    return Result("failed", text, stop=stop.how)


def broke(one: Passing, error: Exception) -> None:
    """Stop a call in whose way something broke that nobody foresaw: it has no other result."""
    running = one.stage >= STAGES.index("execute")
    what = "the tool may have run, and its result is lost" if running else "the call was not made"
    text = f"{what}: {type(error).__name__}: {error}"
    one.stop(Result("failed", text, stop="broken", changed=running and one.changes))


def denial(why: str) -> Refused:
    """Return the refusal of the permission rules, in words that keep a model from trying again."""
    return Refused(f"{why}; do not work around this; ask the person", caveat="permission")


def refusal(refused: Refused, stop: Stop) -> Result:
    """Return a refusal as the model reads it: the caveat's name, and why."""
    decision = refused.detail.get("decision")
    caveat = str(refused.detail.get("caveat", ""))
    if isinstance(decision, Decision) and decision.refusal is not None:
        caveat = decision.refusal.caveat
    return Result("refused", f"refused by `{caveat}`: {refused.message}", caveat, stop)
