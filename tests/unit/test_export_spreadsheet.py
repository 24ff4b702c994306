"""A receipt as CSV: what a reader gets out is what was put in, and no cell can act."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.export.spreadsheet import COLUMNS, inert, row, rows
from tests.exportkit import LINES, home_at, lines_of, session

STARTS = "=+-@＝＋－＠\t\r"


def read(content: bytes) -> list[list[str]]:
    """Read CSV as another program does."""
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


def test_every_line_is_a_row(tmp_path: Path) -> None:
    """Each line of the receipt is one row of one line, with its number and its hash."""
    home = home_at(tmp_path)
    session(home)
    lines = lines_of(home)
    made = list(rows(lines))
    assert len(made) == LINES + 1
    assert all(each.count(b"\n") == 1 and each.endswith(b"\r\n") for each in made)
    head, *body = read(b"".join(made))
    assert tuple(head) == COLUMNS
    assert [each[:2] for each in body] == [[str(x.entry.n), x.entry.hash] for x in lines]
    told = dict(zip(head, body[5], strict=True))
    assert (told["kind"], told["decision"], told["tool"]) == ("decision", "refuse", "shell")
    assert told["subjects"] == "rm -rf / 3 more"
    assert told["server"] == "'@files"


@given(st.lists(st.text(max_size=30), min_size=1, max_size=5))
def test_a_row_reads_back(cells: list[str]) -> None:
    """Quoting loses nothing, whatever stands in a cell."""
    assert read(row(c.encode("utf-8", "replace").decode() for c in cells)) == [
        [c.encode("utf-8", "replace").decode() for c in cells]
    ]


@given(st.text(st.sampled_from([*STARTS, *"a;,| '\"\n\x1b\x07\u202e\u200b"]), max_size=12))
def test_no_cell_acts(text: str) -> None:
    """No piece that a program may split off begins a formula, and every character is visible."""
    cell = inert(text)
    assert cell.isprintable()
    for piece in (cell, *re.split(r"[;,|]", cell)):
        assert piece.strip("\"' ")[:1] not in [*STARTS] or piece.lstrip(" ").startswith("'")


@given(st.text(max_size=30))
def test_inert_only_adds(text: str) -> None:
    """What is taken out again is what was visible before: apostrophes are all that is added."""
    cell = inert(text)
    kept = iter(cell)
    assert all(c in kept for c in text if c.isprintable())
    assert cell.replace("'", "").isprintable()


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("  @SUM(A1)", "'  @SUM(A1)"),
        ("\t=1", "\\u0009=1"),
        ("a=b-c", "a=b-c"),
        ("x;=1", "x;'=1"),
        ('x,"-2', "x,'\"-2"),
        ("＝1", "'＝1"),
        ("rm -rf a", "rm -rf a"),
        ("-rf", "'-rf"),
        ("\x1b]0;x\x07", "\\u001b]0;x\\u0007"),
        ("", ""),
    ],
)
def test_inert(text: str, cell: str) -> None:
    """A text becomes a cell that says the same and does nothing."""
    assert inert(text) == cell
