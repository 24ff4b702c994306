"""
How a verification is told: as lines for a person, or as one JSON document.

Decided here: the words. The last line of a text states the verdict, and the document says by
itself whether the record stands, so neither is lost with the exit code in a pipe. The document
is written piece by piece: a record of any length takes no memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.cli.output import out, paint, printable

if TYPE_CHECKING:
    from broker.cli.kept import Shown
    from broker.errors import Break, BrokerError
    from broker.receipt import Entry, Verdict


# ── for a person ──


def told(verdict: Verdict, *, notes_head: bool) -> list[str]:
    """
    Return a verdict as lines: what there is to know, then the verdict itself.

    Args:
        verdict: what was verified.
        notes_head: name the head, for who wants to write it down.
    """
    lines = f"{verdict.lines} line" + ("" if verdict.lines == 1 else "s")
    closing = (
        f"{paint('verified:', 'green')} {verdict.state}, {lines}, level {verdict.level}, "
        f"completeness {verdict.completeness}"
    )
    notes = [*_notes(verdict), *verdict.warnings]
    if notes_head and verdict.tags == "checked":
        notes.append(f"head {verdict.head}")
    return [*(f"    {printable(note)}" for note in notes), closing]


def _notes(verdict: Verdict) -> Iterable[str]:
    if verdict.state == "INTERRUPTED":
        yield f"the seal says `{verdict.reason}`"
    if verdict.state == "OPEN":
        yield "no seal yet: the session is running, or its broker was killed"
    if verdict.fragment_bytes:
        yield (
            f"{verdict.fragment_bytes} bytes of a line that was being written follow; nothing "
            "that was acknowledged is missing"
        )
    if verdict.signer:
        yield f"signed by {verdict.signer}"
    if verdict.anchors:
        yield f"anchored by {', '.join(verdict.anchors)}"
    if verdict.tags == "unchecked" and verdict.signer:
        yield "without the key the lines' tags were not checked: the signature vouches for them"
    if verdict.trusted_before:
        yield (
            f"{verdict.trusted_before} lines were not read again: they verified before, all of "
            f"them at once at {_instant(verdict.trusted_since)}"
        )
    if verdict.quick:
        yield "quick: what is in the lines was authenticated and not read"
    if verdict.completeness == "UNKNOWN" and verdict.level != "chain":
        yield "nothing here says how many lines there must be: some may be missing at the end"


def _instant(at: int) -> str:
    from broker.instants import format_instant

    return format_instant(at)


def broken(found: Break, more: int = 0) -> str:
    """Return a break as the line that states it."""
    head = paint(f"not verified ({found.reason}):", "red")
    others = f", and {more} further break{'' if more == 1 else 's'}" if more else ""
    return f"{head} {printable(found.message)}, at {place(found)}{others}"


def place(found: Break) -> str:
    """Return where a break is."""
    return f"line {found.line}, byte offset {found.offset}"


# ── for a program ──


class Document:
    """One JSON document, written while the record is read."""

    def __init__(self) -> None:
        self._lists = 0  # members of the list that is being written
        self._begun = False

    def begin(self, sid: str, path: str) -> None:
        """Write what is meant, and open the list of entries."""
        out(f'{{"sid": {json.dumps(sid)}, "path": {json.dumps(path)},\n "entries": [')
        self._begun = True

    def entry(self, entry: Entry, shown: Shown | None = None) -> None:
        """Write one entry, with what is held of the values that it only commits to."""
        from broker.instants import format_instant

        data = {"n": entry.n, "at": format_instant(entry.at), "kind": entry.kind}
        beside: dict[str, object] = {}
        if shown is not None:
            beside = {"disclosed": shown.values, "kept_out": shown.kept_out}
        self._member({**data, "data": entry.data, **beside})

    def _member(self, value: object) -> None:
        out(("  " if self._lists == 0 else "  ,") + json.dumps(value))
        self._lists += 1

    def verified(self, verdict: Verdict) -> None:
        """Write the verdict, and the end."""
        self._end(verdict_document(verdict), None)

    def broken(self, found: Break, further: Iterable[Break] = ()) -> int:
        """Write a break and those behind it, and the end; return how many those were."""
        self._close_entries()
        out(' "breaks": [')
        self._lists = 0
        self._member(break_document(found))
        for each in further:
            self._member(break_document(each))
        out(" ],")
        self._tail({"verdict": None, "break": break_document(found), "error": None})
        return self._lists - 1

    def failed(self, error: BrokerError) -> None:
        """Write why there is no verdict, and the end."""
        self._end(None, {"code": error.code, "message": error.message})

    def _end(self, verdict: object, error: object) -> None:
        self._close_entries()
        self._tail({"breaks": [], "verdict": verdict, "break": None, "error": error})

    def _close_entries(self) -> None:
        if self._begun:
            out(" ],")
        else:
            out('{"sid": null, "path": null, "entries": [],')

    def _tail(self, fields: dict[str, object]) -> None:
        stated = {"verified": fields["verdict"] is not None, **fields}
        out(f" {json.dumps(stated)[1:]}")


def verdict_document(verdict: Verdict) -> dict[str, object]:
    """Return a verdict as JSON data."""
    return {
        "state": verdict.state,
        "level": verdict.level,
        "lines": verdict.lines,
        "completeness": verdict.completeness,
        "tags": verdict.tags,
        "forward": verdict.forward,
        "reason": verdict.reason or None,
        "root": verdict.root or None,
        "head": verdict.head,
        "signed_lines": verdict.signed_lines,
        "signer": verdict.signer or None,
        "anchors": list(verdict.anchors),
        "anchored_lines": verdict.anchored_lines,
        "trusted_before": verdict.trusted_before,
        "trusted_since": _instant(verdict.trusted_since) if verdict.trusted_before else None,
        "quick": verdict.quick,
        "erased": verdict.erased,
        "warnings": list(verdict.warnings),
    }


def break_document(found: Break) -> dict[str, object]:
    """Return a break as JSON data."""
    return {
        "reason": found.reason,
        "message": found.message,
        "line": found.line,
        "offset": found.offset,
    }
