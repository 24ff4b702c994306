"""
`broker receipt disclose`, `verify-disclosure`, `erase`: values that a receipt only commits to.

Decided here: how a person picks a value, and in which form it is handed on. What a commitment
proves is ``broker.receipt.commitment``; where values are kept is ``broker.sessions.conceal``.

A handed-on disclosure names the line it is for: ``{"n": 5, "disclosure": "…"}``, one a line. Who
gets the file and the receipt can prove each value with `verify-disclosure`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broker.cli import completing
from broker.cli.exits import ALLOWED, REFUSED
from broker.cli.output import json_out, out, paint, printable
from broker.cli.typed import Json, file_bytes
from broker.errors import Break, InputError

if TYPE_CHECKING:
    from pathlib import Path

    from broker.receipt import Entry, Receipts

Line = Annotated[int | None, typer.Option("--line", metavar="N", help="Only of this line.", min=0)]
Field = Annotated[
    str | None, typer.Option("--field", metavar="NAME", help="Only of fields with this name.")
]
Id = Annotated[
    str | None,
    typer.Argument(
        autocompletion=completing.session_ids, metavar="[ID]", show_default="the latest session"
    ),
]

DISCLOSE = """\
\b
Examples:
  broker receipt disclose k3v > values.jsonl         all that was concealed and not erased
  broker receipt disclose k3v --line 5 --field args

\b
The file proves itself against the receipt: broker receipt verify-disclosure values.jsonl k3v
"""
VERIFY = """\
\b
Example:
  broker receipt verify-disclosure values.jsonl k3v

\b
Exit code: 0 every value is the one that its line committed to, 1 one is not, or the receipt does
not verify, 2 bad input.
"""
ERASE = """\
\b
Example:
  broker receipt erase k3v --line 5 --reason 'asked for by the person concerned'

