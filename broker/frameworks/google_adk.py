"""
Google ADK: a plugin that has every tool call of a runner's agents decided before it runs.

A plugin's ``before_tool_callback`` comes first, before the agent's own callbacks and before a
person is asked to confirm: there the call is decided, and a refusal is what the model gets for a
result. What comes after may change the arguments, so the tool itself is guarded as well: it runs
with a copy of what was decided, and arguments that were changed are decided anew.

Whose ticket: the agent that a runner was given works under the ticket of the block that the plugin
was made in. An agent below it in the tree, and one behind an ``AgentTool``, works under a narrower
one: the tools of its own definition, those of whom it can reach, and what ``scopes`` says of it. A
transfer is no call; it only changes whose ticket the next calls are decided under.

Decided here: all of that, and what cannot be held. Not decided here: what passes.

Rules a maintainer keeps: whatever breaks is a refusal that the model reads; what runs at the
provider, or as code that a model wrote, or under no plugin, cannot be stopped here, so an agent
that has it does not run.
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from broker.errors import BrokerError, InputError, Refused
from broker.frameworks.calling import Begun, abegin, child, not_read, refusal_text, sdk_missing
from broker.frameworks.holding import Holder, current

try:
    from google.adk.agents import BaseAgent, LlmAgent
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models import LlmRequest
    from google.adk.plugins import BasePlugin
    from google.adk.tools import AgentTool, BaseTool, ToolContext
    from google.genai import types
except ImportError as error:
    raise sdk_missing("google-adk") from error

__all__ = ["HeldPlugin"]

Answer = dict[str, Any]
Run = Callable[..., Awaitable[Any]]

_inside: ContextVar[Holder | None] = ContextVar("broker_adk_inside", default=None)
_allowed: Final[WeakKeyDictionary[ToolContext, _Allowed]] = WeakKeyDictionary()
_TRANSFER: Final = "transfer_to_agent"


@dataclass(frozen=True, slots=True)
class _Allowed:
    """A call that was allowed, and the ticket of the agent behind it, if it is one's."""

    begun: Begun
    delegate: Holder | None


@dataclass(frozen=True, slots=True)
class _Guard:
    """Stands in the place of a tool's ``run_async``: what was decided is what runs."""

    tool: BaseTool
    run: Run

    async def __call__(self, *, args: Answer, tool_context: ToolContext) -> Any:
        allowed = _allowed.pop(tool_context, None)
        if allowed is None:
            return await self.run(args=args, tool_context=tool_context)  # a runner without us
        begun = allowed.begun
        if args != begun.arguments:
            await to_thread(begun.end, ok=False)
            try:
                begun = await abegin(self.tool.name, args, held=begun.held, call_id=begun.call_id)
            except Refused as refused:
                return {"error": refusal_text(refused)}
        token = None if allowed.delegate is None else _inside.set(allowed.delegate)
        try:
            async with begun:
                begun.output = await self.run(args=begun.arguments, tool_context=tool_context)
        finally:
            if token is not None:
                _inside.reset(token)
        return begun.output


class HeldPlugin(BasePlugin):
    """
    Holds the agents of a ``Runner`` or an ``App`` to the ticket of the block it is made in.

    Args:
        scopes: for the name of an agent below the first one, ``KEY=VALUE`` texts that narrow it.

    Raises:
        InputError: no session is open here.
    """

    def __init__(self, *, scopes: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__("broker")
        self._held = current()
        self._scopes = {name: tuple(texts) for name, texts in (scopes or {}).items()}

    async def before_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> types.Content | None:
        """
        Look at an agent before it runs.

        Raises:
            InputError: it runs code that its model writes, which no call tells of.
        """
        if getattr(agent, "code_executor", None) is not None:
            raise InputError(
                f"the agent `{agent.name}` runs code that its model writes, where no call can be "
                "stopped: leave out its `code_executor`, and give it a tool that runs code"
            )
        return None

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """
        Look at what a model is offered.

        Raises:
            InputError: a tool that runs at the provider.
        """
        for tool in llm_request.config.tools or ():
            if not isinstance(tool, types.Tool):
                raise InputError(f"a `{type(tool).__name__}` among the tools cannot be held")
            hosted = set(tool.model_dump(exclude_none=True)) - {"function_declarations"}
            if hosted:
                raise InputError(
                    f"the tool `{min(hosted)}` runs where it cannot be stopped: give the agent a "
                    "function that does the same"
                )

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: Answer, tool_context: ToolContext
    ) -> Answer | None:
        """Decide a call: a refusal is its result."""
        if type(tool) is BaseTool or tool.name == _TRANSFER:
            return None  # there is no such tool, or none that does anything
        guard = tool.__dict__.get("run_async")
        if not isinstance(guard, _Guard):
            tool.__dict__["run_async"] = _Guard(tool, tool.run_async)
        try:
            under = await self._works_under(tool_context)
            if isinstance(tool, AgentTool) and not tool.include_plugins:
                why = f"the agent behind `{tool.name}` runs without plugins, so nothing holds it"
                raise not_read(under, tool.name, why, call_id=tool_context.function_call_id or "")
            begun = await abegin(
                tool.name, tool_args, held=under, call_id=tool_context.function_call_id or ""
            )
            agent = tool.agent if isinstance(tool, AgentTool) else None
            delegate = None if agent is None else await self._child(under, agent)
        except Refused as refused:
            return {"error": refusal_text(refused)}
        except BrokerError as error:
            return {"error": f"refused: {error}"}
        _allowed[tool_context] = _Allowed(begun, delegate)
        return None

    async def _works_under(self, context: ToolContext) -> Holder:
        """Return the ticket of the agent that makes a call."""
        line = []
        agent: BaseAgent | None = context.get_invocation_context().agent
        while agent is not None:
            line.append(agent)
            agent = agent.parent_agent
        held = _inside.get() or self._held
        for below in reversed(line[:-1]):
            held = await self._child(held, below)
        return held

    async def _child(self, held: Holder, agent: BaseAgent) -> Holder:
        names = _reach(agent)
        tools = None if names is None else sorted(names)
        scope = self._scopes.get(agent.name, ())
        return await to_thread(child, held, agent.name, scope, tools=tools)


def _reach(agent: BaseAgent, seen: frozenset[str] = frozenset()) -> set[str] | None:
    """Return all tools that an agent, and whom it can reach, may ever call; None if not known."""
    names: set[str] = set()
    inside = [*agent.sub_agents]
    for tool in agent.tools if isinstance(agent, LlmAgent) else ():
        if isinstance(tool, BaseTool):
            names.add(tool.name)
            if isinstance(tool, AgentTool):
                inside.append(tool.agent)
        elif callable(tool) and hasattr(tool, "__name__"):
            names.add(tool.__name__)
        else:
            return None  # a toolset: what is in it is known only once it runs
    for each in inside:
        if each.name not in seen:
            found = _reach(each, seen | {agent.name})
            if found is None:
                return None
            names |= found
    return names
