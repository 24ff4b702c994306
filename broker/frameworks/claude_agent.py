"""
Claude Agent SDK: every tool call of its agent, in its process or in Claude Code's, is decided.

The SDK starts Claude Code and answers its hooks in this process, so there is no hook client and no
socket here: the callbacks ask the session directly, with what reads Claude Code's own payloads
(``broker.agents.claude.hook``) and joins its subagents to tickets (``broker.agents.children``).

Decided here: how the callbacks get into a caller's options, and what in those options would free
the agent. Not decided here: what a payload says, whose call it is, what passes.

Held to: ``PreToolUse``, and ``PreSkillShellCommand`` before a command that a skill's text runs by
itself, both with ``on_failure="block"``, so a callback that breaks or hangs refuses; a
Claude Code too old for that does not start. Arguments that another hook or ``can_use_tool`` puts in
the place of those that were decided are decided as well. Settings of the workspace are not loaded:
a hook in them could rewrite a call after it was judged.

Rules a maintainer keeps: an allow says nothing, so that Claude Code's own rules still apply; what
comes of an error is a refusal; the caller's options are not changed, a copy is returned.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from broker.agents.children import Children
from broker.agents.claude.hook import CALLS, TELLS, ClaudeDialect
from broker.agents.claude.launch import ClaudeLaunch, typed_settings, with_rules
from broker.agents.claude.settings import config_folder, workspace_rules
from broker.agents.claude.subagents import spelled
from broker.agents.client import TIMEOUT_S
from broker.agents.definitions import Definitions, Listing
from broker.agents.hooks import AgentHook, HookCall, spelled_server
from broker.boundary import contained
from broker.errors import InputError
from broker.frameworks.asked import AskedHolder
from broker.frameworks.calling import sdk_missing
from broker.frameworks.holding import current
from broker.service.protocol import HookRefusal, write_object
from broker.session import Session

try:
    from anyio import to_thread
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, PermissionResultDeny
except ImportError as error:
    raise sdk_missing("claude-agent") from error

__all__ = ["hold"]

_MEMORY: Final = "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD"
Payload = Mapping[str, Any]
Answer = dict[str, Any]
Callback = Callable[[Any, "str | None", Any], Awaitable[Any]]


def hold(
    options: ClaudeAgentOptions | None = None,
    *,
    own: Collection[str] = (),
    scopes: Mapping[str, Sequence[str]] | None = None,
) -> ClaudeAgentOptions:
    """
    Return options for ``query`` or ``ClaudeSDKClient``, whose agent is held to this block's ticket.

    Args:
        options: the caller's own.
        own: names of in-process MCP servers among the options, whose tools scopes and catalogs
            call by their bare names (``read``, not ``mcp__notes__read``).
        scopes: for a kind of subagent, ``KEY=VALUE`` texts that its ticket is narrowed by, beside
            the tools that its definition lists and the ``scope:`` lines of its task.

    Raises:
        InputError: no session is open, ``own`` names a server that is
            not in this process, or the options load settings of the workspace.
        LaunchError: the options or the environment keep hooks from running.
    """
    given = options or ClaudeAgentOptions()
    _check_own(given, own)
    environ = {**os.environ, **given.env}
    folder = Path(given.cwd or os.getcwd())
    changed = _without_workspace(given, environ, folder)
    listed = _definitions(given, environ, own).listed
    dialect = _Dialect(frozenset(map(spelled_server, own)), scopes or {})
    calls = _Calls(
        AgentHook(dialect, children=Children(listed)), cast(Session, AskedHolder(current()))
    )
    asking = HookMatcher(hooks=[calls.before], timeout=TIMEOUT_S, on_failure="block")
    telling = HookMatcher(hooks=[calls.after], timeout=TIMEOUT_S)
    hooks: dict[Any, list[HookMatcher]] = dict(given.hooks or {})
    for event in CALLS:
        theirs = [_deciding(matcher, calls) for matcher in hooks.get(event, ())]
        hooks[event] = [asking, *theirs]
    for event in TELLS:
        hooks[event] = [telling, *hooks.get(event, ())]
    asks = given.can_use_tool
    return replace(
        changed, hooks=hooks, can_use_tool=None if asks is None else calls.permitting(asks)
    )


def _check_own(given: ClaudeAgentOptions, own: Collection[str]) -> None:
    servers = given.mcp_servers if isinstance(given.mcp_servers, dict) else {}
    for name in own:
        server = servers.get(name)
        if not isinstance(server, dict) or server.get("type") != "sdk":
            raise InputError(
                f"`{name}` is no MCP server in this process: leave it out of `own`, and scopes "
                f"call its tools `mcp__{spelled_server(name)}__…`"
            )


def _without_workspace(
    given: ClaudeAgentOptions, environ: Mapping[str, str], folder: Path
) -> ClaudeAgentOptions:
    """Return the options without the workspace's settings, but with its refusals and its words."""
    sources = given.setting_sources
    if sources is not None and not set(sources) <= {"user"}:
        raise InputError(
            "`setting_sources`: leave out project and local settings, because a hook in them "
            "could rewrite a call after it was decided"
        )
    typed = [] if given.settings is None else ["--settings", given.settings]
    flags = [f"--{name}" for name in given.extra_args]
    ClaudeLaunch().check(["claude", *flags, *typed], environ)
    if sources is not None:
        return given
    settings = with_rules(typed_settings(typed), workspace_rules(folder))
    return replace(
        given,
        setting_sources=["user"],
        settings=json.dumps(settings) if settings else None,
        # Without its settings the workspace's CLAUDE.md is left out too. It is only text.
        add_dirs=[*given.add_dirs, folder],
        env={_MEMORY: "1", **given.env},
    )


