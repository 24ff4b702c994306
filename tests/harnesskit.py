"""What many tests of the harness need: a session that answers as told, and a pipeline on fakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.calls import ALLOW, Decision, Refusal
from broker.capabilities.bundle import Capabilities, FakeWorld
from broker.catalogs import load_catalogs
from broker.errors import AttenuationError, ScopeError
from broker.harness.approval import Approver
from broker.harness.files import Files
from broker.harness.items import Item, Tool
from broker.harness.outcome import Caller, CallReport, Result
from broker.harness.pipeline import Pipeline
from broker.harness.registry import Registry
from broker.harness.script import ToolCall
from broker.harness.spill import Spill
from broker.harness.tools import TOOLS
from broker.permissions.modes import Mode
from broker.resolve import Resolver

Decide = Callable[[str, Mapping[str, object]], Decision]


def allow(tool: str, arguments: Mapping[str, object]) -> Decision:
    """Let everything through."""
    return ALLOW


def refuse(tool: str, arguments: Mapping[str, object]) -> Decision:
    """Let nothing through."""
    return Decision(Refusal("paths", "x", "not within paths: src/**"))


@dataclass
class Session:
    """A session that answers as it is told and remembers what it was asked and told."""

    answer: Decide = allow
    asked: list[tuple[str, dict[str, object], str]] = field(default_factory=list)
    permissions: list[tuple[str, bool, str]] = field(default_factory=list)
    recorded: list[tuple[str, bool, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def decide(
        self,
        tool: str,
        arguments: Mapping[str, object],
        *,
        call: str,
        ticket: str,
        actor: str,
        server: str = "",
        heard: Any = None,
    ) -> Decision:
        """Answer, and remember the question."""
        self.asked.append((tool, dict(arguments), call))
        return self.answer(tool, arguments)

    def permission(self, call: str, *, allowed: bool, reason: str) -> None:
        """Remember what the rules said."""
        self.permissions.append((call, allowed, reason))

    def delegate(self, scope: Sequence[str], *, parent: str, asked_by: str, holder: str) -> str:
        """Narrow, widen or misread, as the scope says."""
        if list(scope) == ["wide"]:
            raise AttenuationError("`tools=shell` widens `tools=read`", kind="tools")
        if list(scope) == ["odd"]:
            raise ScopeError("no such key `odd`", text="odd")
        return f"a narrower ticket for {holder}"

    def record(self, call: str, *, ok: bool, result: str) -> None:
        """Remember the outcome."""
        self.recorded.append((call, ok, result))

    def note(self, text: str) -> None:
        """Remember the note."""
        self.notes.append(text)


def delegate(prompt: str, narrow: Callable[[str], str], mode: str | None) -> str:
    """Run no subagent, and say under what it would have run."""
    return f"{prompt} under {narrow('helper-1')} in {mode}"


CALLER = Caller("main", "", delegate, "yolo")


@dataclass
class Harness:
    """A pipeline on fakes, and all that a test looks at."""

    world: FakeWorld
    session: Session
    registry: Registry
    pipeline: Pipeline
    reports: list[CallReport]

    def call(self, tool: str, caller: Caller = CALLER, **arguments: object) -> Result:
        """Handle one call."""
        return self.pipeline.call(ToolCall(tool, arguments), caller, "call-1")

    def add(self, *items: Item) -> None:
        """Register more."""
        with self.registry.batch() as batch:
            batch.add(*items)

    @property
    def report(self) -> CallReport:
        """The last report."""
        return self.reports[-1]


def harness(
    resolver_root: Any,
    *items: Item,
    answer: Decide = allow,
    said_yes: Sequence[str] = (),
    ask: Any = None,
    session: Session | None = None,
    tools: Sequence[Tool] = TOOLS,
    capabilities: Callable[[FakeWorld], Capabilities] = FakeWorld.capabilities,
    **world: Any,
) -> Harness:
    """
    Return a pipeline on fakes.

    The resolver reads a real folder, whose path is also the workspace of the fake files.
    """
    root = str(resolver_root)
    files = {f"{root}/{name}": content for name, content in world.pop("files", {}).items()}
    fakes = FakeWorld.of(files={f"{root}/a.txt": b"one", **files}, **world)
    held = session or Session(answer)
    registry, reports = Registry(), []
    with registry.batch() as batch:
        batch.add(*tools, *items)
    pipeline = Pipeline(
        held,
        Approver(Resolver(root, load_catalogs()), said_yes, ask),
        capabilities(fakes),
        Files(fakes.fs, root),
        lambda: registry.current,
        Spill(fakes.fs.below("/state/results/s")),
        reports.append,
    )
    return Harness(fakes, held, registry, pipeline, reports)


def mode(name: Mode) -> Caller:
    """The caller in another mode."""
    return Caller("main", "", delegate, name)
