"""Runs for tests: written by our writer, and read by the format's independent reader."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import orca_trace

from broker.capabilities.clock import FakeClock
from broker.receipt.disk import DISK, Disk
from broker.trace.about import About, StartedBy
from broker.trace.format import Event
from broker.trace.writer import RunWriter

SH = About(StartedBy("sh"), ("sh", "-c", "true"), "/w")


def begun(runs: Path, about: About = SH, disk: Disk = DISK) -> RunWriter:
    """Return a run that begins; every one in the same folder gets another name."""
    taken = sum(1 for _ in runs.iterdir()) if runs.is_dir() else 0
    numbers = count(taken + 1)
    return RunWriter.create(
        runs,
        about,
        clock=FakeClock(),
        randomness=lambda n: next(numbers).to_bytes(n, "big"),
        disk=disk,
    )


def whole(runs: Path) -> RunWriter:
    """Return a small run that is sealed: two turns, one call of a tool."""
    run = begun(runs)
    start = run.event("run.start", "orca", attrs={"adapter": "sh"})
    run.event("fs.snapshot", "orca", attrs={"tree": "a" * 40, "files": 1}, causes=[start])
    run.new_turn()
    asked = run.event("model.request", "agent", attrs={"model": "m"}, payload={"messages": ["hi"]})
    said = run.event("model.response", "model", causes=[asked], attrs={"stop_reason": "tool_use"})
    call = run.event(
        "tool.call",
        "model",
        causes=[said],
        attrs={"name": "read_file", "call": "c1"},
        payload={"path": "src/app.py"},
    )
    run.new_turn()
    done = run.event(
        "tool.result", "harness", causes=[call], attrs={"name": "read_file", "call": "c1"},
        payload="print(1)\n" * 1_000, media_type="text/plain",
    )  # fmt: skip
    asked = run.event("model.request", "agent", causes=[done], attrs={"model": "m"})
    run.event("model.response", "model", causes=[asked], attrs={"stop_reason": "end_turn"})
    run.event("run.end", "orca", attrs={"exit_code": 0})
    run.seal(0)
    return run


def independent(folder: Path) -> orca_trace.TraceReader:
    """Return the independent reader of a run, once it has found nothing wrong with it."""
    reader = orca_trace.TraceReader.open(folder)
    for each in reader.events():
        if each.blob is not None:
            reader.blob(each.blob, verify=True)
        reader.payload(each)
    assert reader.problems() == []
    assert reader.verify_integrity()[0]
    return reader


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a run as they stand in its file."""
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def event(seq: int, type_: str = "note", *, turn: int = 0, **more: Any) -> Event:
    """Return an event made by hand."""
    return Event(seq, "2027-01-15T08:00:00Z", seq, turn, type_, "orca", **more)


def written(folder: Path) -> Iterable[bytes]:
    """Yield the content of every file of a run."""
    return (p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())
