"""
What ties a request to its answer, and both to the store.

Decided here: when a request is recorded (before it leaves, or it does not leave), what is told of
an answer, and what becomes of a run whose records cannot be written. Not decided here: how bytes
travel (``broker.records.transport``).

Bodies are kept unless ``BROKER_PROVIDER_AUDIT=0`` is set; the rest of a record, with the digest of
the bytes, is written in any case.

Rules a maintainer keeps: secrets are hidden after the digest was taken and before anything is
written; an answer that cannot be recorded stops the requests after it; several requests may be on
their way, and each is recorded as if it were alone.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from broker.capabilities.clock import Clock
from broker.errors import StoreError
from broker.limits import MAX_RECORDED_BYTES
from broker.records.apis import OTHER, Heard, api_of, model_of, tells
from broker.records.failures import answered, failed
from broker.records.model import Body, Failure, ProviderRequest, ProviderResponse
from broker.records.pieces import BodyPiece, kept
from broker.records.store import RecordStore, checked_id
from broker.records.turns import Turns, count
from broker.redaction.bodies import hide_body

SWITCH: Final = "BROKER_PROVIDER_AUDIT"
_BRANCH: ContextVar[str] = ContextVar("broker_branch", default="main")


def keeps_bodies(environ: Mapping[str, str]) -> bool:
    """
    Return whether bodies are kept: unless the environment says not to.

    >>> keeps_bodies({}), keeps_bodies({SWITCH: "0"})
    (True, False)
    """
    return environ.get(SWITCH, "1").strip().lower() not in ("0", "false", "no", "off")


# What was sent, without the encoding of its transfer; None when that is more than is kept.
Decoded = Callable[[bytes], bytes | None]


@contextmanager
def on_branch(name: str) -> Iterator[None]:
    """Let the requests of this task or thread belong to a conversation, such as a subagent's."""
    token = _BRANCH.set(name)
    try:
        yield
    finally:
        _BRANCH.reset(token)


@dataclass(frozen=True, slots=True)
class Sent:
    """
    What the transport knows of a request, at the last point before it leaves.

    ``decoded`` takes away the encoding of the transfer; see ``Recorder.end``.
    """

    method: str
    host: str
    path: str
    content: bytes
    decoded: Decoded | None = None


@dataclass(slots=True)
class Pending:
    """A request that was recorded and may leave, and what has come of its answer so far."""

    request: ProviderRequest
    began_ns: int
    stream: bool = False
    status: int | None = None
    size_bytes: int = 0
    whole: bool = False  # the transport has seen the end of the answer
    ended: bool = False  # it was recorded
    _digest: Any = field(default_factory=hashlib.sha256)  # hashlib names no class for it
    _chunks: list[bytes] = field(default_factory=list)
    _kept_bytes: int = 0

    def take(self, chunk: bytes) -> None:
        """Take in bytes of the answer, as they passed."""
        self.size_bytes += len(chunk)
        self._digest.update(chunk)
        if self._kept_bytes + len(chunk) <= MAX_RECORDED_BYTES:
            self._chunks.append(chunk)
            self._kept_bytes += len(chunk)

    @property
    def sha256(self) -> str:
        """The digest of what has passed."""
        return str(self._digest.hexdigest())

    @property
    def content(self) -> bytes | None:
        """What has passed; None when it is more than is kept."""
        return b"".join(self._chunks) if self._kept_bytes == self.size_bytes else None


