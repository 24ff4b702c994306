"""
The answers of OpenAI Responses, read and spelled.

Decided here: how an answer is read into ``talk``, and spelled from it, as a stream and as a whole.
A tool that takes a text, or the words of a command, gets them as it expects them; its call is told
once all of it has come. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from broker.replay.translation import talk
from broker.replay.translation.chat import error_body
from broker.replay.translation.shapes import count, event, rows, table, text
from broker.replay.translation.talk import (
    AnswerBegan,
    AnswerBroke,
    AnswerEnded,
    AnswerPiece,
    CallBegan,
    CallCame,
    Stop,
    TextCame,
    TokenCounts,
    ToolNames,
)

_LENGTH: Final = "max_output_tokens"
_LAST: Final = ("response.completed", "response.incomplete")


class ResponsesHearing:
    """See ``talk.AnswerHearing``."""

    def __init__(self) -> None:
        self._told: dict[int, str] = {}  # the arguments of each call, as far as they came
        self._said: set[int] = set()

    def event(self, event: Mapping[str, Any]) -> list[AnswerPiece]:
        """Return what an event of a stream adds."""
        kind, at = text(event.get("type")), count(event.get("output_index"))
        if kind == "response.created":
            return [AnswerBegan(text(table(event.get("response")).get("id")))]
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            self._said.add(at)
            return [TextCame(text(event.get("delta")))]
        if kind == "response.output_item.added":
            return self._begun(at, table(event.get("item")))
        if kind == "response.function_call_arguments.delta":
            return self._came(at, text(event.get("delta")))
        if kind == "response.output_item.done":
            return self._done(at, table(event.get("item")))
        if kind in _LAST:
            return [_ended(table(event.get("response")), calls=bool(self._told))]
        if kind == "response.failed":
            return [_broke(table(event.get("response")).get("error"))]
        return [_broke(event.get("error") or event)] if kind == "error" else []

    def _begun(self, at: int, item: Mapping[str, Any]) -> list[AnswerPiece]:
        if item.get("type") != "function_call" or at in self._told:
            return []
        self._told[at] = ""
        return [CallBegan(at, text(item.get("call_id")), text(item.get("name")))]

    def _came(self, at: int, said: str) -> list[AnswerPiece]:
        if at not in self._told or not said:
            return []
        self._told[at] += said
        return [CallCame(at, said)]

    def _done(self, at: int, item: Mapping[str, Any]) -> list[AnswerPiece]:
        """Return what an item holds that no event before has told."""
        if item.get("type") == "message" and at not in self._said:
            self._said.add(at)
            return [TextCame(said) for said in _texts(item)]
        begun = self._begun(at, item)
        rest = text(item.get("arguments")).removeprefix(self._told.get(at, ""))
        return [*begun, *self._came(at, rest)]

    def document(self, body: Mapping[str, Any]) -> list[AnswerPiece]:
        """Return what a whole answer says."""
        if body.get("error"):
            return [_broke(body["error"])]
        found: list[AnswerPiece] = [AnswerBegan(text(body.get("id")))]
        for at, item in enumerate(rows(body.get("output"))):
            found += self._done(at, item)
        return [*found, _ended(body, calls=bool(self._told))]


def _texts(item: Mapping[str, Any]) -> Iterator[str]:
    for part in rows(item.get("content")):
        said = text(part.get("text")) or text(part.get("refusal"))
        if said:
            yield said


def _ended(response: Mapping[str, Any], *, calls: bool) -> AnswerEnded:
    reason = text(table(response.get("incomplete_details")).get("reason"))
    stop: Stop = "tools" if calls else "end"
    if reason:
        stop = "length" if reason == _LENGTH else "refusal"
    usage = table(response.get("usage"))
    cached = count(table(usage.get("input_tokens_details")).get("cached_tokens"))
    asked, answered = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    return AnswerEnded(stop, TokenCounts(asked, cached, answered))


def _broke(error: object) -> AnswerBroke:
    told = table(error)
    kind = text(told.get("type")) or text(told.get("code")) or "api_error"
    return AnswerBroke(
        text(told.get("code")) or kind, text(told.get("message")) or "the answer holds nothing"
    )


@dataclass(slots=True)
class _Item:
    """One item of an answer that is being told."""

    at: int
    id: str = ""
    name: str = ""
    said: str = ""
    done: bool = False


class ResponsesTelling:
    """See ``talk.AnswerTelling``."""

    def __init__(self, model: str, names: ToolNames) -> None:
        self._model = model
        self._names = names
        self._id = "resp_0"
        self._number = -1
        self._items: list[_Item] = []
        self._calls: dict[int, _Item] = {}
        self._open: _Item | None = None

    def tell(self, piece: AnswerPiece) -> bytes:
        """Return the events of a stream that say a piece."""
        return b"".join(self._spelled(body) for body in self._events(piece))

    def _spelled(self, body: dict[str, object]) -> bytes:
        self._number += 1
        return event({**body, "sequence_number": self._number}, str(body["type"]))

    def _events(self, piece: AnswerPiece) -> Iterator[dict[str, object]]:
        if isinstance(piece, AnswerBegan):
            self._id = piece.id or self._id
            for kind in ("response.created", "response.in_progress"):
                yield {"type": kind, "response": self._response("in_progress", [])}
        elif isinstance(piece, TextCame):
            yield from self._text(piece.text)
        elif isinstance(piece, CallBegan):
            yield from self._close()
            item = _Item(len(self._items), piece.id, piece.name)
            self._items.append(item)
            self._calls[piece.at] = self._open = item
            if self._streams(item):
                yield self._of(
                    item.at, "response.output_item.added", item=self._item(item, "in_progress")
                )
        elif isinstance(piece, CallCame):
            item = self._calls[piece.at]
            item.said += piece.text
            if self._streams(item):
                kind = "response.function_call_arguments.delta"
                yield self._of(item.at, kind, item_id=self._item_id(item), delta=piece.text)
        elif isinstance(piece, AnswerEnded):
            yield from self._close()
            response = self._response(*self._end(piece))
            yield {"type": f"response.{response['status']}", "response": response}
        else:
            told = error_body(piece)["error"]
            response = {**self._response("failed", []), "error": told}
            yield {"type": "response.failed", "response": response}

    def _text(self, said: str) -> Iterator[dict[str, object]]:
        item = self._open
        if item is None or item.name:
            yield from self._close()
            item = self._open = _Item(len(self._items))
            self._items.append(item)
            begun = {**self._item(item, "in_progress"), "content": []}
            yield self._of(item.at, "response.output_item.added", item=begun)
            yield self._part(item, "response.content_part.added", part=_part(""))
        item.said += said
        yield self._part(item, "response.output_text.delta", delta=said, logprobs=[])

    def _close(self) -> Iterator[dict[str, object]]:
        item, self._open = self._open, None
        if item is None:
            return
        whole = self._item(item, "completed")
        if not item.name:
            yield self._part(item, "response.output_text.done", text=item.said, logprobs=[])
            yield self._part(item, "response.content_part.done", part=_part(item.said))
        elif self._streams(item):
            kind = "response.function_call_arguments.done"
            more = {"arguments": item.said, "name": whole["name"]}
            yield self._of(item.at, kind, item_id=self._item_id(item), **more)
        else:
            yield self._of(item.at, "response.output_item.added", item=whole)
        yield self._of(item.at, "response.output_item.done", item=whole)

    def _of(self, at: int, kind: str, **more: object) -> dict[str, object]:
        return {"type": kind, "output_index": at, **more}

    def _part(self, item: _Item, kind: str, **more: object) -> dict[str, object]:
        return self._of(item.at, kind, item_id=self._item_id(item), content_index=0, **more)

    def _streams(self, item: _Item) -> bool:
        return self._names.back(item.name).kind == "function"

    def _item_id(self, item: _Item) -> str:
        return f"{'fc' if item.name else 'msg'}_{item.at}"

    def _item(self, item: _Item, status: str) -> dict[str, object]:
        head: dict[str, object] = {"id": self._item_id(item), "status": status}
        if not item.name:
            content = [_part(item.said)]
            return {**head, "type": "message", "role": "assistant", "content": content}
        tool = self._names.back(item.name)
        head["call_id"] = item.id
        if tool.kind == "function":
            space = {"namespace": tool.space} if tool.space else {}
            said = item.said if status == "completed" else ""
            arguments = {"arguments": said or ("{}" if status == "completed" else "")}
            return {**head, "type": "function_call", "name": tool.name, **space, **arguments}
        given = talk.as_object(talk.arguments_of(item.said))
        if tool.kind == "custom":
            said = text(given.get("input"))
            return {**head, "type": "custom_tool_call", "name": tool.name, "input": said}
        action = {"type": "exec", "command": given.get("command") or [], "env": {}}
        return {**head, "type": "local_shell_call", "action": action}

    def _end(self, ended: AnswerEnded) -> tuple[str, list[object], dict[str, object]]:
        items: list[object] = [self._item(item, "completed") for item in self._items]
        more: dict[str, object] = {"usage": _usage(ended.counts)}
        if ended.stop in ("length", "refusal"):
            reason = _LENGTH if ended.stop == "length" else "content_filter"
            return "incomplete", items, {**more, "incomplete_details": {"reason": reason}}
        return "completed", items, more

    def _response(
        self, status: str, items: list[object], more: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        return {
            "id": self._id,
            "object": "response",
            "created_at": 0,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": self._model,
            "output": items,
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            **(more or {}),
        }

    def document(self, pieces: Iterable[AnswerPiece]) -> dict[str, object]:
        """Return a whole answer."""
        for piece in pieces:
            if isinstance(piece, AnswerBroke):
                return error_body(piece)
            for _ in self._events(piece):
                pass  # what they say stands in the items
            if isinstance(piece, AnswerEnded):
                return self._response(*self._end(piece))
        return self._response("completed", [])


def _part(said: str) -> dict[str, object]:
    return {"type": "output_text", "text": said, "annotations": [], "logprobs": []}


def _usage(counts: TokenCounts) -> dict[str, object]:
    return {
        "input_tokens": counts.asked,
        "input_tokens_details": {"cached_tokens": counts.cached},
        "output_tokens": counts.answered,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counts.asked + counts.answered,
    }
