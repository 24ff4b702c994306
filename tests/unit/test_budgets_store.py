"""What all stores say when they cannot be asked."""

from __future__ import annotations

from broker.budgets.store import UNREACHABLE, unreachable


def test_a_store_that_cannot_be_asked_is_one_line_and_a_code() -> None:
    """A library's long message becomes one line of limited length, under the code to try again."""
    error = unreachable("redis://h", "a\nb" + "x" * 999)
    assert error.code == UNREACHABLE
    assert "\n" not in str(error)
    assert len(str(error)) < 300


def test_an_error_without_words_is_named() -> None:
    """An error that says nothing is told by its class."""
    assert "TimeoutError" in str(unreachable("redis://h", TimeoutError()))
