"""
What an adapter of a framework is tried on: tools that write down that they ran, and a script.

Decided here: the session of a trial and its scope, the tools, what a script says and what a drive
reports. Not decided here: the cases (``broker.testing.frameworks``), and how a framework is driven
(the author of its adapter).

Rules a maintainer keeps: that a tool ran is told by the tool itself, never by what drives it;
after each trial the receipt is audited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from broker.frameworks.holding import Holder, session
from broker.home import Home
from broker.receipt.audit import audit
from broker.receipt.keys import load_key
from broker.receipt.store import Receipts
from broker.receipt.verify import read_entries
from broker.sessions.ground import key_path

SCOPE: Final = ("tools=read,note,count,fail,helper", "paths=src/**", "calls=20")
SAID: Final = "that is all"  # what the scripted model says last


@dataclass(frozen=True, slots=True)
class Ask:
    """One tool call of the scripted model: its arguments are an object, or the text it wrote."""

    tool: str
    arguments: Mapping[str, object] | str
    call_id: str


@dataclass(frozen=True, slots=True)
class Helper:
    """
    A subagent that is to be given a narrower ticket.

    The main agent calls it once, in the way of the framework, with the call id ``helper``.
    ``texts`` are the caveats to add, ``tools`` the names of its tools, ``turns`` its own script.
    """

    name: str
    texts: tuple[str, ...]
    tools: tuple[str, ...]
    turns: tuple[tuple[Ask, ...], ...]


@dataclass(slots=True)
class Stage:
    """
    One trial: the ticket, the script of the model, and the tools that it may call.

    ``turns`` are the model's answers in order, each with the calls that it makes at once; after
    the last it says ``SAID`` and calls nothing. ``ran`` is every tool that ran, and with what.
    """

    held: Holder
    turns: tuple[tuple[Ask, ...], ...]
    helper: Helper | None = None
    ran: list[tuple[str, object]] = field(default_factory=list)
    pause_s: float = 0.0  # how long the tool ``note`` takes

    def tools(self, *names: str) -> list[Callable[..., str]]:
        """Return the tools by their names, or all: plain functions, to be made into tools."""
        ran = self.ran

        def read(path: str) -> str:
            """Read a file."""
            ran.append(("read", path))
            return Path(path).read_text(encoding="utf-8")

        def note(text: str) -> str:
            """Write a note."""
            time.sleep(self.pause_s)
            ran.append(("note", text))
            return f"noted {len(text)} letters"

        def shell(command: str) -> str:
            """Run a command."""
            ran.append(("shell", command))
            return "it was only pretended"

        def count(items: list[int]) -> str:
            """Count numbers."""
            ran.append(("count", len(items)))
            return str(len(items))

        def fail(text: str) -> str:
            """Fail."""
            ran.append(("fail", text))
            raise RuntimeError("the tool broke")

        every: list[Callable[..., str]] = [read, note, shell, count, fail]
        return [tool for tool in every if not names or tool.__name__ in names]


@dataclass(frozen=True, slots=True)
class Drive:
    """
    What came of one run: what the model was told about each of its calls, and its last words.

    ``told`` has the text of each result as it went to the model, by call id; those of a helper's
    model as well. ``error`` is how the run ended where the framework ends it by an exception.
    """

    told: Mapping[str, str]
    said: str = ""
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """One session that is open, and what its receipt says of it."""

    held: Holder
    home: Home
    workspace: Path

    def stage(self, *turns: Sequence[Ask], **more: Any) -> Stage:
        """Return a stage on which the model says these turns."""
        return Stage(self.held, tuple(map(tuple, turns)), **more)

    def entries(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the data of the receipt's entries of one kind, each verified."""
        receipts = self.receipts()
        path, head = receipts.path(self.held.sid), receipts.head_path(self.held.sid)
        found = read_entries(path, load_key(key_path(self.home)), head, sid=self.held.sid)
        return [entry.data for entry in found if entry.kind == kind]

    def answers(self) -> list[tuple[str, str]]:
        """Return tool and answer of each decision: ``allow``, or the caveat that refused it."""
        found = self.entries("decision")
        return [(d["tool"], d["caveat"] if d["decision"] == "refuse" else "allow") for d in found]

    def receipts(self) -> Receipts:
        """Return the receipts of this trial's home."""
        return Receipts(self.home, load_key(key_path(self.home)))


class Trials:
    """
    A session for each test of a class: what the suite stands on, and an author's own tests.

    ``scope`` is what the session permits. Where a framework delegates by a tool of another name
    than ``helper``, its author names that one.
    """

    scope: ClassVar[Sequence[str]] = SCOPE

    @pytest.fixture
    def trial(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trial]:
        """A session of this case's own; afterwards its receipt is audited."""
        workspace = tmp_path / "workspace"
        (workspace / "src").mkdir(parents=True)
        (workspace / "src" / "a.py").write_text("a = 1\n", encoding="utf-8")
        monkeypatch.chdir(workspace)
        home = Home.find({"BROKER_HOME": str(tmp_path / "home")})
        with session(self.scope, workspace=workspace, home=home, environ={}, agent="suite") as held:
            trial = Trial(held, home, workspace)
            yield trial
            sid = held.sid
        assert audit(trial.receipts(), sid).level
        allowed = {d["call"] for d in trial.entries("decision") if d["decision"] == "allow"}
        assert {d["call"] for d in trial.entries("result")} <= allowed
