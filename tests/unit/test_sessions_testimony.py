"""What a session is told of calls, and keeps apart from what the gate saw."""

from __future__ import annotations

import pytest

from broker.errors import StoreError
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


def test_each_is_recorded_under_a_kind_of_its_own(bench: Bench) -> None:
    """An outcome is kept as a digest, an answer and a note as text that is cut to size."""
    session = bench.open()
    session.result("c1", ok=False, output="a secret thing")
    session.permission("c1", allowed=False, reason="r" * 100_000)
    session.note("n" * 100_000, source="test")
    (result, permission, note) = bench.entries(session.sid)[-3:]
    assert result[0] == "result"
    assert "secret" not in str(result[1])
    assert (permission[0], permission[1]["answer"]) == ("permission", "refuse")
    assert note[0] == "note"
    assert max(len(note[1]["text"]), len(permission[1]["reason"])) < 100_000


def test_nothing_is_told_to_a_session_that_is_over(bench: Bench) -> None:
    """Behind a seal stands nothing."""
    session = bench.open()
    session.seal()
    for tell in (
        lambda: session.result("c", ok=True),
        lambda: session.permission("c", allowed=True),
        lambda: session.note("x", source="y"),
    ):
        with pytest.raises(StoreError):
            tell()
