"""
A provider that follows a script, and the model that asks it: real requests, without a network.

Decided here: how a script is told over the Messages API, and how a conversation is kept. A request
holds the whole conversation, so the provider remembers nothing: the lane is named in the first
text of its user, and the turn is how often it has answered.

Decided here too: that a model call which the provider had no room for is tried again at once, a
few times; each attempt is a request of its own, as with an official client.

Rules a maintainer keeps: the bytes of a request are the same for the same script; the provider
answers what the script says and nothing about the world.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

try:
    import httpx2
except ImportError as error:
    raise ImportError(
        "`broker.testing` needs an extra: install `capability-broker[harness]`"
    ) from error

from broker.errors import BrokerError
from broker.harness.items import Tool
from broker.harness.outcome import Result
from broker.harness.script import MAIN, Script, ToolCall, Turn
from broker.records.recorder import Recorder, on_branch
from broker.records.transport import recording_transport

URL: Final = "https://provider.test/v1/messages"
MODEL: Final = "scripted-1"
ATTEMPTS: Final = 4
_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504, 529})
_ERRORS: Final = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}


class ProviderError(BrokerError):
    """The provider did not answer a model call."""

    code = "provider"


# ── the provider ──


class ScriptedProvider(httpx2.BaseTransport):
    """
    Answers requests as a script says; the first ones with errors, if it was given any.

    ``received`` holds the body of every request, as it arrived.
    """

    def __init__(self, script: Script, errors: Sequence[int] = ()) -> None:
        self.script = script
        self.received: list[bytes] = []
        self._errors = list(errors)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer one request."""
        content = request.read()
        self.received.append(content)
        if self._errors:
            status = self._errors.pop(0)
            kind = _ERRORS.get(status, "api_error")
            error = {"type": kind, "message": f"scripted status {status}"}
            return _response(status, {"type": "error", "error": error})
        messages = json.loads(content)["messages"]
        lane = _lane(self.script, str(messages[0]["content"]))
        turn = sum(message["role"] == "assistant" for message in messages)
        turns = self.script.lanes[lane]
        said = turns[turn] if turn < len(turns) else Turn()
        return _response(200, _message(said, f"{lane}-{turn}", last=turn + 1 >= len(turns)))


def _lane(script: Script, text: str) -> str:
    """Return the lane that a prompt names, as the script itself finds it."""
    return next((lane for lane in script.lanes if f"[[lane:{lane}]]" in text), MAIN)


def _message(turn: Turn, name: str, *, last: bool) -> dict[str, object]:
    content: list[dict[str, object]] = [{"type": "text", "text": turn.text}] if turn.text else []
    content += [
        {"type": "tool_use", "id": f"toolu_{name}-{at}", "name": c.tool, "input": dict(c.arguments)}
        for at, c in enumerate(turn.calls)
    ]
    reason = "tool_use" if turn.calls else "end_turn" if last else "pause_turn"
    return {
        "id": f"msg_{name}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _response(status: int, value: object) -> httpx2.Response:
    return httpx2.Response(status, json=value)


# ── the model that asks it ──


@dataclass(frozen=True, slots=True)
class WireModels:
    """Every model of a run, asked through one recorded connection."""

    client: httpx2.Client
    tools: tuple[Mapping[str, object], ...]
    expected: Script

    @classmethod
    def over(
        cls,
        provider: httpx2.BaseTransport,
        recorder: Recorder,
        tools: Sequence[Tool],
        script: Script,
    ) -> WireModels:
        """Return the models behind a transport; what passes is recorded."""
        told = tuple(
            {"name": tool.name, "description": tool.about, "input_schema": dict(tool.schema)}
            for tool in tools
        )
        client = httpx2.Client(transport=recording_transport(provider, recorder))
        return cls(client, told, script)

    def model(self, prompt: str | None = None, actor: str = MAIN) -> WireModel:
        """
        Return the model that answers a prompt; without one, the first agent's.

        Raises:
            InputError: the prompt names no lane of the script.
        """
        self.expected.model(prompt)
        lane = MAIN if prompt is None else _lane(self.expected, prompt)
        first = prompt if prompt is not None else "begin"
        return WireModel(self, lane, [{"role": "user", "content": first}])


@dataclass(slots=True)
class WireModel:
    """One conversation."""

    models: WireModels
    branch: str
    messages: list[dict[str, Any]]
    _asked: list[str] = field(default_factory=list)
    _turn: int = 0
    _over: bool = False

    def turn(self, results: Sequence[Result]) -> Turn | None:
        """
        Tell the results, ask, and return what the model says; None when it has ended.

        Raises:
            ProviderError: it did not answer, and trying again did not help.
        """
        if self._over and not results:
            return None
        if self.messages[-1]["role"] == "assistant":
            self.messages.append(
                {"role": "user", "content": self._told([result.text for result in results])}
            )
        message = self._asked_for()
        content = message["content"]
        self.messages.append({"role": "assistant", "content": content})
        self._over = message["stop_reason"] == "end_turn"
        said = "\n".join(part["text"] for part in content if part["type"] == "text")
        uses = [part for part in content if part["type"] == "tool_use"]
        self._asked = [use["id"] for use in uses]
        turn = self._expecting(said, uses)
        self._turn += 1
        return turn if content else None

    def _told(self, results: Sequence[str]) -> object:
        if not self._asked:
            return "\n".join(results) or "go on"
        return [
            {"type": "tool_result", "tool_use_id": name, "content": text}
            for name, text in zip(self._asked, results, strict=True)
        ]

    def _expecting(self, said: str, uses: Sequence[Mapping[str, Any]]) -> Turn:
        """Return a turn; what the script expects of its calls never went over the wire."""
        lane = self.models.expected.lanes[self.branch]
        expected = lane[self._turn].calls if self._turn < len(lane) else ()
        calls = tuple(
            ToolCall(use["name"], use["input"], expected[at].expect if at < len(expected) else "")
            for at, use in enumerate(uses)
        )
        return Turn(said, calls)

    def _asked_for(self) -> dict[str, Any]:
        body = {
            "model": MODEL,
            "max_tokens": 1024,
            "messages": self.messages,
            "tools": list(self.models.tools),
        }
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        with on_branch(self.branch):
            for _ in range(ATTEMPTS):
                answer = self.models.client.post(URL, content=content)
                if answer.status_code not in _AGAIN:
                    break
        if answer.status_code != 200:
            raise ProviderError(f"the provider answered {answer.status_code}")
        found: dict[str, Any] = answer.json()
        return found
