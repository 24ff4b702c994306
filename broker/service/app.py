"""
The decision service over HTTP, as an ASGI application.

Decided here: which requests there are, who may make each, and what an error means to its client.
Not decided here: what they mean (``broker.service.authzen``), whose session is asked
(``broker.service.hosted``), how bytes travel (``broker.service.exchange``, ``listening``).

AuthZEN's own requests stand beside a few of ours under ``/v1`` (``broker.service.native``).

Rules a maintainer keeps: whatever breaks while a request is answered is an error's status, which a
client takes for a refusal, and never an allow; only health is answered to strangers.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from broker.errors import (
    AttenuationError,
    BrokerError,
    InputError,
    StoreError,
    UnverifiableError,
    VerificationError,
)
from broker.service.access import LOCAL, STRANGER, KeyHolder, ServiceKeys
from broker.service.authzen import (
    EVALUATION,
    EVALUATIONS,
    METADATA,
    Evaluation,
    metadata,
    read_evaluation,
    read_evaluations,
)
from broker.service.deciding import decide_all
from broker.service.exchange import (
    AsgiScope,
    Gone,
    Receive,
    Rejected,
    Response,
    Send,
    WebRequest,
    json_response,
    rejection,
)
from broker.service.hosted import Hosted
from broker.service.native import Native
from broker.service.openapi import DOCUMENT, document
from broker.service.watching import Watch

LIVE: Final = "/healthz"
READY: Final = "/readyz"
METRICS: Final = "/metrics"
OPEN: Final = frozenset((LIVE, READY))
GONE: Final = 499  # how a request is counted whose client left: nothing was answered
UNKNOWN: Final = "unknown"  # how a path that we do not have is counted, whatever it is
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Handler = Callable[[WebRequest, KeyHolder], Awaitable[Response]]


class Application:
    """
    Answers requests.

    Args:
        hosted: the sessions.
        keys: who may ask; without any, only the unix socket is answered.
        watch: is told of every request.
        base: the address that clients use, for the metadata.
    """

    def __init__(
        self, hosted: Hosted, keys: ServiceKeys | None, watch: Watch, *, base: str
    ) -> None:
        self._hosted = hosted
        self._keys = keys
        self._watch = watch
        self._base = base
        self._ending = False
        native = Native(hosted, watch)
        self._routes: dict[str, dict[str, Handler]] = {
            EVALUATION: {"POST": self._evaluation},
            EVALUATIONS: {"POST": self._evaluations},
            METADATA: {"GET": self._metadata},
            DOCUMENT: {"GET": self._document},
            LIVE: {"GET": self._live},
            READY: {"GET": self._ready},
            METRICS: {"GET": self._metrics},
            **native.routes,
        }

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Response one request of the network, whose caller needs a key."""
        await self._serve(scope, receive, send, None)

    async def local(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Response one request of the unix socket, whose peers are processes of this user."""
        await self._serve(scope, receive, send, LOCAL)

    def end(self) -> None:
        """Say from here on that the service is not ready."""
        self._ending = True

    async def _serve(
        self, scope: AsgiScope, receive: Receive, send: Send, peer: KeyHolder | None
    ) -> None:
        began = time.perf_counter()
        path = scope["path"] if scope["path"] in self._routes else UNKNOWN
        exchange = WebRequest(scope, receive, send)
        caller = peer
        try:
            exchange = WebRequest.of(scope, receive, send)
            caller = self._caller(exchange, path, peer)
            found = await self._handler(scope["method"], path)(exchange, caller)
        except Gone:
            self._tell(exchange, path, GONE, began, caller)
            return
        except Rejected as fault:
            found = rejection(fault)
        except BrokerError as error:
            found = _said(error)
        except Exception as error:  # told, and then left to the server, which answers 500
            self._watch.broke(path, error)
            raise
        await exchange.answer(found)
        self._tell(exchange, path, found.status, began, caller)

    def _tell(
        self, inquiry: WebRequest, path: str, status: int, began: float, caller: KeyHolder | None
    ) -> None:
        parent = inquiry.headers.get("traceparent", "")
        self._watch.answered(path, status, time.perf_counter() - began, caller, parent)

    # ── who and what ──

    def _caller(self, exchange: WebRequest, path: str, peer: KeyHolder | None) -> KeyHolder:
        """
        Return who asks.

        Raises:
            Rejected: it is nobody that is known.
        """
        given = exchange.headers.get("authorization")
        if given is not None and path not in OPEN:
            found = None if self._keys is None else self._keys.caller(given)
            if found is None:
                raise Rejected(401, "unauthenticated", "the key is not known here")
            return found
        if peer is not None:
            return peer
        if path in OPEN:
            return STRANGER
        raise Rejected(401, "unauthenticated", "say `Authorization: Bearer KEY`")

    def _handler(self, method: str, path: str) -> Handler:
        methods = self._routes.get(path)
        if methods is None:
            raise Rejected(404, "http.path", f"there is no such path: see {DOCUMENT}")
        handler = methods.get(method) or (methods.get("GET") if method == "HEAD" else None)
        if handler is None:
            known = ", ".join(methods)
            raise Rejected(405, "http.method", f"this path takes {known}", allow=known)
        return handler

    # ── AuthZEN ──

    async def _evaluation(self, exchange: WebRequest, _: KeyHolder) -> Response:
        return await self._one(exchange, read_evaluation(await exchange.object()))

    async def _one(self, exchange: WebRequest, asked: Evaluation) -> Response:
        if not asked.call_id and (name := exchange.request_id):
            asked = replace(asked, call_id=name)
        (found,) = await decide_all(self._hosted, self._watch, [asked])
        return json_response(200, found)

    async def _evaluations(self, exchange: WebRequest, _: KeyHolder) -> Response:
        body = await exchange.object()
        several = read_evaluations(body)
        if several is None:
            return await self._one(exchange, read_evaluation(body))
        found = await decide_all(self._hosted, self._watch, several.items, several.semantic)
        return json_response(200, {"evaluations": found})

    async def _metadata(self, _: WebRequest, __: KeyHolder) -> Response:
        return json_response(200, metadata(self._base))

    # ── what the service says of itself ──

    async def _document(self, _: WebRequest, __: KeyHolder) -> Response:
        return json_response(200, document(self._base))

    async def _live(self, _: WebRequest, __: KeyHolder) -> Response:
        return json_response(200, {"live": True})

    async def _ready(self, _: WebRequest, __: KeyHolder) -> Response:
        if self._ending or self._hosted.own.session.over:
            raise Rejected(503, "ending", "no call is allowed here any more")
        return json_response(200, {"ready": True})

    async def _metrics(self, _: WebRequest, __: KeyHolder) -> Response:
        text = self._watch.metrics(len(self._hosted.sessions))
        return Response(200, text, kind=_METRICS_TYPE)


def status_of(error: BrokerError) -> int:
    """
    Return the status that an error is answered with.

    >>> status_of(InputError("no")), status_of(InputError("no", code="session"))
    (400, 404)
    """
    if error.code == "session":
        return 404
    if isinstance(error, VerificationError | AttenuationError):
        return 403
    if isinstance(error, InputError):
        return 400
    if isinstance(error, StoreError | UnverifiableError):
        return 503
    return 500


def _said(error: BrokerError) -> Response:
    told: dict[str, object] = {"code": error.code, "message": str(error)}
    if isinstance(error, AttenuationError):
        told["kind"] = error.kind
    return json_response(status_of(error), {"error": told})
