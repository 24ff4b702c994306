"""
A folder that an auditor can check on a machine without this program.

Decided here: what lies in it. Not decided here: what the verifier in it does
(``broker.standalone``).

    receipt.jsonl        the lines, as they were verified
    statement.dsse.json  what they come to, signed (in-toto)
    checkpoint           their count and root, signed, where there is one
    signing.vkey         the public key of both signatures
    checkpoint.vkey      that of the checkpoint, where the keys were changed since
    disclosures.jsonl    values that lines only commit to, where some were chosen
    verify_receipt.py    a verifier in one file, which needs nothing but Python
    README.txt           how to go about it

No secret is in it, and no head: a head is checked with the secret. The auditor should get the
public key on another way too, and compare; a folder that brings its own key proves only that
its parts belong together.

An open session may have lines that its checkpoint does not cover yet. Nobody without the secret
could believe them, so they are left out, and the README says how many there are.

Rule a maintainer keeps: the lines in the folder are those that were verified in the same pass,
never a copy of the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Final

from broker.errors import Break
from broker.export import intoto
from broker.export.outlet import new_folder, whole_file
from broker.export.source import Source
from broker.receipt.audit import Expected
from broker.receipt.checkpoint import of_receipt, open_checkpoint, read_checkpoint
from broker.receipt.commitment import proven
from broker.receipt.entry import canonical
from broker.receipt.evidence import Evidence
from broker.receipt.signing import SigningKey
from broker.receipt.verify import Verdict

VERIFIER: Final = "verify_receipt.py"
RECEIPT: Final = "receipt.jsonl"
STATEMENT: Final = "statement.dsse.json"
CHECKPOINT: Final = "checkpoint"
VKEY: Final = "signing.vkey"
CHECKPOINT_VKEY: Final = "checkpoint.vkey"
DISCLOSURES: Final = "disclosures.jsonl"

_README: Final = """\
This is the record of one session of an agent: what a person asked for, and every call that was
allowed or refused. Session: {sid}

To check it with nothing but Python 3.9 or newer:

    python3 verify_receipt.py receipt.jsonl {how}

Exit code 0 means that it verifies, 1 that it was changed, cut or reordered, 2 that this cannot be
told. {says}

The public key is signing.vkey. Ask for it on another way too, and compare:

    {vkey}

statement.dsse.json says the same in the form of in-toto: a Statement v1 in a DSSE envelope, whose
subject is the SHA-256 of receipt.jsonl.
"""
_SIGNED: Final = "--vkey {} --checkpoint checkpoint"
_CHANGED: Final = """
It was made with an earlier key of this installation, checkpoint.vkey: compare that one as well."""
_COVERED: Final = "The signature covers every line that is here."
_LATER: Final = """\
The signature covers every line that is here.
The session was still open. Its last {count} were not signed for yet, and were left out."""
_CHAINED: Final = "--level chain"
_UNSIGNED: Final = """\
There is no checkpoint yet, so this shows
that the lines belong together; who vouches for them is shown by statement.dsse.json alone."""


def verifier() -> bytes:
    """Return the verifier that is one file."""
    return files("broker.standalone").joinpath(VERIFIER).read_bytes()


def write(
    folder: Path,
    evidence: Evidence,
    signer: SigningKey,
    *,
    now: int,
    expected: Expected | None = None,
    disclosures: Mapping[int, Sequence[str]] | None = None,
) -> Verdict:
    """
    Write the folder.

    The checkpoint is copied first, and the receipt is verified with the copy: so what is handed
    on is what was believed.

    Args:
        folder: its name; there must be nothing of that name.
        evidence: the receipt, and what it is verified with.
        signer: signs the statement.
        now: the instant, in nanoseconds.
        expected: what the ledger expects of the receipt, where it was asked.
        disclosures: values to hand on, by the number of the line that commits to them.

    Raises:
        Break, UnverifiableError: the receipt does not verify, or its lines do not commit to what
            is to be handed on (``disclosure``); the folder holds no receipt then.
        InputError: it cannot be written.
    """
    new_folder(folder)
    covered, vkey = None, VKEY
    if evidence.checkpoint is not None and os.path.lexists(evidence.checkpoint):
        content = read_checkpoint(evidence.checkpoint)
        note = open_checkpoint(content, evidence.vkeys, of_receipt(evidence.sid))
        covered = note.size
        by = next(key for key in evidence.vkeys if note.of(key) != note.origin)
        if by.vkey != signer.vkey:  # the keys were changed since
            vkey = CHECKPOINT_VKEY
            _put(folder / vkey, f"{by.vkey}\n".encode())
        _put(folder / CHECKPOINT, content)
        evidence = replace(evidence, checkpoint=folder / CHECKPOINT)
    source = Source(evidence, now, expected)
    story = intoto.Story()
    left = dict(disclosures or {})
    with whole_file(folder / RECEIPT) as stream:
        for line in source:
            if covered is None or line.entry.n < covered:
                stream.write(line.raw + b"\n")
                story.take(line)
                proven(line.entry.data, left.pop(line.entry.n, ()))
        if left:
            raise Break("disclosure", f"line {min(left)} is not there to commit to anything")
    verdict = source.verdict
    _put(folder / STATEMENT, intoto.sealed(story, verdict, signer))
    _put(folder / VKEY, f"{signer.vkey}\n".encode())
    _put(folder / VERIFIER, verifier())
    if disclosures is not None:
        _put(folder / DISCLOSURES, handed_on(disclosures))
    _put(folder / "README.txt", _readme(verdict, covered, signer, vkey).encode())
    return verdict


def handed_on(disclosures: Mapping[int, Sequence[str]]) -> bytes:
    """
    Return disclosures as they are handed on: each with the number of its line, one a line.

    >>> handed_on({3: ["WyJ4Il0"]})
    b'{"disclosure":"WyJ4Il0","n":3}\\n'
    """
    rows = [{"n": n, "disclosure": text} for n in sorted(disclosures) for text in disclosures[n]]
    return "".join(f"{canonical(row)}\n" for row in rows).encode()


def _readme(verdict: Verdict, covered: int | None, signer: SigningKey, vkey: str) -> str:
    how, says = (_CHAINED, _UNSIGNED) if covered is None else (_SIGNED.format(vkey), _COVERED)
    if vkey != VKEY:
        says += _CHANGED
    if covered is not None and covered < verdict.lines:
        later = verdict.lines - covered
        says = _LATER.format(count="line" if later == 1 else f"{later} lines")
    return _README.format(sid=verdict.sid, how=how, says=says, vkey=signer.vkey)


def _put(path: Path, content: bytes) -> None:
    with whole_file(path) as stream:
        stream.write(content)
