"""
`broker receipt export`: a verified session in a format that other programs read.

Decided here: where an export goes, and what is said beside it. What is written is made line by
line from what the verifier has just accepted, so memory does not grow with the receipt; where the
verifier finds a break, the export ends, the exit code is 1 and no file is left behind.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.exits import ALLOWED, REFUSED
from broker.cli.output import raw_out, err, out, paint, printable
from broker.errors import Break, InputError, UnverifiableError

if TYPE_CHECKING:
    from broker.export.source import Source
    from broker.home import Home
    from broker.receipt.signing import SigningKey
    from broker.receipt.verify import Verdict

EXAMPLES = """\
\b
Examples:
  broker receipt export k3v --format csv -o session.csv
  broker receipt export k3v --format in-toto -o session.dsse.json
  broker receipt export k3v --format bundle -o for-the-auditor/
  broker receipt export --verifier > verify_receipt.py

\b
FORMAT  in-toto         one signed statement about the whole session (DSSE)
        agent-receipts  Agent Receipts v0.5, signed, one for each action
        aat             Agent Audit Trail, draft-sharif-agent-audit-trail-06
        otel            OpenTelemetry log records, OTLP JSON
        csv             a table, with nothing in it that a spreadsheet runs
        bundle          a folder that an auditor checks without this program
in-toto lists up to 10 000 decisions and counts the rest; the others have no limit.
Exports are views: every record carries the hash of its line, and the receipt is the evidence.

\b
Exit code: 0 exported, 1 the receipt does not verify, 2 it cannot be verified or written.
"""


def export(
    id_: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", show_default="the latest session"),
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help="What to write; see below.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to.", show_default="standard output"
        ),
    ] = None,
    verifier: Annotated[
        bool, typer.Option("--verifier", help="Write the verifier that is one file instead.")
    ] = False,
) -> int:
    """Write a verified session in a format that other programs read."""
    from broker.export import formats
    from broker.home import Home

    if verifier:
        return _verifier(id_, format_, output)
    if format_ not in (*formats.FORMATS, formats.BUNDLE):
        names = ", ".join((*formats.FORMATS, formats.BUNDLE))
        raise InputError(f"give --format one of {names}")
    home = Home.find(os.environ)
    source = source_of(home, id_)
    signer = signing_key(home) if format_ in formats.SIGNED else None
    try:
        if format_ == formats.BUNDLE:
            return _bundle(home, source, output)
        pieces = formats.pieces(format_, source, signer=signer, at=time.time_ns())
        if output is None:
            for piece in pieces:
                raw_out(piece)
        else:
            from broker.export.outlet import whole_file

            with whole_file(Path(output)) as stream:
                stream.writelines(pieces)
    except Break as error:
        err(broken(error, f"the receipt of `{source.sid}` does not verify"))
        return REFUSED
    _tell(source.verdict, output)
    return ALLOWED


def source_of(home: Home, id_: str | None) -> Source:
    """
    Return the session that the beginning of a name means, ready to be read.

    Raises:
        InputError: no session's name begins so, or more than one does.
        UnverifiableError: there is no key to verify it with.
    """
    from broker.cli.wires import installation_key
    from broker.export.source import Source
    from broker.receipt import Receipts

    key = installation_key(home)
    receipts = Receipts(home, key)
    sid = receipts.find(id_)
    return Source(receipts.path(sid), key, receipts.head_path(sid), sid, time.time_ns())


def signing_key(home: Home) -> SigningKey:
    """
    Return the key of this installation that signs.

    Raises:
        UnverifiableError: there is none, or its file is not safe to use.
    """
    from broker.receipt.signing import load_signing_key

    try:
        return load_signing_key(home.keys / "signing.key")
    except UnverifiableError as error:
        if error.code != "unverifiable.missing":
            raise
        raise UnverifiableError(f"{error}: `broker key new` makes one", code=error.code) from error


def broken(error: Break, what: str) -> str:
    """Return a break as one line: what it means, the reason, and where."""
    where = f"line {error.line}, byte offset {error.offset}"
    return f"{paint(what, 'red')} ({error.reason}): {printable(error.message)}, at {where}"


def _tell(verdict: Verdict, output: str | None) -> None:
    """Say what was exported: on stdout when the export itself went elsewhere."""
    lines = f"{verdict.lines} line" + ("" if verdict.lines == 1 else "s")
    told = f"{verdict.state}, {lines}, level {verdict.level}, completeness {verdict.completeness}"
    if output is not None:
        out(f"{printable(output)}: {told}")
    elif verdict.state != "SEALED":
        err(f"exported: {told}")
    for warning in verdict.warnings:
        err(f"warning: {printable(warning)}")


def _bundle(home: Home, source: Source, output: str | None) -> int:
    from broker.export import bundle

    if output is None:
        raise InputError("a bundle is a folder: name it with -o")
    checkpoint = _checkpoint(home, source.sid)
    bundle.write(Path(output), source, signing_key(home), checkpoint)
    _tell(source.verdict, output)
    return ALLOWED


def _checkpoint(home: Home, sid: str) -> bytes | None:
    from broker.receipt.checkpoint import read_checkpoint

    path = home.checkpoints / sid
    return read_checkpoint(path) if os.path.lexists(path) else None


def _verifier(id_: str | None, format_: str | None, output: str | None) -> int:
    from broker.export.bundle import verifier
    from broker.export.outlet import whole_file

    if id_ is not None or format_ is not None:
        raise InputError("--verifier writes the verifier alone: leave ID and --format out")
    if output is None:
        raw_out(verifier())
        return ALLOWED
    with whole_file(Path(output)) as stream:
        stream.write(verifier())
    out(printable(output))
    return ALLOWED
