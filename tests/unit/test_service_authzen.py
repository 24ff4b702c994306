"""Which call an evaluation is about, and how several are read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.calls import Decision, Refusal
from broker.errors import BrokerError, InputError, LimitError
from broker.limits import MAX_EVALUATIONS
from broker.service.authzen import (
    Evaluation,
    answer,
    metadata,
    read_evaluation,
    read_evaluations,
    stops,
    unread,
)
from tests.servekit import CALL

TOOL = {
    "subject": {"type": "agent", "id": "main", "properties": {"ticket": "t"}},
    "action": {"name": "call", "properties": {"path": "a.py"}},
    "resource": {"type": "tool", "id": "read_file", "properties": {"server": "files"}},
    "context": {"call_id": "c1", "cwd": "src", "weather": "fine"},
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def test_a_call_of_an_agents_tool() -> None:
    """A resource of type `tool` is called with the action's properties, and nothing else."""
    found = read_evaluation(TOOL)
    assert found == Evaluation(
        ("agent", "main"), "read_file", {"path": "a.py"}, "t", "files", "c1", "src"
    )


def test_what_is_beside_properties_is_judged_as_well() -> None:
    """A property next to `type` and `id` counts, so that nothing of a resource is overlooked."""
    resource = {"type": "todo", "id": "7", "owner": "b", "properties": {"age": 1}}
    found = read_evaluation({**CALL, "resource": resource})
    assert found.tool == "can_read"
    assert found.arguments == {"type": "todo", "id": "7", "owner": "b", "age": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"subject": None},
        {"subject": {"type": "user"}},
        {"subject": {"type": "", "id": "a"}},
        {"action": {"name": 3}},
        {"resource": {"type": "todo", "id": "7", "properties": []}},
        {"resource": {"type": "todo", "id": "7", "properties": {"id": "8"}}},
        {"resource": {"type": "todo", "id": "7", "a": 1, "properties": {"a": 2}}},
        {"action": {"name": "can_read", "properties": {"type": "x"}}},
        {"resource": {"type": "tool", "id": "read_file"}},
        {
            "action": {"name": "call"},
            "resource": {"type": "tool", "id": "t", "properties": {"path": "a"}},
        },
        {"context": {"ticket": 3}},
        {"context": {"ticket": ""}},
        {"context": None},
        {"context": {"call_id": 3}},
        {
            "subject": {"type": "user", "id": "a", "properties": {"ticket": "x"}},
            "context": {"ticket": "y"},
        },
    ],
)
def test_what_has_no_one_meaning_is_an_error(change: dict[str, Any]) -> None:
    """A missing part, a wrong type and two values for one argument are errors."""
    with pytest.raises(InputError):
        read_evaluation({**CALL, **change})


@given(st.dictionaries(st.sampled_from(["subject", "action", "resource", "context"]), VALUES))
def test_reading_is_total(body: dict[str, Any]) -> None:
    """Whatever JSON comes, reading gives an evaluation or an error of ours."""
    try:
        assert isinstance(read_evaluation(body), Evaluation)
    except BrokerError as error:
        assert str(error)


@given(
    st.dictionaries(st.text(min_size=1), st.integers(), max_size=4),
    st.dictionaries(st.text(min_size=1), st.integers(), max_size=4),
)
def test_every_property_becomes_an_argument(one: dict[str, int], other: dict[str, int]) -> None:
    """No property of the action or the resource is lost, whatever it is called."""
    body = {
        **CALL,
        "action": {"name": "do", "properties": one},
        "resource": {"type": "t", "id": "i", "properties": other},
    }
    names = [*one, *other, "type", "id"]
    if len(set(names)) != len(names):
        with pytest.raises(InputError):
            read_evaluation(body)
    else:
        assert read_evaluation(body).arguments == {"type": "t", "id": "i", **one, **other}


def test_defaults_are_taken_part_by_part() -> None:
    """An evaluation's own part takes the place of the request's, and a missing one is told."""
    found = read_evaluations(
        {
            "subject": CALL["subject"],
            "action": {"name": "can_read"},
            "evaluations": [
                {"resource": {"type": "todo", "id": "1"}},
                {"resource": {"type": "todo", "id": "2"}, "action": {"name": "can_update"}},
                {},
            ],
        }
    )
    assert found is not None
    first, second, *rest = found.items
    assert isinstance(first, Evaluation)
    assert isinstance(second, Evaluation)
    assert (first.tool, second.tool, found.semantic) == ("can_read", "can_update", "execute_all")
    assert all(isinstance(item, InputError) for item in rest)


def test_a_request_without_evaluations_is_one_evaluation() -> None:
    """Without the key, and with an empty list, the request is a single one."""
    assert read_evaluations(CALL) is None
    assert read_evaluations({**CALL, "evaluations": []}) is None


def test_a_malformed_request_is_an_error_as_a_whole() -> None:
    """A semantic that is not known, no list and too many evaluations are errors of the request."""
    for change in (
        {"options": {"evaluations_semantic": "some"}},
        {"evaluations": {}},
        {"subject": 3, "evaluations": [{}]},
        {"evaluations": [7]},
    ):
        with pytest.raises(InputError):
            read_evaluations({**CALL, **change})
    with pytest.raises(LimitError):
        read_evaluations({**CALL, "evaluations": [{}] * (MAX_EVALUATIONS + 1)})


def test_where_each_semantic_stops() -> None:
    """One stops at a denial, one at a permit, and one never."""
    allowed, refused = Decision(None), Decision(Refusal("tools", "x", "no"))
    assert [stops("execute_all", d) for d in (allowed, refused)] == [False, False]
    assert [stops("deny_on_first_deny", d) for d in (allowed, refused)] == [False, True]
    assert [stops("permit_on_first_permit", d) for d in (allowed, refused)] == [True, False]


def test_answers_name_the_caveat() -> None:
    """A denial says which caveat, which value and why; an error says its status."""
    found = answer(Decision(Refusal("tools", "x", "no")))
    assert found["decision"] is False
    assert found["context"] == {
        "enforcement": "gate", "caveat": "tools", "value": "x", "reason": "no",
    }  # fmt: skip
    assert unread(InputError("no"))["decision"] is False
    assert metadata("https://a.test")["policy_decision_point"] == "https://a.test"
