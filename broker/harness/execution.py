"""
Running a tool: the one place where it happens.

Decided here: that the paths still lead where they led before the decision, that every further
address is decided anew, and what a tool is given. Not decided here: whether the call may run,
which has been decided before (``pipeline``).

Rules a maintainer keeps: a tool gets a copy of the frozen arguments and nothing that was not
located before; whatever it raises is its failure and nobody else's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from broker.authorize import ASK, enforce
from broker.boundary import contained
from broker.calls import Call
from broker.capabilities.bundle import Capabilities
from broker.errors import AttenuationError, BrokerError, Refused, ScopeError
from broker.harness.approval import Approver
from broker.harness.files import Files, ToolError
from broker.harness.held import Held
from broker.harness.items import Tool, Work
from broker.harness.outcome import Caller, Result
from broker.harness.passing import Passing, Places, denial, refusal
from broker.harness.spill import Spill


@dataclass(frozen=True, slots=True)
class Execution:
    """What runs the tools of one pipeline; see there for its parts."""

    held: Held
    approver: Approver
    world: Capabilities
    files: Files
    spill: Spill

    def decide(self, one: Passing, arguments: Mapping[str, object], number: str) -> Call | None:
        """
        Have the session decide; it has recorded the decision when this returns.

        Returns:
            What the session resolved the call to, where this process can know it.

        Raises:
            Refused: the ticket refuses.
            BrokerError: there is no answer.
        """
        caller, read = one.caller, list[Call]()
        enforce(
            self.held.decide(
                one.asked.tool,
                arguments,
                call=number,
                ticket=caller.ticket,
                actor=caller.actor,
                server=one.tool.server if one.tool else "",
                heard=read.append,
            )
        )
        return read[0] if read else None

    def execute(self, one: Passing) -> Result:
        """Run the tool of a call that may run; always returns a result."""
        tool, places = one.tool, one.places
        if isinstance(places, ToolError):
            return Result("failed", places.message, stop="tool")
        if self.places(one) != places or tool is None:
            text = "a link was changed while the call was being decided"
            return Result("failed", text, stop="moved")
        caller = one.caller
        work = Work(
            self.files,
            places,
            self.world.process,
            self.world.browser,
            partial(self._hop, one),
            partial(self._delegated, caller),
            partial(self.spill.recall, caller.actor),
        )
        result = contained(partial(self._ran, tool, work, one), _broken)
        if one.brings:
            self.approver.taint(one.number)
        return Result(result.outcome, result.text, result.caveat, result.stop, one.changes)

    def _ran(self, tool: Tool, work: Work, one: Passing) -> Result:
        try:
            text = tool.run(work, one.thawed())
        except Refused as refused:
            return refusal(refused, "ticket")
        except BrokerError as error:  # the tool's own, or a redirect that could not be decided
            return Result("failed", error.message, stop="tool")
        except SystemExit:  # else a tool could end the run well, past the check that is due
            return Result("failed", "the tool wanted to end the process", stop="tool")
        if not isinstance(text, str):
            raise TypeError(f"the result is `{type(text).__name__}`, not a text")
        return Result("done", text)

    def _hop(self, one: Passing, url: str) -> None:
        """Decide one more address of a call, by the ticket and by what no mode lifts."""
        arguments: dict[str, object] = {"url": url}
        call = self.decide(one, arguments, f"{one.number}+")
        refused = self.approver.refused(one.asked.tool, arguments, one.caller.mode, call)
        if refused is not None:
            self.held.permission(f"{one.number}+", allowed=False, reason=refused)
            raise denial(refused)

    def places(self, one: Passing) -> Places:
        """Locate the paths; what is wrong with them is said only after the call was decided."""
        if one.tool is None or not one.tool.paths:
            return {}
        arguments = one.own
        try:
            return {
                name: self.files.locate(str(arguments[name]))
                for name in one.tool.paths
                if name in arguments
            }
        except ToolError as error:
            return error

    def _delegated(
        self, caller: Caller, prompt: str, scope: Sequence[str], mode: str | None
    ) -> str:
        def narrow(holder: str) -> str:
            return self.held.delegate(
                scope, parent=caller.ticket, asked_by=caller.actor, holder=holder
            )

        try:
            return caller.delegate(prompt, narrow, mode)
        except AttenuationError as error:
            raise Refused(f"{error.message}; {ASK}", caveat=error.kind) from error
        except ScopeError as error:
            raise ToolError(error.pointed()) from error


def _broken(error: Exception) -> Result:
    return Result("failed", f"the tool broke: {type(error).__name__}: {error}", stop="tool")
