"""
One request over HTTP and its answer, as ASGI hands them over.

Decided here: how much is read of a body, which bodies are read at all, how an answer and an error
are spelled. Not decided here: which requests there are (``broker.service.app``), how much of a head
is read and for how long (``broker.service.listening``).

Rules a maintainer keeps: nothing of a request is acted on before all of it has been read; every
error is one JSON object, ``{"error": {"code": …, "message": …}}``; the answer to a body that is too
long reaches its client, which is still sending, so the rest is taken in before the end.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from broker.limits import MAX_SERVED_BODY_BYTES
from broker.service.protocol import read_object, write_object

_LEFT_BYTES: Final = 64 * 2**20  # of a body that is too long, taken in so that its client listens
_REQUEST_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")

AsgiScope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Rejected(Exception):
    """
    What ends a request early: a status, a code and a sentence.

    ``allow`` names the methods that a path takes; ``close`` ends the connection.
    """

    def __init__(
        self, status: int, code: str, message: str, *, allow: str = "", close: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.allow = allow
        self.close = close


class Gone(Exception):
    """The client went away before its request was whole: nobody is there to be answered."""


@dataclass(frozen=True, slots=True)
class Response:
    """
    An answer: a status, a body, and headers beside those that every answer has.

    ``close`` ends the connection after it.
    """

    status: int
    body: bytes
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    close: bool = False


@dataclass(slots=True)
class WebRequest:
    """A request that is being answered."""

    scope: AsgiScope
    receive: Receive
    send: Send
    headers: dict[str, str] = field(default_factory=dict)
    unread: bool = True  # the body, so far

    @classmethod
    def of(cls, scope: AsgiScope, receive: Receive, send: Send) -> WebRequest:
        """
        Begin with what ASGI hands over.

        Raises:
            Rejected: a header that counts stands twice.
        """
        found: dict[str, str] = {}
        made = cls(scope, receive, send, found)
        for raw, value in scope["headers"]:
            name = raw.decode("latin-1").lower()
            if name in found and name in _ONCE:
                raise Rejected(400, "http.header", f"the header `{name}` stands twice", close=True)
            found[name] = value.decode("latin-1")
        return made

    @property
    def request_id(self) -> str:
        """What the client calls this request, or nothing that could be sent back."""
        found = self.headers.get("x-request-id", "")
        return found if _REQUEST_ID.fullmatch(found) else ""

    async def object(self) -> dict[str, object]:
        """
        Read the body, which is one JSON object.

        Raises:
            Rejected: it is not JSON, or too long.
            InputError: it is JSON that two readers would read differently, or no object.
            Gone: the client went away.
        """
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Rejected(
                415, "http.type", "the body is JSON: say `Content-Type: application/json`"
            )
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise Rejected(415, "http.encoding", "the body is sent as it is, without an encoding")
        return read_object(await self._body())

    async def _body(self) -> bytes:
        length = self.headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and int(length[:20]) > MAX_SERVED_BODY_BYTES:
            raise _too_long()
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                raise Gone
            part = message.get("body", b"")
            size += len(part)
            if size > MAX_SERVED_BODY_BYTES:
                raise _too_long()
            parts.append(part)
            if not message.get("more_body"):
                self.unread = False
                return b"".join(parts)

    async def answer(self, found: Response) -> None:
        """Send an answer."""
        headers = [
            (b"content-type", found.kind.encode()),
            (b"content-length", str(len(found.body)).encode()),
            (b"cache-control", b"no-store"),
        ]
        headers += [(name.encode(), value.encode()) for name, value in found.headers]
        if self.request_id:
            headers.append((b"x-request-id", self.request_id.encode()))
        if found.close:
            headers.append((b"connection", b"close"))
        begin = {"type": "http.response.start", "status": found.status, "headers": headers}
        await self.send(begin)
        over = found.status == 413 and self.unread
        await self.send({"type": "http.response.body", "body": found.body, "more_body": over})
        if over:
            await self._take_in()
            await self.send({"type": "http.response.body", "body": b""})

    async def _take_in(self) -> None:
        """Take in what a client goes on to send, so that it comes to reading our answer."""
        left = _LEFT_BYTES
        while left > 0:
            message = await self.receive()
            left -= len(message.get("body", b"")) or 1
            if message["type"] != "http.request" or not message.get("more_body"):
                return


_ONCE: Final = frozenset(("authorization", "content-length", "content-type", "x-request-id"))


def json_response(status: int, body: dict[str, object], **more: Any) -> Response:
    """
    Return an object as an answer.

    >>> json_response(200, {"a": 1}).body
    b'{"a":1}'
    """
    return Response(status, write_object(body), **more)


def rejection(fault: Rejected) -> Response:
    """Return what a fault is answered with."""
    headers: tuple[tuple[str, str], ...] = ()
    if fault.status == 401:
        headers = (("www-authenticate", "Bearer"),)
    elif fault.allow:
        headers = (("allow", fault.allow),)
    told: dict[str, object] = {"code": fault.code, "message": fault.message}
    return json_response(fault.status, {"error": told}, headers=headers, close=fault.close)


def _too_long() -> Rejected:
    most = f"a body has at most {MAX_SERVED_BODY_BYTES} bytes"
    return Rejected(413, "limit", most, close=True)
