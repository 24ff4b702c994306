"""
One tool call, from the model to its result.

Decided here: the order in which a call is handled, and that nothing runs which was not decided.

1. the arguments are validated and frozen: one text, from which what is asked about and what
   runs are both read, so that they cannot differ;
2. its paths are located;
3. the session decides, under the agent's ticket, and has recorded the decision when it answers;
4. the default permission rules may still say no;
5. its paths must still lead where they led before;
6. the tool runs, and its outcome is recorded.

A refusal is a result like any other: the model reads which caveat refused, and why. Whatever
breaks on the way is a refusal or a failure, and the tool does not run.

Rules a maintainer keeps: a tool is run in one place only, after all of the above; a widening
is answered with the caveat's name and never cut down to what would have been allowed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from broker.authorize import ASK, enforce
from broker.calls import Decision
from broker.errors import AttenuationError, BrokerError, InputError, Refused, ScopeError
from broker.harness.files import Files, ToolError
from broker.harness.script import ToolCall
from broker.harness.tools import TOOLS, Tool, Work, clipped

Outcome = Literal["done", "failed", "refused"]


class Held(Protocol):
    """The session that holds this agent to its ticket; see ``broker.harness.held``."""

    def decide(
        self, tool: str, arguments: Mapping[str, object], *, call: str, ticket: str, actor: str
    ) -> Decision:
        """Decide a call; what it answers stands in the receipt already."""

    def permitted(
        self, tool: str, arguments: Mapping[str, object], *, call: str, actor: str
    ) -> str | None:
        """Return why the default permission rules say no, or None."""

    def delegate(self, scope: Sequence[str], *, parent: str, asked_by: str, holder: str) -> str:
        """Return the id of a narrower ticket, or raise ``AttenuationError`` by name."""

    def record(self, call: str, *, ok: bool, result: str) -> None:
        """Record how an allowed call ended."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a call, as the model reads it; ``caveat`` names what refused it."""

    outcome: Outcome
    text: str
    caveat: str = ""

    def meets(self, expected: str) -> bool:
        """
        Whether this is what a script expects of the call.

        >>> Result("refused", "…", "paths").meets("refused paths")
        True
        """
        said = f"{self.outcome} {self.caveat}" if " " in expected else self.outcome
        return not expected or said == expected


@dataclass(frozen=True, slots=True)
class Caller:
    """
    The agent that makes a call, and the ticket it works under (empty: the run's own).

    ``delegate`` runs a subagent on a prompt; it is given what narrows the ticket for a holder.
    """

    actor: str
    ticket: str
    delegate: Callable[[str, Callable[[str], str]], str]


@dataclass(frozen=True, slots=True)
class Gate:
    """Where every call of the agent and its subagents goes through."""

    held: Held
    files: Files
    environ: Mapping[str, str]
    tools: Mapping[str, Tool] = field(default_factory=lambda: TOOLS)

    def call(self, asked: ToolCall, caller: Caller, number: str) -> Result:
        """
        Handle one call; ``number`` names it in the receipt.

        Returns:
            Always a result. What the tool or the session could not do is in its text.
        """
        tool = self.tools.get(asked.tool)
        if tool is None:
            return Result("failed", f"there is no tool `{asked.tool}`: {', '.join(self.tools)}")
        try:
            frozen = json.dumps(tool.validate(dict(asked.arguments)))
        except ToolError as error:
            return Result("failed", error.message)
        before = self._places(tool, frozen)
        try:
            self._decide(tool.name, json.loads(frozen), caller, number)
        except Refused as refused:
            return _refusal(refused)
        except BrokerError as error:
            # No answer, no call: the session is gone, or its receipt cannot be written.
            return Result("refused", f"the call was not made: {error.message}", "session")
        result = self._allowed(tool, frozen, caller, number, before)
        try:
            self.held.record(number, ok=result.outcome == "done", result=result.text)
        except BrokerError as error:
            lost = f"{result.text}\n(what came of it could not be recorded: {error.message})"
            return Result("failed", lost)
        return result

    def _decide(
        self, tool: str, arguments: Mapping[str, object], caller: Caller, number: str
    ) -> None:
        enforce(
            self.held.decide(tool, arguments, call=number, ticket=caller.ticket, actor=caller.actor)
        )

    def _allowed(
        self,
        tool: Tool,
        frozen: str,
        caller: Caller,
        number: str,
        before: dict[str, str] | ToolError,
    ) -> Result:
        arguments = json.loads(frozen)
        denied = self.held.permitted(tool.name, arguments, call=number, actor=caller.actor)
        if denied is not None:
            return Result("refused", denied, "permission")
        if isinstance(before, ToolError):
            return Result("failed", before.message)
        if self._places(tool, frozen) != before:
            return Result("failed", "a link was changed while the call was being decided")
        work = Work(
            self.files,
            before,
            lambda url: self._decide(tool.name, {"url": url}, caller, f"{number}+"),
            lambda prompt, scope: self._delegated(prompt, scope, caller),
            self.environ,
        )
        try:
            return Result("done", clipped(tool.run(work, arguments)))
        except Refused as refused:
            return _refusal(refused)
        except BrokerError as error:  # the tool's own, or a redirect that could not be decided
            return Result("failed", clipped(error.message))

    def _places(self, tool: Tool, frozen: str) -> dict[str, str] | ToolError:
        """Locate the paths; what is wrong with them is said only after the call was decided."""
        try:
            return tool.locate(self.files, json.loads(frozen))
        except ToolError as error:
            return error

    def _delegated(self, prompt: str, scope: tuple[str, ...], caller: Caller) -> str:
        def narrow(holder: str) -> str:
            return self.held.delegate(
                scope, parent=caller.ticket, asked_by=caller.actor, holder=holder
            )

        try:
            return caller.delegate(prompt, narrow)
        except AttenuationError as error:
            raise Refused(f"{error.message}; {ASK}", caveat=error.kind) from error
        except ScopeError as error:
            raise ToolError(error.pointed()) from error
        except InputError as error:
            raise ToolError(error.message) from error


def _refusal(refused: Refused) -> Result:
    """Return a refusal as the model reads it: the caveat's name, and why."""
    decision = refused.detail.get("decision")
    caveat = str(refused.detail.get("caveat", ""))
    if isinstance(decision, Decision) and decision.refusal is not None:
        caveat = decision.refusal.caveat
    return Result("refused", f"refused by `{caveat}`: {refused.message}", caveat)
