"""Spans of requests, as a collector gets them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from broker.errors import InputError
from broker.service import tracing
from broker.service.tracing import Traces

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class _Collector(HTTPServer):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.taken: list[bytes] = []


class _Taking(BaseHTTPRequestHandler):
    server: _Collector

    def do_POST(self) -> None:
        """Take what comes."""
        self.server.taken.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[_Collector]:
    """A collector on this machine."""
    with _Collector() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield made
        made.shutdown()


def test_a_span_belongs_to_its_callers_trace(
    collector: _Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A span has the path, the status, the time and the caller's trace, and nothing else."""
    monkeypatch.setattr(tracing, "SEND_S", 60.0)  # a busy machine takes longer than a request waits
    traces = Traces(f"http://127.0.0.1:{collector.server_port}/v1/traces", lambda: 5_000_000_000)
    traces.answered("/v1/check", 200, 0.25, f"00-{TRACE}-{PARENT}-01")
    traces.answered("unknown", 500, 0.0, "nonsense")
    traces.close()
    request = ExportTraceServiceRequest.FromString(b"".join(collector.taken))
    spans = [s for r in request.resource_spans for i in r.scope_spans for s in i.spans]
    first, second = spans
    assert (first.trace_id.hex(), first.parent_span_id.hex()) == (TRACE, PARENT)
    assert (first.start_time_unix_nano, first.end_time_unix_nano) == (4_750_000_000, 5_000_000_000)
    assert {a.key for a in first.attributes} == {"http.route", "http.response.status_code"}
    assert (first.name, second.name, second.status.code) == ("/v1/check", "unknown", 2)
    assert second.trace_id.hex() != TRACE


def test_no_request_waits_for_a_collector_that_is_not_there() -> None:
    """Telling takes no time, and the end waits for a limited one."""
    traces = Traces("http://127.0.0.1:1/v1/traces", time.time_ns)
    began = time.monotonic()
    for _ in range(100):
        traces.answered("/v1/check", 200, 0.1, "")
    assert time.monotonic() - began < 1.0
    traces.close()
    assert time.monotonic() - began < 15.0


def test_an_address_that_is_none() -> None:
    """What is no address is an error before anything is served."""
    with pytest.raises(InputError):
        Traces("localhost", time.time_ns)
