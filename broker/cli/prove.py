"""
`broker receipt prove` and `verify-proof`: show one line of a session to who has no secret.

Decided here: which checkpoint a proof rests on, and how it is written and told. Not decided here:
what a proof is (``broker.receipt.proof``). A line is proven only out of a receipt that verifies,
and only when the bytes read lead to the root that was signed: a file that changes in between
makes no proof.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli import completing
from broker.cli.exits import ALLOWED, REFUSED
from broker.cli.output import json_out, out, paint, printable, raw_out
from broker.cli.typed import Json, file_bytes, verification_key
from broker.errors import Break, InputError

if TYPE_CHECKING:
    from broker.home import Home
    from broker.receipt.checkpoint import Checkpoint
    from broker.receipt.proof import Proof, Proven

PROVE_EXAMPLES = """\
\b
Examples:
  broker receipt prove k3v --line 5 -o line5.tlog-proof
  broker key show --vkey > broker.vkey
  broker receipt verify-proof line5.tlog-proof --key broker.vkey      on any machine

\b
Exit code: 0 written, 1 the receipt or its checkpoint does not verify, 2 no such line, none that a
checkpoint covers yet, or no key.
"""
VERIFY_EXAMPLES = """\
\b
Examples:
  broker receipt verify-proof line5.tlog-proof --key broker.vkey
  broker receipt verify-proof line5.tlog-proof --key 'capability-broker/56475aa7…+0b361e42+AQ…'

\b
No secret is needed: the key is the public line that `broker key show` prints. Get it from whoever
you believe, not from whoever gave you the proof.
Exit code: 0 the line stands in the receipt, 1 that is not shown, 2 bad input.
"""

Line = Annotated[int, typer.Option("--line", metavar="N", min=0, help="The number of the line.")]
Output = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write it there, not to stdout."),
]
Bare = Annotated[
    bool, typer.Option("--without-line", help="Leave the line itself out of the proof.")
]
Vkey = Annotated[
    str,
    typer.Option("--key", metavar="VKEY", help="The public key, or a file that holds it."),
]
LineFile = Annotated[
    str | None,
    typer.Option("--line-file", metavar="FILE", help="The line that the proof must be about."),
]


def prove(
    id_: Annotated[str, typer.Argument(autocompletion=completing.session_ids, metavar="ID")],
    line: Line,
    output: Output = None,
    without_line: Bare = False,
    as_json: Json = False,
) -> int:
    """Write the proof that a line stands in the receipt of a session."""
    from broker.home import Home

    if as_json and output is None:
        raise InputError("with --json, say by -o where the proof goes")
    home = Home.find(os.environ)
    sid, checkpoint, proof = _proof(home, id_, line, without_line)
    if output is None:
        raw_out(proof.content())
        return ALLOWED
    Path(output).write_bytes(proof.content())
    if as_json:
        json_out({"sid": sid, "line": line, "size": checkpoint.size, "output": output})
    else:
        of = f"line {line} of session {sid}, among the first {checkpoint.size}"
        out(f"{paint('written:', 'green')} {printable(output)} shows {of}")
    return ALLOWED


def _proof(home: Home, id_: str, line: int, bare: bool) -> tuple[str, Checkpoint, Proof]:
    """Return the session meant, the checkpoint that covers the line, and the proof."""
    from broker.cli.wires import installation_key
    from broker.receipt import Receipts, disk
    from broker.receipt.audit import audit, expect
    from broker.receipt.checkpoint import of_receipt, open_checkpoint, read_checkpoint
    from broker.receipt.paths import inclusion_path, leaf_hash, lines_of, root_of_inclusion
    from broker.receipt.proof import Proof

    receipts = Receipts(home, installation_key(home))
    sid = receipts.find(id_)
    audit(receipts, sid, now=time.time_ns())
    note = read_checkpoint(receipts.checkpoint_path(sid))
    found = open_checkpoint(note, expect(receipts, sid).evidence.vkeys, of_receipt(sid))
    if line >= found.size:
        raise InputError(
            f"no checkpoint of `{sid}` covers line {line}: the latest covers the first {found.size}"
        )
    fd = disk.open_checked(receipts.path(sid), "receipt", forbidden=disk.OTHERS_WRITE)
    try:
        content, hashes = inclusion_path(lines_of(fd), line, found.size)
    finally:
        os.close(fd)
    if root_of_inclusion(line, found.size, leaf_hash(content), hashes) != found.root:
        raise Break(
            "checkpoint_root", f"the first {found.size} lines are not those that were signed"
        )
    return sid, found, Proof(line, tuple(hashes), note, None if bare else content)


def verify_proof(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A proof; - for stdin.")],
    key: Vkey,
    line_file: LineFile = None,
    as_json: Json = False,
) -> int:
    """Check a proof with a public key, and show the line that it proves."""
    from broker.receipt.proof import open_proof

    public = verification_key(key)
    content = file_bytes(file, "the proof")
    line = None if line_file is None else file_bytes(line_file, "the line").removesuffix(b"\n")
    try:
        proven = open_proof(content, [public], line)
    except Break as error:
        if as_json:
            broken = {"reason": error.reason, "message": error.message}
            json_out({"verified": False, "break": broken})
        else:
            head = paint(f"not proven ({error.reason}):", "red")
            out(f"{head} {printable(error.message)}")
        return REFUSED
    if as_json:
        json_out({"verified": True, "break": None, "signer": public.name, **_document(proven)})
    else:
        head = paint("proven:", "green")
        of = f"line {proven.index} of session {printable(proven.sid)}"
        signed = f"among the first {proven.checkpoint.size} lines, signed by {public.name}"
        out(f"{head} {of}, {signed}")
        out(printable(proven.line.decode()))
    return ALLOWED


def _document(proven: Proven) -> dict[str, object]:
    return {
        "sid": proven.sid,
        "line": proven.index,
        "size": proven.checkpoint.size,
        "root": proven.checkpoint.root.hex(),
        "content": proven.line.decode(),
    }
