"""
A model of another provider in the place of the one that an agent asks.

Decided here: which protocol is asked in the place of which, under whose key, and what an agent gets
where it asks for something else than an answer. Not decided here: how the protocols are read and
spelled (its neighbours), when a request is live (``broker.replay.serving``).

``PROVIDER/MODEL`` names it, as for ``broker agent``: the providers that are known, and those that a
person configured. A name of another form is a model of the agent's own provider.

Rules a maintainer keeps: nothing of the agent's headers goes to another provider, since its keys
are among them; nothing is asked for what cannot be carried whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from broker.agentloop.providers import ModelChoice, chosen_model, endpoints
from broker.capture.upstream import ModelUpstream
from broker.capture.wires.reading import wire_of
from broker.config import ModelSetting
from broker.errors import InputError
from broker.mcp.sse import EventReader
from broker.plugins import with_added
from broker.replay.translation import anthropic, chat, responses, responsesaid
from broker.replay.translation.talk import (
    AnswerBroke,
    AnswerEnded,
    AnswerHearing,
    AnswerPiece,
    AnswerTelling,
    ModelQuestion,
    ToolNames,
)

_SPEAKS: Final = {"messages": anthropic.API, "chat": chat.API, "responses": responses.API}
_PATHS: Final = {
    anthropic.API: "/v1/messages",
    chat.API: "/chat/completions",
    responses.API: "/responses",
}
_READ: Final = {
    anthropic.API: anthropic.read_question,
    chat.API: chat.read_question,
    responses.API: responses.read_question,
}
_WRITE: Final = {
    anthropic.API: anthropic.write_question,
    chat.API: chat.write_question,
    responses.API: responses.write_question,
}
_HEAR: Final[Mapping[str, type[AnswerHearing]]] = {
    anthropic.API: anthropic.MessagesHearing,
    chat.API: chat.CompletionsHearing,
    responses.API: responsesaid.ResponsesHearing,
}
_VERSION: Final = "2023-06-01"  # of Anthropic Messages
_EVENTS: Final = "text/event-stream"
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class OtherModel:
    """One model: how it is spoken to, by which name, where, and under which key."""

    api: str
    model: str
    upstream: ModelUpstream
    key: str = field(default="", repr=False)

    @property
    def fields(self) -> dict[str, str]:
        """The headers of a request to it."""
        found = {"content-type": _JSON, "accept-encoding": "identity"}
        if self.api == anthropic.API:
            return {**found, "anthropic-version": _VERSION, "x-api-key": self.key}
        return found | ({"authorization": f"Bearer {self.key}"} if self.key else {})

    @property
    def path(self) -> str:
        """What it is asked for."""
        return self.upstream.base + _PATHS[self.api]


def other_model(
    name: str, configured: tuple[ModelSetting, ...], environ: Mapping[str, str]
) -> OtherModel | None:
    """
    Return the model that a name means, or None for one of the agent's own provider.

    Args:
        name: as typed behind ``--model``.
        configured: the servers of models that the person configured.
        environ: where keys are.

    Raises:
        InputError: the provider is named, and no model of it.
        CapabilityError: its key is missing.

    >>> other_model("claude-haiku-4-5", (), {}) is None
    True
    >>> other_model("openai/gpt-5", (), {"OPENAI_API_KEY": "k"}).path
    '/v1/responses'
    """
    found = with_added(endpoints(configured, environ), name if "/" in name else "")
    provider, slash, _ = name.partition("/")
    if not slash or provider not in {each.name for each in found}:
        return None
    choice: ModelChoice = chosen_model(found, name, environ)
    secret = choice.secret(environ)
    upstream = ModelUpstream.read(provider, choice.endpoint.url)
    key = "" if secret is None else secret.reveal()
    return OtherModel(_SPEAKS[choice.endpoint.api], choice.model, upstream, key)


class TranslatedRequest:
    """
    One request of an agent, as another model is asked it.

    Args:
        other: the model.
        path: what the agent asks for.
        content: the body of its request.

    Raises:
        InputError: it holds what cannot be carried, or asks for something else than an answer.
    """

    def __init__(self, other: OtherModel, path: str, content: bytes) -> None:
        wire = wire_of("POST", path.partition("?")[0])
        if wire is None or wire.api not in _READ:
            raise InputError(
                f"`{path.partition('?')[0]}` is not asked of a model of another provider"
            )
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise InputError("the request is no JSON object")
        self.api = wire.api
        self._asked_model = str(body.get("model", ""))
        self.question: ModelQuestion = _READ[wire.api](body)
        self.names = ToolNames(self.question.tools)
        sent = _WRITE[other.api](self.question, other.model, self.names)
        self.body = json.dumps(sent).encode()
        self._hearing = _HEAR[other.api]()
        self._telling = self._new_telling()
        self._reader = EventReader()
        self._over = False

    def _new_telling(self) -> AnswerTelling:
        if self.api == anthropic.API:
            return anthropic.MessagesTelling(self._asked_model, self.names)
        if self.api == chat.API:
            return chat.CompletionsTelling(
                self._asked_model, self.names, counted=self.question.counted
            )
        return responsesaid.ResponsesTelling(self._asked_model, self.names)

    @property
    def media_type(self) -> str:
        """What the agent's answer is."""
        return _EVENTS if self.question.stream else _JSON

    def streamed(self, chunk: bytes) -> bytes:
        """
        Return what is sent to the agent for more bytes of a stream.

        Raises:
            LimitError: an event is too long.
        """
        return b"".join(
            self._told(piece)
            for event in self._reader.feed(chunk)
            for piece in self._hearing.event(_event(event.data))
        )

    def _told(self, piece: AnswerPiece) -> bytes:
        if self._over:
            return b""
        self._over = isinstance(piece, AnswerBroke | AnswerEnded)
        return self._telling.tell(piece)

    def ended(self) -> bytes:
        """Return what is sent where a stream ended; it says so, if it came to no end of its own."""
        rest = b"".join(map(self._told, self._hearing.event({"done": True})))
        if self._over:
            return rest
        return self._told(AnswerBroke("api_error", "the stream ended before its last event"))

    def document(self, content: bytes) -> bytes:
        """Return a whole answer."""
        found = _event(content)
        if not found:
            return self.error("api_error", "the answer is no JSON object")
        return json.dumps(self._telling.document(self._hearing.document(found))).encode()

    def refused(self, content: bytes) -> bytes:
        """Return how the agent is told an error of the provider's."""
        pieces = self._hearing.document({"error": {}, **_event(content), "type": "error"})
        broke = next((each for each in pieces if isinstance(each, AnswerBroke)), None)
        shown = content.decode("utf-8", "replace")[:500]
        if broke is None:
            return self.error("api_error", shown)
        return self.error(broke.kind, broke.message or shown)

    def error(self, kind: str, message: str) -> bytes:
        """Return an error as the agent's own protocol spells one."""
        spell = anthropic.error_body if self.api == anthropic.API else chat.error_body
        return json.dumps(spell(AnswerBroke(kind, message))).encode()


def _event(data: bytes) -> Mapping[str, Any]:
    if data == b"[DONE]":
        return {"done": True}
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
