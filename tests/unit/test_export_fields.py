"""Entries of any shape are read without a fault, and ids are made from what they name."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.export.fields import refused, subjects, text, texts, urn, uuid_of, wording
from broker.receipt.entry import Entry

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
NAMES = ("agent", "answer", "caveats", "decision", "line", "ok", "reason", "subjects", "text")
KINDS = ("open", "intent", "ticket", "delegate", "decision", "permission", "result", "note",
         "dropped", "recover", "redact", "seal")  # fmt: skip
DATA = st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6)


@given(st.sampled_from(KINDS), DATA)
def test_any_entry_can_be_told(kind: str, data: dict[str, object]) -> None:
    """No data of the model makes reading it fail, and the answers are texts."""
    entry = Entry(3, "0" * 64, kind, 0, data)
    assert isinstance(wording(entry), str)
    assert all(isinstance(each, str) for each in (*subjects(data), *texts(data, "caveats")))
    assert isinstance(text(data, "reason"), str)
    assert refused(entry) in (True, False)


@pytest.mark.parametrize(
    ("kind", "data", "told"),
    [
        ("open", {"agent": "me", "workspace": "/ws"}, "me in /ws"),
        ("intent", {"line": "go"}, "go"),
        ("ticket", {"caveats": ["a=1", "b=2"]}, "a=1 b=2"),
        ("ticket", {"caveats": [], "chain": ["secret"]}, "no caveat"),
        ("permission", {"answer": "refuse"}, "refuse"),
        ("result", {"ok": True}, "ended well"),
        ("result", {"ok": False}, "failed"),
        ("note", {"source": "agent", "text": "hm"}, "agent: hm"),
        ("seal", {"reason": "complete"}, "complete"),
        ("dropped", {"count": 2}, '{"count":2}'),
        ("decision", {"tool": "x"}, ""),
    ],
)
def test_wording(kind: str, data: dict[str, object], told: str) -> None:
    """Each kind says what matters of it."""
    assert wording(Entry(0, "", kind, 0, data)) == told


def test_a_uuid_is_of_version_8() -> None:
    """The ids are UUIDs of the version and variant that are free to be made from a hash."""
    made = UUID(uuid_of("use", "name"))
    assert (made.version, made.variant) == (8, "specified in RFC 4122")


@given(st.text(max_size=20))
def test_a_urn_is_ascii_and_keeps_its_parts(name: str) -> None:
    """Nothing in a name can end the part of the URN that it stands in."""
    made = urn("agent", name)
    assert made.isascii()
    assert made.count(":") == 3
    assert not any(c.isspace() for c in made)
