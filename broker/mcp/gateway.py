"""
Decides what becomes of each message between one client and one server.

Decided here: for every message in either direction, whether it goes on as it is, goes on with
less in it, or comes back with a refusal. Not decided here: how messages travel
(``broker.mcp.stdio``, ``broker.mcp.front``), and which calls pass (the session).

A message that goes on is the bytes that came, but for lists, which lose what the ticket could
never allow. Answers go on only to what was asked and passed on, so that none slips by a veto.

Rules a maintainer keeps: no path leads to ``onward`` for something that can act without a
decision; an answer is taken apart by what was asked, never by what it looks like; tables here
are bounded, and a full one refuses.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.agents.hooks import explained
from broker.calls import Decision
from broker.errors import InputError
from broker.mcp import methods
from broker.mcp.judge import Judge
from broker.mcp.messages import (
    INVALID,
    PARSE,
    REFUSED,
    Id,
    Message,
    failure,
    read_message,
    tool_failure,
    write,
)
from broker.resolve import canonical_digest

MAX_ASKED: Final = 1_024  # requests that wait for an answer, in each direction
MAX_KEPT: Final = 1_024  # answered requests whose answer may be sent again; tasks in mind


@dataclass(frozen=True, slots=True)
class Ruling:
    """What becomes of a message: bytes for its receiver, and bytes for its sender."""

    onward: bytes | None = None
    back: bytes | None = None


@dataclass(slots=True)
class _Asked:
    """A request that was passed on. ``call_id`` is empty where nothing was decided."""

    ident: Id
    method: str
    call_id: str = ""
    as_task: bool = False


class Gateway:
    """
    The state of one connection between a client and a server. Safe among threads.

    Args:
        judge: asks the session.
        prefix: begins the id of every call, so that connections are told apart in a receipt.
    """

    def __init__(self, judge: Judge, prefix: str) -> None:
        self._judge = judge
        self._prefix = prefix
        self._count = 0
        self._asked: dict[Id, _Asked] = {}
        self._answered: OrderedDict[Id, _Asked] = OrderedDict()
        self._asked_back: set[Id] = set()
        self._tasks: OrderedDict[str, None] = OrderedDict()
        self._annotations = ""
        self._lock = threading.Lock()

    # ── from the client ──

    def from_client(self, raw: bytes) -> Ruling:
        """Decide about a message of the client."""
        try:
            message = read_message(raw)
        except InputError as error:
            return Ruling(back=failure(None, _code(error), f"not passed on: {error}"))
        if message.kind == "response":
            return self._answer_back(message)
        if message.kind == "notification":
            if message.method in methods.TOLD_HARMLESSLY:
                self._cancelled(message)
                return Ruling(message.raw)
            return Ruling(message.raw if self._decided(message)[0].allowed else None)
        return self._request(message)

    def _request(self, message: Message) -> Ruling:
        ident = message.id
        assert ident is not None  # noqa: S101 - a request has one
        asked = self._reserved(ident, message)
        if isinstance(asked, str):
            return Ruling(back=failure(ident, INVALID, f"not passed on: {asked}"))
        if methods.harmless(message):
            return Ruling(message.raw)
        task = message.params.get("taskId")
        if message.method in methods.OF_TASKS and isinstance(task, str) and task in self._tasks:
            return Ruling(message.raw)  # of a call that was decided
        decision, asked.call_id = self._decided(message)
        if decision.refusal is None:
            return Ruling(message.raw)
        with self._lock:
            self._asked.pop(ident, None)
        text = explained(decision.refusal)
        if message.method == methods.CALL and not asked.as_task:
            return Ruling(back=tool_failure(ident, text))
        return Ruling(back=failure(ident, REFUSED, text))

    def _reserved(self, ident: Id, message: Message) -> _Asked | str:
        """Take an id for a request, or say why it cannot have it."""
        with self._lock:
            if ident in self._asked:
                return "another request with this id waits for its answer"
            if len(self._asked) >= MAX_ASKED:
                return f"{MAX_ASKED} requests wait for an answer already"
            self._answered.pop(ident, None)
            asked = _Asked(ident, message.method, as_task="task" in message.params)
            self._asked[ident] = asked
        return asked

    def _cancelled(self, message: Message) -> None:
        """An answer to what the client has given up may come or not; nobody waits for it."""
        ident = _given_up(message)
        with self._lock:
            asked = None if ident is None else self._asked.pop(ident, None)
            if asked is not None:
                self._keep(asked)

    def _answer_back(self, message: Message) -> Ruling:
        """Pass on what the client answers to what the server asked."""
        with self._lock:
            if message.id is None or message.id not in self._asked_back:
                return Ruling()
            self._asked_back.discard(message.id)
        return Ruling(message.raw)

    # ── from the server ──

    def from_server(self, raw: bytes) -> Ruling:
        """Decide about a message of the server."""
        try:
            message = read_message(raw)
            if message.kind == "response":
                return Ruling(self._answer(message))
            if message.kind == "notification":
                return Ruling(self._told(message))
        except InputError as error:
            self._judge.say(f"a message of `{self._judge.server}` is not passed on: {error}")
            return Ruling()
        return self._ask_back(message)

    def _told(self, message: Message) -> bytes | None:
        """Return what the server says unasked, as the client may hear it."""
        if self._questions(message.params) is not None:
            return None
        if message.method in methods.TOLD_BACK_HARMLESSLY:
            with self._lock:
                self._asked_back -= {_given_up(message)}
            return message.raw
        return message.raw if self._decided(message)[0].allowed else None

    def _ask_back(self, message: Message) -> Ruling:
        ident = message.id
        assert ident is not None  # noqa: S101 - a request has one
        with self._lock:
            if ident in self._asked_back or len(self._asked_back) >= MAX_ASKED:
                return Ruling(back=failure(ident, INVALID, "not passed on: the id is in use"))
            self._asked_back.add(ident)
        if message.method in methods.ASKED_BACK_HARMLESSLY:
            return Ruling(message.raw)
        decision, _ = self._decided(message)
        if decision.refusal is None:
            return Ruling(message.raw)
        with self._lock:
            self._asked_back.discard(ident)
        return Ruling(back=failure(ident, REFUSED, explained(decision.refusal)))

    def _answer(self, message: Message) -> bytes | None:
        """Return an answer as the client may have it; None when nobody asked."""
        if message.id is None:
            return message.raw  # the server could not read something, and says so
        with self._lock:
            asked = self._asked.pop(message.id, None)
            first = asked is not None
            asked = asked or self._answered.get(message.id)
            if asked is None:
                return None
            self._keep(asked)
        result = message.body.get("result")
        refusal = self._questions(result)
        if refusal is not None:
            return failure(message.id, REFUSED, refusal)
        if asked.method in methods.LISTS and isinstance(result, dict):
            return self._listed(message, asked.method, result, first=first)
        if asked.call_id and first:
            self._ended(message, asked, result)
        return message.raw

    def _questions(self, holder: object) -> str | None:
        """
        Decide what a server asks its client inside a result; return why it may not, or None.

        A client answers these by asking again, so what it may not be asked must not reach it.
        """
        found = holder.get(methods.QUESTIONS) if isinstance(holder, dict) else None
        if found is None:
            return None
        for question in found.values() if isinstance(found, dict) else (found,):
            asked = question if isinstance(question, dict) else {}
            try:
                message = read_message(write({"jsonrpc": "2.0", "id": 0, **asked}))
            except InputError as error:
                return f"refused: what the server asks for cannot be read: {error}"
            if message.method not in methods.ASKED_BACK_HARMLESSLY:
                refusal = self._decided(message)[0].refusal
                if refusal is not None:
                    return explained(refusal)
        return None

    def _ended(self, message: Message, asked: _Asked, result: object) -> None:
        """Record how a call ended, and which task it goes on as."""
        held: Mapping[str, object] = result if isinstance(result, dict) else {}
        task = held.get("task")
        if asked.as_task and isinstance(task, dict) and isinstance(task.get("taskId"), str):
            with self._lock:
                self._tasks[task["taskId"]] = None
                while len(self._tasks) > MAX_KEPT:
                    self._tasks.popitem(last=False)
        ok = "error" not in message.body and held.get("isError") is not True
        output = result if "result" in message.body else message.body["error"]
        self._judge.result(asked.call_id, ok=ok, output=output)

    def _listed(
        self, message: Message, method: str, result: Mapping[str, object], *, first: bool
    ) -> bytes:
        """Return a list without what the ticket could never allow."""
        key, asked_by = methods.LISTS[method]
        items = result.get(key)
        if not isinstance(items, list):
            return message.raw
        shown = [item for item in items if self._shown(item, asked_by)]
        if first and method == "tools/list":
            self._note(items, len(shown))
        if len(shown) == len(items):
            return message.raw
        return write({**message.body, "result": {**result, key: shown}})

    def _shown(self, item: object, asked_by: str) -> bool:
        name = item.get("name") if isinstance(item, dict) else None
        return self._judge.admits(asked_by or (name if isinstance(name, str) else ""))

    def _note(self, items: list[object], shown: int) -> None:
        """Record once what the server says of its tools; nothing is ever decided by it."""
        said = {
            str(item.get("name")): item.get("annotations")
            for item in items
            if isinstance(item, dict)
        }
        digest = canonical_digest(said)
        with self._lock:
            if digest == self._annotations:
                return
            self._annotations = digest
        hints = ", ".join(
            f"{name}{_hints(annotations)}" for name, annotations in sorted(said.items())
        )
        self._judge.note(f"{len(items)} tools, {shown} shown; annotations {digest}: {hints}")

    def _keep(self, asked: _Asked) -> None:
        """Remember what was asked, for an answer that is sent again."""
        self._answered[asked.ident] = asked
        self._answered.move_to_end(asked.ident)
        while len(self._answered) > MAX_KEPT:
            self._answered.popitem(last=False)

    # ── both ──

    def _decided(self, message: Message) -> tuple[Decision, str]:
        with self._lock:
            self._count += 1
            call_id = f"{self._prefix}:{self._count}"
        tool, arguments = methods.called(message, self._judge.server)
        return self._judge.decide(tool, arguments, call_id), call_id

    def deserted(self) -> list[bytes]:
        """Return the answers to what the client still waits for when the server has gone."""
        with self._lock:
            waiting = [*self._asked.values()]
            self._asked.clear()
        return [failure(asked.ident, REFUSED, "the server has gone") for asked in waiting]

    def waits(self, ident: Id | None = None) -> bool:
        """Whether the client still waits for an answer, or for any."""
        with self._lock:
            return bool(self._asked) if ident is None else ident in self._asked

    def unanswered(self, raw: bytes, why: str) -> bytes | None:
        """Return the answer to a request that was passed on and gets none; None for others."""
        ident = read_message(raw).id
        with self._lock:
            asked = None if ident is None else self._asked.pop(ident, None)
        return None if asked is None else failure(ident, REFUSED, why)


def _code(error: InputError) -> int:
    return PARSE if error.code == "input.json" else INVALID


def _given_up(message: Message) -> Id | None:
    """Return the id of the request that a notification cancels."""
    ident = message.params.get("requestId")
    if message.method != "notifications/cancelled" or isinstance(ident, bool):
        return None
    return ident if isinstance(ident, str | int) else None


def _hints(annotations: object) -> str:
    """Return which hints a server gives of a tool, for a person who reads the receipt."""
    if not isinstance(annotations, dict):
        return ""
    given = [key.removesuffix("Hint") for key, value in annotations.items() if value is True]
    return f" ({' '.join(sorted(given))})" if given else ""
