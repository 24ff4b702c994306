"""Bodies that no client should send do not stop the scripted model's Gemini wire."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker.loopback.gemini import Gemini
from broker.loopback.script import Say, Use, place

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "type", "content", "text", "parts", "input", "messages"]),
            inner,
        )
    ),
    max_leaves=8,
)
BODIES = st.dictionaries(st.sampled_from(["messages", "input", "contents", "tools"]), VALUES)


@given(body=BODIES)
def test_any_object_is_read(body: dict[str, Any]) -> None:
    """Whatever an object holds, it has a place in no script or in one, and never crashes."""
    assert place(Gemini().read(body)).turn >= 0
    assert Gemini().offers_tools(body) in (True, False)


def test_what_is_written_is_read_as_an_answer() -> None:
    """Both kinds of turn have a stream, and each event of it has data."""
    for turn in (Say("hi"), Use([("read", {"path": "a"}), ("write", {})])):
        told = list(Gemini().stream(Gemini().write(turn, "main-0", "m")))
        assert told
        assert all(data for _, data in told)
