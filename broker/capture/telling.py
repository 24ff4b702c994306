"""
The way to the recorder for one who tells much and must never wait: an MCP gateway.

Decided here: that what cannot be told is left out, and counted. Not decided here: what is told
(``broker.mcp.tee``), who hears it (``broker.capture.door``).

Rules a maintainer keeps: ``tell`` returns at once; what waits has a limit; a recorder that went
away is not looked for again.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from broker.service.client import RECORDER_VARIABLE

MAX_WAITING: Final = 256  # frames that are not sent yet
CONNECT_S: Final = 0.05
SEND_S: Final = 5.0  # in which one frame is taken, or the recorder counts as gone
CLOSE_S: Final = 1.0


class RecorderClient:
    """
    Tells the recorder of this run. Safe among threads.

    ``left_out`` counts what was not told.
    """

    def __init__(self, path: str) -> None:
        self.left_out = 0
        self._path = path
        self._queue: queue.Queue[bytes | None] = queue.Queue(MAX_WAITING)
        self._gone = False
        self._thread = threading.Thread(target=self._send, name="recorder", daemon=True)
        self._thread.start()

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> RecorderClient | None:
        """Return the way to the recorder that the environment names, if it names one."""
        path = environ.get(RECORDER_VARIABLE)
        return cls(path) if path else None

    def tell(self, fields: Mapping[str, object], content: bytes | None) -> None:
        """Tell of one message; at once, or not at all."""
        sizes = [] if content is None else [len(content)]
        header = json.dumps({**fields, "sizes": sizes}, separators=(",", ":")).encode()
        if self._gone:
            self.left_out += 1
            return
        try:
            self._queue.put_nowait(header + b"\n" + (content or b""))
        except queue.Full:
            self.left_out += 1

    def close(self) -> None:
        """Send what waits, for a moment at most."""
        with suppress(queue.Full):
            self._queue.put(None, timeout=CLOSE_S)
        self._thread.join(CLOSE_S)

    def _send(self) -> None:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(CONNECT_S)
                connection.connect(os.fspath(self._path))
                connection.settimeout(SEND_S)
                while (frame := self._queue.get()) is not None:
                    connection.sendall(frame)
        except OSError:
            self._gone = True
