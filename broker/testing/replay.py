"""
A whole run on fakes: the production composition, a scripted provider, a fake world.

Decided here: what is fake. The clock stands still, files are in memory, processes are scripted,
chance comes from a seed. Not fake: the session with its ticket, its receipt and its budget, the
pipeline, the permission rules, the records, and the HTTP of each model call up to the provider.

Two runs of the same script leave the same bytes: requests, answers, audits, reports and receipt.

Rules a maintainer keeps: a run writes into a folder of its own and removes it; the workspace is an
empty folder with a fixed path, since a receipt names it, and the files of a run are in memory.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final

from broker.capabilities.bundle import FakeWorld
from broker.capabilities.process import Answer
from broker.errors import StoreError
from broker.harness.composition import Choices, Composition, compose
from broker.harness.held import OwnSession
from broker.harness.items import Item, Tool
from broker.harness.outcome import Called, CallReport, Ended, Said
from broker.harness.script import Script, read_script
from broker.harness.tools import TOOLS
from broker.intent import TypedLine
from broker.records.audits import ToolAudits
from broker.records.model import ProviderRequest, ProviderResponse, Record, ToolAudit
from broker.records.recorder import Recorder
from broker.records.store import KeptRecords, RecordStore
from broker.session import Session
from broker.sessions.ground import Outside
from broker.testing.provider import ScriptedProvider, WireModels

RECORDS: Final = "/records"  # where the records of a run lie, in its memory


@dataclass(frozen=True, slots=True)
class Replayed:
    """
    What a run left behind.

    ``said`` is the last thing the first agent said, ``surprises`` the calls that came out
    otherwise than the script expects, ``reports`` one for each call, ``trace`` all that was said
    and called in order. ``lines`` and ``receipt`` are the files of the records and of the receipt,
    byte by byte.
    """

    said: str
    surprises: int
    kept: KeptRecords
    reports: tuple[CallReport, ...]
    trace: tuple[Said | Called | Ended, ...]
    lines: bytes
    receipt: bytes
    received: tuple[bytes, ...]
    files: Mapping[str, bytes]

    @property
    def requests(self) -> tuple[ProviderRequest, ...]:
        """Every model call, before it left."""
        return tuple(r for r in self.kept.records if isinstance(r, ProviderRequest))

    @property
    def responses(self) -> tuple[ProviderResponse, ...]:
        """What came of each."""
        return tuple(r for r in self.kept.records if isinstance(r, ProviderResponse))

    @property
    def audits(self) -> tuple[ToolAudit, ...]:
        """The calls that a hook changed, or that were stopped."""
        return tuple(r for r in self.kept.records if isinstance(r, ToolAudit))

    @property
    def records(self) -> tuple[Record, ...]:
        """All three kinds, in the order in which they were written."""
        return self.kept.records


@dataclass(slots=True)
class ReplayRuntime:
    """
    A run that is ready to begin. Use it in a ``with``; see ``create_replay_runtime``.

    ``world`` holds the fakes, to prepare and to look at, and ``composition`` what was put
    together; hooks and tools are added to ``composition.registry``.
    """

    script: Script
    world: FakeWorld
    composition: Composition
    home: tempfile.TemporaryDirectory[str]
    scope: Sequence[str]
    intent: str
    errors: Sequence[int]
    seed: bytes
    _drawn: int = field(default=0)

    def __enter__(self) -> ReplayRuntime:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.home.cleanup()

    def run(self) -> Replayed:
        """
        Run the script to its end, once.

        Raises:
            BrokerError: the scope is malformed, a script is wrong, the provider did not answer, a
                record could not be written.
        """
        clock, root = self.world.clock, self.composition.root
        store = RecordStore(self.world.fs.below(RECORDS))
        recorder = Recorder(store, clock, salt=self._chance(32))
        audits = ToolAudits(store, clock, salt=self._chance(32))
        reports: list[CallReport] = []
        trace: list[Said | Called | Ended] = []

        def watch(report: CallReport) -> None:
            reports.append(report)
            audits.watch(report)

        session = Session.open(
            self.scope,
            workspace=root,
            home=self.composition.home,
            intent=TypedLine(self.intent, "argument") if self.intent else None,
            agent="replay",
            outside=Outside(clock.now_ns, self._chance),
        )
        provider = ScriptedProvider(self.script, self.errors)
        tools = tuple(self.composition.registry.current.tools.values())
        models = WireModels.over(provider, recorder, tools, self.script)
        agent = self.composition.agent(
            OwnSession(session), session.sid, models, trace.append, watch
        )
        reason = "interrupted"
        try:
            with models.client:
                said = agent.run()
            reason = "complete"
        finally:
            session.seal(reason)
        return Replayed(
            said,
            agent.surprises,
            store.read(),
            tuple(reports),
            tuple(trace),
            self.world.fs.nodes[f"{RECORDS}/records.jsonl"].content,
            session.receipt_path.read_bytes(),
            tuple(provider.received),
            {
                path.removeprefix(f"{root}/"): node.content
                for path, node in sorted(self.world.fs.nodes.items())
                if path.startswith(f"{root}/") and node.kind == "file"
            },
        )

    def _chance(self, size: int) -> bytes:
        """Return what looks like chance and is the same for the same seed."""
        self._drawn += 1
        return hashlib.shake_256(self.seed + self._drawn.to_bytes(8, "big")).digest(size)


def create_replay_runtime(
    script: Script | Mapping[str, object],
    *,
    tools: Iterable[Item] = (),
    scope: Sequence[str] = (),
    intent: str = "",
    files: Mapping[str, bytes] | None = None,
    processes: Iterable[Answer] = (),
    mode: str = "auto",
    said_yes: Sequence[str] = (),
    errors: Sequence[int] = (),
    seed: bytes = b"",
    prepare: Callable[[FakeWorld], None] | None = None,
) -> ReplayRuntime:
    """
    Put the production composition together on fakes and a scripted provider.

    Args:
        script: what the model says and calls, as ``broker.harness.script`` reads it.
        tools: what is registered besides the reference agent's own tools: tools that bear the name
            of one of those take its place; hooks, commands, flags come behind.
        scope: the ticket, as typed; none at all permits everything.
        intent: the typed line, if any.
        files: the workspace, by relative path.
        processes: how each command that is run will end, in order.
        mode: how much runs without a question.
        said_yes: effects that a person said yes to beforehand.
        errors: statuses that the provider answers first, such as 529.
        seed: what chance is drawn from; the keys of the receipt come from it.
        prepare: prepares the fakes further, such as writes that fail.

    Raises:
        InputError: the script or a choice is not understood.
        StoreError: the folder of the workspace is not ours.

    >>> calls = [{"tool": "read", "arguments": {"path": "a.txt"}}]
    >>> script = {"lanes": {"main": [{"calls": calls}]}}
    >>> with create_replay_runtime(script, files={"a.txt": b"one"}) as runtime:
    ...     left = runtime.run()
    >>> [report.outcome for report in left.reports], len(left.requests)
    (['done'], 2)
    """
    read = script if isinstance(script, Script) else read_script(script)
    root = _workspace()
    home = tempfile.TemporaryDirectory(prefix="broker-replay-")
    world = FakeWorld.of(
        files={f"{root}/{name}": content for name, content in (files or {}).items()},
        processes=processes,
        environ={"BROKER_HOME": os.path.realpath(home.name)},
    )
    if prepare is not None:
        prepare(world)
    added = tuple(tools)
    replaced = {item.name for item in added if isinstance(item, Tool)}
    items = (*(tool for tool in TOOLS if tool.name not in replaced), *added)
    choices = Choices(mode, tuple(said_yes))
    try:
        composition = compose(world.capabilities(), root, choices, items)
    except BaseException:
        home.cleanup()
        raise
    return ReplayRuntime(read, world, composition, home, scope, intent, errors, seed)


def _workspace() -> str:
    """
    Return an empty folder of ours whose path is the same in every run.

    Raises:
        StoreError: somebody else has taken its name.
    """
    above = os.path.realpath(tempfile.gettempdir())
    folder = Path(above, f"broker-replay-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise StoreError(f"`{folder}` is not a folder of ours alone: remove it")
    return str(folder)
