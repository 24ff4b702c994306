"""A bar is shown on a terminal, after a second, and is taken away again."""

from __future__ import annotations

import sys

import pytest

from broker.cli.progress import Bar, progress


def test_a_second_passes_before_anything_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Short work shows nothing; long work shows how far it is, and not at every call."""
    times = iter([0.0, 0.5, 1.0, 1.05, 1.2, 2.0])
    bar = Bar(1_000, lambda: next(times))
    bar(100)
    assert capsys.readouterr().err == ""
    bar(250)
    said = capsys.readouterr().err
    assert said == "\r\x1b[Kverifying [######..................]  25%, 3 s left"
    bar(260)
    assert capsys.readouterr().err == ""
    bar(0)
    assert "0%, 0 s left" in capsys.readouterr().err
    bar(2_000)
    assert "100%" in capsys.readouterr().err
    bar.clear()
    assert capsys.readouterr().err == "\r\x1b[K"


def test_nothing_shown_leaves_nothing_to_clear(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no bar was shown, the terminal is left as it was; nothing to do is no fault."""
    bar = Bar(0, lambda: 0.0)
    bar(0)
    bar.clear()
    assert capsys.readouterr().err == ""


def test_only_a_terminal_gets_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe or a file gets no bar at all."""
    with progress(10) as told:
        assert told is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress(10) as told:
        assert isinstance(told, Bar)
    assert capsys.readouterr().err == ""
