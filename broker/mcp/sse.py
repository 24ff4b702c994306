"""
Streams of server-sent events, taken apart into events and put together again.

Decided here: where one event ends, and which bytes of it are its message. Not decided here: what
becomes of the message (``broker.mcp.gateway``).

Rules a maintainer keeps: an event that is not changed goes on as the bytes that came; whatever a
reader of the standard takes for data is data here too; the id of an event whose message does not
go on still does, so that a client can resume behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from broker.errors import LimitError
from broker.limits import MAX_REQUEST_BYTES

_BREAK: Final = rb"(?:\r\n|\n|\r(?!\n))"
_END: Final = re.compile(_BREAK + _BREAK)
_LINES: Final = re.compile(_BREAK)
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """
    One event: its bytes with the blank line behind it, its message, its id and its retry time.

    ``data`` is empty for an event without a message.
    """

    raw: bytes
    data: bytes = b""
    id: bytes | None = None
    retry: bytes | None = None

    def holding(self, data: bytes | None) -> bytes:
        """
        Return the event's bytes with another message, or with none.

        >>> read_event(b"id: 1\\ndata: {}\\n\\n").holding(None)
        b'id: 1\\n\\n'
        """
        if data == self.data:
            return self.raw
        kept = [b"%s: %s\n" % pair for pair in self._kept()]
        if data is not None:
            kept.append(b"data: %s\n" % data)
        return b"".join((*kept, b"\n")) if kept else b""

    def _kept(self) -> Iterator[tuple[bytes, bytes]]:
        if self.id is not None:
            yield b"id", self.id
        if self.retry is not None:
            yield b"retry", self.retry


def read_event(raw: bytes) -> ServerEvent:
    """
    Take one event apart.

    >>> read_event(b": hello\\nid: 7\\ndata: {\\ndata:}\\n\\n").data
    b'{\\n}'
    """
    data: list[bytes] = []
    found: dict[bytes, bytes] = {}
    for line in _LINES.split(raw):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name:
            found[name] = value
    return ServerEvent(raw, b"\n".join(data).strip(), found.get(b"id"), found.get(b"retry"))


class EventReader:
    """
    Cuts a stream into events as it comes. What stands behind the last blank line is no event.

    >>> reader = EventReader()
    >>> [event.data for event in reader.feed(b"data: 1\\n\\nda")], list(reader.feed(b"ta: 2"))
    ([b'1'], [])
    """

    def __init__(self, limit: int = MAX_REQUEST_BYTES) -> None:
        self._limit = limit
        self._left = b""
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """
        Yield the events that more bytes complete.

        Raises:
            LimitError: an event has more bytes than the limit.
        """
        # A break may be cut in two, so the last three bytes are looked at again.
        start = max(0, len(self._left) - 3)
        self._left += chunk
        if not self._begun:
            if len(self._left) < len(_BOM) and _BOM.startswith(self._left):
                return
            self._left = self._left.removeprefix(_BOM)
            self._begun = True
        at = 0
        while found := _END.search(self._left, max(at, start)):
            yield read_event(self._left[at : found.end()])
            at = found.end()
        self._left = self._left[at:]
        if len(self._left) > self._limit:
            raise LimitError(f"an event has at most {self._limit} bytes")
