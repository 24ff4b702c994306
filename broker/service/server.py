"""
The decision point of one session: a unix socket that agents ask.

Decided here: who is answered, how long and how many at once, and what each request may ask.
Not decided here: what passes (``broker.session``), how an agent's hook speaks (``broker.agents``).

Requests are hooks, and objects with ``op``: ``decide``, ``delegate``, ``permission``,
``result``, ``offer``, ``describe``.
There is no way to open an intent, to mint, or to widen over the socket: a model could ask for it.

Rules a maintainer keeps: whatever breaks while a request is read or answered is a refusal, or no
answer at all, which its client takes for one; a key that a request does not have is an error,
since a misspelt ``ticket`` must not fall back to the root's; a peer of another user gets nothing.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from broker.boundary import contained
from broker.calls import Decision
from broker.errors import BrokerError, InputError, StoreError
from broker.limits import MAX_CONNECTIONS, MAX_SOCKET_PATH_BYTES
from broker.service.peer import is_own
from broker.service.protocol import (
    ALLOW,
    HOOK,
    HookRefusal,
    HookRequest,
    frame,
    read_request,
    receive,
    write_object,
)
from broker.session import CANARY, MAIN, Session
from broker.sessions.records import wellformed
from broker.ticket import describe

BACKLOG: Final = 256
REQUEST_S: Final = 30.0  # from one answer until the next request is received, and to send one
POLL_S: Final = 0.5  # how soon the listening thread sees that it is over
STOP_S: Final = 2.0  # for answers under way when the server stops

_OPS: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    "decide": (
        frozenset(("tool", "arguments")),
        frozenset(("call_id", "ticket", "server", "cwd", "actor", "again")),
    ),
    "delegate": (frozenset(("scope",)), frozenset(("parent", "holder", "asked_by"))),
    "result": (frozenset(("call_id", "ok")), frozenset(("output",))),
    "permission": (frozenset(("call_id", "allowed")), frozenset(("reason",))),
    "offer": (frozenset(("server", "text")), frozenset()),
    "describe": (frozenset(), frozenset(("ticket",))),
}


class Hook(Protocol):
    """How one agent's hook speaks; see ``broker.agents``."""

    def answer(self, payload: bytes, session: Session) -> HookRefusal | None:
        """Decide the call in a payload: None allows it."""
        ...

    def refusal(self, reason: str) -> HookRefusal:
        """Return a refusal in this agent's shape."""
        ...


