"""
`broker receipt verify-export`: whether an export still says what its receipt says.

Decided here: what each format is held against. With the receipt, every record is made again and
compared. Without it, what somebody has signed counts: a statement and credentials by the public
key, a trail by a signed checkpoint. Where neither is there, nothing is claimed: exit 2.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from broker.cli import completing
from broker.cli.exits import ALLOWED, REFUSED
from broker.cli.output import json_out, out, paint, printable
from broker.cli.receipt import AuditorKeyFile
from broker.cli.typed import Json
from broker.cli.verdicts import break_document, broken
from broker.errors import Break, InputError, UnverifiableError

if TYPE_CHECKING:
    from broker.export.source import Source
    from broker.export.trail import Promise
    from broker.home import Home
    from broker.receipt.signing import VerifyKey

EXAMPLES = """\
\b
Examples:
  broker receipt verify-export session.csv k3v
  broker receipt verify-export session.dsse.json --vkey signing.vkey --receipt receipt.jsonl
  broker receipt verify-export trail.jsonl --checkpoint k3v.checkpoint --vkey signing.vkey

\b
With ID, every record is compared with that session's verified receipt. Without:
  in-toto         the signature is checked, and with --receipt the subject
  agent-receipts  every signature and every link
  aat             count and root, with --checkpoint
  otel, csv       nothing: they say nothing about themselves
The public key is this installation's unless --vkey gives another; one of before counts where the
ledger leads from it to the one in use, and with ID only if it was in use when that session began,
or later.

\b
Exit code: 0 it is as it was exported, 1 it is not, 2 that cannot be told.
"""

_CHUNK_BYTES: Final = 262_144


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a person gave to check an export with."""

    source: Source | None
    receipt: str | None
    vkey: str | None
    checkpoint: str | None

    def keys(self) -> tuple[VerifyKey, ...]:
        """Return the public key that was named, else those of this installation, latest last."""
        from broker.cli.trusted import trusted_keys
        from broker.cli.typed import verification_key
        from broker.home import Home

        if self.vkey is not None:
            return (verification_key(self.vkey),)
        return trusted_keys(Home.find(os.environ), self.source.sid if self.source else None)


def verify_export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The export.")],
    id_: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completing.session_ids, metavar="[ID]", help="The session that it is of."
        ),
    ] = None,
    *,
    format_: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help="Its format.", show_default="seen from it"),
    ] = None,
    receipt: Annotated[
        str | None,
        typer.Option("--receipt", metavar="FILE", help="The receipt that a statement is of."),
    ] = None,
    vkey: Annotated[
        str | None,
        typer.Option("--vkey", metavar="VKEY-or-FILE", help="The public key that is trusted."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="FILE", help="The receipt's signed checkpoint."),
    ] = None,
    auditor_key: AuditorKeyFile = None,
    as_json: Json = False,
) -> int:
    """Check that an export says what its receipt says."""
    from broker.export.compare import recognised
    from broker.export.formats import FORMATS
    from broker.home import Home

    if format_ is not None and format_ not in FORMATS:
        raise InputError(f"give --format one of {', '.join(FORMATS)}")
    with _opened(file) as stream:
        name = format_ or recognised(_start(stream))
        try:
            home = Home.find(os.environ)
            source = _source(home, id_, auditor_key) if id_ is not None else None
            told = _check(name, stream, _Asked(source, receipt, vkey, checkpoint))
        except Break as error:
            return _refused(name, error, as_json)
    if as_json:
        json_out({"format": name, "verified": True, "checked": told, "break": None})
    else:
        out(f"{paint('verified:', 'green')} {name}, {printable(', '.join(told))}")
    return ALLOWED


def _refused(name: str, error: Break, as_json: bool) -> int:
    if as_json:
        found = break_document(error)
        json_out({"format": name, "verified": False, "checked": [], "break": found})
    else:
        out(broken(error))
    return REFUSED


