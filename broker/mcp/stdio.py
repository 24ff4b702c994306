"""
The gateway between two streams of lines: a client on our standard streams, a server in a process.

Decided here: how lines travel, and how both ends come to an end. Not decided here: what becomes
of a message (``broker.mcp.gateway``).

The client hangs up: the server's input is closed, and it has GRACE_S to go before it is told to,
and as long again before it is killed. The server goes: the client's open requests are answered
with an error, and the gateway ends with the server's exit code.

Rules a maintainer keeps: one thread for each direction, and one for each stream that is written,
so that lines never mix and no direction waits for the other; the server gets nothing of the
session (no socket, no ticket).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Final, Protocol

from broker.errors import LaunchError
from broker.limits import MAX_REQUEST_BYTES
from broker.mcp.gateway import Gateway, Ruling
from broker.service.client import (
    RECORDER_VARIABLE,
    REPLAY_VARIABLE,
    SESSION_VARIABLE,
    SOCKET_VARIABLE,
    TICKET_VARIABLE,
)

GRACE_S: Final = 3.0
_OURS: Final = (
    *(SESSION_VARIABLE, SOCKET_VARIABLE, TICKET_VARIABLE, RECORDER_VARIABLE),
    REPLAY_VARIABLE,
)
TOO_LONG: Final = b"\x00"  # read as a message, it is none


class LineWriter:
    """
    A stream that whole lines are written to, from any thread, by a thread of its own.

    Whoever carries messages one way also writes a refusal now and then the other way. If it had
    to wait for a reader there, both ends could come to wait for each other.
    """

    def __init__(self, stream: IO[bytes], limit: int = MAX_REQUEST_BYTES) -> None:
        self._stream = stream
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._over = False
        self._changed = threading.Condition()
        self._thread = _thread(self._write)

    def send(self, line: bytes | None, *, patient: bool = True) -> bool:
        """
        Write one line, or nothing for None; whether there is anybody left to read it.

        Args:
            patient: wait while more than the limit is still unread.
        """
        with self._changed:
            while patient and self._bytes > self._limit and not self._over:
                self._changed.wait()
            if self._over:
                return False
            if line is not None:
                self._waiting.append(line + b"\n")
                self._bytes += len(line) + 1
                self._changed.notify_all()
        return True

    def close(self) -> None:
        """Write what is left, for GRACE_S at most, and say that no more will come."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._thread.join(GRACE_S)

    def _write(self) -> None:
        while line := self._next():
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):
                break
            with self._changed:
                self._bytes -= len(line)
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()
        with suppress(OSError, ValueError):
            self._stream.close()

    def _next(self) -> bytes:
        with self._changed:
            while not self._waiting and not self._over:
                self._changed.wait()
            return self._waiting.popleft() if self._waiting else b""


def lines(stream: IO[bytes], limit: int = MAX_REQUEST_BYTES) -> Iterator[bytes]:
    """
    Yield the lines of a stream; TOO_LONG stands for one of more than ``limit`` bytes.

    >>> import io
    >>> list(lines(io.BytesIO(b"ab\\n\\nabcdef\\nc"), limit=3))
    [b'ab', b'\\x00', b'c']
    """
    dropped = False
    while part := _next(stream, limit):
        whole = part.endswith(b"\n") or len(part) <= limit
        if dropped or not whole:
            if whole:
                yield TOO_LONG
            dropped = not whole
        elif part.strip():
            yield part.rstrip(b"\n")
    if dropped:
        yield TOO_LONG


def _next(stream: IO[bytes], limit: int) -> bytes:
    try:
        return stream.readline(limit + 1)
    except (OSError, ValueError):
        return b""


class CarriedServer(Protocol):
    """A server as ``relay`` sees it."""

    @property
    def input(self) -> LineWriter:
        """Where its lines are written."""

    @property
    def output(self) -> IO[bytes]:
        """What it says."""

    def end(self) -> int:
        """Let the server go, and return its exit code."""


class ServerProcess:
    """
    A server in a process of its own.

    Raises:
        LaunchError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        program = shutil.which(command[0], path=environ.get("PATH", os.defpath))
        if program is None:
            raise LaunchError(f"`{command[0]}` cannot be started: there is no such program")
        try:
            self._process = subprocess.Popen(
                list(command),
                executable=os.path.abspath(program),
                env={k: v for k, v in environ.items() if k not in _OURS},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # what it starts goes with it
            )
        except (OSError, ValueError) as error:
            why = (getattr(error, "strerror", None) or str(error)).lower()
            raise LaunchError(f"`{command[0]}` cannot be started: {why}") from error
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self.input = LineWriter(self._process.stdin)
        self.output = self._process.stdout

    def end(self) -> int:
        """Let the server go, or make it, and return its exit code."""
        self.input.close()
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                self._tell(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
                break
        self._tell(signal.SIGKILL)  # whatever it has left behind
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def _tell(self, number: signal.Signals) -> None:
        # The group has the id of its first process as long as anybody is left in it.
        with suppress(OSError):
            os.killpg(self._process.pid, number)


def relay(
    gateway: Gateway,
    server: CarriedServer,
    client_in: IO[bytes],
    client_out: LineWriter,
    over: threading.Event,
) -> int:
    """
    Carry messages between a client and a server until one of them ends.

    Args:
        over: set from elsewhere, it ends the relay too.

    Returns:
        The server's exit code; 0 when the client hung up first.
    """
    gone = threading.Event()

    def from_client() -> None:
        try:
            for line in lines(client_in):
                if not _passed(gateway.from_client(line), server.input, client_out):
                    break
        finally:
            over.set()

    def from_server() -> None:
        try:
            for line in lines(server.output):
                if not _passed(gateway.from_server(line), client_out, server.input):
                    break
        finally:
            gone.set()
            over.set()

    _thread(from_client)
    answering = _thread(from_server)
    over.wait()
    left = gone.is_set()
    code = server.end()
    answering.join(GRACE_S)
    for answer in gateway.deserted():
        client_out.send(answer, patient=False)
    client_out.close()
    return code if left else 0


def _passed(ruling: Ruling, onward: LineWriter, back: LineWriter) -> bool:
    """Send what a ruling says; whether both ends still take it."""
    return back.send(ruling.back, patient=False) and onward.send(ruling.onward)


def _thread(work: Callable[[], None]) -> threading.Thread:
    made = threading.Thread(target=work, daemon=True)
    made.start()
    return made
