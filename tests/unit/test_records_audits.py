"""The record of a call whose arguments a hook changed, or that did not run."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.capabilities.clock import FakeClock
from broker.capabilities.memory import MemoryFiles
from broker.records.audits import ToolAudits, changed_paths
from broker.records.store import RecordStore

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)


class Scene:
    """Audits on fakes."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.store = RecordStore(self.files.below("/r"))
        self.audits = ToolAudits(self.store, FakeClock())


def test_a_clean_call_leaves_no_audit() -> None:
    """Nothing is written where nothing differs and nothing was stopped."""
    scene = Scene()
    assert scene.audits.observe("c", "read", {"path": "a"}, {"path": "a"}) is None
    assert scene.store.read().records == ()


def test_a_changed_call_leaves_one_with_its_paths() -> None:
    """What ran is kept, and where it differs from what was asked."""
    scene = Scene()
    audit = scene.audits.observe("c", "read", {"path": "a", "n": [1]}, {"path": "b", "n": [1]})
    assert audit is not None
    assert (audit.outcome, audit.changed, audit.arguments) == (
        "ran",
        ("path",),
        {"path": "b", "n": [1]},
    )
    assert scene.store.read().records == (audit,)


@pytest.mark.parametrize("outcome", ["blocked", "invalid_arguments"])
def test_a_stopped_call_leaves_one_with_its_reason(outcome: str) -> None:
    """A call that did not run is recorded even if nothing was changed, without its secrets."""
    scene = Scene()
    arguments = {"header": "Authorization: Bearer abcdef"}
    audit = scene.audits.observe(
        "c", "fetch", arguments, arguments, outcome=outcome, reason="TOKEN=abc is no reason"  # type: ignore[arg-type]  # a parameter
    )  # fmt: skip
    assert audit is not None
    assert (audit.outcome, audit.reason) == (outcome, "TOKEN=[hidden] is no reason")
    assert audit.redacted == ("header (substring)",)
    assert b"abcdef" not in scene.files.nodes["/r/records.jsonl"].content


def test_a_failed_write_never_fails_the_call() -> None:
    """The call goes on, and the loss is counted."""
    scene = Scene()
    scene.files.fail_write(1)
    assert scene.audits.observe("c", "read", {}, {"a": 1}) is None
    assert scene.audits.lost == 1
    assert scene.audits.observe("c", "read", {}, {"a": object()}) is None
    assert scene.audits.lost == 2
    assert scene.audits.observe("c", "read", {}, {"a": 1}) is not None


@given(asked=VALUES, ran=VALUES)
def test_there_are_paths_exactly_where_something_differs(asked: object, ran: object) -> None:
    """Equal values have none, different ones have some, whoever comes first."""
    same = _sorted(asked) == _sorted(ran)
    assert (changed_paths(asked, ran) == []) == same
    assert bool(changed_paths(asked, ran)) == bool(changed_paths(ran, asked))
    assert changed_paths(asked, copy.deepcopy(asked)) == []


def _sorted(value: object) -> object:
    """Return a value in which the order of keys is the same, and 1 is not True."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else repr(value)
