"""
`broker receipt mirror`: put elsewhere what is not there yet.

Decided here: how what became of it is told, and that anything left over is a failure. Where it goes
stands in `broker.toml` (``broker.config``).
"""

from __future__ import annotations

import os

from broker.cli.exits import ALLOWED, UNDECIDED
from broker.cli.output import json_out, out, paint, printable
from broker.cli.typed import Json
from broker.errors import InputError

EXAMPLES = """\
\b
Examples:
  broker receipt mirror                             what earlier runs could not put there
  broker receipt --verify --all s3://audit/agents   what lies there, of all machines

\b
Where to stands in broker.toml; keys are those of the store's own configuration:
  [receipts]
  mirror = "s3://audit/agents"

\b
Exit code: 0 everything that is signed is mirrored, 2 something is left for another time.
"""


def mirror(as_json: Json = False) -> int:
    """Put the receipts of this installation where its configuration says."""
    from broker.config import load_config
    from broker.fleet.mirror import Mirror
    from broker.fleet.target import Target
    from broker.home import Home

    home = Home.find(os.environ)
    url = load_config(home.config).mirror
    if not url:
        raise InputError(
            f"no mirror is configured: write `[receipts]` with `mirror = …` into "
            f"`{home.config / 'broker.toml'}` (see `broker receipt mirror --help`)"
        )
    there = Mirror(home, Target(url))
    done = list(there.push())
    left = any(put.fault for put in done) or any(there.left())
    if as_json:
        rows = [{"of": p.of, "lines": p.lines, "fault": p.fault or None} for p in done]
        json_out({"mirror": url, "mirrored": not left, "put": rows})
        return UNDECIDED if left else ALLOWED
    for put in done:
        word = paint("left  ", "yellow") if put.fault else paint("put   ", "green")
        what = f"{word}  {put.of}, {put.lines} lines"
        out(what + (f": {printable(put.fault)}" if put.fault else ""))
    if not done:
        out("everything that is signed is mirrored already")
    return UNDECIDED if left else ALLOWED
