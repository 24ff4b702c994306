"""Streams of events, cut and put together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import LimitError
from broker.mcp.sse import EventReader, read_event

LINE = st.sampled_from(
    [b"data: {}", b"data:x", b"data", b"id: 1", b"event: message", b": hello", b"retry: 5", b"x"]
)
BREAK = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAM = st.lists(
    st.tuples(st.lists(LINE, min_size=1, max_size=3), BREAK), min_size=1, max_size=5
).map(lambda events: b"".join(b"".join(x + end for x in found) + end for found, end in events))


def naive(stream: bytes) -> list[bytes]:
    """Return the data of each event as the standard reads it, line by line."""
    text = stream.decode().removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found: list[bytes] = []
    data: list[str] = []
    for line in text.split("\n")[:-1]:
        if not line:
            if data:
                found.append("\n".join(data).strip().encode())
            data = []
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
    return found


@given(STREAM, st.lists(st.integers(1, 9), max_size=20), st.booleans())
def test_events_are_those_of_the_standard_however_the_stream_is_cut(
    stream: bytes, cuts: list[int], marked: bool
) -> None:
    """Every kind of line break, in pieces of any size, gives the events of a naive reader."""
    whole = (b"\xef\xbb\xbf" if marked else b"") + stream
    reader, events, at = EventReader(), [], 0
    for cut in [*cuts, len(whole)]:
        events += reader.feed(whole[at : at + cut])
        at += cut
    assert [e.data for e in events if e.data] == [d for d in naive(whole) if d]
    raw = b"".join(event.raw for event in events)
    assert stream.startswith(raw)
    assert not stream[len(raw) :].strip()


def test_a_mark_of_byte_order_hides_nothing() -> None:
    """A reader drops it, so what stands behind it is data here too."""
    events = list(EventReader().feed(b"\xef\xbb\xbfdata: {}\n\n"))
    assert [event.data for event in events] == [b"{}"]


def test_an_event_that_is_not_changed_goes_on_as_it_came() -> None:
    """Bytes, comments and line breaks are kept."""
    raw = b": hi\r\nevent: message\r\nid: 7\r\ndata: {}\r\n\r\n"
    event = read_event(raw)
    assert event.holding(b"{}") == raw
    assert event.holding(b"[]") == b"id: 7\ndata: []\n\n"
    assert event.holding(None) == b"id: 7\n\n"
    assert read_event(b"data: {}\n\n").holding(None) == b""


def test_an_event_has_a_largest_size() -> None:
    """A stream without an end is given up."""
    reader = EventReader(limit=8)
    with pytest.raises(LimitError):
        list(reader.feed(b"data: 123456"))
