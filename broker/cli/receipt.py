"""
`broker receipt`: what was allowed and refused in a session, and whether that record stands.

Decided here: how a verified record is shown. Entries are taken from the verifier one by one, so
nothing that was not authenticated is ever printed; where it finds a break, what stood before
the break is shown, then the break, and the exit code is 1.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.exits import ALLOWED, REFUSED
from broker.cli.output import json_out, out, paint, printable
from broker.cli.typed import Json
from broker.errors import Break

if TYPE_CHECKING:
    from broker.receipt import Entry, Key, Verdict

EXAMPLES = """\
\b
Examples:
  broker receipt                      the latest session, entry by entry
  broker receipt k3v --refused        only what was refused there
  broker receipt --verify && echo 'nothing was changed, cut or left out'
  broker receipt --json > session.json

\b
ID is the beginning of a session's name (see `broker sessions`).
Exit code: 0 verified, 1 not verified (the first break is named), 2 no such session, no key, or
nothing to verify.
"""


def receipt(
    id_: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", show_default="the latest session"),
    ] = None,
    refused: Annotated[bool, typer.Option("--refused", help="Show only refusals.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Verify, and show no entries.")] = False,
    as_json: Json = False,
) -> int:
    """Show and verify the record of a session."""
    from broker.cli.story import refuses, story_line
    from broker.cli.wires import installation_key
    from broker.home import Home
    from broker.receipt import Receipts

    home = Home.find(os.environ)
    key = installation_key(home)
    receipts = Receipts(home, key)
    sid = receipts.find(id_)
    found = _Found(receipts.path(sid), receipts.head_path(sid), key, sid)
    kept: list[Entry] = []
    if not as_json:
        out(paint(f"receipt {sid}", "bold") + f"  {printable(str(found.path))}")
    try:
        for entry in () if verify else found.entries():
            if refused and not refuses(entry):
                continue
            if as_json:
                kept.append(entry)
            else:
                out(story_line(entry))
        verdict = found.verdict()
    except Break as error:
        if as_json:
            json_out(_document(sid, kept, None, error))
        else:
            out(_broken(error))
        return REFUSED
    if as_json:
        json_out(_document(sid, kept, verdict, None))
    else:
        for line in _verified(verdict):
            out(line)
    return ALLOWED


@dataclass(frozen=True, slots=True)
class _Found:
    """One session's record, and what it is verified with."""

    path: Path
    head: Path
    key: Key
    sid: str

    def entries(self) -> Iterator[Entry]:
        from broker.receipt import read_entries

        return read_entries(self.path, self.key, self.head, sid=self.sid)

    def verdict(self) -> Verdict:
        from broker.receipt import verify

        return verify(self.path, key=self.key, head=self.head, sid=self.sid, now=time.time_ns())


def _verified(verdict: Verdict) -> list[str]:
    lines = f"{verdict.lines} line" + ("" if verdict.lines == 1 else "s")
    head = paint("verified:", "green")
    first = f"{head} {verdict.state}, {lines}, level {verdict.level}, {_complete(verdict)}"
    told = [f"the seal says `{verdict.reason}`"] if verdict.state == "INTERRUPTED" else []
    if verdict.state == "OPEN":
        told.append("no seal yet: the session is running, or its broker was killed")
    if verdict.fragment_bytes:
        told.append(
            f"{verdict.fragment_bytes} bytes of a line that was being written follow; nothing "
            "that was acknowledged is missing"
        )
    told += verdict.warnings
    return [first, *(f"    {printable(line)}" for line in told)]


def _complete(verdict: Verdict) -> str:
    return f"completeness {verdict.completeness}"


def _broken(error: Break) -> str:
    where = f"line {error.line}, byte offset {error.offset}"
    head = paint(f"not verified ({error.reason}):", "red")
    return f"{head} {printable(error.message)}, at {where}"


def _document(
    sid: str, entries: Sequence[Entry], verdict: Verdict | None, broken: Break | None
) -> dict[str, object]:
    from broker.instants import format_instant

    return {
        "sid": sid,
        "verified": broken is None,
        "verdict": None if verdict is None else verdict_document(verdict),
        "break": None if broken is None else break_document(broken),
        "entries": [
            {"n": e.n, "at": format_instant(e.at), "kind": e.kind, "data": e.data} for e in entries
        ],
    }


def verdict_document(verdict: Verdict) -> dict[str, object]:
    """Return a verdict as JSON data."""
    return {
        "state": verdict.state,
        "level": verdict.level,
        "lines": verdict.lines,
        "completeness": verdict.completeness,
        "reason": verdict.reason or None,
        "warnings": list(verdict.warnings),
    }


def break_document(broken: Break) -> dict[str, object]:
    """Return a break as JSON data."""
    return {
        "reason": broken.reason,
        "message": broken.message,
        "line": broken.line,
        "offset": broken.offset,
    }
