"""The hook's client as a process of its own, and stand-ins for the session that it asks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import broker.hookclient
from broker.service.protocol import receive

CLIENT = broker.hookclient.__file__
PAYLOAD = b'{"hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{}}'


def run_hook(
    path: Path | str,
    payload: bytes = PAYLOAD,
    *,
    agent: str = "claude-code",
    deadline_ms: int | str = 5_000,
    client: Sequence[str] = (sys.executable, "-I", "-S", CLIENT),
) -> subprocess.CompletedProcess[bytes]:
    """Run the client once."""
    return subprocess.run(
        [*client, str(path), agent, str(deadline_ms)],
        input=payload,
        capture_output=True,
        timeout=60,
        check=False,
    )


def denied(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the reason of a denial, after checking that nothing else was printed."""
    assert done.returncode == 0, done
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1
    (only,) = json.loads(done.stdout).items()
    assert only[0] == "hookSpecificOutput"
    answer = only[1]
    assert set(answer) == {"hookEventName", "permissionDecision", "permissionDecisionReason"}
    assert answer["hookEventName"] == "PreToolUse"
    assert answer["permissionDecision"] == "deny"
    assert answer["permissionDecisionReason"]
    return str(answer["permissionDecisionReason"])


def said_nothing(done: subprocess.CompletedProcess[bytes]) -> bool:
    """Whether the client let the call go on."""
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


class Stand:
    """
    A socket that answers as a test says: with bytes as they are, after any wait.

    ``answer`` is given the request and returns the raw bytes to send; None sends nothing and keeps
    the connection open.
    """

    def __init__(self, path: Path, answer: Callable[[bytes], bytes | None]) -> None:
        self.path = path
        self.answer = answer
        self.asked: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(os.fspath(path))
        self._listener.listen(16)
        self._kept: list[socket.socket] = []

    def __enter__(self) -> Stand:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Closing alone would leave the socket open as long as the thread waits in it.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for connection in [*self._kept, self._listener]:
            connection.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            request = receive(connection) or b""
            self.asked.append(request)
            answer = self.answer(request)
            if answer is None:
                self._kept.append(connection)
                continue
            with suppress(OSError):
                connection.sendall(answer)
            connection.close()


def within(seconds: float, done: Callable[[], bool]) -> bool:
    """Wait until something is so, and return whether it came about."""
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
