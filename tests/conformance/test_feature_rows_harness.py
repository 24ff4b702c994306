"""Every row of the harness's and the recorder's features has tests that are there, or a reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = {*range(10, 16), *range(23, 30), 31, *range(32, 81)}
WITHOUT = {61, 62, 64, 70, 73, 74, 75}  # not there, each with its reason
ROW = re.compile(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def shown() -> dict[int, list[str]]:
    """Return the tests that the page names for each row."""
    page = (ROOT / "docs/features.md").read_text(encoding="utf-8")
    return {int(no): re.findall(r"`([^`]+::[^`]+)`", tests) for no, tests in ROW.findall(page)}


def named_in(name: str) -> set[str]:
    """Return the tests in the file of a name, also those in its classes."""
    (path,) = (p for p in (ROOT / "tests").rglob(name) if "__pycache__" not in p.parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_row_is_shown_by_tests_that_are_there() -> None:
    """No row is missing, and no test that a row names has gone."""
    rows = shown()
    assert set(rows) == ROWS
    assert {no for no, names in rows.items() if not names} == WITHOUT
    files: dict[str, set[str]] = {}
    for no, names in rows.items():
        for name in names:
            file, _, test = name.partition("::")
            found = files.setdefault(file, named_in(file))
            assert test in found, f"row {no}: there is no `{name}`"
