"""Values beside a receipt are shown where they are held, and counted where they are not."""

from __future__ import annotations

import os
from pathlib import Path

from broker.cli.kept import Kept, Shown
from broker.receipt.commitment import commit
from broker.sessions.conceal import Disclosures


def line(folder: Path | None, *names: str) -> dict[str, object]:
    """Return data that conceal fields, their values kept in the folder."""
    data = {"tool": "read", "path": "a", "why": "b"}
    signed, kept = commit(data, names, os.urandom)
    if folder is not None:
        Disclosures(folder).add(kept)
    return signed


def test_values_that_are_held(tmp_path: Path) -> None:
    """All of a line's values are shown; a line that conceals nothing has none."""
    kept = Kept(tmp_path)
    assert kept.shown(line(None)) is None
    assert kept.shown(line(tmp_path, "path", "why")) == Shown({"path": "a", "why": "b"}, 0)


def test_values_that_are_not_held(tmp_path: Path) -> None:
    """Of a copy, and of what was erased, only the number is known."""
    assert Kept(None).shown(line(tmp_path, "path")) == Shown({}, 1)
    assert Kept(tmp_path).shown(line(None, "path", "why")) == Shown({}, 2)


def test_a_file_that_is_not_safe_keeps_nothing_from_verifying(tmp_path: Path) -> None:
    """Nothing of it is shown, and the person is told why."""
    concealed = line(tmp_path, "path")
    (tmp_path / "disclosures").chmod(0o644)
    kept = Kept(tmp_path)
    assert kept.shown(concealed) == Shown({}, 1)
    assert "disclosures" in kept.warnings[0]


def test_a_value_for_a_field_that_the_line_shows(tmp_path: Path) -> None:
    """A commitment to a field that stands there in clear is not shown twice; it is told."""
    signed, kept = commit({"tool": "read"}, ["tool"], os.urandom)
    Disclosures(tmp_path).add(kept)
    found = Kept(tmp_path)
    assert found.shown({**signed, "tool": "x"}) == Shown({}, 1)
    assert "names `tool`" in found.warnings[0]
