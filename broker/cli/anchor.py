"""
`broker receipt anchor`: hand in what is still to be anchored.

Decided here: how what became of it is told, and that anything left over is a failure. Which
anchors there are stands in `broker.toml` (``broker.config``).
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from broker.cli import completing
from broker.cli.exits import ALLOWED, UNDECIDED
from broker.cli.output import json_out, out, paint, printable
from broker.cli.typed import Json
from broker.errors import InputError

EXAMPLES = """\
\b
Examples:
  broker receipt anchor            what earlier runs could not hand in, and the ledger
  broker receipt anchor k3v        that session's checkpoint too

\b
Anchors stand in broker.toml; each kind has its own settings:
  [anchors.audit]
  kind = "git"
  remote = "git@example.com:audit.git"

\b
Exit code: 0 everything is anchored, 2 something is left for another time.
"""


def anchor(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=completing.session_ids, metavar="[ID]...", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Hand checkpoints in to the anchors of this installation."""
    from broker.anchors.configured import hand_in_all, queue
    from broker.cli.wires import installation_key
    from broker.config import load_config
    from broker.home import Home
    from broker.receipt import Receipts

    home = Home.find(os.environ)
    settings = load_config(home.config).anchors
    if not settings:
        raise InputError(
            f"no anchor is configured: write one into `{home.config / 'broker.toml'}` "
            "(see `broker receipt anchor --help`)"
        )
    receipts = Receipts(home, installation_key(home))
    queue(home, [receipts.find(each) for each in ids or ()])
    done = list(hand_in_all(home, settings))
    failed = [handed for handed in done if handed.fault]
    if as_json:
        rows = [
            {"of": h.of, "lines": h.size, "anchor": h.anchor, "fault": h.fault or None}
            for h in done
        ]
        json_out({"anchored": not failed, "handed_in": rows})
        return UNDECIDED if failed else ALLOWED
    for handed in done:
        word = paint("left  ", "yellow") if handed.fault else paint("taken ", "green")
        what = f"{word}  {handed.of}, {handed.size} lines, by {handed.anchor}"
        out(what + (f": {printable(handed.fault)}" if handed.fault else ""))
    if not done:
        out("everything is anchored already")
    return UNDECIDED if failed else ALLOWED