\b
The receipt still verifies: its line holds the commitment, not the value. That it was erased,
and why, stands in the ledger for good, and every verdict says it. Copies that were handed on are
not reached.
"""


def disclose(
    id_: Id = None,
    line: Line = None,
    field: Field = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write there.")
    ] = None,
) -> int:
    """Hand on values that a receipt only commits to."""
    from broker.receipt.entry import canonical

    store = _Store.find(id_)
    found = [
        canonical({"n": entry.n, "disclosure": text})
        for entry, name, text in store.values()
        if line in (None, entry.n) and field in (None, name)
    ]
    if not found:
        raise _nothing(store.sid)
    content = "".join(f"{text}\n" for text in found)
    if output is None:
        out(content.rstrip("\n"))
    else:
        _write_new(output, content)
        out(f"{len(found)} value{'s'[: len(found) != 1]} in {printable(output)}")
    return ALLOWED


def verify_disclosure(
    file: Annotated[str, typer.Argument(metavar="FILE")],
    id_: Id = None,
    as_json: Json = False,
) -> int:
    """Prove that values are the ones a receipt committed to."""
    from broker.receipt import commitment

    handed = handed_on(file_bytes(file, "the disclosures"))
    store = _Store.find(id_)
    proven: list[dict[str, Any]] = []
    try:
        for entry in store.entries():
            values = commitment.proven(entry.data, handed.pop(entry.n, ()))
            proven += [{"n": entry.n, "field": k, "value": v} for k, v in sorted(values.items())]
        if handed:
            raise _no_line(min(handed))
    except Break as error:
        if as_json:
            json_out({"sid": store.sid, "proven": False, "message": error.message})
        else:
            out(f"{paint('not proven:', 'red')} {printable(error.message)}")
        return REFUSED
    if as_json:
        json_out({"sid": store.sid, "proven": True, "values": proven})
        return ALLOWED
    for value in proven:
        out(f"line {value['n']}  {value['field']}: {_said(value['value'])}")
    out(f"{paint('proven:', 'green')} each value is the one that its line committed to")
    return ALLOWED


def erase(
    id_: Annotated[str, typer.Argument(autocompletion=completing.session_ids, metavar="ID")],
    line: Line = None,
    field: Field = None,
    *,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept.")],
) -> int:
    """Erase values that a receipt only commits to; the receipt still verifies."""
    from broker.receipt.commitment import digest

    store = _Store.find(id_)
    found = [
        (entry.n, name, digest(text))
        for entry, name, text in store.values()
        if line in (None, entry.n) and field in (None, name)
    ]
    if not found:
        raise _nothing(store.sid)
    store.erase(found, reason)
    for n, name, _ in found:
        out(f"erased: line {n}, {printable(name)}")
    return ALLOWED


def _nothing(sid: str) -> InputError:
    return InputError(f"session `{sid}` holds no such value: none was concealed, or it was erased")


def _no_line(n: int) -> Break:
    return Break("disclosure", f"line {n} is not there to commit to anything")


def _said(value: object) -> str:
    from broker.receipt.display import shown

    return printable(value) if isinstance(value, str) else shown(value)


def handed_on(content: bytes) -> dict[int, list[str]]:
    """
    Return disclosures by the line they are for, from a file of them.

    Raises:
        InputError: it holds none, or is of another form.
    """
    from broker.cli.jsontext import read_json

    found: dict[int, list[str]] = {}
    for number, row in enumerate(content.decode("utf-8", "replace").strip().split("\n"), 1):
        value = read_json(row)
        match value:
            case {"n": int(n), "disclosure": str(text)} if not isinstance(n, bool) and n >= 0:
                found.setdefault(n, []).append(text)
            case _:
                raise InputError(f'line {number} of the file is not `{{"n": …, "disclosure": …}}`')
    if not found:
        raise InputError("the file holds no disclosure")
    return found


def _write_new(name: str, content: str) -> None:
    """Write a file for the owner alone, never over another one."""
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise InputError(f"`{name}` is there already: name another file") from None
    with os.fdopen(fd, "w", encoding="utf-8") as stream:
        stream.write(content)


class _Store:
    """One session's receipt and the values beside it."""

    def __init__(self, receipts: Receipts, sid: str) -> None:
        self.receipts = receipts
        self.sid = sid
        self.path: Path = receipts.path(sid)

    @classmethod
    def find(cls, id_: str | None) -> _Store:
        from broker.cli.wires import installation_key
        from broker.home import Home
        from broker.receipt import Receipts

        home = Home.find(os.environ)
        receipts = Receipts(home, installation_key(home))
        return cls(receipts, receipts.find(id_))

    def entries(self) -> Iterator[Entry]:
        """Yield the entries, each verified, with the key that the ledger names."""
        from broker.receipt.audit import expect
        from broker.receipt.inspection import inspecting

        expected = expect(self.receipts, self.sid)
        with inspecting(expected.evidence, expected.marks) as found:
            yield from found.entries()

    def kept(self) -> Mapping[str, str]:
        from broker.sessions.conceal import Disclosures

        return Disclosures(self.path.parent).read()

    def values(self) -> Iterator[tuple[Entry, str, str]]:
        """Yield each value that is kept: its entry, the field's name, the disclosure."""
        from broker.receipt.commitment import committed, read_disclosure

        kept = self.kept()
        for entry in self.entries():
            for promised in committed(entry.data):
                if promised in kept:
                    yield entry, read_disclosure(kept[promised]).name, kept[promised]

    def erase(self, found: list[tuple[int, str, str]], reason: str) -> None:
        """Record in the ledger what is to be erased and why, and then erase it."""
        from broker.receipt.repair import checked_reason
        from broker.sessions.conceal import Disclosures

        said = checked_reason(reason)
        ledger = self.receipts.ledger
        listed = ledger.read().sessions.get(self.sid)
        if listed is None:
            raise InputError(f"the ledger does not name session `{self.sid}`")
        told = {(each.n, each.field) for each in listed.erased}
        for n, name, _ in found:
            if (n, name) not in told:  # or a crash came between the row and the erasing
                ledger.redact(self.sid, n=n, field=name, reason=said, at=time.time_ns())
        Disclosures(self.path.parent).erase({promised for _, _, promised in found})
