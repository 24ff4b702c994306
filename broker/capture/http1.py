"""
Heads and bodies of HTTP/1.1, followed while they pass, without a socket.

Decided here: where a head ends, what it says, how long its body is, and which of the bytes that
arrive are the body's. Not decided here: where they come from and go to (``proxy``).

A body is never taken apart and put together again: its framing (chunks, their extensions, the
fields behind the last one) passes as it is, and only its content is handed out on the way.

Rules a maintainer keeps: a length that two servers could read differently is refused (RFC 9112,
6.3); what is a hop's own is named in one place; nothing here waits, reads or writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from broker.limits import MAX_CAPTURE_HEAD_BYTES

CHUNKED: Final = "chunked"
TO_END: Final = "to the end"
Length = int | Literal["chunked", "to the end"]
Field = tuple[bytes, bytes]

# What is said from one hop to the next (RFC 9110, 7.6.1), and never passed on.
HOP: Final = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate"),
        *(b"proxy-authorization", b"te", b"trailer", b"upgrade"),
    )
)
_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding"))
_TOKEN: Final = frozenset(
    b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)
_MAX_LINE_BYTES: Final = 8_192  # bytes of the line before a chunk, or of a field behind the last
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")


class WireError(Exception):
    """What arrived is not HTTP/1.1 that is read in one way only; the message says why."""


@dataclass(frozen=True, slots=True)
class HttpHead:
    """
    A head: the three words of its first line, and its fields as they were spelled.

    For a request the words are method, target and version; for an answer version, status, reason.
    """

    words: tuple[bytes, bytes, bytes]
    fields: tuple[Field, ...]

    def all(self, name: bytes) -> list[bytes]:
        """Return the values of a field, whose name is given in lower case."""
        return [value for found, value in self.fields if found.lower() == name]

    def one(self, name: bytes) -> bytes:
        """Return the value of a field, joined where it stands there several times."""
        return b", ".join(self.all(name))

    def listed(self, name: bytes) -> frozenset[bytes]:
        """Return the members of a list, in lower case."""
        return frozenset(m.strip().lower() for m in self.one(name).split(b",") if m.strip())

    def onward(self) -> list[Field]:
        """
        Return the fields that are passed on: all but those of this hop.

        >>> fields = ((b"Connection", b"x-a"), (b"X-A", b"1"), (b"X-B", b"2"))
        >>> HttpHead((b"GET", b"/", b"HTTP/1.1"), fields).onward()
        [(b'X-B', b'2')]
        """
        own = HOP | (self.listed(b"connection") - _FRAMING)
        return [field for field in self.fields if field[0].lower() not in own]


def split_head(data: bytes) -> tuple[bytes, bytes] | None:
    """
    Return the bytes of a head and those behind it, or None while it is not all there.

    Raises:
        WireError: it is too long.

    >>> split_head(b"GET / HTTP/1.1\\r\\n\\r\\nrest")
    (b'GET / HTTP/1.1', b'rest')
    """
    # A server ignores an empty line before a request (RFC 9112, 2.2).
    start = 2 if data.startswith(b"\r\n") else 0
    end = data.find(b"\r\n\r\n", start)
    if end < 0:
        if len(data) > MAX_CAPTURE_HEAD_BYTES:
            raise WireError("its head is too long")
        return None
    return data[start:end], data[end + 4 :]


def request_head(block: bytes) -> HttpHead:
    """
    Return the head of a request.

    Raises:
        WireError: it is none.

    >>> request_head(b"GET /a HTTP/1.1\\r\\nHost: b").one(b"host")
    b'b'
    """
    first, fields = _parsed(block)
    words = first.split(b" ")
    if len(words) != 3 or not words[0] or not _TOKEN.issuperset(words[0]) or not words[1]:
        raise WireError("its first line is no `METHOD TARGET HTTP/1.1`")
    return HttpHead((words[0], words[1], words[2]), fields)


def answer_head(block: bytes) -> HttpHead:
    """
    Return the head of an answer.

    Raises:
        WireError: it is none.

    >>> answer_head(b"HTTP/1.1 200 OK").words
    (b'HTTP/1.1', b'200', b'OK')
    """
    first, fields = _parsed(block)
    version, _, rest = first.partition(b" ")
    status, _, reason = rest.partition(b" ")
    if not version.startswith(b"HTTP/1.") or len(status) != 3 or not status.isdigit():
        raise WireError("the answer is no HTTP/1.1")
    return HttpHead((version, status, reason), fields)


def _parsed(block: bytes) -> tuple[bytes, tuple[Field, ...]]:
    first, *lines = block.split(b"\r\n")
    fields = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or not _TOKEN.issuperset(name):
            raise WireError("one of its header fields is malformed")
        if b"\n" in value or b"\r" in value or b"\0" in value:
            raise WireError("one of its header fields breaks a line")
        fields.append((name, value.strip(b" \t")))
    return first, tuple(fields)


def spelled(words: Iterable[bytes], fields: Iterable[Field]) -> bytes:
    """
    Return the bytes of a head.

    >>> spelled((b"GET", b"/", b"HTTP/1.1"), [(b"Host", b"a")])
    b'GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n'
    """
    lines = [b" ".join(words), *(name + b": " + value for name, value in fields)]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def request_length(head: HttpHead) -> Length:
    """
    Return how long the body of a request is.

    Raises:
        WireError: two servers could cut it at two places.
    """
    found = _told(head)
    return 0 if found is None else found


def answer_length(head: HttpHead, method: bytes) -> Length:
    """
    Return how long the body of an answer to a method is.

    Raises:
        WireError: two clients could cut it at two places.
    """
    status = head.words[1]
    if method == b"HEAD" or status in (b"204", b"304") or status.startswith(b"1"):
        return 0
    found = _told(head)
    return TO_END if found is None else found


def _told(head: HttpHead) -> Length | None:
    codings = head.all(b"transfer-encoding")
    lengths = head.all(b"content-length")
    if codings:
        if lengths or [each.lower() for each in codings] != [b"chunked"]:
            raise WireError("the length of its body is told twice, or in an odd way")
        return CHUNKED
    if not lengths:
        return None
    if len(set(lengths)) > 1:
        raise WireError("the length of its body is told twice")
    text = lengths[0]
    if not text.isdigit() or len(text) > 18:
        raise WireError("the length of its body is no number")
    return int(text)


class BodyFraming:
    """
    Follows one body through its framing, and hands its content out.

    Args:
        length: how long it is.
        take: is given each stretch of content.

    >>> body = BodyFraming("chunked", lambda part: print(bytes(part)))
    >>> body.feed(b"3\\r\\nabc\\r\\n0\\r\\n\\r\\nnext"), body.done
    b'abc'
    (13, True)
    """

    def __init__(self, length: Length, take: Callable[[memoryview], object]) -> None:
        self.length = length
        self.done = length == 0
        self._take = take
        self._left = length if isinstance(length, int) else 0
        self._step = self._counted if isinstance(length, int) else self._all
        self._line = b""
        self._inside = "size"
        if length == CHUNKED:
            self._step = self._in_chunks

    def feed(self, data: bytes) -> int:
        """
        Return how many of the next bytes are the body's; the rest is behind it.

        Raises:
            WireError: they break the framing.
        """
        return 0 if self.done else self._step(data)

    def _all(self, data: bytes) -> int:
        self._take(memoryview(data))
        return len(data)

    def _counted(self, data: bytes) -> int:
        count = min(self._left, len(data))
        self._take(memoryview(data)[:count])
        self._left -= count
        self.done = not self._left
        return count

    def _in_chunks(self, data: bytes) -> int:
        at = 0
        view = memoryview(data)
        while at < len(data) and not self.done:
            if self._left:
                count = min(self._left, len(data) - at)
                self._take(view[at : at + count])
                self._left -= count
                at += count
                continue
            end = data.find(b"\n", at)
            self._line += data[at : end + 1 or None]
            if len(self._line) > _MAX_LINE_BYTES:
                raise WireError("a line between its chunks is too long")
            if end < 0:
                return len(data)
            at = end + 1
            line, self._line = self._line[:-1].removesuffix(b"\r"), b""
            self._between(line)
        return at

    def _between(self, line: bytes) -> None:
        """Take in a line that stands before, behind or after the chunks."""
        if self._inside == "size":
            size = line.partition(b";")[0].strip(b" \t")
            if not size or len(size) > 15 or not _HEX.issuperset(size):
                raise WireError("one of its chunks is malformed")
            self._left = int(size, 16)
            self._inside = "behind" if self._left else "trailer"
        elif self._inside == "behind":
            if line:
                raise WireError("one of its chunks is longer than it says")
            self._inside = "size"
        elif not line:
            self.done = True
