"""The process that takes snapshots, asked by lines."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from broker.capture import snapper
from broker.capture.snapper import Snapper, serve
from broker.capture.treestore import EMPTY, git_program


def order(place: Path) -> dict[str, object]:
    """Return what a process is told first."""
    (place / "space").mkdir(exist_ok=True)
    return {
        "root": str(place / "space"),
        "store": str(place / "fs"),
        "closed": [],
        "git": git_program() or "",
        "salt": "",
    }


def test_a_turn_tells_what_changed(tmp_path: Path) -> None:
    """The first snapshot tells no changes; the next ones tell what differs from the one before."""
    made = Snapper(order(tmp_path))
    try:
        assert made.take("first", 1)["tree"] == EMPTY
        (tmp_path / "space" / "f").write_text("one\ntwo\n", encoding="utf-8")
        found = made.take("second", 2)
        (change,) = _changes(found)
        assert (change["path"], change["status"]) == ("f", "added")
        assert (change["insertions"], change["deletions"], found["changed"]) == (2, 0, 1)
        assert change["diff"].endswith("+one\n+two\n")
        assert _changes(made.take("third", 3)) == []
    finally:
        made.close()


def test_many_changes_are_only_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that changes very many files tells how many."""
    monkeypatch.setattr(snapper, "MAX_CHANGES", 3)
    made = Snapper(order(tmp_path))
    try:
        made.take("first", 1)
        for name in "abcd":
            (tmp_path / "space" / name).write_text(name, encoding="utf-8")
        found = made.take("second", 2)
        assert (found["changed"], found["changes"]) == (4, [])
    finally:
        made.close()


def test_it_answers_until_nobody_asks(tmp_path: Path) -> None:
    """Each line gets one line, and the end of the lines is the end."""
    asked = [order(tmp_path), {"message": "one", "at_s": 1}, {"message": "two", "at_s": 2}]
    answers = io.BytesIO()
    serve(io.BytesIO(b"".join(json.dumps(each).encode() + b"\n" for each in asked)), answers)
    found = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert [each["files"] for each in found] == [0, 0]


def test_what_cannot_be_kept_is_said(tmp_path: Path) -> None:
    """A store that cannot be made is answered as an error, and nothing follows."""
    asked = [{**order(tmp_path), "git": "/nowhere/git"}, {"message": "one", "at_s": 1}]
    answers = io.BytesIO()
    serve(io.BytesIO(b"".join(json.dumps(each).encode() + b"\n" for each in asked)), answers)
    (found,) = map(json.loads, answers.getvalue().splitlines())
    assert "git cannot keep snapshots" in found["error"]


def _changes(found: Mapping[str, object]) -> list[dict[str, Any]]:
    changes = found["changes"]
    assert isinstance(changes, list)
    return changes
