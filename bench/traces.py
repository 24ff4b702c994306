"""
Measure what a recording costs, and print a table.

Times are processor time of this process, so that a busy machine does not change them much. The
conversation is made by a seeded generator: each turn adds two messages, and a mark wanders to the
last one, as clients with a cache do.

    python bench/traces.py
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from pathlib import Path

from broker.capabilities.clock import SystemClock
from broker.trace.about import About, StartedBy
from broker.trace.bodies import all_rebuilt
from broker.trace.reader import RunReader
from broker.trace.requests import Requests
from broker.trace.writer import RunWriter

EVENTS = 20_000
TURNS = 200


def begun(folder: str) -> RunWriter:
    """Begin a run."""
    about = About(StartedBy("bench"), [], "/")
    return RunWriter.create(Path(folder), about, clock=SystemClock(), randomness=os.urandom)


def events(folder: str) -> None:
    """Small events: what one call of a tool costs to write and to read."""
    run = begun(folder)
    began = time.process_time()
    for n in range(EVENTS):
        attrs = {"name": "read_file", "call": f"toolu_{n:024x}", "index": 1, "conversation": "main"}
        run.event("tool.call", "model", attrs=attrs, payload={"path": f"src/app{n}.py"})
    written = time.process_time() - began
    run.seal(0)
    began = time.process_time()
    assert sum(1 for _ in RunReader.open(run.folder).stream()) == EVENTS
    read = time.process_time() - began
    print(f"write an event of a call      {written / EVENTS * 1e6:8.1f} µs")
    print(f"read it                       {read / EVENTS * 1e6:8.1f} µs")


def conversation(folder: str) -> None:
    """A conversation that is sent again with every turn."""
    chance = random.Random(7)
    run = begun(folder)
    requests = Requests(run)
    tools = [{"name": f"t{n}", "description": "word " * 200} for n in range(20)]
    messages: list[dict[str, object]] = []
    new = sent = len(json.dumps(tools))
    spent = 0.0
    for turn in range(TURNS):
        for each in messages:
            each.pop("cache_control", None)
        fresh: list[dict[str, object]] = [
            {"role": "assistant", "content": f"{turn}: {chance.randbytes(600).hex()}"},
            {"role": "user", "content": chance.randbytes(1_500).hex()},
        ]
        new += len(json.dumps(fresh))
        messages += fresh
        fresh[-1]["cache_control"] = {"type": "ephemeral"}
        body = json.loads(json.dumps({"model": "m", "messages": messages, "tools": tools}))
        sent += len(json.dumps(body))
        began = time.process_time()
        requests.write("main", body, attrs={"sha256": "0" * 64, "bytes": 0})
        spent += time.process_time() - began
    run.seal(0)
    kept = sum(path.stat().st_size for path in run.folder.rglob("*") if path.is_file())
    began = time.process_time()
    assert sum(1 for _ in all_rebuilt(RunReader.open(run.folder))) == TURNS
    rebuilt = time.process_time() - began
    size = f"(bodies of {sent / TURNS / 1e3:.0f} kB)"
    print(f"write a request, {TURNS} turns   {spent / TURNS * 1e3:8.1f} ms  {size}")
    print(f"rebuild it                    {rebuilt / TURNS * 1e3:8.1f} ms")
    print(
        f"kept / new content            {kept / new:8.2f}     ({kept / sent:.3f} of what was sent)"
    )


def main() -> None:
    """Print the table."""
    for measure in (events, conversation):
        with tempfile.TemporaryDirectory(prefix="broker-bench-") as folder:
            measure(folder)


if __name__ == "__main__":
    main()
