"""
A socket where shells and gateways of a replay ask for what came of them in the recorded run.

One question a connection: a frame as the recorder's door takes them, ``shell`` with the words and
the folder, ``mcp`` with a server's name and a message. The answer is parts, each behind its length
on a line of its own: of a shell a verdict (``own``, or ``exit N WAIT_MS``, or ``signal N
WAIT_MS``) and its two streams, of a message the lines that the server says.

Decided here: who is answered, and when the scratch folder is brought to what the recorded shells
had made of it: with the last shell of its turn, and with the next turn at the latest. Not decided
here: which result is right (``broker.replay.results``, ``broker.replay.servers``).

Rules a maintainer keeps: only processes of this user are answered; what breaks here is a refusal,
and no shell runs because of it.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from broker.boundary import contained
from broker.capture.advancing import advance
from broker.capture.door import read_frame
from broker.errors import BrokerError, InputError, LaunchError, TraceError
from broker.limits import MAX_SOCKET_PATH_BYTES
from broker.mcp.messages import read_message
from broker.replay.normal import Normal
from broker.replay.results import RecordedShells, ResultsTally, ShellAnswer
from broker.replay.servers import RecordedServers
from broker.service.peer import is_own
from broker.trace.format import Event
from broker.trace.linking import bare_command, commands_of
from broker.trace.reader import RunReader

REFUSED_CODE: Final = 126  # as of a command that was found and cannot be run
POLL_S: Final = 0.05
_BACKLOG: Final = 128

Diverged = Callable[[str, int, int, str], None]  # kind, rung, the event that was expected, why


class RecordedTrees:
    """
    The workspace of a run at the beginning of each turn, and a folder that follows it.

    What an agent does by itself it does again, so the folder follows only where a shell's result
    was given. A snapshot may have been late, and hold what its turn's own calls did already: what
    those name is left to them.

    Args:
        reader: the run.
        folder: the folder, which is as the first snapshot says; None where nothing is to follow.
    """

    def __init__(self, reader: RunReader, folder: Path | None) -> None:
        self.lost = ""
        self._store = reader.folder / "fs"
        self._folder = folder if folder is not None and self._store.is_dir() else None
        self._lock = threading.Lock()
        self._trees: list[tuple[int, str]] = []
        self._turns: dict[int, int] = {}
        self._late: set[int] = set()
        self._named: dict[int, list[bytes]] = {}
        self._owed = -1  # the turn of the last shell whose result was given
        self._at = 0
        answered: set[int] = set()
        for event in reader.stream():
            if event.type == "fs.snapshot" and event.text("tree"):
                self._trees.append((_turn(event), event.text("tree")))
                self._late |= {event.turn} & answered
            elif event.type == "model.request":
                self._turns[event.seq] = event.turn
            elif event.type == "model.response":
                answered.add(event.turn)
            elif event.type == "tool.call":
                texts = self._named.setdefault(event.turn, [])
                texts += map(os.fsencode, _texts(reader.payload(event)))

    def served(self, turn: int, *, last: bool) -> None:
        """Note that a shell's result was given; with the last one of a turn, follow it."""
        with self._lock:
            self._owed = max(self._owed, turn)
            self._at = max(self._at, self._index(turn))
        if last:
            later = [begins for begins, _ in self._trees if begins > turn]
            self._reach(min(later, default=turn))

    def asked(self, seq: int) -> None:
        """Follow to where a recorded request was made, if a shell's result was given before it."""
        turn = self._turns.get(seq, 0)
        if 0 <= self._owed < turn:
            self._reach(turn)

    def _index(self, turn: int) -> int:
        return max((n for n, (begins, _) in enumerate(self._trees) if begins <= turn), default=0)

    def _reach(self, turn: int) -> None:
        """Bring the folder to what it was when a turn began; never back."""
        if self._folder is None:
            return
        with self._lock:
            to = self._index(turn)
            if to <= self._at or self.lost:
                return
            before, after = self._trees[self._at][1], self._trees[to][1]
            named = self._named.get(turn, ()) if turn in self._late else ()
            try:
                if before != after:
                    leave = partial(_named_in, named)
                    advance(self._store, before, after, self._folder, leave)
            except TraceError as error:
                self.lost = str(error)
            self._at = to
            self._owed = -1


def _texts(arguments: object) -> Iterator[str]:
    """Yield the texts of a call's own arguments that are no command."""
    if isinstance(arguments, Mapping):
        commands = commands_of(arguments)
        for value in arguments.values():
            if isinstance(value, str) and bare_command(value) not in commands:
                yield value


def _named_in(texts: Iterable[bytes], path: bytes) -> bool:
    return any(path in text for text in texts)


def _turn(event: Event) -> int:
    """Return the turn that a snapshot begins; the last one begins a turn that never came."""
    return event.turn + 1 if event.text("at") == "end" else event.turn