def _definitions(
    given: ClaudeAgentOptions, environ: Mapping[str, str], own: Collection[str]
) -> Definitions:
    """Return what is said of the kinds of subagents: in the options, and in the user's folder."""
    prefixes = tuple(f"mcp__{spelled_server(name)}__" for name in own)

    def pattern(tool: str) -> tuple[str, ...]:
        for prefix in prefixes:
            if tool.startswith(prefix):
                return (tool.removeprefix(prefix),)
        return spelled(tool)

    more = {
        kind: Listing(
            None if said.tools is None or "*" in said.tools else tuple(said.tools),
            tuple(said.disallowedTools or ()),
        )
        for kind, said in (given.agents or {}).items()
    }
    return Definitions((config_folder(environ) / "agents",), pattern, more, deep=True)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Claude Code's payloads, with the caller's own tools by their bare names."""

    own: frozenset[str]
    scopes: Mapping[str, Sequence[str]]
    claude: ClaudeDialect = field(default_factory=ClaudeDialect)

    def read(self, payload: bytes) -> HookCall:
        call = self.claude.read(payload)
        if call.server is not None and call.server in self.own:
            call = replace(call, tool=call.tool.removeprefix(f"mcp__{call.server}__"), server=None)
        if call.spawn is not None:
            scope = (*self.scopes.get(call.spawn.kind, ()), *call.spawn.scope)
            call = replace(call, spawn=replace(call.spawn, scope=scope))
        return call

    def deny(self, event: str, reason: str) -> HookRefusal:
        return self.claude.deny(event, reason)


@dataclass(frozen=True, slots=True)
class _Calls:
    """The callbacks of one set of options."""

    hook: AgentHook
    asked: Session
    seen: dict[str, Payload] = field(default_factory=dict)

    async def before(self, given: Payload, call: str | None, context: object) -> Answer:
        """Answer before a call: nothing where it is allowed."""
        answer = await self.decided(given)
        if not answer:
            self.seen[str(given.get("tool_use_id"))] = {**given, "tool_input": None}
        return answer

    async def after(self, given: Payload, call: str | None, context: object) -> Answer:
        """Take in how a call ended, or what became of a subagent. It never keeps anything back."""
        self.seen.pop(str(given.get("tool_use_id")), None)
        await self.decided(given)
        return {}

    async def decided(self, given: Payload) -> Answer:
        """Have a payload decided, in a thread: it waits for the disk."""
        return await to_thread.run_sync(self._answer, dict(given))

    def _answer(self, given: dict[str, object]) -> Answer:
        refusal = contained(
            lambda: self.hook.answer(write_object(given), self.asked),
            lambda error: self.hook.refusal(
                f"the call could not be decided ({type(error).__name__}: {error})"
            ),
        )
        if refusal is None:
            return {}
        if not refusal.stdout:  # a command that a skill's text runs
            return {"decision": "block", "reason": refusal.stderr.decode()}
        return cast(Answer, json.loads(refusal.stdout))

    def permitting(self, asks: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return a ``can_use_tool`` that decides the arguments which the caller's own gives."""

        async def asked(tool: str, given: dict[str, Any], context: Any) -> Any:
            answer = await asks(tool, given, context)
            changed = getattr(answer, "updated_input", None)
            if changed is None or changed == given:
                return answer
            before = self.seen.get(str(context.tool_use_id))
            why = "which call this is cannot be told"
            if before is not None and before["tool_name"] == tool:
                refused = await self.decided({**before, "tool_input": changed})
                if not refused:
                    return answer
                why = refused["hookSpecificOutput"]["permissionDecisionReason"]
            return PermissionResultDeny(message=why)

        return asked


def _deciding(matcher: HookMatcher, calls: _Calls) -> HookMatcher:
    """Return a caller's own hooks, whose changes to the arguments are decided too."""

    def around(callback: Callback) -> Callback:
        async def asked(given: Any, call: str | None, context: Any) -> Any:
            answer = await callback(given, call, context)
            said = answer.get("hookSpecificOutput") if isinstance(answer, dict) else None
            changed = said.get("updatedInput") if isinstance(said, dict) else None
            if changed is None:
                return answer
            return await calls.decided({**given, "tool_input": changed}) or answer

        return asked

    return replace(matcher, hooks=[around(callback) for callback in matcher.hooks])
