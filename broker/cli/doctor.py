"""
`broker doctor`: can the broker do its work on this machine, and if not, what is missing?

Decided here: how the findings of ``broker.cli.probes`` and ``walls`` are shown, and that one bad
finding is enough to say no.
"""

from __future__ import annotations

import os
from typing import Final

from broker.cli.exits import ALLOWED, REFUSED
from broker.cli.output import json_out, out, paint, printable
from broker.cli.typed import Json

EXAMPLES = """\
\b
Examples:
  broker doctor
  broker doctor --json

\b
Exit code: 0 the broker can run here, 1 it cannot.
"""

_COLOURS: Final = {"ok": "green", "note": "yellow", "bad": "red"}


def doctor(as_json: Json = False) -> int:
    """Check that this machine has what the broker needs."""
    from broker.cli.probes import examine
    from broker.cli.walls import walls
    from broker.home import Home

    findings = [*examine(Home.find(os.environ)), *walls()]
    able = all(f.state != "bad" for f in findings)
    if as_json:
        json_out(
            {
                "able": able,
                "findings": [{"name": f.name, "state": f.state, "text": f.text} for f in findings],
            }
        )
    else:
        width = max(len(f.name) for f in findings)
        for f in findings:
            state = paint(f"{f.state:<4}", _COLOURS[f.state])
            out(f"{state}  {f.name:<{width}}  {printable(f.text)}")
        out()
        out("the broker can run here" if able else "the broker cannot run here: see `bad` above")
    return ALLOWED if able else REFUSED
