"""
`broker runs list` and `broker runs show`: which runs were recorded, and what one of them was.

Decided here: what is told of a run on a page of a terminal. Not decided here: what is counted
(``broker.trace.summary``) and what is wrong with a run (``broker.trace.reader``).

A recording proves nothing: `broker verify RUN` holds it against the receipt.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broker.cli import completing
from broker.cli.exits import ALLOWED
from broker.cli.output import json_out, out, paint, printable, table
from broker.cli.typed import Json

if TYPE_CHECKING:
    from broker.trace.manifest import Manifest
    from broker.trace.reader import RunReader
    from broker.trace.runs import ListedRun
    from broker.trace.summary import Summary

LIST_EXAMPLES = """\
\b
Examples:
  broker runs list                   the latest first; `list` may be left out
  broker runs list --json

\b
STATE: SEALED it ended and hashed to what its manifest says when it did; UNSEALED it is running, or
its recorder was killed; UNREADABLE its manifest cannot be read. Whether the events are still what
was sealed is told by `show`, and whether they are true by `broker verify`.
Exit code: 0 listed, 2 could not be listed.
"""
SHOW_EXAMPLES = """\
\b
Examples:
  broker runs show                   the latest run
  broker runs show run_9f2c
  broker runs show 9f2c --json

\b
RUN is the beginning of a run's name, with or without `run_`, or the path of its folder, with a / in
it. Whatever stands in the run that is not well-formed is told under `problems`.
Exit code: 0 shown, 2 no such run, or it cannot be read.
"""

Run = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]", show_default="the latest run", autocompletion=completing.run_ids
    ),
]
_MOST_PROBLEMS = 20  # problems that a page of a terminal shows


def opened(run: str | None) -> RunReader:
    """
    Return the reader of the run that a person means.

    Raises:
        InputError: there is no such run, or several begin like that.
        TraceError: it cannot be read.
    """
    from broker.home import Home
    from broker.trace.reader import RunReader
    from broker.trace.runs import find

    return RunReader.open(find(Home.find(os.environ).runs, run))


def list_runs(as_json: Json = False) -> int:
    """List the recorded runs."""
    from broker.home import Home
    from broker.trace.runs import every

    found = every(Home.find(os.environ).runs)
    if as_json:
        json_out([_listed_document(each) for each in found])
        return ALLOWED
    if not found:
        out("no recorded run yet")
    for line in table([_row(each) for each in found], _HEADS) if found else ():
        out(line)
    return ALLOWED


_HEADS = ("run", "began", "agent", "events", "exit", "state", "from")


def _row(each: ListedRun) -> tuple[str, ...]:
    if each.manifest is None:
        return (each.run_id, "", "", "", "", "UNREADABLE", each.problem)
    found = each.manifest
    document = _listed_document(each)
    return (
        each.run_id,
        found.created_at[:19].replace("T", " "),
        str(found.adapter["id"])[:32],
        "" if document["events"] is None else str(document["events"]),
        "" if found.exit_code is None else str(found.exit_code),
        str(document["state"]),
        _origin(found),
    )


def _origin(found: Manifest) -> str:
    if not found.parent_run:
        return ""
    at = "" if found.fork_point is None else f" at {found.fork_point}"
    onto = f" on {found.fork_model}" if found.fork_model else ""
    return f"{found.parent_run}{at}{onto}"


def _listed_document(each: ListedRun) -> dict[str, object]:
    found = each.manifest
    if found is None:
        return {"run": each.run_id, "state": "UNREADABLE", "problem": each.problem}
    counts = found.document.get("counts")
    return {
        "run": each.run_id,
        "state": "SEALED" if found.events_sha256 else "UNSEALED",
        "began_at": found.created_at,
        "ended_at": found.ended_at or None,
        "agent": found.adapter["id"],
        "argv": list(found.argv),
        "cwd": found.cwd,
        "events": counts.get("events") if isinstance(counts, dict) else None,
        "exit_code": found.exit_code,
        "parent": found.parent_run or None,
        "fork_point": found.fork_point,
        "fork_model": found.fork_model or None,
        "path": str(each.folder),
    }


def show(run: Run = None, as_json: Json = False) -> int:
    """Tell what one run was."""
    from broker.trace.summary import summary

    reader = opened(run)
    found = summary(reader.stream())
    problems = reader.problems()
    integrity = reader.integrity()
    size = _size(reader.folder)
    if as_json:
        json_out(
            {
                "run": reader.manifest.run_id,
                "path": str(reader.folder),
                "manifest": reader.manifest.document,
                "integrity": integrity,
                "problems": problems,
                "size_bytes": size,
                "summary": _document(found),
            }
        )
        return ALLOWED
    for line in _told(reader, found, integrity, size):
        out(line)
    for problem in problems[:_MOST_PROBLEMS]:
        out(f"  {paint('problem', 'yellow')}  {printable(problem)}")
    if len(problems) > _MOST_PROBLEMS:
        out(f"  and {len(problems) - _MOST_PROBLEMS} more problems: see --json")
    return ALLOWED


def _told(reader: RunReader, found: Summary, integrity: str, size: int) -> list[str]:
    about = reader.manifest
    agent = " ".join(
        str(v) for v in (about.adapter["id"], about.adapter.get("harness_version")) if v
    )
    lines = [
        f"{paint(about.run_id, 'bold')}  {printable(str(reader.folder))}",
        f"  agent     {printable(agent)}",
        f"  command   {printable(' '.join(about.argv))}",
        f"  folder    {printable(about.cwd)}",
        f"  began     {printable(about.created_at)}, ran {_seconds(found.duration_us)}",
    ]
    if about.parent_run:
        lines.append(f"  forked    from {printable(_origin(about))}")
    if about.exit_code is not None:
        lines.append(f"  ended     with exit code {about.exit_code}")
    elif not found.ended:
        lines.append("  ended     unknown: it is running, or its recorder was stopped")
    if found.requests:
        failed = f", {found.failed_requests} failed" if found.failed_requests else ""
        lines.append(
            f"  model     {_many(found.requests, 'request')}{failed} in "
            f"{_many(max(found.turns, 1), 'turn')}; {found.input_tokens} tokens in, "
            f"{found.output_tokens} out; {_names(found.models)}"
        )
    if found.calls:
        lines.append(f"  tools     {_many(found.calls, 'call')}: {_names(found.tools)}")
    if found.allowed or found.refused:
        lines.append(f"  decisions {found.allowed} allowed, {found.refused} refused")
    if found.shell:
        lines.append(f"  shell     {_many(found.shell, 'command')}, {found.failed_shell} failed")
    if found.snapshots:
        lines.append(
            f"  files     {_many(found.snapshots, 'snapshot')}, {_many(found.changes, 'change')}"
        )
    sealed = {"ok": "as sealed", "mismatch": paint("NOT what was sealed", "red")}
    state = sealed.get(integrity, "unsealed")
    lines.append(f"  recording {_many(found.events, 'event')}, {size} bytes, {state}")
    return lines


def _document(found: Summary) -> dict[str, object]:
    fields = {name: getattr(found, name) for name in found.__slots__}
    return {
        name: dict(sorted(value.items()))
        if isinstance(value, Counter)
        else sorted(value)
        if isinstance(value, set)
        else value
        for name, value in fields.items()
    }


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _names(names: Counter[str]) -> str:
    return printable(", ".join(f"{n} {c}" if c > 1 else n for n, c in names.most_common(12)))


def _seconds(us: int) -> str:
    return f"{us / 1e6:.1f} s" if us < 120_000_000 else f"{us / 60e6:.0f} min"


def _size(folder: Path) -> int:
    """Return how many bytes the files of a run have; what is no file of it counts nothing."""
    total = 0
    for place, folders, names in os.walk(folder, followlinks=False):
        for name in (*names, *folders):
            try:
                status = os.lstat(os.path.join(place, name))
            except OSError:
                continue  # it went away meanwhile
            total += status.st_size if name in names else 0
    return total
