"""Of the fields of a head only those are remembered that stand in a list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.capture.http1 import request_head
from broker.capture.passing import MARKS, marks_of


@given(
    st.from_regex(rb"[A-Za-z-]{1,20}", fullmatch=True),
    st.from_regex(rb"[!-~]{1,40}", fullmatch=True),
)
def test_no_field_is_remembered_that_is_not_listed(name: bytes, value: bytes) -> None:
    """Whatever a field is called, it is remembered only by being listed."""
    found = marks_of(request_head(b"GET / HTTP/1.1\r\n" + name + b": " + value))
    assert bool(found) == (name.lower() in MARKS)


def test_what_is_remembered_is_short() -> None:
    """A field that somebody filled up costs no memory."""
    found = marks_of(request_head(b"GET / HTTP/1.1\r\nX-Session-Id: " + b"a" * 9_999))
    assert len(found["x-session-id"]) == 256
