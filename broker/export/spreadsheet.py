r"""
A receipt as CSV (RFC 4180): one row for each line, one line for each row.

Decided here: the columns, and that no cell can do anything. A spreadsheet runs a cell that
begins like a formula, a terminal obeys control characters, and much of what is recorded was
chosen by an agent. So what does not print as itself is spelled out (``\u001b``), every cell is
quoted, and an apostrophe goes before whatever could be read as the start of a formula. Some
programs split at semicolons or bars too, so the start of each such piece is treated alike.

Rule a maintainer keeps: a column keeps its name and its place; a new one goes to the right end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from broker.export.fields import subjects, text, wording
from broker.export.source import Line
from broker.receipt.display import escaped
from broker.receipt.entry import Entry, format_at

COLUMNS: Final = (
    "line",
    "sha256",
    "at",
    "kind",
    "decision",
    "actor",
    "tool",
    "server",
    "subjects",
    "caveat",
    "value",
    "reason",
    "enforcement",
    "call",
    "ticket",
    "text",
)

# What a spreadsheet takes for a formula, the full-width look-alikes included, at the start of a
# cell or of a piece of one.
_FORMULA: Final = re.compile(r"(^|[;,|])(?=[\s'\"]*[=+\-@＝＋－＠])")


def inert(value: str) -> str:
    r"""
    Return text that neither a spreadsheet nor a terminal acts on.

    >>> print(inert("=1+1"), inert("a;@b"), inert("ok\x1b[2J"), inert("a-b = c"))
    '=1+1 a;'@b ok\u001b[2J a-b = c
    """
    if value.isalnum():  # most cells, and no such character begins or splits anything
        return value
    return _FORMULA.sub(r"\1'", escaped(value)) if value else ""


def row(cells: Iterable[str]) -> bytes:
    r"""
    Return one row, each cell quoted.

    >>> row(["1", 'say "x" now'])
    b'"1","say ""x"" now"\r\n'
    """
    quoted = ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)
    return quoted.encode() + b"\r\n"


HEADER: Final = row(COLUMNS)


def rows(lines: Iterable[Line]) -> Iterator[bytes]:
    """Yield the header, then a row for each line."""
    yield HEADER
    for line in lines:
        entry = line.entry
        ours = (str(entry.n), entry.hash, format_at(entry.at), entry.kind)
        yield row((*ours, *map(inert, _cells(entry))))


def _cells(entry: Entry) -> Iterator[str]:
    """Yield what others chose: the cells behind the first four."""
    data = entry.data
    yield text(data, "decision") or text(data, "answer")
    yield text(data, "actor") or text(data, "asked_by")
    yield text(data, "tool")
    yield text(data, "server")
    yield " ".join(subjects(data))
    yield text(data, "caveat")
    yield text(data, "value")
    yield text(data, "reason") if entry.kind != "seal" else ""
    yield text(data, "enforcement")
    yield text(data, "call")
    yield text(data, "ticket")
    yield wording(entry)
