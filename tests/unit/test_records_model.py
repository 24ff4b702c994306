"""The three records and their canonical form."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.records.model import (
    Body,
    Failure,
    ProviderRequest,
    ProviderResponse,
    ToolAudit,
    line,
    record_of,
)

BODY = Body(("a", {"piece": "p", "join": ","}), "d", 3, "utf-8", False, ("x",), {"name": 1})
REQUEST = ProviderRequest("r", 5, 0, 1, "main", "host", "m", "other", "d" * 64, 3, BODY)
RESPONSE = ProviderResponse(
    "r", 9, 529, None, {"input": 1}, 4, Failure("overloaded", "no room"), "d", 0, None
)
AUDIT = ToolAudit(
    "c", 7, "read", "blocked", "no", ("/a", "/b/0"), ("/c",), "d", {"a": [1, None]}, ("a",)
)


@pytest.mark.parametrize("record", [REQUEST, RESPONSE, AUDIT])
def test_a_record_is_read_as_it_was_written(record: ProviderRequest | ProviderResponse) -> None:
    """A line gives the record that it was made of, and has one form only."""
    said = line(record.data())
    assert record_of(json.loads(said)) == record
    assert line(record_of(json.loads(said)).data()) == said
    assert said.count(b"\n") == 1


def test_each_says_what_it_is() -> None:
    """The type and its version stand in every line."""
    types = [record.data()["type"] for record in (REQUEST, RESPONSE, AUDIT)]
    assert types == ["provider.request.v1", "provider.response.v1", "tool.audit.v1"]


@pytest.mark.parametrize(
    "change",
    [{"type": "x.v1"}, {"at": "yesterday"}, {"more": 1}, {"body": "x"}, {"body": {"parts": 1}}],
)
def test_what_is_no_record_is_not_read(change: dict[str, object]) -> None:
    """Another type, a wrong instant, an unknown field and a broken body are errors."""
    with pytest.raises((ValueError, KeyError, TypeError)):
        record_of({**REQUEST.data(), **change})


@given(text=st.text(st.characters(codec=None)))
def test_any_text_has_a_line(text: str) -> None:
    """A lone surrogate and a line break in a text do not break the line."""
    said = line({"text": text})
    assert json.loads(said) == {"text": text}
    assert said.count(b"\n") == 1
