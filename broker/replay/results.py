"""
What tools came to in a recorded run, found again for whoever asks the same.

Decided here: which recorded result a shell of a replay gets, and that a shell of the agent's own is
run. Not decided here: how a shell or a gateway asks (``broker.replay.answering``), which recorded
answer of an MCP server is right (``broker.replay.servers``).

A shell that carries out a call of a tool is answered from the record: by the same words in the
same folder, else by the same command (agents put words of their own around it), the earliest that
is left. Any other shell is the agent's own business (it looks for a program, say), is part of no
call, and runs. A call's shell of which nothing is left on record is refused.

Rules a maintainer keeps: a result is given once; one that was not kept whole is refused, and never
made up; what is asked is cleared of secrets before it is compared, as what was recorded is.
"""

from __future__ import annotations

import re
import signal
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from broker.redaction.hiding import Hider
from broker.redaction.trees import hide_tree
from broker.replay.normal import Normal, spelled
from broker.trace.format import Event
from broker.trace.linking import bare_command, carried, commands_of
from broker.trace.reader import RunReader

Verdict = Literal["served", "own", "refused"]
Kind = Literal["shell", "mcp"]
Content = Mapping[str, object]

MAX_NAMED: Final = 64  # refusals that are named
_NUMBERED: Final = re.compile(r"<id \d+>")
_SLACK_MS: Final = 2_000  # for the signal that ended a command then, to come again


@dataclass(frozen=True, slots=True)
class KeptShell:
    """A recorded shell: what ran, and how it ended. ``commands`` are of the call it carries out."""

    seq: int
    turn: int
    words: str
    cwd: str
    command: str
    code: int | None = None
    signal: int = 0
    wait_ms: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    lost: str = ""


@dataclass(frozen=True, slots=True)
class ShellAnswer:
    """What becomes of a shell: its recorded result, or that it runs, or why it is refused."""

    verdict: Verdict
    kept: KeptShell | None = None
    why: str = ""
    same: bool = True  # it began in the same folder


@dataclass(slots=True)
class ResultsTally:
    """
    How many results came from the record, by kind: ``served``, ``own`` (ran) and ``refused``.

    ``named`` says which were refused, and why; ``left`` are the recorded ones that nobody asked
    for. Safe among threads.
    """

    recorded: Mapping[str, int] = field(default_factory=dict)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    named: list[str] = field(default_factory=list)
    left: tuple[int, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)

    def took(self, kind: Kind, verdict: Verdict, name: str = "") -> None:
        """Count one."""
        with self.lock:
            self.counts[kind, verdict] += 1
            if name and len(self.named) < MAX_NAMED:
                self.named.append(name)

    @property
    def refused(self) -> int:
        """How many were refused: nothing was on record for them."""
        with self.lock:
            return self.counts["shell", "refused"] + self.counts["mcp", "refused"]

    def of(self, kind: Kind) -> dict[str, int]:
        """Return the counts of a kind."""
        with self.lock:
            counted = {name: self.counts[kind, name] for name in ("served", "refused")}
            own = {"ran": self.counts[kind, "own"]} if kind == "shell" else {}
        return {"recorded": self.recorded.get(kind, 0), **counted, **own}

    def __str__(self) -> str:
        """In words, for the person."""
        parts = []
        for kind, what in (("shell", "shells"), ("mcp", "MCP")):
            found = self.of(kind)  # type: ignore[arg-type]  # one of the two
            said = f"{what} {found['served']}/{found['recorded']}"
            said += f" ({found['refused']} refused)" if found["refused"] else ""
            parts.append(said)
        own = self.of("shell")["ran"]
        ran = f"; {own} shells of the agent's own ran" if own else ""
        return f"from the record: {', '.join(parts)}{ran}"


