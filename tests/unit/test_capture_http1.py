"""Heads and bodies of HTTP/1.1 are read as h11 reads them, and two readings are refused."""

from __future__ import annotations

from contextlib import suppress

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.capture.http1 import (
    CHUNKED,
    TO_END,
    BodyFraming,
    WireError,
    answer_head,
    answer_length,
    request_head,
    request_length,
    spelled,
    split_head,
)
from broker.limits import MAX_CAPTURE_HEAD_BYTES

CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=6)


def fed(body: BodyFraming, data: bytes, cuts: list[int]) -> int:
    """Feed bytes in pieces, and return how many were the body's."""
    used = at = 0
    for cut in sorted({min(cut, len(data)) for cut in cuts} | {len(data)}):
        used += body.feed(data[at:cut])
        at = cut
    return used


@given(CHUNKS, st.lists(st.integers(0, 300)), st.booleans(), st.booleans(), st.binary(max_size=9))
def test_chunks_are_followed_as_h11_reads_them(
    chunks: list[bytes], cuts: list[int], extended: bool, trailed: bool, behind: bytes
) -> None:
    """However bytes are cut, the content and the end of a body in chunks are those of h11."""
    extension = b";a=b" if extended else b""
    framed = b"".join(b"%x%s\r\n%s\r\n" % (len(c), extension, c) for c in chunks)
    framed += b"0\r\n" + (b"X-A: 1\r\n" if trailed else b"") + b"\r\n"
    taken: list[bytes] = []
    body = BodyFraming(CHUNKED, lambda part: taken.append(bytes(part)))
    assert fed(body, framed + behind, cuts) == len(framed)
    assert body.done
    reader = h11.Connection(h11.CLIENT)
    reader.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    reader.send(h11.EndOfMessage())
    reader.receive_data(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed)
    said = iter(reader.next_event, h11.NEED_DATA)
    read: list[bytes] = []
    for event in said:
        if isinstance(event, h11.Data):
            read.append(bytes(event.data))
        if isinstance(event, h11.EndOfMessage):
            break
    assert b"".join(taken) == b"".join(read) == b"".join(chunks)


@given(st.binary(max_size=64), st.integers(0, 80), st.lists(st.integers(0, 80)))
def test_a_counted_body_ends_where_it_says(data: bytes, length: int, cuts: list[int]) -> None:
    """A body of a known length takes that many bytes and not one more."""
    taken: list[bytes] = []
    body = BodyFraming(length, lambda part: taken.append(bytes(part)))
    assert fed(body, data, cuts) == min(length, len(data))
    assert b"".join(taken) == data[:length]
    assert body.done == (len(data) >= length)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_any_bytes_are_read_or_refused(data: bytes, cuts: list[int]) -> None:
    """No bytes make following fail in another way than by its own error."""
    for reader in (request_head, answer_head, lambda d: fed(BodyFraming(CHUNKED, bool), d, cuts)):
        with suppress(WireError):
            reader(data)


def test_a_head_is_whole_or_waited_for() -> None:
    """A head ends at its empty line, and one that never ends is refused."""
    assert split_head(b"GET / HTTP/1.1\r\n") is None
    assert split_head(b"\r\nGET / HTTP/1.1\r\n\r\nx") == (b"GET / HTTP/1.1", b"x")
    with pytest.raises(WireError, match="too long"):
        split_head(b"a" * (MAX_CAPTURE_HEAD_BYTES + 1))


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 1\r\nContent-Length: 2",
        b"Content-Length: 1\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Content-Length: -1",
        b"Content-Length: 1_0",
        b"Content-Length: +1",
        b"Content-Length: " + b"9" * 19,
    ],
)
def test_a_length_with_two_readings_is_refused(fields: bytes) -> None:
    """What two servers could cut at two places is carried by neither."""
    head = request_head(b"POST / HTTP/1.1\r\n" + fields)
    with pytest.raises(WireError):
        request_length(head)
    with pytest.raises(WireError):
        answer_length(answer_head(b"HTTP/1.1 200 OK\r\n" + fields), b"POST")


@pytest.mark.parametrize(
    "block",
    [
        b"GET /",
        b"GET  HTTP/1.1",
        b" GET / HTTP/1.1",
        b"GET / HTTP/1.1\r\nA B: c",
        b"GET / HTTP/1.1\r\n: c",
        b"GET / HTTP/1.1\r\nA: b\nC: d",
        b"GET / HTTP/1.1\r\n folded: x",
    ],
)
def test_a_malformed_head_is_refused(block: bytes) -> None:
    """A head that servers may read differently is none."""
    with pytest.raises(WireError):
        request_head(block)


def test_the_length_of_an_answer() -> None:
    """An answer without a length goes on to the end, but for those that have no body."""
    head = answer_head(b"HTTP/1.1 200 OK")
    assert answer_length(head, b"GET") == TO_END
    assert answer_length(head, b"HEAD") == 0
    for status in (b"204 No Content", b"304 Not Modified", b"100 Continue"):
        assert answer_length(answer_head(b"HTTP/1.1 " + status), b"GET") == 0


@pytest.mark.parametrize("line", [b"", b"x", b"-1", b"0x1", b"f" * 16, b" ;a"])
def test_a_malformed_chunk_is_refused(line: bytes) -> None:
    """What is no size of a chunk ends the body."""
    with pytest.raises(WireError):
        BodyFraming(CHUNKED, bool).feed(line + b"\r\n")
    with pytest.raises(WireError):
        BodyFraming(CHUNKED, bool).feed(b"1\r\nab\r\n")
    with pytest.raises(WireError):
        BodyFraming(CHUNKED, bool).feed(b"1;" + b"a" * 9_000)


def test_what_is_a_hops_own_stays_there() -> None:
    """Fields of the hop go, also those that `Connection` names; the framing stays, the rest too."""
    block = (
        b"POST / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Mine, Content-Length\r\n"
        b"X-Mine: 1\r\nKeep-Alive: 5\r\nProxy-Authorization: b\r\nTE: trailers\r\n"
        b"Content-Length: 0\r\nX-A: 1\r\nx-a: 2"
    )
    kept = request_head(block).onward()
    assert kept == [(b"Host", b"a"), (b"Content-Length", b"0"), (b"X-A", b"1"), (b"x-a", b"2")]
    said = spelled((b"GET", b"/", b"HTTP/1.1"), kept)
    assert said.endswith(b"X-A: 1\r\nx-a: 2\r\n\r\n")
