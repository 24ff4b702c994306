"""
One request to a decision point over HTTP, with one deadline for all of it.

Decided here: that connections are kept and used again, and when an answer is no answer. Not decided
here: what is asked and what an answer means (``broker.opinions.authzen``).

A request runs in a thread of its own, so that neither a resolver, nor a handshake, nor a server
that sends a byte a second holds a call up beyond the deadline. When it has passed, the connection
is cut, which ends the thread.

Rules a maintainer keeps: a redirect is no answer, since an opinion is where the person said it
is; proxies, cookies and passwords of the environment are not used; headers and body are bounded;
a question is sent a second time only on a kept connection that its server had closed.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Final
from urllib.parse import urlsplit

from broker.limits import MAX_OPINION_BYTES, MAX_OPINION_WAITING
from broker.opinions.opinion import NoAnswerError

MAX_KEPT: Final = 4  # connections that wait for another question
KEPT_S: Final = 20.0  # how long; servers close what is idle for longer


class Web:
    """
    A decision point's address. Safe among threads.

    Args:
        url: where it is asked; checked already.
        tls: how its certificate is checked, where the address is one of ``https``.
    """

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        found = urlsplit(url)
        self._host, self._port = found.hostname or "", found.port
        self._path = (found.path or "/") + (f"?{found.query}" if found.query else "")
        self._tls = tls
        self._secure = found.scheme == "https"
        self._idle: list[tuple[HTTPConnection, float]] = []
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(MAX_OPINION_WAITING)

    def post(self, body: bytes, headers: Mapping[str, str], within_s: float) -> bytes:
        """
        Send a body and return the answer's.

        Args:
            body: JSON.
            headers: besides those that say so.
            within_s: seconds until it must be here, whole.

        Raises:
            NoAnswerError: it is not, or is no success, no JSON, or too long.
        """
        if within_s <= 0:
            raise NoAnswerError("no answer within its time")
        if not self._slots.acquire(blocking=False):
            raise NoAnswerError(f"{MAX_OPINION_WAITING} calls wait for it already")
        asked = _Asked(self, body, {**headers, **_ALWAYS})
        try:
            threading.Thread(target=asked.run, name="opinion", daemon=True).start()
        except RuntimeError as error:
            self._slots.release()
            raise NoAnswerError("no thread can be started to ask it") from error
        if not asked.done.wait(within_s):
            asked.cut()
            raise NoAnswerError("no answer within its time")
        if asked.fault:
            raise NoAnswerError(asked.fault)
        return asked.answer

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    # ── for the thread of one request ──

    def _taken(self) -> HTTPConnection | None:
        """Return a connection that is kept, if one is fresh enough."""
        until = time.monotonic() - KEPT_S
        with self._lock:
            while self._idle:
                connection, since = self._idle.pop()
                if since > until:
                    return connection
                connection.close()
        return None

    def _made(self) -> HTTPConnection:
        # The deadline is kept by whoever waits; this only ends threads that nobody waits for.
        if self._secure:
            return HTTPSConnection(self._host, self._port, timeout=KEPT_S, context=self._tls)
        return HTTPConnection(self._host, self._port, timeout=KEPT_S)

    def _keep(self, connection: HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < MAX_KEPT:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()


_ALWAYS: Final = {
    "content-type": "application/json",
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": "capability-broker",
}


class _Asked:
    """One request under way."""

    def __init__(self, web: Web, body: bytes, headers: Mapping[str, str]) -> None:
        self.done = threading.Event()
        self.answer, self.fault = b"", ""
        self._web, self._body, self._headers = web, body, dict(headers)
        self._connection: HTTPConnection | None = None
        self._over = False

    def run(self) -> None:
        """Ask, and say what came of it."""
        try:
            self.answer = self._asked()
        except NoAnswerError as error:
            self.fault = str(error)
        except ssl.SSLError as error:
            self.fault = f"no secure connection: {error.reason or error}"
        except OSError as error:
            self.fault = f"it cannot be reached: {error.strerror or error}"
        except (HTTPException, ValueError) as error:
            self.fault = f"its answer is no HTTP: {error}"
        finally:
            self._web._slots.release()
            self.done.set()

    def cut(self) -> None:
        """End the connection: nobody waits any more."""
        self._over = True
        connection = self._connection
        sock = None if connection is None else connection.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _asked(self) -> bytes:
        kept = self._web._taken()
        if kept is not None:
            try:
                return self._on(kept)
            except (ConnectionError, HTTPException, OSError):
                kept.close()
                if self._over:
                    raise
        return self._on(self._web._made())

    def _on(self, connection: HTTPConnection) -> bytes:
        self._connection = connection
        try:
            connection.request("POST", self._web._path, self._body, self._headers)
            with connection.getresponse() as response:
                answer = _read(response)
                again = not response.will_close
        except BaseException:
            connection.close()
            raise
        if again and not self._over:
            self._web._keep(connection)
        else:
            connection.close()
        return answer


def _read(response: HTTPResponse) -> bytes:
    """Return the body of a success that is JSON, whole."""
    if response.status != 200:
        more = "; a redirect is not followed" if 300 <= response.status < 400 else ""
        raise NoAnswerError(f"it answers with status {response.status}{more}")
    kind = response.headers.get_content_type()
    if kind != "application/json":
        raise NoAnswerError(f"it answers with `{kind[:60]}` and not with JSON")
    content = response.read(MAX_OPINION_BYTES + 1)
    if len(content) > MAX_OPINION_BYTES:
        raise NoAnswerError(f"it answers with more than {MAX_OPINION_BYTES} bytes")
    if response.length:
        raise NoAnswerError("its answer ends early")
    return content
