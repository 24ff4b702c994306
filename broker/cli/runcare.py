"""
`broker runs export`, `scrub` and `gc`: a run for others to read, without a text, or not at all.

Decided here: the words, and what must be said before anything is changed. Not decided here: what a
page shows (``broker.trace.page``), what is rewritten (``broker.trace.scrub``), and what may go
(``broker.trace.sweep``).

Rules a maintainer keeps: what is removed was asked for by a number or a name, never by a default;
a text that is to go is read from a file or from stdin, since a command line is seen by others.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from broker.cli.exits import ALLOWED, REFUSED
from broker.cli.output import err, json_out, out, paint, printable, raw_out
from broker.cli.runs import Run, opened
from broker.cli.typed import Json, file_bytes
from broker.errors import InputError

EXPORT_EXAMPLES = """\
\b
Examples:
  broker runs export -o run.html               the latest run as a page
  broker runs export 9f2c > run.html

\b
One file that asks nobody for anything: no script, no picture, no address of elsewhere. Payloads
that are long are cut, and say so; `broker runs events --payload --json` has all of them. Secrets
were hidden when it was recorded; one of no known form may be in it still, so read it before you
hand it on.
Exit code: 0 exported, 2 no such run, or it cannot be read or written.
"""
SCRUB_EXAMPLES = """\
\b
Examples:
  broker runs scrub 9f2c                       search it for secrets again, by today's rules
  broker runs scrub 9f2c --text-file secret.txt
  printf %s "$SECRET" | broker runs scrub 9f2c --text-file -

\b
Takes a text out of the events, the payloads and the manifest of a run, however it is spelled there,
seals the run anew and says so in an event. Snapshots of the workspace are compressed and are not
searched: --drop-snapshots removes them, and with them the places at which the run can be forked.
Afterwards every file of the run is looked through; where the text still stands, that is told.
Exit code: 0 done, 1 the text still stands somewhere, 2 no such run, or it is being recorded.
"""
GC_EXAMPLES = """\
\b
Examples:
  broker runs gc --older 30d --dry-run         what would go
  broker runs gc --older 30d --keep 20
  broker runs gc --keep 100

\b
A run goes if it began longer ago than --older says and is none of the latest --keep. A run that is
being recorded stays, and so does one from which a run that stays was forked. Receipts are apart,
and are not touched. Durations: 30d, 12h, 90m.
Exit code: 0 done, 1 something could not be removed, 2 nothing was asked for.
"""

Output = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Where to.", show_default="standard output"
    ),
]
Wanted = Annotated[
    str,
    typer.Argument(metavar="RUN", help="The run that is changed; it is never the latest unsaid."),
]
TextFile = Annotated[
    list[str] | None,
    typer.Option("--text-file", metavar="FILE", help="A file with a text to remove; - is stdin."),
]
DropSnapshots = Annotated[
    bool, typer.Option("--drop-snapshots", help="Also remove the snapshots of the workspace.")
]
Older = Annotated[
    str | None, typer.Option("--older", metavar="AGE", help="Runs that began longer ago.")
]
Keep = Annotated[
    int | None, typer.Option("--keep", metavar="N", min=0, help="So many of the latest stay.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")]


def export(run: Run = None, *, output: Output = None, as_json: Json = False) -> int:
    """Write a run as one page that a person reads."""
    from broker.export.outlet import whole_file
    from broker.trace.page import page

    if as_json and output is None:
        raise InputError("--json tells what was written: give --output FILE, too")
    reader = opened(run)
    if output is None:
        for piece in page(reader):
            raw_out(piece.encode("utf-8", "replace"))
        return ALLOWED
    size = 0
    with whole_file(Path(output)) as stream:
        for piece in page(reader):
            size += stream.write(piece.encode("utf-8", "replace"))
    if as_json:
        json_out({"run": reader.manifest.run_id, "path": output, "size_bytes": size})
    else:
        out(f"{printable(output)}: {reader.manifest.run_id}, {size} bytes")
    return ALLOWED


def scrub(
    run: Wanted,
    *,
    text_file: TextFile = None,
    drop_snapshots: DropSnapshots = False,
    as_json: Json = False,
) -> int:
    """Take a text out of a run that is over, or search it again for secrets."""
    from dataclasses import asdict

    from broker.capabilities.clock import SystemClock
    from broker.home import Home
    from broker.trace.runs import find
    from broker.trace.scrub import scrub as scrubbed

    texts = [_text(name) for name in text_file or ()]
    folder = find(Home.find(os.environ).runs, run)
    found = scrubbed(folder, texts, clock=SystemClock(), drop_snapshots=drop_snapshots)
    code = REFUSED if found.left else ALLOWED
    if as_json:
        json_out({"run": folder.name, **asdict(found)})
        return code
    hidden = ", ".join(f"{kind} {count}" for kind, count in found.hidden.items()) or "nothing"
    out(f"{folder.name}: hidden {hidden}; {found.events} events changed")
    if found.lines_lost:
        out(f"  {found.lines_lost} lines that could not be read were dropped")
    if found.snapshots == "kept":
        out("  its snapshots of the workspace were not searched: see --drop-snapshots")
    for name in found.left[:20]:
        out(f"  {paint('still there', 'red')}  {printable(name)}")
    return code


def _text(name: str) -> str:
    content = file_bytes(name, "the text to remove").removesuffix(b"\n").removesuffix(b"\r")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InputError(f"the text to remove in `{name}` is not UTF-8") from None


def gc(
    *, older: Older = None, keep: Keep = None, dry_run: DryRun = False, as_json: Json = False
) -> int:
    """Remove runs that are old."""
    from broker.errors import BrokerError
    from broker.home import Home
    from broker.instants import parse_duration
    from broker.trace import sweep
    from broker.trace.runs import every

    if older is None and keep is None:
        raise InputError("say which runs may go: --older AGE, --keep N, or both")
    runs = Home.find(os.environ).runs
    before = None if older is None else time.time_ns() - parse_duration(older)
    going, stays = sweep.choose(every(runs), before_ns=before, keep=keep or 0)
    if not dry_run:
        sweep.clear(runs)
    removed: list[str] = []
    failed: list[tuple[str, str]] = []
    for each in going:
        try:
            if not dry_run:
                sweep.remove(each.folder)
            removed.append(each.run_id)
        except BrokerError as error:
            failed.append((each.run_id, error.message))
    kept = [(each.run_id, each.why) for each in stays]
    if as_json:
        keys = ("run", "why")
        json_out(
            {
                "dry_run": dry_run,
                "removed": removed,
                "kept": [dict(zip(keys, each, strict=True)) for each in kept],
                "failed": [dict(zip(keys, each, strict=True)) for each in failed],
            }
        )
        return REFUSED if failed else ALLOWED
    for run_id in removed:
        out(f"{run_id}  {'would go' if dry_run else 'removed'}")
    for run_id, why in kept:
        out(f"{run_id}  kept: {printable(why)}")
    for run_id, why in failed:
        err(f"{run_id}: {printable(why)}")
    if not (removed or kept or failed):
        out("no run is that old")
    return REFUSED if failed else ALLOWED
