"""
What the pipeline of the reference agent adds to a tool call, and where it goes.

`python bench/pipeline.py` prints CPU microseconds per call, without durable writes: the ticket is
asked in memory, the tool does nothing. What the pipeline adds is a whole call without its ticket;
the target is 100 µs. Load on the machine slows all rows down alike, so the last column is the
ratio to a floor that was measured beside them: reading and writing the arguments as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from broker.capabilities.bundle import real_capabilities
from broker.capabilities.memory import MemoryFiles
from broker.catalogs import load_catalogs
from broker.guard import TicketGuard
from broker.harness.approval import Approver
from broker.harness.files import Files
from broker.harness.items import CallHook, Tool
from broker.harness.outcome import Caller
from broker.harness.pipeline import Pipeline
from broker.harness.registry import Registry
from broker.harness.script import ToolCall
from broker.harness.snapshot import freeze
from broker.harness.spill import Spill
from broker.harness.tools import TOOLS
from broker.resolve import Resolver
from broker.scope import parse_scope
from broker.ticket import mint

CALLS = 300
ROUNDS = 60
SCOPE = ["tools=read,write", "paths=src/**", "calls=1000000"]
CALLER = Caller("main", "", lambda prompt, narrow, mode: "", "auto")
ARGUMENTS = {"path": "src/a.py"}


class InMemory:
    """A ticket that is asked in memory, and records nothing."""

    def __init__(self, resolver: Resolver) -> None:
        caveats = parse_scope(SCOPE, at=0).caveats
        self.guard = TicketGuard(mint(caveats, key=bytes(32), sid="s", minted_at=0))
        self.resolver = resolver

    def decide(
        self, tool: str, arguments: Mapping[str, object], *, heard: Any = None, **_: str
    ) -> Any:
        """Resolve and decide, as a session does."""
        call = self.resolver.resolve(tool, arguments)
        if heard is not None:
            heard(call)
        return self.guard.check(call, 1)

    def permission(self, call: str, *, allowed: bool, reason: str) -> None:
        """Record nothing."""

    def delegate(self, scope: Sequence[str], **_: str) -> str:
        """Derive nothing."""
        return ""

    def record(self, call: str, *, ok: bool, result: str) -> None:
        """Record nothing."""

    def note(self, text: str) -> None:
        """Record nothing."""


def pipeline(root: str, *hooks: CallHook) -> Pipeline:
    """Return a pipeline whose tool does nothing."""
    resolver = Resolver(root, load_catalogs())
    registry = Registry()
    read = next(tool for tool in TOOLS if tool.name == "read")
    idle = Tool("read", read.about, read.schema, lambda work, arguments: "", read.paths)
    with registry.batch() as batch:
        batch.add(idle, *hooks)
    world = real_capabilities()
    spill = Spill(MemoryFiles().below("/results"))
    files = Files(world.fs, root)
    held = InMemory(resolver)
    return Pipeline(held, Approver(resolver), world, files, lambda: registry.current, spill)


def spent_us(work: Callable[[], object]) -> float:
    """Return the CPU microseconds of one piece of work, the best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time_ns()
        for _ in range(CALLS):
            work()
        best = min(best, (time.process_time_ns() - begun) / CALLS / 1_000)
    return best


def rows(root: str) -> list[tuple[str, float]]:
    """Return what each part costs, and what a whole call costs."""
    asked = ToolCall("read", ARGUMENTS)
    bare = pipeline(root)
    held = bare.held
    schema = bare.registered().schemas["read"]
    frozen = freeze(ARGUMENTS)
    hook = CallHook("h", "arguments", lambda call: None)
    result = CallHook("r", "result", lambda call: None)
    hooked, both = pipeline(root, hook), pipeline(root, hook, result)
    decide = partial(held.decide, "read", ARGUMENTS, call="", ticket="", actor="")
    answer, read = bare.approver.answer, bare.approver.resolver.resolve("read", ARGUMENTS)
    whole = spent_us(lambda: bare.call(asked, CALLER, "c"))
    ticket = spent_us(decide)
    return [
        ("the floor: JSON, both ways", spent_us(lambda: json.loads(json.dumps(ARGUMENTS)))),
        ("validate, twice", 2 * spent_us(lambda: schema.fault(ARGUMENTS))),
        ("freeze and hash", spent_us(lambda: freeze(ARGUMENTS))),
        ("thaw, four times", 4 * spent_us(frozen.thaw)),
        ("locate the path, twice", 2 * spent_us(lambda: bare.files.locate("src/a.py"))),
        ("the permission rules", spent_us(partial(answer, "read", ARGUMENTS, "auto", read))),
        ("the ticket: resolve and decide", ticket),
        ("a whole call", whole),
        ("what the pipeline adds", whole - ticket),
        ("a whole call with a hook", spent_us(partial(hooked.call, asked, CALLER, "c"))),
        ("with hooks at both ends", spent_us(partial(both.call, asked, CALLER, "c"))),
    ]  # fmt: skip


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="broker-bench-") as folder:
        root = os.path.realpath(folder)
        os.mkdir(f"{root}/src")
        Path(f"{root}/src/a.py").write_text("a = 1\n", encoding="utf-8")
        table = rows(root)
        floor = table[0][1]
        for name, us in table:
            print(f"{name:<32} {us:7.1f} µs {us / floor:7.1f} x")


if __name__ == "__main__":
    main()