class Server:
    """
    Serves one session. ``bind``, then ``start``, and at the end ``stop``.

    Between the two a client may connect already and waits: nothing runs yet that a fork would
    copy, so the agent's process is started there.
    """

    def __init__(self, session: Session, path: Path, hooks: Mapping[str, Hook]) -> None:
        self.path = path
        self._session = session
        self._hooks = hooks
        self._listener: socket.socket | None = None
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._place: tuple[int, int, int] | None = None

    def bind(self) -> None:
        """
        Make the socket, for this user only, and let clients connect.

        Raises:
            StoreError: it cannot be made; the path is taken or too long, say.
        """
        if len(os.fsencode(self.path)) > MAX_SOCKET_PATH_BYTES:
            raise StoreError(f"`{self.path}` is too long for the name of a socket")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            before = os.umask(0o177)
            try:
                listener.bind(os.fspath(self.path))
            finally:
                os.umask(before)
            listener.listen(BACKLOG)
            listener.settimeout(POLL_S)
            self._place = _place(self.path)
        except OSError as error:
            listener.close()
            raise StoreError(f"`{self.path}` cannot be served: {error.strerror}") from error
        self._listener = listener

    def start(self) -> None:
        """Begin to answer, in threads of its own."""
        assert self._listener is not None  # noqa: S101 - bind comes first
        self._thread = threading.Thread(target=self._accept, args=(self._listener,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer what was asked, take no more, and remove the socket."""
        self._stopping = True
        with suppress(OSError):
            self.path.unlink()
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        if self._thread is not None:
            self._thread.join(STOP_S)
        with self._lock:
            waiting = list(self._open)
        for connection in waiting:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        until = time.monotonic() + STOP_S
        while self._open and time.monotonic() < until:
            time.sleep(0.005)

    def displaced(self) -> str | None:
        """
        Return why the agent may be asking somebody else, or None; cheap enough to ask all the time.

        Whoever runs as this user could put a socket of his own in the place of ours.
        """
        if self._place is None or _place(self.path) == self._place:
            return None
        return f"the session's socket `{self.path}` was removed, replaced or opened to others"

    # ── connections ──

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopping:
            self._slots.acquire()
            try:
                connection, _ = listener.accept()
                serve = threading.Thread(target=self._served, args=(connection,), daemon=True)
                serve.start()
            except TimeoutError:
                self._slots.release()
            except (OSError, RuntimeError):
                self._slots.release()
                time.sleep(0.01)  # out of descriptors or threads: others will be given back

    def _served(self, connection: socket.socket) -> None:
        contained(partial(self._serve, connection), _nothing)

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)
        try:
            if not is_own(connection):
                return
            limited = _Limited(connection)
            while not self._stopping:
                limited.within(REQUEST_S)
                body = receive(limited)
                if body is None:
                    return
                answer = contained(partial(self._answered, body), partial(self._broken, body))
                limited.within(REQUEST_S)
                try:
                    limited.sendall(frame(answer))
                except OSError:
                    self._undelivered(body)
                    return
        except (OSError, BrokerError):
            return  # no answer: the client refuses
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()
            self._slots.release()

    def _undelivered(self, body: bytes) -> None:
        """The peer went away before its answer: say so, since an allow may stand recorded."""
        with suppress(BrokerError):
            kind = "hook" if body.startswith(HOOK) else "request"
            self._session.note(f"the answer to a {kind} was not delivered", source="service")

    # ── answers ──

    def _answered(self, body: bytes) -> bytes:
        request = read_request(body)
        if isinstance(request, HookRequest):
            hook = self._hooks.get(request.agent)
            if hook is None:
                raise InputError(f"no such agent: `{request.agent}`")
            refusal = hook.answer(request.payload, self._session)
            return ALLOW if refusal is None else refusal.encode()
        return write_object(self._object(request))

    def _broken(self, body: bytes, error: Exception) -> bytes:
        """Answer what could not be read, or what nobody foresaw."""
        if not isinstance(error, BrokerError):
            error = StoreError(f"the broker failed inside ({type(error).__name__})")
        if not body.startswith(HOOK):
            return write_object(_failed(error))
        agent = body[len(HOOK) :].split(b"\n", 1)[0].decode("ascii", "replace")
        hook = self._hooks.get(agent)
        if hook is None:
            return HookRefusal(2, b"", wellformed(f"refused: {error}").encode()).encode()
        return hook.refusal(str(error)).encode()

    def _object(self, request: dict[str, object]) -> dict[str, object]:
        op = request.pop("op", None)
        if not isinstance(op, str) or op not in _OPS:
            known = ", ".join(_OPS)
            raise InputError(f"`op` is one of {known}", code="input.op")
        required, optional = _OPS[op]
        missing, unknown = required - set(request), set(request) - required - optional
        if missing or unknown:
            what = "needs" if missing else "does not take"
            named = ", ".join(f"`{k}`" for k in sorted(missing or unknown))
            raise InputError(f"`{op}` {what} {named}", code="input.key")
        answers: dict[str, Callable[[dict[str, object]], dict[str, object]]] = {
            "decide": self._decide,
            "delegate": self._delegate,
            "result": self._result,
            "permission": self._permission,
            "offer": self._offer,
            "describe": self._describe,
        }
        return {"ok": True, **answers[op](request)}

    def _decide(self, request: dict[str, object]) -> dict[str, object]:
        if request.get("actor") == CANARY:
            raise InputError(f"the actor `{CANARY}` is the broker's own")
        decision = self._session.decide(
            request["tool"],
            request["arguments"],
            call_id=_text(request, "call_id") or "",
            ticket=_text(request, "ticket"),
            server=_text(request, "server"),
            actor=_text(request, "actor") or MAIN,
            cwd=_text(request, "cwd"),
            again=request.get("again") is True,
        )
        return decision_object(decision)

    def _delegate(self, request: dict[str, object]) -> dict[str, object]:
        scope = request["scope"]
        if not isinstance(scope, list) or not all(isinstance(text, str) for text in scope):
            raise InputError("`scope` is a list of `KEY=VALUE` texts")
        ticket = self._session.delegate(
            scope,
            parent=_text(request, "parent"),
            holder=_text(request, "holder") or "",
            asked_by=_text(request, "asked_by") or MAIN,
        )
        return {"id": ticket.id, "ticket": ticket.wire(), "lines": list(describe(ticket))}

    def _result(self, request: dict[str, object]) -> dict[str, object]:
        ok = request["ok"]
        if not isinstance(ok, bool):
            raise InputError("`ok` is true or false")
        call_id = _text(request, "call_id") or ""
        self._session.result(call_id, ok=ok, output=request.get("output"))
        return {}

    def _permission(self, request: dict[str, object]) -> dict[str, object]:
        allowed = request["allowed"]
        if not isinstance(allowed, bool):
            raise InputError("`allowed` is true or false")
        call_id, reason = _text(request, "call_id") or "", _text(request, "reason") or ""
        self._session.permission(call_id, allowed=allowed, reason=reason)
        return {}

    def _offer(self, request: dict[str, object]) -> dict[str, object]:
        """Note what a gateway heard an MCP server say of its tools; never as our own word."""
        text, server = _text(request, "text") or "", _text(request, "server") or ""
        self._session.note(text, source=f"socket:{server}")
        return {}

    def _describe(self, request: dict[str, object]) -> dict[str, object]:
        session = self._session
        ticket = session.find(_text(request, "ticket"))
        spent = session.spent(ticket)
        return {
            "sid": session.sid,
            "workspace": wellformed(os.fspath(session.workspace)),
            "id": ticket.id,
            "ticket": ticket.wire(),
            "lines": list(describe(ticket)),
            "spent": None if spent is None else list(spent),
            "allowed": session.allowed,
            "refused": session.refused,
        }


def decision_object(decision: Decision) -> dict[str, object]:
    """Return a decision as it stands in an answer."""
    refusal = decision.refusal
    if refusal is None:
        return {"decision": "allow", "enforcement": decision.enforcement}
    return {
        "decision": "refuse",
        "enforcement": decision.enforcement,
        "caveat": refusal.caveat,
        "value": refusal.value,
        "reason": refusal.reason,
    }


class _Limited:
    """A connection with one deadline for all that is received or sent until the next."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until = 0.0

    def within(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def recv(self, size: int, /) -> bytes:
        self._connection.settimeout(self._left())
        return self._connection.recv(size)

    def sendall(self, data: bytes, /) -> None:
        self._connection.settimeout(self._left())
        self._connection.sendall(data)

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _place(path: Path) -> tuple[int, int, int] | None:
    """Return which file lies at a path, and who may use it; None where there is none."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mode


def _text(request: Mapping[str, object], name: str) -> str | None:
    value = request.get(name)
    if value is not None and not isinstance(value, str):
        raise InputError(f"`{name}` is a text")
    return value


def _failed(error: BrokerError) -> dict[str, object]:
    found: dict[str, object] = {"code": error.code, "message": str(error)}
    kind = error.detail.get("kind")
    if isinstance(kind, str):
        found["kind"] = kind
    return {"ok": False, "error": found}


def _nothing(_: Exception) -> None:
    return None
