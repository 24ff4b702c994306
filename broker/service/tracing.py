"""
A span for each request, sent by OpenTelemetry to whoever collects traces.

Decided here: what a span says: the path, the status, how long it took, and whose trace it belongs
to. Not decided here: what is counted and logged (``broker.service.watching``); how spans travel is
the SDK's: in the background, over OTLP and HTTP, with headers from ``OTEL_EXPORTER_OTLP_HEADERS``.

Rules a maintainer keeps: a span holds nothing that a caller made up, beside the ids of its trace;
no request waits for a collector, and none fails by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.errors import InputError

SEND_S: Final = 3.0  # for a collector to take a batch, also at the end
NAME: Final = "capability-broker"


class Traces:
    """
    Sends spans.

    Args:
        endpoint: where OTLP is taken over HTTP, such as ``http://127.0.0.1:4318/v1/traces``.
        clock: nanoseconds since the Unix epoch.

    Raises:
        InputError: the address is none, or the SDK is not installed.
    """

    def __init__(self, endpoint: str, clock: Callable[[], int]) -> None:
        if not endpoint.startswith(("http://", "https://")):
            raise InputError(f"`{endpoint}` is no address that spans could be sent to")
        try:
            from opentelemetry import trace  # noqa: PLC0415 - of an extra
            from opentelemetry.exporter.otlp.proto.http import (  # noqa: PLC0415
                trace_exporter as otlp,
            )
            from opentelemetry.sdk import resources  # noqa: PLC0415
            from opentelemetry.sdk import trace as sdk  # noqa: PLC0415
            from opentelemetry.sdk.trace import export  # noqa: PLC0415
            from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise InputError(
                f"`{error.name}` is not installed: `pip install 'capability-broker[telemetry]'`",
                code="input.extra",
            ) from None
        exporter = otlp.OTLPSpanExporter(endpoint=endpoint, timeout=SEND_S)
        resource = resources.Resource.create({"service.name": NAME})
        self._provider = sdk.TracerProvider(resource=resource)
        self._provider.add_span_processor(export.BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(NAME)
        self._context = tracecontext.TraceContextTextMapPropagator()
        self._server = trace.SpanKind.SERVER
        self._failed = trace.Status(trace.StatusCode.ERROR)
        self._clock = clock

    def answered(self, path: str, status: int, seconds: float, parent: str) -> None:
        """
        Tell of a request that was answered just now.

        Args:
            path: one of the service's own.
            status: of the answer.
            seconds: that it took.
            parent: the caller's ``traceparent`` header, or nothing.
        """
        ended = self._clock()
        span = self._tracer.start_span(
            path,
            self._context.extract({"traceparent": parent}) if parent else None,
            kind=self._server,
            attributes={"http.route": path, "http.response.status_code": status},
            start_time=ended - int(seconds * 1e9),
        )
        if status >= 500:
            span.set_status(self._failed)
        span.end(ended)

    def close(self) -> None:
        """Send what is left, if somebody takes it in time."""
        self._provider.shutdown()
