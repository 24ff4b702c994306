"""
A tool call in ten stages, from the model to its result.

1. resolve: the tool is looked up among what is registered;
2. validate: its arguments fit its schema, and defaults are filled in;
3. hooks: they may change a live copy, or veto;
4. snapshot: what they left is frozen and hashed;
5. revalidate: the frozen arguments still fit;
6. ticket: the session decides, and has recorded the decision when it answers;
7. permission: hooks may veto, the rules may refuse, the person may be asked;
8. execute: its paths must still lead where they led, and the tool runs;
9. result hooks: they may change what the model reads, or withhold it;
10. finalize: a long result is spilled, the outcome is recorded, whoever watches is told.

Decided here: this order, and that the frozen arguments are what 6, 7 and 8 all see: each gets a
copy thawed from one text. Not decided here: what passes at each stage, and how a tool is run
(``execution``).

Calls of one turn go through 1 to 7 one after the other, in the model's order, before any of them
runs; those that may then run side by side. Whatever breaks on the way is a refusal or a failure,
and the tool does not run.

Rules a maintainer keeps: a tool is run in ``execution`` only, after all of the above; no stage sees
arguments that came another way; a watcher that breaks changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from broker.boundary import contained
from broker.capabilities.bundle import Capabilities
from broker.errors import BrokerError, InputError, Refused
from broker.harness.approval import Approver
from broker.harness.execution import Execution
from broker.harness.files import Files
from broker.harness.held import Held
from broker.harness.hooks import HookStop, run_hooks
from broker.harness.items import CallHook, HookedCall
from broker.harness.outcome import STAGES, Caller, CallReport, Result, Watch
from broker.harness.passing import Passing, broke, denial, invalid, refusal, stopped_by
from broker.harness.registry import Registered
from broker.harness.script import ToolCall
from broker.harness.snapshot import changed_paths, freeze, spelled
from broker.harness.spill import Spill
from broker.harness.workers import Workers


def nobody_watches(report: CallReport) -> None:
    """Watch nothing."""


@dataclass(slots=True)
class Pipeline:
    """
    Where every call of an agent and its subagents goes through.

    Args:
        held: the session that holds the agent to its ticket.
        approver: the permission rules that come after it.
        world: the capabilities.
        files: the workspace.
        registered: tells what is registered now.
        spill: where long results go.
        watch: is told of every call at its end.
    """

    held: Held
    approver: Approver
    world: Capabilities
    files: Files
    registered: Callable[[], Registered]
    spill: Spill
    watch: Watch = nobody_watches
    workers: Workers = field(default_factory=Workers)
    _execution: Execution = field(init=False)

    def __post_init__(self) -> None:
        parts = (self.held, self.approver, self.world, self.files, self.spill)
        self._execution = Execution(*parts)

    def call(self, asked: ToolCall, caller: Caller, number: str) -> Result:
        """
        Handle one call; ``number`` names it in the receipt.

        Returns:
            Always a result. What the tool or the session could not do is in its text.
        """
        return self.calls([(asked, number)], caller)[0]

    def calls(self, turn: Sequence[tuple[ToolCall, str]], caller: Caller) -> list[Result]:
        """Handle the calls of one turn: check them in order, run them, return their results."""
        registered = self.registered()  # one view for the whole turn
        now = self.world.clock.monotonic_ns
        passing = [Passing(asked, caller, number, registered, now()) for asked, number in turn]
        for one in passing:
            contained(partial(self._check, one), partial(broke, one))
        waiting: list[Passing] = []
        for one in passing:
            if one.result is None and not (one.tool and one.tool.parallel):
                self._run_all(waiting)
                waiting = []
            if one.result is None:
                waiting.append(one)
        self._run_all(waiting)
        return [self._finalize(one) for one in passing]

    # ── 1 to 7: what is checked before anything runs ──

    def _check(self, one: Passing) -> None:
        for one.stage, stage in enumerate(
            (
                self._resolve,
                self._validate,
                self._hooks,
                self._snapshot,
                self._revalidate,
                self._ticket,
                self._permission,
            )
        ):
            stage(one)
            if one.result is not None:
                return

    def _resolve(self, one: Passing) -> None:
        one.tool = one.registered.tools.get(one.asked.tool)
        if one.tool is None:
            known = ", ".join(one.registered.tools)
            text = f"there is no tool `{one.asked.tool}`: {known}"
            one.stop(Result("failed", text, stop="unknown_tool"))
            return
        one.schema = one.registered.schemas[one.tool.name]

    def _validate(self, one: Passing) -> None:
        if one.asked.fault:
            one.stop(invalid(one, one.asked.fault))
            return
        try:
            one.text = spelled(dict(one.asked.arguments))
        except (InputError, TypeError, ValueError) as error:
            one.stop(invalid(one, str(error)))
            return
        one.live = json.loads(one.text)
        self._fits(one, one.live)
        if one.result is None and one.schema is not None:
            one.filled = one.schema.fill(one.live)

    def _hooks(self, one: Passing) -> None:
        self._ask(one, "arguments", one.live)

    def _snapshot(self, one: Passing) -> None:
        try:
            untouched = not one.handed and not one.filled
            one.snapshot = freeze(one.live, plain=one.text if untouched else None)
            one.kept += [(copy, spelled(copy)) for copy in one.handed]
        except InputError as error:
            one.stop(invalid(one, error.message))

    def _revalidate(self, one: Passing) -> None:
        one.own = one.thawed()
        self._fits(one, one.own)
        if one.result is None:
            one.places = self._execution.places(one)

    def _ticket(self, one: Passing) -> None:
        try:
            one.call = self._execution.decide(one, one.thawed(), one.number)
        except Refused as refused:
            one.stop(refusal(refused, "ticket"))
        except BrokerError as error:
            # No answer, no call: the session is gone, or its receipt cannot be written.
            text = f"the call was not made: {error.message}"
            one.stop(Result("refused", text, "session", "session"))
        else:
            one.decided = True

    def _permission(self, one: Passing) -> None:
        self._ask(one, "permission", None)
        if one.result is not None:
            denied: str | None = one.result.text
        else:
            answer = self.approver.answer(one.asked.tool, one.thawed(), one.caller.mode, one.call)
            one.brings, one.changes, denied = answer.brings, answer.changes, answer.denied
        try:
            self.held.permission(one.number, allowed=denied is None, reason=denied or "")
        except BrokerError as error:
            text = f"the call was not made: {error.message}"
            one.stop(Result("refused", text, "session", "session"))
            return
        if denied is not None and one.result is None:
            one.stop(refusal(denial(denied), "permission"))

    def _fits(self, one: Passing, arguments: object) -> None:
        fault = one.schema.fault(arguments) if one.schema is not None else "it has no schema"
        if fault is not None:
            one.stop(invalid(one, fault))

    def _ask(self, one: Passing, when: str, live: dict[str, object] | None) -> None:
        """Ask the hooks of a stage. After the snapshot they get a copy of what was frozen."""
        hooks = one.registered.hooks_at(when) if one.registered.hooks else ()
        if hooks:
            hooked = self._hooked(one, one.thawed() if live is None else live)
            stopped = self._asked(one, hooks, hooked)
            if stopped is None and live is not None:
                one.live = hooked.arguments
            if stopped is not None:
                one.stop(stopped_by(stopped))

    def _hooked(self, one: Passing, arguments: dict[str, object]) -> HookedCall:
        self._keep(one, arguments)
        return HookedCall(one.asked.tool, one.number, one.caller.actor, arguments)

    def _asked(
        self, one: Passing, hooks: Sequence[CallHook], hooked: HookedCall
    ) -> HookStop | None:
        given = hooked.arguments
        stopped = run_hooks(hooks, hooked, self.world.clock, self.workers)
        if hooked.arguments is not given and isinstance(hooked.arguments, dict):
            self._keep(one, hooked.arguments)  # the hook put another object there
        return stopped

    def _keep(self, one: Passing, arguments: dict[str, object]) -> None:
        if one.snapshot is None:
            one.handed.append(arguments)
        else:
            one.kept.append((arguments, one.snapshot.text))

    # ── 8 and 9: running, and what comes of it ──

    def _run_all(self, ready: Sequence[Passing]) -> None:
        """Run calls; more than one only when they may run side by side."""
        if len(ready) == 1:
            self._run_one(ready[0])
            return
        running = [(one, self.workers.submit(partial(self._run_one, one))) for one in ready]
        for one, future in running:
            contained(future.result, partial(broke, one))

    def _run_one(self, one: Passing) -> None:
        contained(partial(self._run, one), partial(broke, one))

    def _run(self, one: Passing) -> None:
        one.stage = STAGES.index("execute")
        one.result = self._execution.execute(one)
        if one.result.stop == "moved":
            return
        one.stage = STAGES.index("result hooks")
        hooks = one.registered.hooks_at("result") if one.registered.hooks else ()
        if hooks:
            hooked = self._hooked(one, one.thawed())
            hooked.text, hooked.ok = one.result.text, one.result.outcome == "done"
            stopped = self._asked(one, hooks, hooked)
            before = one.result
            if stopped is not None:
                text = f"the tool ran, and its result is withheld: {stopped_by(stopped).text}"
                one.result = Result("failed", text, stop=stopped.how, changed=before.changed)
            elif hooked.text != before.text:
                one.result = Result(
                    before.outcome, str(hooked.text), before.caveat, before.stop, before.changed
                )

    # ── 10: the end ──

    def _finalize(self, one: Passing) -> Result:
        result = one.result or Result("failed", "the call has no result", stop="tool")
        text, spilled = self.spill.shortened(one.caller.actor, one.number, result.text)
        result = Result(result.outcome, text, result.caveat, result.stop, result.changed)
        ignored = self._ignored(one)
        # One that cannot be recorded must not keep the record of its siblings from being written.
        unrecorded = contained(partial(self._record, one, result, ignored), _said)
        if unrecorded:
            lost = f"{text}\n(what came of it could not be recorded: {unrecorded})"
            result = Result("failed", lost, result.caveat, "session", result.changed)
        contained(lambda: self.watch(self._report(one, result, ignored, spilled)), _unwatched)
        return result

    def _record(self, one: Passing, result: Result, ignored: tuple[str, ...]) -> str:
        if one.decided:
            self.held.record(one.number, ok=result.outcome == "done", result=result.text)
        if result.stop in ("blocked", "hook_failed", "hook_timeout") or (
            result.stop == "invalid_arguments" and one.handed
        ):
            self._note(one, f"was stopped ({result.stop}): {result.text}")
        if ignored:
            self._note(one, f"was changed after it was frozen, to no effect: {ignored}")
        return ""

    def _note(self, one: Passing, what: str) -> None:
        self.held.note(f"call `{one.number}` of `{one.asked.tool}` {what}")

    def _ignored(self, one: Passing) -> tuple[str, ...]:
        """Return what somebody changed in the copies that hooks were given, after the snapshot."""
        found = [
            contained(partial(changed_paths, json.loads(said), copy), _unreadable)
            for copy, said in one.kept
        ]
        return tuple(sorted({place for places in found for place in places}))

    def _report(
        self, one: Passing, result: Result, ignored: tuple[str, ...], spilled: str | None
    ) -> CallReport:
        frozen = one.snapshot
        changed: tuple[str, ...] = ()
        if frozen is not None and one.handed and one.schema is not None:
            before = json.loads(one.text)
            one.schema.fill(before)
            changed = changed_paths(before, frozen.thaw())
        return CallReport(
            one.number,
            one.caller.actor,
            one.asked.tool,
            one.text,
            None if frozen is None else frozen.text,
            None if frozen is None else frozen.digest,
            changed,
            ignored,
            result.outcome,
            result.stop,
            "" if result.outcome == "done" else result.text,
            (*STAGES[: one.stage + 1], STAGES[-1]),
            spilled,
            self.world.clock.monotonic_ns() - one.began_ns,
        )


def _unreadable(error: Exception) -> tuple[str, ...]:
    return ("",)  # it is being changed at this very moment


def _said(error: Exception) -> str:
    return error.message if isinstance(error, BrokerError) else f"{type(error).__name__}: {error}"


def _unwatched(error: Exception) -> None:
    """Go on: what is watched does not depend on who watches."""