class ResultsServer:
    """
    Answers for one replay: ``bind``, then ``start``, and ``close`` at the end.

    Args:
        reader: the recorded run.
        path: where the socket is made.
        forms: what makes texts comparable: for the places of the run that asks, and for those of
            the run that was recorded.
        trees: what the scratch folder is to become.
        diverged: is told of each result that is not the same, or not on record.

    Raises:
        TraceError: the run cannot be read.
    """

    def __init__(
        self,
        reader: RunReader,
        path: Path,
        forms: tuple[Normal, Normal],
        *,
        trees: RecordedTrees,
        diverged: Diverged,
    ) -> None:
        self.path = path
        self.trees = trees
        self._shells = RecordedShells(reader, *forms)
        self._servers = RecordedServers(reader, *forms)
        recorded = {"shell": self._shells.recorded, "mcp": self._servers.recorded}
        self.tally = ResultsTally(recorded)
        self._diverged = diverged
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._over = False

    def bind(self) -> None:
        """
        Make the socket, for this user only. Whoever connects now waits until ``start``.

        Raises:
            LaunchError: it cannot be made.
        """
        if len(os.fsencode(self.path)) > MAX_SOCKET_PATH_BYTES:
            raise LaunchError(f"`{self.path}` is too long for the name of a socket")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            before = os.umask(0o177)
            try:
                listener.bind(os.fspath(self.path))
            finally:
                os.umask(before)
            listener.listen(_BACKLOG)
            listener.settimeout(POLL_S)
        except OSError as error:
            listener.close()
            raise LaunchError(f"nobody can ask at `{self.path}`: {error.strerror}") from error
        self._listener = listener

    def start(self) -> None:
        """Begin to answer, in threads of its own."""
        assert self._listener is not None  # noqa: S101 - bind comes first
        self._thread = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more, and count what nobody asked for."""
        self._over = True
        if self._thread is not None:
            self._thread.join()
        if self._listener is not None:
            self._listener.close()
        with suppress(OSError):
            self.path.unlink()
        self.tally.left = (*self._shells.left, *self._servers.left)

    def _accept(self, listener: socket.socket) -> None:
        while not self._over:
            try:
                connection, _ = listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            except TimeoutError:
                continue
            except (OSError, RuntimeError):
                time.sleep(0.01)  # out of descriptors or threads, or closed

    def _serve(self, connection: socket.socket) -> None:
        # One that breaks off is no answer, and whoever asked takes it for a refusal.
        with connection:
            connection.settimeout(None)
            if is_own(connection):
                contained(partial(self._answer, connection), lambda _: None)

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError):
            with connection.makefile("rb") as stream:
                frame = read_frame(stream)
            if frame is None:
                return
            header, parts = frame
            if header.get("kind") == "shell" and len(parts) == 2:
                answer = self._shell(*parts)
            elif header.get("kind") == "mcp" and len(parts) == 2:
                answer = self._message(*parts)
            else:
                raise InputError("what is asked is neither a shell nor a message of MCP")
            connection.sendall(b"".join(b"%d\n%b" % (len(part), part) for part in answer))

    def _shell(self, said: bytes, cwd: bytes) -> tuple[bytes, ...]:
        words = [word.decode("utf-8", "surrogateescape") for word in said.split(b"\0")]
        found = self._shells.ask(words, cwd.decode("utf-8", "surrogateescape"))
        self.tally.took("shell", found.verdict, f"shell: {found.why}" if found.why else "")
        kept = found.kept
        if found.verdict == "own":
            return (b"own", b"", b"")
        if found.verdict == "refused" or kept is None:
            self._diverged("shell", 4, -1 if kept is None else kept.seq, found.why)
            why = f"broker: not in the recording: {found.why}\n"
            return (b"exit %d 0" % REFUSED_CODE, b"", why.encode("utf-8", "surrogateescape"))
        if not found.same:
            self._diverged("shell", 2, kept.seq, "it began in another folder")
        self.trees.served(kept.turn, last=self._shells.ends_turn(kept))
        return (_ended(found), kept.stdout, kept.stderr)

    def _message(self, name: bytes, raw: bytes) -> tuple[bytes, ...]:
        server = name.decode("utf-8", "replace")
        try:
            message = read_message(raw)
        except BrokerError as error:
            raise InputError(f"what is asked is no message: {error}") from error
        if message.kind == "response":
            return ()  # to what was asked in the recording, and answered there
        found = self._servers.ask(server, message)
        if found.counts:
            verdict = "refused" if found.why else "served"
            self.tally.took("mcp", verdict, f"mcp: {found.why}" if found.why else "")  # type: ignore[arg-type]  # one of the two
        if found.why:
            self._diverged("mcp", 4, -1, found.why)
        return found.lines


def _ended(answer: ShellAnswer) -> bytes:
    kept = answer.kept
    assert kept is not None  # noqa: S101 - it is served
    if kept.signal:
        return b"signal %d %d" % (kept.signal, kept.wait_ms)
    return b"exit %d 0" % (kept.code or 0)