def _source(home: Home, id_: str, auditor_key: str | None) -> Source:
    from broker.cli.auditing import expected_by_ledger
    from broker.cli.evidence import Asked, evidence
    from broker.export.source import Source

    asked = Asked(id_, auditor_key=auditor_key)
    what = evidence(asked, home)
    rows = expected_by_ledger(asked, what, home)
    return Source(what if rows is None else rows.evidence, time.time_ns(), rows)


def _check(name: str, stream: BinaryIO, asked: _Asked) -> list[str]:
    """Return what was checked, in words."""
    from broker.export import compare, formats
    from broker.export.trail import check_trail

    if name == formats.IN_TOTO:
        return _check_statement(stream, asked)
    if name == formats.AGENT_RECEIPTS:
        return _check_credentials(stream, asked)
    if asked.source is not None:
        made = formats.plain(name, asked.source)
        compare.compare(stream, made)
        return [f"every line is as session {asked.source.sid} makes it"]
    if name == formats.AAT:
        promise = _promise(asked) if asked.checkpoint is not None else None
        count = check_trail(compare.lines_of(stream), promise)
        if promise is not None:
            return [f"{count} records", f"none missing among the {promise.size} signed for"]
    raise UnverifiableError(
        f"nothing vouches for this {name} file: name the session that it is of",
        code="unverifiable.no_receipt",
    )


def _check_statement(stream: BinaryIO, asked: _Asked) -> list[str]:
    from broker.export import intoto

    content = stream.read(intoto.MAX_ENVELOPE_BYTES + 1)
    keys = asked.keys()
    statement = intoto.open_statement(content, keys)
    key = next(key for key in keys if _signed(content, key))
    told = [f"signed by {key.name}"]
    if asked.source is None and asked.receipt is None:
        return [*told, "subject not compared: give the receipt"]
    if asked.source is not None:
        pieces = (line.raw + b"\n" for line in asked.source)
        grown = intoto.compare(statement, pieces)
    else:
        with _opened(str(asked.receipt)) as receipt:
            grown = intoto.compare(statement, iter(lambda: receipt.read(_CHUNK_BYTES), b""))
    since = f", which has grown by {grown} bytes since" if grown else ""
    return [*told, f"of this receipt{since}"]


def _signed(content: bytes, key: VerifyKey) -> bool:
    from broker.export import intoto

    try:
        intoto.open_statement(content, [key])
    except Break:
        return False
    return True


def _check_credentials(stream: BinaryIO, asked: _Asked) -> list[str]:
    from broker.export import agent_receipts, compare

    keys = asked.keys()
    first = stream.readline(_CHUNK_BYTES)
    stream.seek(0)
    # What it names as its signer only chooses among keys that are trusted; the signature decides.
    named = (key for key in keys if agent_receipts.method(key.public).encode() in first)
    key = next(named, keys[-1])
    source = asked.source
    remade = None
    if source is not None:

        def remade(at: int) -> Iterator[agent_receipts.Receipt]:
            return agent_receipts.receipts(source, source.sid, key.public, at)

    count = compare.check_credentials(stream, key, remade)
    told = [f"{count} credentials", f"signed by {key.name}"]
    return [*told, f"each is as session {source.sid} makes it"] if source else told


def _promise(asked: _Asked) -> Promise:
    from broker.export.trail import Promise
    from broker.receipt.checkpoint import Checkpoint, read_checkpoint
    from broker.receipt.note import open_note

    content = read_checkpoint(Path(str(asked.checkpoint)))
    found = Checkpoint.parse(open_note(content, asked.keys()).text)
    return Promise(found.size, found.root)


def _start(stream: BinaryIO) -> bytes:
    start = stream.read(64)
    stream.seek(0)
    return start


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    try:
        stream = open(name, "rb")  # noqa: SIM115  closed below
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"`{name}` cannot be read: {(why or 'unknown').lower()}") from error
    with stream:
        yield stream
