"""Shared counts agree with counting on paper, whatever the network and the holders suffer."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings

from broker.budgets.memory import MemoryStore
from broker.budgets.sqlite import SqliteStore
from tests.budgetkit import LIMITS, STORIES, play


@settings(max_examples=60)
@given(LIMITS, STORIES)
def test_law_6_shared_counts_are_those_that_were_recorded(
    limits: dict[str, int | None], story: list[tuple]
) -> None:
    """Lost, late and repeated requests, and killed holders, neither lose a call nor repeat one."""
    played = play(MemoryStore(), limits, story, "t-")
    assert played.wrong == []


@settings(max_examples=5)
@given(LIMITS, STORIES)
def test_law_6_a_file_counts_as_memory_does(
    limits: dict[str, int | None], story: list[tuple]
) -> None:
    """The same story comes to the same in a file, also after it is opened anew."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "counts", 1.0)
        played = play(store, limits, story, "t-")
        names = tuple(f"t-{link}" for link in "rabc")
        spent = store.counts(names)
        store.close()
        again = SqliteStore(Path(folder) / "counts", 1.0)
        assert again.counts(names) == spent
        again.close()
    assert played.wrong == []
