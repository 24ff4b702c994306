"""
`broker receipt export`: a verified session in a format that other programs read.

Decided here: where an export goes, and what is said beside it. What is written is made line by
line from what the verifier has just accepted, so memory does not grow with the receipt; where the
verifier finds a break, the export ends, the exit code is 1 and no file is left behind.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli.exits import ALLOWED, REFUSED
from broker.cli.output import err, out, printable, raw_out
from broker.cli.receipt import AuditorKeyFile, CheckpointFile, HeadFile, Id, KeyFile, NoHead, Vkeys
from broker.cli.verdicts import broken
from broker.errors import Break, InputError, UnverifiableError

if TYPE_CHECKING:
    from broker.home import Home
    from broker.receipt.audit import Expected
    from broker.receipt.evidence import Evidence
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
Of a forward-secure session only --auditor-key FILE checks every tag; the warning says so.
Exports are views: every record carries the hash of its line, and the receipt is the evidence.

\b
Exit code: 0 exported, 1 the receipt does not verify, 2 it cannot be verified or written.
"""


Format = Annotated[
    str | None, typer.Option("--format", metavar="FORMAT", help="What to write; see below.")
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Where to.", show_default="standard output"
    ),
]
Disclosures = Annotated[
    str | None,
    typer.Option(
        "--disclosures", metavar="FILE", help="Put these values into the bundle (see disclose)."
    ),
]
Verifier = Annotated[
    bool, typer.Option("--verifier", help="Write the verifier that is one file instead.")
]


def export(
    id_: Id = None,
    *,
    format_: Format = None,
    output: Output = None,
    disclosures: Disclosures = None,
    verifier: Verifier = False,
    key_file: KeyFile = None,
    head: HeadFile = None,
    no_head: NoHead = False,
    checkpoint: CheckpointFile = None,
    vkey: Vkeys = None,
    auditor_key: AuditorKeyFile = None,
) -> int:
    """Write a verified session in a format that other programs read."""
    from broker.cli.auditing import expected_by_ledger
    from broker.cli.evidence import Asked, evidence
    from broker.export import formats
    from broker.export.source import Source
    from broker.home import Home

    if verifier:
        return _verifier(id_, format_, output)
    if format_ not in (*formats.FORMATS, formats.BUNDLE):
        names = ", ".join((*formats.FORMATS, formats.BUNDLE))
        raise InputError(f"give --format one of {names}")
    if disclosures is not None and format_ != formats.BUNDLE:
        raise InputError("--disclosures go into a bundle: give --format bundle")
    home = Home.find(os.environ)
    vkeys = tuple(vkey or ())
    asked = Asked(id_, None, key_file, head, no_head, checkpoint, vkeys, auditor_key)
    now = time.time_ns()
    try:
        what = evidence(asked, home)
        rows = expected_by_ledger(asked, what, home)
        what = what if rows is None else rows.evidence
        if format_ == formats.BUNDLE:
            verdict = _bundle(home, what, rows, output=output, disclosures=disclosures, now=now)
        else:
            source = Source(what, now, rows)
            signer = signing_key(home) if format_ in formats.SIGNED else None
            _write(formats.pieces(format_, source, signer=signer, at=now), output)
            verdict = source.verdict
    except Break as error:
        err(broken(error))
        return REFUSED
    _tell(verdict, output)
    return ALLOWED


def signing_key(home: Home) -> SigningKey:
    """
    Return the key of this installation that signs.

    Raises:
        UnverifiableError: there is none, or its file is not safe to use.
    """
    from broker.receipt.keyring import signing_key_path
    from broker.receipt.signing import load_signing_key

    try:
        return load_signing_key(signing_key_path(home))
    except UnverifiableError as error:
        if error.code != "unverifiable.missing":
            raise
        raise UnverifiableError(f"{error}: `broker key new` makes one", code=error.code) from error


def _write(pieces: Iterable[bytes], output: str | None) -> None:
    if output is None:
        for piece in pieces:
            raw_out(piece)
        return
    from broker.export.outlet import whole_file

    with whole_file(Path(output)) as stream:
        stream.writelines(pieces)


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


def _bundle(
    home: Home,
    what: Evidence,
    rows: Expected | None,
    *,
    output: str | None,
    disclosures: str | None,
    now: int,
) -> Verdict:
    from broker.cli.disclose import handed_on
    from broker.cli.typed import file_bytes
    from broker.export import bundle

    if output is None:
        raise InputError("a bundle is a folder: name it with -o")
    content = None if disclosures is None else file_bytes(disclosures, "the disclosures")
    values = None if content is None else handed_on(content)
    signer = signing_key(home)
    return bundle.write(Path(output), what, signer, now=now, expected=rows, disclosures=values)


def _verifier(id_: str | None, format_: str | None, output: str | None) -> int:
    from broker.export.bundle import verifier

    if id_ is not None or format_ is not None:
        raise InputError("--verifier writes the verifier alone: leave ID and --format out")
    _write([verifier()], output)
    if output is not None:
        out(printable(output))
    return ALLOWED
