"""JSON of any shape is read as what it holds, or as nothing."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from broker.replay.translation.shapes import count, event, rows, some, table, text, words

_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(_ANY)
def test_reading_never_fails(value: object) -> None:
    """Whatever is there, each reader gives what it says it gives."""
    assert all(isinstance(row, dict) for row in rows(value))
    assert isinstance(table(value), dict)
    assert isinstance(text(value), str)
    assert count(value) >= 0
    assert some(value) is None or count(value) == some(value)
    assert all(isinstance(each, str) for each in words(value))


@given(st.text(), st.text(alphabet="abc."))
def test_an_event_holds_its_body_on_one_line(said: str, name: str) -> None:
    """No content breaks an event in two."""
    told = event({"said": said}, name)
    assert told.endswith(b"\n\n")
    assert told.count(b"\n") == 2 + bool(name)
    assert json.loads(told.split(b"data: ", 1)[1]) == {"said": said}
