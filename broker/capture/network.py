"""
Connections out of the sandbox, and the events that they become.

Decided here: what the trace says of a connection. Not decided here: which are let through, and how
they are carried (``broker.sandbox.egress``). Within a tunnel nothing is seen, so of one only its
host, its bytes and its time are told; of a plain request its method and its address too.

Rule a maintainer keeps: what fails here never breaks a connection.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final

from broker.errors import TraceError
from broker.sandbox.carrying import Egressed
from broker.trace.writer import RunWriter

MAX_CONNECTIONS_TOLD: Final = 20_000  # of one run


class Network:
    """Writes the connections of one run. Safe among threads."""

    def __init__(self, run: RunWriter) -> None:
        self._run = run
        self._open: dict[int, int] = {}
        self._count = 0
        self._lock = threading.Lock()

    def hear(self, told: Egressed) -> None:
        """Write what is told of a connection."""
        with suppress(TraceError):  # the trace takes no more, and says so
            if told.ended:
                self._ended(told)
            else:
                self._begun(told)

    def _begun(self, told: Egressed) -> None:
        with self._lock:
            self._count += 1
            if self._count > MAX_CONNECTIONS_TOLD:
                return
        attrs: dict[str, object] = {
            "host": told.host,
            "port": told.port,
            "method": told.method,
            "allowed": not told.refused,
            **({"url": told.url} if told.url else {}),
            **({"reason": told.refused} if told.refused else {}),
        }
        seq = self._run.event("net.request", "tool", attrs=attrs)
        if not told.refused:
            with self._lock:
                self._open[told.number] = seq

    def _ended(self, told: Egressed) -> None:
        with self._lock:
            seq = self._open.pop(told.number, -1)
        if seq < 0:
            return
        attrs = {
            "host": told.host,
            "port": told.port,
            "sent_bytes": told.sent_bytes,
            "received_bytes": told.received_bytes,
            "duration_ms": told.duration_ms,
        }
        self._run.event("net.response", "gateway", causes=[seq], attrs=attrs)
