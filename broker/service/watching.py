"""
What a service says of itself: metrics for Prometheus, and a log of JSON lines.

Decided here: what is counted, under which names, and what is logged. Not decided here: what is
recorded; that is the receipt, which never depends on this.

    {"at":"2026-11-30T12:00:00.000Z","event":"minted","by":"alex","sid":"…"}

Rules a maintainer keeps: no key, no ticket, no argument and no typed line is ever logged; what a
caller made up (a path, a tool's name) is neither a label nor logged, so that no caller can make a
metric grow; where nothing can be written, that is no fault of the request.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO

from broker.receipt.entry import format_at

if TYPE_CHECKING:
    from prometheus_client import Histogram

    from broker.calls import Decision
    from broker.service.access import KeyHolder
    from broker.service.tracing import Traces

# Of a request; a decision waits for the disk, so most take milliseconds.
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 10.0)


class Watch:
    """
    Counts and tells.

    Args:
        stream: where log lines go.
        clock: nanoseconds since the Unix epoch.
        requests: log each request, too; without it only those that fail.
        traces: is told of each request, to send a span.
    """

    def __init__(
        self,
        stream: TextIO,
        clock: Callable[[], int],
        *,
        requests: bool = False,
        traces: Traces | None = None,
    ) -> None:
        import prometheus_client as prometheus  # noqa: PLC0415 - of an extra

        self._stream = stream
        self._clock = clock
        self._each = requests
        self._traces = traces
        self._registry = prometheus.CollectorRegistry()
        self._decisions = prometheus.Counter(
            "broker_decisions",
            "Decisions, by outcome and by the caveat that refused.",
            ("decision", "caveat"),
            registry=self._registry,
        )
        self._answers = prometheus.Histogram(
            "broker_request_seconds",
            "Time from a request's head until its answer was handed over.",
            ("path", "status"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._sessions = prometheus.Gauge(
            "broker_sessions", "Sessions that are held open.", registry=self._registry
        )
        self._known: dict[tuple[str, int], Histogram] = {}  # few: paths are ours, as statuses are
        self._allowed = self._decisions.labels("allow", "")

    def metrics(self, sessions: int) -> bytes:
        """Return the metrics as Prometheus reads them."""
        from prometheus_client import generate_latest  # noqa: PLC0415

        self._sessions.set(sessions)
        return generate_latest(self._registry)

    def decided(self, decision: Decision) -> None:
        """Count a decision."""
        if decision.refusal is None:
            self._allowed.inc()
        else:
            self._decisions.labels("refuse", decision.refusal.caveat).inc()

    def answered(
        self, path: str, status: int, seconds: float, caller: KeyHolder | None, parent: str = ""
    ) -> None:
        """Count an answer, send its span, and log it where it is an error or each is wanted."""
        known = self._known.get((path, status))
        if known is None:
            known = self._known[path, status] = self._answers.labels(path, str(status))
        known.observe(seconds)
        if self._traces is not None:
            self._traces.answered(path, status, seconds, parent)
        if self._each or status >= 400:
            by = "" if caller is None else caller.name
            self.say("answered", path=path, status=status, by=by, ms=round(seconds * 1_000, 3))

    def broke(self, path: str, error: Exception) -> None:
        """Log a fault of the service itself; its text may hold what a caller sent."""
        self.say("broke", path=path, error=type(error).__name__)

    def say(self, event: str, **more: object) -> None:
        """Log one event."""
        line = {"at": format_at(self._clock()), "event": event, **more}
        with suppress(OSError, ValueError):
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()
