"""A JSON value as what changed in it, and the value again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import TraceError
from broker.trace.bodies import delta, rebuild, rebuilt
from broker.trace.reader import RunReader
from tests.unit.tracekit import begun

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, -0.0, 1.0, 1.5]),
    st.text("ab\ud800", max_size=3),
    st.integers(0, 90).map(lambda n: "a" * n + "b" + "c" * (90 - n)),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(
            st.sampled_from(["a", "b", "in", "is", "keep", "mid", ""]), inner, max_size=5
        ),
    ),
    max_leaves=20,
)


@given(VALUES, VALUES)
def test_a_change_gives_back_what_it_was_made_of(before: object, after: object) -> None:
    """What a change makes of the one value is the other, to types and the order of keys."""
    kept = json.dumps(before)
    change = json.loads(json.dumps(delta(before, after)))
    assert json.dumps(rebuild(change, before)) == json.dumps(after)
    assert json.dumps(before) == kept


@given(VALUES)
def test_no_change_is_short(value: object) -> None:
    """The change of an object or a list to itself repeats nothing of it."""
    if isinstance(value, dict | list):
        assert len(json.dumps(delta(value, value))) < 16


@given(VALUES, VALUES)
def test_a_change_read_from_a_file_fails_in_one_way(change: object, before: object) -> None:
    """Whatever stands where a change should, it is undone or refused."""
    try:
        rebuild(change, before)
    except TraceError as error:
        assert error.code == "trace.change"


@pytest.mark.parametrize(
    ("change", "before"),
    [
        ([], {}),
        ({"keep": 2}, ["a"]),
        ({"keep": True}, ["a"]),
        ({"keep": 1, "in": {"1": {"is": 1}}}, ["a"]),
        ({"keep": 1, "in": {"-1": {"is": 1}}}, ["a"]),
        ({"keep": 1, "in": {"²": {"is": 1}}}, ["a"]),
        ({"keep": 1, "append": "x"}, ["a"]),
        ({"keep": 0}, {}),
        ({"set": {}}, []),
        ({"weather": 1}, {}),
        ({"in": {"a": {"is": 1}}}, {}),
        ({"gone": "a"}, {"a": 1}),
        ({"gone": [1]}, {"a": 1}),
        ({"order": ["a", "a"]}, {"a": 1, "b": 2}),
        ({"order": ["a", "c"]}, {"a": 1, "b": 2}),
        ({"head": 2, "tail": 0, "mid": "x"}, "a"),
        ({"head": 0, "tail": True, "mid": "x"}, "a"),
        ({"head": 0, "tail": 0, "mid": 1}, "a"),
        ({"head": 0, "tail": 0, "mid": "x"}, []),
    ],
)
def test_a_malformed_change_is_refused(change: object, before: object) -> None:
    """A change that does not fit is refused, never half undone."""
    with pytest.raises(TraceError):
        rebuild(change, before)


def test_a_mark_that_moves_costs_little() -> None:
    """A mark that wanders from one message to the next is told as that, not as two messages."""
    text = "word " * 500
    before = [{"role": "user", "content": [{"text": text, "mark": 1}]}]
    after = [{"role": "user", "content": [{"text": text}]}, {"role": "user", "content": "new"}]
    assert len(json.dumps(delta(before, after))) < 200
    assert len(json.dumps(delta("a" * 9_000 + "x" + "b" * 9_000, "a" * 9_000 + "b" * 9_000))) < 60


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ({"base": 1, "change": {}}, "before it"),
        ({"base": -1, "change": {}}, "before it"),
        ({"base": True, "change": {}}, "before it"),
        ({"change": {}}, "before it"),
        ("x", "no change"),
        ({"base": 0, "change": {"keep": 9}}, "keeps more"),
        ({"base": 0}, "object"),
    ],
)
def test_a_recorded_change_that_leads_nowhere(payload: object, why: str, tmp_path: Path) -> None:
    """A request is a change to an earlier one, or it is refused: no circle, no gap."""
    run = begun(tmp_path)
    run.event("model.request", "agent", payload=["a"])
    run.event("model.request", "agent", attrs={"delta": True}, payload=payload)
    reader = RunReader.open(run.folder)
    with pytest.raises(TraceError, match=why):
        rebuilt(reader, 1)
    with pytest.raises(TraceError, match="no request"):
        rebuilt(reader, 7)