class Recorder:
    """
    Records the model calls of one session.

    Args:
        store: where to.
        clock: what time it is.
        salt: what placeholders are made with; see ``broker.redaction.hiding``.
        bodies: whether bodies are kept; see ``keeps_bodies``.
        ids: gives each request its id; by default they are counted.
        provider: who is asked; by default the host of the address.
    """

    def __init__(
        self,
        store: RecordStore,
        clock: Clock,
        *,
        salt: bytes = b"",
        bodies: bool = True,
        ids: Callable[[], str] | None = None,
        provider: str = "",
    ) -> None:
        self._store = store
        self._clock = clock
        self._salt = salt
        self._bodies = bodies
        self._provider = provider
        self._lock = threading.Lock()
        self._turns = Turns()
        self._lost: StoreError | None = None
        self._count = 0
        for record in store.read().records:
            count(self._turns, record)
            self._count += isinstance(record, ProviderRequest)
        self._ids = ids or self._counted

    def _counted(self) -> str:
        return f"req-{self._count + 1:06d}"

    # ── a request ──

    def begin(self, sent: Sent) -> Pending:
        """
        Record a request; it may leave when this returns, and must not when it raises.

        Raises:
            InputError: its id is none, or was used before.
            StoreError: it cannot be recorded, or the answer to one before could not be.
        """
        api = api_of(sent.method, sent.path)
        try:
            plain = _plain(sent.content, sent.decoded)
        except ValueError:  # nobody can look for secrets in it
            plain = None
        body, pieces = self._kept(plain)
        sha256 = hashlib.sha256(sent.content).hexdigest()
        branch = _BRANCH.get()
        with self._lock:
            if self._lost is not None:
                raise StoreError(
                    f"nothing is sent any more: an answer was not recorded: {self._lost.message}"
                )
            name = checked_id(self._ids())
            turn, attempt = self._turns.next(branch) if api != OTHER else (None, None)
            request = ProviderRequest(
                name, self._clock.now_ns(), turn, attempt, branch,
                self._provider or sent.host, model_of(plain or b""), api,
                sha256, len(sent.content), body,
            )  # fmt: skip
            self._store.add(request, pieces)
            self._count += 1
            count(self._turns, request)
        return Pending(request, self._clock.monotonic_ns())

    # ── its answer ──

    def end(
        self,
        pending: Pending,
        *,
        decoded: Decoded | None = None,
        failure: Failure | None = None,
    ) -> ProviderResponse | None:
        """
        Record what came of a request, once; a second call does nothing.

        Args:
            pending: as ``begin`` gave it, with all that has passed taken in. If the transport has
                not seen its end and there is no failure, the caller has closed it.
            decoded: takes away the encoding of the transfer, such as gzip; ``ValueError`` if the
                bytes are not of it, and then no body is kept: its secrets cannot be found.
            failure: what the transport says went wrong.

        Raises:
            StoreError: it cannot be recorded; no request is sent any more.
        """
        if pending.ended:
            return None
        pending.ended = True
        try:
            return self._answer(pending, decoded, failure)
        except StoreError as error:
            self._lost = error
            raise
        except Exception as error:  # whatever it was, an answer stands nowhere
            self._lost = StoreError(f"a record cannot be made: {type(error).__name__}")
            raise self._lost from error

    def _answer(
        self, pending: Pending, decoded: Decoded | None, failure: Failure | None
    ) -> ProviderResponse:
        try:
            plain = _plain(pending.content, decoded)
        except ValueError as error:
            plain = None
            failure = failure or failed("provider", f"the answer cannot be decoded: {error}")
        reading = _reading(pending, plain, failure)
        body, pieces = self._kept(plain)
        response = ProviderResponse(
            pending.request.id, self._clock.now_ns(), pending.status, reading.finish, reading.usage,
            self._clock.monotonic_ns() - pending.began_ns, reading.failure,
            pending.sha256, pending.size_bytes, body,
        )  # fmt: skip
        with self._lock:
            self._store.add(response, pieces)
            count(self._turns, response)
        return response

    def _kept(self, content: bytes | None) -> tuple[Body | None, tuple[BodyPiece, ...]]:
        if not self._bodies or content is None:
            return None, ()
        hidden = hide_body(content, self._salt)
        return kept(hidden.content, hidden.paths, hidden.counts)


def _plain(content: bytes | None, decoded: Decoded | None) -> bytes | None:
    return content if content is None or decoded is None else decoded(content)


def _reading(pending: Pending, plain: bytes | None, failure: Failure | None) -> Heard:
    """Return what an answer tells, and why it is none if it is none."""
    if pending.status is None:
        return Heard(failure=failure or failed("unknown", "there was no answer"))
    text = (plain or b"").decode("utf-8", "replace")
    if not 200 <= pending.status < 300:
        return Heard(failure=failure or answered(pending.status, text))
    api = pending.request.api
    # Of more than is kept nothing is read; that it came to its end is all there is to know.
    stream = pending.stream or text.startswith(("data:", "event:"))  # whatever its head says
    reading = Heard() if plain is None else tells(api, text, stream=stream)
    # A stream may be closed behind its last event, or an error in it: then nobody has given up.
    streamed = stream and api != OTHER
    told = streamed and (reading.failure is None or reading.failure.kind != "network")
    if failure is not None:
        reading.failure = failure
    elif not pending.whole and not told:
        reading.failure = failed("aborted", "the caller closed the answer before its end")
    return reading
