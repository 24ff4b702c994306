"""
The recorder's door: a unix socket where shells and MCP gateways tell what they do.

A frame is one line of JSON, of which ``sizes`` lists how many bytes of each part follow it. Nothing
is answered, so that nobody who tells ever waits for us.

Decided here: who is heard, how much of it, and for how long. Not decided here: what becomes of it
(``broker.capture.intake``).

Rules a maintainer keeps: only processes of this user are heard; a teller that says something
unreadable is heard no further, and only he; what breaks here is told in the trace and never to the
one who told.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Final

from broker.boundary import contained
from broker.capture.calling import OpenCalls
from broker.capture.intake import MAX_STREAM_BYTES, Allowance, Intake
from broker.errors import InputError, LaunchError, TraceError
from broker.limits import MAX_SOCKET_PATH_BYTES
from broker.service.peer import is_own
from broker.trace.writer import RunWriter

MAX_HEADER_BYTES: Final = 65_536
MAX_PART_BYTES: Final = 4 * MAX_STREAM_BYTES
MAX_PARTS: Final = 4
MAX_TELLERS: Final = 128  # at the same time; more wait their turn
STOP_S: Final = 1.0  # at the end, for what was told and is not read yet
QUIET_S: Final = 0.05  # in which nothing was told: then nothing more is on its way
POLL_S: Final = 0.05


class Door:
    """
    Hears for one run. ``bind``, then ``start``, and at the end ``stop``.

    Args:
        run: what is written into.
        path: where the socket is made.
        open_calls: the model's, some of which shells carry out.
    """

    def __init__(self, run: RunWriter, path: Path, open_calls: OpenCalls | None = None) -> None:
        self.path = path
        self._run = run
        self._allowance = Allowance()
        self._open_calls = open_calls or OpenCalls()
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._slots = threading.BoundedSemaphore(MAX_TELLERS)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._stopping = False
        self._complained = False
        self._frames = 0

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
            listener.listen(MAX_TELLERS)
            listener.settimeout(POLL_S)
        except OSError as error:
            listener.close()
            raise LaunchError(f"nobody can be heard at `{self.path}`: {error.strerror}") from error
        self._listener = listener

    def start(self) -> None:
        """Begin to hear, in threads of its own."""
        assert self._listener is not None  # noqa: S101 - bind comes first
        self._thread = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Hear out what was told, and hear no more."""
        until = time.monotonic() + STOP_S
        while self._open and time.monotonic() < until:
            before = self._frames
            time.sleep(QUIET_S)
            if self._frames == before:
                break
        self._stopping = True
        with suppress(OSError):
            self.path.unlink()
        if self._thread is not None:
            self._thread.join(STOP_S)
        if self._listener is not None:
            self._listener.close()
        with self._lock:
            left = list(self._open)
        for connection in left:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        until = time.monotonic() + STOP_S
        while self._open and time.monotonic() < until:
            time.sleep(0.005)

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopping:
            self._slots.acquire()
            try:
                connection, _ = listener.accept()
                with self._lock:
                    self._open.add(connection)
                threading.Thread(target=self._heard, args=(connection,), daemon=True).start()
            except TimeoutError:
                self._slots.release()
            except (OSError, RuntimeError):
                self._slots.release()
                time.sleep(0.01)  # out of descriptors or threads, or stopped

    def _heard(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(None)
            if is_own(connection):
                contained(partial(self._hear, connection), self._broken)
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()
            self._slots.release()

    def _hear(self, connection: socket.socket) -> None:
        intake = Intake(self._run, self._allowance, open_calls=self._open_calls)
        whole = False
        with suppress(TraceError):  # the trace takes no more, and says so
            try:
                with connection.makefile("rb") as stream:
                    while frame := read_frame(stream):
                        self._frames += 1
                        intake.take(*frame)
                whole = True
            finally:
                intake.over(running=self._stopping or not whole)

    def _broken(self, error: Exception) -> None:
        """Say once of a run that something told was not written."""
        with self._lock:
            first, self._complained = not self._complained, True
        if first and not self._run.broken:
            why = str(error) if isinstance(error, InputError) else type(error).__name__
            attrs = {"kind": "door", "message": why}
            contained(lambda: self._run.event("error", "orca", attrs=attrs), lambda _: -1)


def read_frame(stream: IO[bytes]) -> tuple[Mapping[str, object], list[bytes]] | None:
    """
    Return one frame, its header and its parts; None at the end, or where it breaks off.

    >>> import io
    >>> read_frame(io.BytesIO(b'{"kind":"x","sizes":[1,2]}\\nabc'))
    ({'kind': 'x', 'sizes': [1, 2]}, [b'a', b'bc'])

    Raises:
        InputError: it is none.
    """
    try:
        line = stream.readline(MAX_HEADER_BYTES)
        if not line.endswith(b"\n"):
            if len(line) < MAX_HEADER_BYTES:
                return None
            raise InputError("the header of a frame is longer than the recorder reads")
        header = json.loads(line)
        sizes = header.get("sizes") if isinstance(header, dict) else None
        if not isinstance(sizes, list) or len(sizes) > MAX_PARTS:
            raise InputError("the header of a frame says no sizes")
        parts = []
        for size in sizes:
            if type(size) is not int or not 0 <= size <= MAX_PART_BYTES:
                raise InputError("a part of a frame is longer than the recorder reads")
            part = stream.read(size)
            if len(part) < size:
                return None
            parts.append(part)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("the header of a frame is one line of JSON") from error
    except OSError:
        return None
    return header, parts
