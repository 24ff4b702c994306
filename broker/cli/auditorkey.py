"""
`broker key auditor`: the key pair of who will verify forward-secure receipts.

Decided here: what is said about the two files. Not decided here: how the pair is made and kept
(``broker.receipt.sealing``). It touches nothing of this installation: an auditor runs it on a
machine of their own, and only the public half ever comes near a host that writes receipts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from broker.cli.exits import ALLOWED
from broker.cli.output import json_out, out, printable
from broker.cli.typed import Json

EXAMPLES = """\
\b
Examples:
  broker key auditor -o auditor.key              on the auditor's machine, not on the host
  broker run --forward auditor.key.pub -- claude              on the host
  broker receipt k3v --verify --auditor-key auditor.key       where the key is
"""


def auditor(
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="Where the private half goes.")
    ],
    as_json: Json = False,
) -> int:
    """Make an auditor's key pair: FILE, which stays with the auditor, and FILE.pub."""
    from broker.receipt.sealing import create_auditor, public_path

    path = Path(output)
    made = create_auditor(path)
    beside = public_path(path)
    if as_json:
        document = {
            "auditor": made.public.name,
            "private": str(path),
            "public": str(beside),
            "key": made.public.text,
        }
        json_out(document)
        return ALLOWED
    out(f"auditor {made.public.name}")
    out(f"  {printable(str(path))}: keep it away from the host, or it protects nothing")
    out(f"  {printable(str(beside))}: give it to the host: broker run --forward FILE")
    return ALLOWED
