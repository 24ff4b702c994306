"""
smolagents: agents whose tool calls, and whose code, are decided before they run.

``HeldToolCallingAgent`` and ``HeldCodeAgent`` stand in the place of the classes without *Held*. A
call is decided where the first one executes it, with the arguments that it runs with: those in
which names of the agent's state were replaced. A refusal is the call's result.

The code that a ``CodeAgent``'s model writes does whatever Python can: that is one call of the tool
``python_interpreter``, whose effects no argument tells, so a scope with paths or hosts has to name
it. Each tool that the code calls is decided besides.

Whose ticket: an agent that is run works under the ticket of the block around the run, narrowed by
its ``scope``. One that another agent manages works under a narrower one: its own tools, those of
whom it manages, and its scope.

Decided here: all of that. Not decided here: what passes.

Rules a maintainer keeps: what runs is what was decided; an agent that is not held is not called by
one that is; the tool that ends a run touches nothing, and is no call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, cast

from broker.errors import InputError, Refused
from broker.frameworks.calling import begin, child, not_read, refusal_text, sdk_missing
from broker.frameworks.holding import Holder, current

try:
    from smolagents import CodeAgent, MultiStepAgent, ToolCallingAgent
    from smolagents.default_tools import FinalAnswerTool
    from smolagents.local_python_executor import (
        CodeOutput,
        InterpreterError,
        LocalPythonExecutor,
        PythonExecutor,
    )
except ImportError as error:
    raise sdk_missing("smolagents") from error

__all__ = ["HeldCodeAgent", "HeldToolCallingAgent"]

CODE: Final = "python_interpreter"  # as smolagents calls what runs a model's code

_working: Final[ContextVar[object]] = ContextVar("broker_smolagents", default=None)


class HeldToolCallingAgent(ToolCallingAgent):
    """
    A ``ToolCallingAgent`` that is held to the ticket of the block it runs in.

    Args:
        scope: ``KEY=VALUE`` texts that narrow it.
    """

    def __init__(self, *given: Any, scope: Sequence[str] = (), **named: Any) -> None:
        self.scope = tuple(scope)
        super().__init__(*given, **named)

    def execute_tool_call(self, tool_name: str, arguments: Any) -> Any:
        """Decide a call, and make it as it was decided; a refusal is its result."""
        tool = {**self.tools, **self.managed_agents}.get(tool_name)
        if tool is None or type(tool) is FinalAnswerTool:
            return super().execute_tool_call(tool_name, arguments)  # it runs nothing
        given = super()._substitute_state_variables(arguments)
        under = _under(self)
        try:
            begun = begin(_called(tool_name, tool, under), given, held=under)
        except Refused as refused:
            return refusal_text(refused)
        with begun, _at_work(self, under):
            begun.output = super().execute_tool_call(tool_name, begun.arguments)
        return begun.output

    def _substitute_state_variables(self, arguments: Any) -> Any:
        return arguments  # that was done before it was decided


class HeldCodeAgent(CodeAgent):
    """
    The same for a ``CodeAgent``, whose code runs in this process.

    Args:
        scope: ``KEY=VALUE`` texts that narrow it.

    Raises:
        InputError: its code would run elsewhere, where its tools ask nobody.
    """

    python_executor: PythonExecutor

    def __init__(self, *given: Any, scope: Sequence[str] = (), **named: Any) -> None:
        self.scope = tuple(scope)
        super().__init__(*given, **named)
        inner: object = self.python_executor
        if not isinstance(inner, LocalPythonExecutor):
            raise InputError(
                f"a `{type(inner).__name__}` runs code elsewhere, where its tools ask nobody: "
                "leave out `executor_type` and `executor`"
            )
        self.python_executor = _Executor(self, inner)


class _Executor(PythonExecutor):
    """Runs an agent's code as one call, and has each tool that the code calls ask first."""

    def __init__(self, agent: HeldCodeAgent, inner: LocalPythonExecutor) -> None:
        self._agent, self._inner = agent, inner
        self._now: Holder | None = None

    @property
    def state(self) -> Any:
        """What the code left behind; smolagents shows what it has printed."""
        return self._inner.state

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Give the code its variables."""
        self._inner.send_variables(variables)

    def send_tools(self, tools: dict[str, Any]) -> None:
        """Give the code its tools, each of which asks first."""
        self._inner.send_tools(
            {
                name: tool if type(tool) is FinalAnswerTool else self._asking(name, tool)
                for name, tool in tools.items()
            }
        )

    def __call__(self, code_action: str) -> CodeOutput:
        """Decide the code, and run it."""
        under = self._now = _under(self._agent)
        try:
            begun = begin(CODE, {"code": code_action}, held=under)
        except Refused as refused:
            raise InterpreterError(refusal_text(refused)) from None
        with begun, _at_work(self._agent, under):
            return self._inner(cast(str, begun.arguments["code"]))

    def _asking(self, name: str, tool: Any) -> Callable[..., Any]:
        # The code may run in a thread of its own, which has no block.
        names = ["task"] if isinstance(tool, MultiStepAgent) else [*tool.inputs]

        def call(*args: Any, **kwargs: Any) -> Any:
            under = self._now
            if under is None or len(args) > len(names):
                raise InterpreterError(f"`{name}` cannot be called like this")
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            try:
                begun = begin(_called(name, tool, under), given, held=under)
            except Refused as refused:
                raise InterpreterError(refusal_text(refused)) from None
            with begun, _at_work(self._agent, under):
                begun.output = tool(**begun.arguments)
            return begun.output

        return call


def _called(name: str, tool: object, under: Holder) -> str:
    """
    Return the name that a call is decided by.

    Raises:
        Refused: an agent that is not held.
    """
    if isinstance(tool, MultiStepAgent) and not isinstance(tool, _Held):
        why = f"the agent `{name}` is not held: make it a `Held{type(tool).__name__}`"
        raise not_read(under, name, why, call_id="")
    return name


def _under(agent: HeldToolCallingAgent | HeldCodeAgent) -> Holder:
    """Return what an agent works under."""
    held, caller = current(), _working.get()
    if caller is agent:
        return held
    name = agent.name or "agent"
    if caller is None:
        return child(held, name, agent.scope) if agent.scope else held
    return child(held, name, agent.scope, tools=sorted(_reach(agent)))


def _reach(agent: MultiStepAgent) -> set[str]:
    """Return the names of all tools that an agent, and whom it manages, may ever call."""
    names = {*agent.tools, *agent.managed_agents}
    if isinstance(agent, CodeAgent):
        names.add(CODE)
    return names.union(*(_reach(each) for each in agent.managed_agents.values()))


_Held: Final = (HeldToolCallingAgent, HeldCodeAgent)


@contextmanager
def _at_work(agent: object, under: Holder) -> Iterator[None]:
    token = _working.set(agent)
    try:
        with under.block():
            yield
    finally:
        _working.reset(token)
