"""The table of attacks says what is so: every row has its test, and every test its row."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.catalogue import (
    AS_A_PERSON_SEES_IT,
    DIFFERS,
    MODULES,
    MOUNTED,
    NOT_HERE,
    account,
    exit_of,
)
from tests.attacks.test_attacks_v1 import CASES

ROOT = Path(__file__).resolve().parents[2]


@cache
def said_by(path: str) -> dict[str, str]:
    """Return the tests of a module and what each says that it proves."""
    found = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    return {
        node.name: ast.get_docstring(node) or ""
        for node in found
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.fixture
def rows(shared: Path) -> list[dict[str, Any]]:
    """The rows of the first two phases."""
    found = json.loads((shared / "attacks" / "attacks.json").read_text())["attacks"]
    return [row for row in found if row["phase"] in ("v1", "v2")]


def named() -> Iterator[tuple[str, str, str]]:
    """Yield each row with the path and the name of each of its tests."""
    for row, places in MOUNTED.items():
        assert places, row
        for place in places:
            module, name = place.split("::")
            yield row, MODULES[module], name


def test_each_row_has_its_tests() -> None:
    """Every test that the table names is there, and carries the row's id in words or as a case."""
    for row, path, name in named():
        said = said_by(path)
        assert name in said, (row, name)
        crash = path.startswith("tests/crash")
        assert row in said[name] or row in AS_A_PERSON_SEES_IT or crash, (row, name)
    assert sorted(AS_A_PERSON_SEES_IT) == sorted(CASES)


def test_no_row_is_missing(rows: list[dict[str, Any]]) -> None:
    """The rows of the first two phases are mounted, or cannot be run and say why; no others are."""
    wanted = {row["id"] for row in rows}
    assert wanted == {*MOUNTED, *NOT_HERE}
    assert not set(MOUNTED) & set(NOT_HERE)
    assert set(DIFFERS) <= set(MOUNTED)
    assert f"{len(wanted) - len(NOT_HERE)} attacks are mounted" in account()


def test_exit_codes_are_the_catalogues(rows: list[dict[str, Any]]) -> None:
    """What the command answers to a case has its row's exit code, or the table says why not."""
    for row in rows:
        if row["id"] in CASES and row["id"] not in DIFFERS:
            assert exit_of(CASES[row["id"]][0]) == row["expected"]["exit"], row["id"]
