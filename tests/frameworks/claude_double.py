"""
A double of Claude Code's side of the control protocol, with a scripted model behind it.

It does what the real one was seen to do (``claude_real`` drives that): it asks the
hooks before a call, calls the tools of in-process servers, and tells how a call ended. What it
says to its model is kept in ``told``.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from claude_agent_sdk import McpSdkServerConfig, Transport, create_sdk_mcp_server, tool

from broker.testing.stage import SAID, SCOPE, Ask, Helper, Stage

SERVER = "suite"
SPAWNING = ("tools=read,note,count,fail,Agent", *SCOPE[1:])
_SESSION = "00000000-0000-4000-8000-000000000000"


class Double(Transport):
    """One started Claude Code, whose model says ``turns`` and calls tools of one server."""

    def __init__(self, turns: Sequence[Sequence[Ask]], helper: Helper | None = None) -> None:
        self.told: dict[str, str] = {}
        self.initialized: Mapping[str, Any] = {}
        self._turns, self._helper, self._cwd = turns, helper, os.getcwd()
        self._out: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._run: asyncio.Task[None] | None = None
        self._rewritten: dict[str, Any] = {}
        self._n = 0

    # ── what the SDK does with it ──

    async def connect(self) -> None:
        """Do nothing: nobody is to be started."""

    def is_ready(self) -> bool:
        """Whether it takes messages."""
        return True

    async def end_input(self) -> None:
        """Do nothing: a run goes to its end."""

    async def close(self) -> None:
        """End the run, wherever it is."""
        if self._run is not None:
            self._run.cancel()
            await asyncio.wait([self._run])
        await self._out.put(None)

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Yield what it says."""
        while (message := await self._out.get()) is not None:
            yield message

    async def write(self, data: str) -> None:
        """Take in what the SDK says."""
        message = json.loads(data)
        if message["type"] == "control_request":
            self.initialized = message["request"]
            answer = {"hook_on_failure_supported": True, "hooks_applied": True}
            response = {
                "subtype": "success", "request_id": message["request_id"], "response": answer
            }  # fmt: skip
            await self._out.put({"type": "control_response", "response": response})
        elif message["type"] == "control_response":
            found = message["response"]
            future = self._waiting.pop(found["request_id"], None)
            if future is not None and not future.done():
                future.set_result(found)
        elif message["type"] == "user":
            self._run = asyncio.ensure_future(self._play())

    # ── what it does itself ──

    async def _play(self) -> None:
        tools = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": _CLIENT}
        await self._mcp("initialize", tools)
        await self._ask({"subtype": "mcp_message", "server_name": SERVER, "message": _READY})
        if self._helper is not None:
            await self._delegate(self._helper)
        await self._say(self._turns, {})
        await self._message("assistant", [{"type": "text", "text": SAID}])
        done = {"subtype": "success", "is_error": False, "num_turns": 1, "result": SAID}
        spent = {"duration_ms": 1, "duration_api_ms": 1, "session_id": _SESSION}
        await self._out.put({"type": "result", **done, **spent})
        await self._out.put(None)

    async def _say(self, turns: Sequence[Sequence[Ask]], who: Mapping[str, str]) -> None:
        for turn in turns:
            calls = [_block(ask) for ask in turn]
            await self._message("assistant", calls)
            told = await asyncio.gather(*(self._call(ask, who) for ask in turn))
            await self._message("user", [_result(a.call_id, text) for a, text in told])

    async def _call(self, ask: Ask, who: Mapping[str, str]) -> tuple[Ask, str]:
        given = ask.arguments
        try:
            given = json.loads(given) if isinstance(given, str) else given
        except ValueError:
            given = None
        if not isinstance(given, dict):
            self.told[ask.call_id] = "InputValidationError"
            return ask, self.told[ask.call_id]
        about = {"tool_name": f"mcp__{SERVER}__{ask.tool}", "tool_use_id": ask.call_id}
        about |= {"tool_input": given, "mcp_server": {"name": SERVER, "source": "sdk"}, **who}
        refused = await self.hooked("PreToolUse", about)
        if refused is None:
            given = self._rewritten.get(ask.call_id, given)
            answer = await self._mcp("tools/call", {"name": ask.tool, "arguments": given})
            result = answer.get("result", {"isError": True, "content": [_text("Unknown tool")]})
            text = "".join(part["text"] for part in result["content"])
            event = "PostToolUseFailure" if result.get("isError") else "PostToolUse"
            told = {"error": text} if result.get("isError") else {"tool_response": text}
            await self.hooked(event, {**about, **told})
        else:
            text = f"PreToolUse:{about['tool_name']} hook error: {refused}"
        self.told[ask.call_id] = text
        return ask, text

    async def _delegate(self, helper: Helper) -> None:
        given = {"subagent_type": helper.name, "prompt": "go", "description": "help"}
        about = {"tool_name": "Agent", "tool_use_id": "helper", "tool_input": given}
        refused = await self.hooked("PreToolUse", about)
        if refused is not None:
            self.told["helper"] = refused
            return
        who = {"agent_id": "a1", "agent_type": helper.name}
        await self.hooked("SubagentStart", who)
        await self._say(helper.turns, who)
        await self.hooked("SubagentStop", who)
        await self.hooked("PostToolUse", {**about, "tool_response": {"agentId": "a1"}})

    async def hooked(self, event: str, about: Mapping[str, Any]) -> str | None:
        """Ask the hooks of an event, and return why the call is kept from running, if it is."""
        given = {"hook_event_name": event, "session_id": _SESSION, "cwd": self._cwd, **about}
        reasons = []
        for matcher in (self.initialized.get("hooks") or {}).get(event, []):
            for name in matcher["hookCallbackIds"]:
                asked = {"subtype": "hook_callback", "callback_id": name, "input": given}
                found = await self._ask({**asked, "tool_use_id": about.get("tool_use_id")})
                if found["subtype"] == "error":
                    blocks = matcher.get("onFailure") == "block"
                    reasons += [found["error"]] if blocks else []
                    continue
                said = found["response"].get("hookSpecificOutput", {})
                if said.get("permissionDecision") == "deny":
                    reasons.append(said["permissionDecisionReason"])
                if "updatedInput" in said:
                    self._rewritten[about["tool_use_id"]] = said["updatedInput"]
        return reasons[0] if reasons else None

    async def _mcp(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._n += 1
        message = {"jsonrpc": "2.0", "id": self._n, "method": method, "params": params}
        asked = {"subtype": "mcp_message", "server_name": SERVER, "message": message}
        found = await self._ask(asked)
        return dict(found.get("response", {}).get("mcp_response", {}))

    async def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._n += 1
        name = f"cli-{self._n}"
        future = self._waiting[name] = asyncio.get_running_loop().create_future()
        await self._out.put({"type": "control_request", "request_id": name, "request": request})
        return await future

    async def _message(self, who: str, content: Sequence[Mapping[str, Any]]) -> None:
        message = {"role": who, "content": list(content), "model": "scripted"}
        await self._out.put({"type": who, "message": message, "session_id": _SESSION})


_CLIENT = {"name": "claude-code", "version": "2"}
_READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _block(ask: Ask) -> dict[str, Any]:
    given = ask.arguments if isinstance(ask.arguments, dict) else {}
    name = f"mcp__{SERVER}__{ask.tool}"
    return {"type": "tool_use", "id": ask.call_id, "name": name, "input": given}


def _result(call: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": text}


def server(stage: Stage) -> McpSdkServerConfig:
    """Return the stage's tools as a server in this process."""

    def made(function: Callable[..., str]) -> Any:
        named = function.__annotations__
        schema = {name: {"path": str, "text": str}.get(name, Any) for name in named}
        kinds = {"path": "string", "text": "string", "command": "string", "items": "array"}
        properties = {name: {"type": kinds[name]} for name in schema if name != "return"}
        wanted = {"type": "object", "properties": properties, "required": [*properties]}

        async def run(given: dict[str, Any]) -> dict[str, Any]:
            # In a thread, as a tool that takes its time does.
            context = contextvars.copy_context()
            text = await asyncio.to_thread(context.run, function, **given)
            return {"content": [{"type": "text", "text": text}]}

        return tool(function.__name__, function.__doc__ or "", wanted)(run)

    return create_sdk_mcp_server(SERVER, tools=[made(each) for each in stage.tools()])