class RecordedShells:
    """
    The shells of one recorded run. Safe among threads.

    Args:
        reader: the run.
        here: makes what is asked comparable; for the places of the run that asks.
        there: the same, for the places of the run that was recorded.

    Raises:
        TraceError: the run cannot be read.
    """

    def __init__(self, reader: RunReader, here: Normal, there: Normal) -> None:
        self._here = here
        self._lock = threading.Lock()
        rows, results, calls = _read(reader)
        commands = [each for found in calls.values() for each in found]
        self._commands = {_plain(each, there): each for each in commands}
        self._left: list[KeptShell] = []
        last: dict[int, int] = {}
        for event in rows:
            words, ended = _words(reader, event), results.get(event.seq)
            causes = [*event.causes, *(ended.causes if ended is not None else ())]
            command = carried(words, [c for seq in causes for c in calls.get(seq, ())] or commands)
            shown = _form(words, there), _plain(command, there)
            kept = _kept(event, _form([event.text("cwd")], there), shown, _result(reader, ended))
            if kept.command:
                self._left.append(kept)
                last[kept.turn] = kept.seq
        self._last = frozenset(last.values())
        self.recorded = len(self._left)

    @property
    def left(self) -> tuple[int, ...]:
        """The events of what was recorded and not asked for."""
        with self._lock:
            return tuple(kept.seq for kept in self._left)

    def ask(self, words: Sequence[str], cwd: str) -> ShellAnswer:
        """
        Return what becomes of a shell.

        Args:
            words: of the shell, its own name first.
            cwd: the folder that it starts in.
        """
        hidden, _ = hide_tree({"argv": [*words]}, Hider())
        said = hidden.get("argv") if isinstance(hidden, dict) else None
        shown = [str(word) for word in said] if isinstance(said, list) else list(words)
        asked = _form(shown, self._here)
        folder = _form([cwd], self._here)
        text = [_plain(" ".join(shown), self._here)]
        with self._lock:
            command = carried(text, self._commands)
            if not command:
                return ShellAnswer("own")
            same = [k for k in self._left if (k.words, k.cwd) == (asked, folder)]
            near = [k for k in self._left if k.command == command]
            near.sort(key=lambda kept: kept.cwd != folder)  # the earliest of each
            kept = next(iter([*same, *near]), None)
            if kept is None:
                return ShellAnswer("refused", why=f"`{_short(command)}` is not left on record")
            self._left.remove(kept)
        if kept.lost:
            return ShellAnswer("refused", kept, f"`{_short(command)}`: {kept.lost}")
        return ShellAnswer("served", kept, same=kept.cwd == folder)

    def ends_turn(self, kept: KeptShell) -> bool:
        """Whether it was the last shell of its turn that carried out a call."""
        return kept.seq in self._last


def _read(
    reader: RunReader,
) -> tuple[list[Event], dict[int, Event], dict[int, tuple[str, ...]]]:
    """Return the shells, their results by the event of the shell, and the commands of the calls."""
    rows: list[Event] = []
    results: dict[int, Event] = {}
    calls: dict[int, tuple[str, ...]] = {}
    for event in reader.stream():
        if event.type == "shell.exec":
            rows.append(event)
        elif event.type == "shell.result":
            results.update(dict.fromkeys(event.causes[:1], event))
        elif event.type == "tool.call":
            calls[event.seq] = commands_of(reader.payload(event))
    return rows, results, calls


def _words(reader: RunReader, event: Event) -> list[str]:
    payload = reader.payload(event)
    said = payload.get("argv") if isinstance(payload, Mapping) else event.attrs.get("argv")
    return [str(word) for word in said] if isinstance(said, list) else []


def _result(reader: RunReader, ended: Event | None) -> tuple[Content, Content]:
    """Return what is told of a shell's end, and what it wrote."""
    if ended is None:
        return {}, {}
    payload = reader.payload(ended)
    return ended.attrs, payload if isinstance(payload, Mapping) else {}


def _kept(
    event: Event, cwd: str, shown: tuple[str, str], result: tuple[Content, Content]
) -> KeptShell:
    attrs, said = result
    words, command = shown
    code, took = attrs.get("exit_code"), attrs.get("duration_ms")
    number = _number(attrs.get("signal"))
    lost = "" if isinstance(code, int) or number else "how it ended was not recorded"
    if attrs.keys() & {"stdout_left_out", "stderr_left_out"}:
        lost = "it wrote more than is recorded"
    return KeptShell(
        event.seq,
        event.turn,
        words,
        cwd,
        command,
        code if isinstance(code, int) else None,
        number,
        (took + _SLACK_MS if isinstance(took, int) else _SLACK_MS) if number else 0,
        _octets(said.get("stdout")),
        _octets(said.get("stderr")),
        lost,
    )


def _octets(value: object) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else b""


def _number(name: object) -> int:
    """Return the number of a signal by its recorded name; 0 for none."""
    if not isinstance(name, str):
        return 0
    found = signal.Signals.__members__.get(name)
    return int(name) if found is None and name.isdigit() else int(found or 0)


def _form(words: Iterable[str], normal: Normal) -> str:
    return spelled(normal.body([*words]))


def _plain(command: str, normal: Normal) -> str:
    """Return a command as it is looked for: without what differs between two runs."""
    found = normal.body([command])
    text = str(found[0]) if isinstance(found, list) else command
    # By their order they would have other numbers within the words around them.
    return bare_command(_NUMBERED.sub("<id>", text))


def _short(command: str) -> str:
    return command if len(command) <= 60 else f"{command[:59]}…"
