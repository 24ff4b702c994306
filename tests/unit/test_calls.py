"""Calls and decisions: frozen values, the cost of nested calls, and no truth value."""

from __future__ import annotations

import copy
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.calls import (
    ALLOW,
    ALLOW_SANDBOXED,
    ALLOW_UNSEEN,
    Call,
    Decision,
    Fault,
    PathSubject,
    Refusal,
    UrlSubject,
)
from broker.limits import MATCH_SETUP_CHARS, MAX_QUICK_CHARS

VALUES = [
    PathSubject("path", "src/a.py", "read", ("src/a.py/",)),
    UrlSubject("url", "https://a.example/", "https", "a.example", 443, ("a.example",)),
    Fault("path", "path", "empty"),
    Call("read_file"),
    Refusal("paths", "src/**", "outside"),
    ALLOW,
]

calls = st.recursive(
    st.builds(Call, st.just("t")),
    lambda inner: st.builds(Call, st.just("t"), nested=st.lists(inner, max_size=4).map(tuple)),
    max_leaves=12,
)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_cannot_be_changed(value: object) -> None:
    """What was judged is what runs: no field can be set, and no new one added."""
    names = getattr(value, "_fields", None) or [f.name for f in dataclasses.fields(value)]
    assert len(names) > 1
    for name in names:
        with pytest.raises(AttributeError):
            setattr(value, name, None)
    with pytest.raises((AttributeError, TypeError)):
        object.__setattr__(value, "extra", 1)
    assert hash(value) == hash(copy.deepcopy(value))


def test_a_decision_is_not_a_bool() -> None:
    """`if decision` is an error, since a refusal would be true."""
    for decision in (ALLOW, Decision(Refusal("calls", "10", "spent"))):
        with pytest.raises(TypeError, match="not a bool"):
            bool(decision)


def test_allowed_says_whether_there_is_a_refusal() -> None:
    """A decision allows exactly when it holds no refusal."""
    assert ALLOW.allowed
    assert not Decision(Refusal("calls", "10", "spent")).allowed


def test_the_ready_decisions_say_what_stops_the_call() -> None:
    """The three ready allowances differ in what really enforces them."""
    ready = [d.enforcement for d in (ALLOW, ALLOW_UNSEEN, ALLOW_SANDBOXED)]
    assert ready == ["gate", "none", "kernel"]


def count(call: Call) -> int:
    """Count a call and every call inside it, slowly."""
    waiting, found = [call], 0
    while waiting:
        found += 1
        waiting += waiting.pop().nested
    return found


@given(calls)
def test_the_cost_is_the_number_of_calls(call: Call) -> None:
    """A call costs itself and every call inside it, however deep."""
    assert call.cost() == count(call)


def test_the_extent_of_a_call() -> None:
    """Every name and place counts with its length and what one comparison takes to begin."""
    place = PathSubject("path", "src/a", "write", ("src/a/", "lib/"))
    inner = Call("in", paths=(place,))
    assert inner.extent() == 3 * MATCH_SETUP_CHARS + 2 + 6 + 4
    assert Call("out", nested=(inner, inner)).extent() == MATCH_SETUP_CHARS + 3 + 2 * inner.extent()


def test_a_place_of_any_length_has_a_shape_or_none() -> None:
    """A place that is longer than is compared unmeasured is nothing for the quick road."""
    for chars, shape in ((MAX_QUICK_CHARS, "read"), (MAX_QUICK_CHARS + 1, "other")):
        path = PathSubject("path", "a", "read", ("a" * (chars - 1) + "/",))
        assert Call("read", paths=(path,)).shape == shape
