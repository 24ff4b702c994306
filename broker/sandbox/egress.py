"""
The only way out of the walls: a proxy at a unix socket, in the broker's own process.

Decided here: how a request is read, carried and refused. Not decided here: which hosts are
admitted (``admission``), where a name leads (``addresses``). What is understood is HTTP's
``CONNECT``, whose tunnel is not opened, and plain HTTP with an absolute address, of which one
request is carried for each connection, so that a second one is judged anew.

Rules a maintainer keeps: the name is looked up once and the connection goes to what was judged;
what is sent on says the host that was judged, whatever the request's own ``Host`` says; a
request that two servers could cut differently is refused; a refusal names the caveat and is told.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from broker.boundary import contained
from broker.errors import InputError, LaunchError
from broker.hosts import Url, UrlError, read_url
from broker.limits import MAX_EGRESS_CONNECTIONS, MAX_EGRESS_HEAD_BYTES, MAX_EGRESS_TOLD
from broker.sandbox.addresses import Lookup, look_up, reached
from broker.sandbox.admission import Admission, tunnel
from broker.sandbox.carrying import (
    IDLE_S,
    Egressed,
    Heard,
    Tally,
    connected,
    pump_back,
    pump_both,
)
from broker.service.peer import is_own

HEAD_S: Final = 30.0  # until the head of a request is here
_HOP: Final = frozenset(
    (
        *("connection", "keep-alive", "proxy-connection", "proxy-authenticate", "upgrade", "te"),
        *("proxy-authorization", "trailer", "host"),
    )
)
_FRAMING: Final = frozenset(("content-length", "transfer-encoding"))

Told = Callable[[str], None]


class RequestHead(NamedTuple):
    """The head of a request, and what came behind it already."""

    method: str
    target: str
    fields: tuple[tuple[str, str], ...]
    rest: bytes


class Egress:
    """
    Serves one run. ``bind``, then ``start``, and at the end ``stop``.

    Args:
        path: where the socket is made.
        admission: which hosts are reached.
        told: is given a line for each host when it is first reached or refused.
        lookup: the resolver.
        heard: is given every connection, twice: when it was judged, and when it is over.
    """

    def __init__(
        self,
        path: Path,
        admission: Admission,
        told: Told,
        lookup: Lookup = look_up,
        heard: Heard = lambda _: None,
    ) -> None:
        self.path = path
        self.refused = 0
        self._admission = admission
        self._told = told
        self._lookup = lookup
        self._heard = heard
        self._numbers = itertools.count(1)
        self._seen: set[tuple[str, bool]] = set()
        self._listener: socket.socket | None = None
        self._slots = threading.BoundedSemaphore(MAX_EGRESS_CONNECTIONS)
        self._lock = threading.Lock()
        self._stopping = False

    def bind(self) -> None:
        """
        Make the socket, for this user only. Whoever connects now waits until ``start``.

        Raises:
            LaunchError: it cannot be made.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            before = os.umask(0o177)
            try:
                listener.bind(os.fspath(self.path))
            finally:
                os.umask(before)
            listener.listen(MAX_EGRESS_CONNECTIONS)
        except OSError as error:
            listener.close()
            raise LaunchError(f"the proxy cannot listen at `{self.path}`: {error}") from error
        self._listener = listener

    def start(self) -> None:
        """Begin to answer, in threads of its own."""
        assert self._listener is not None  # noqa: S101 - bind comes first
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop(self) -> None:
        """Take no more connections, and remove the socket. What is carried is cut by the end."""
        self._stopping = True
        with suppress(OSError):
            self.path.unlink()
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while not self._stopping:
            self._slots.acquire()
            try:
                connection, _ = listener.accept()
                threading.Thread(target=self._served, args=(connection,), daemon=True).start()
            except (OSError, RuntimeError):
                self._slots.release()
                time.sleep(0.01)  # out of descriptors or threads, or stopped

    def _served(self, connection: socket.socket) -> None:
        try:
            with closing(connection):
                if is_own(connection):
                    contained(partial(self._serve, connection), partial(_broken, connection))
        finally:
            self._slots.release()

    def _serve(self, near: socket.socket) -> None:
        near.settimeout(HEAD_S)
        try:
            head = read_head(near)
            url = tunnel(head.target) if head.method == "CONNECT" else _plain(head)
        except (UrlError, InputError) as error:
            return answer(near, 400, f"refused (call): {error}")
        except TimeoutError:
            return None
        seen = "" if head.method == "CONNECT" else url.tidy
        it = Egressed(next(self._numbers), url.host, url.port, head.method, seen)
        refusal = self._admission.judge(url)
        if refusal is not None:
            self._tell(url, refusal.reason)
            self._heard(replace(it, refused=refusal.reason))
            return answer(near, 403, f"refused ({refusal.caveat}): {refusal.reason}")
        try:
            places = reached(url.host, url.port, self._admission.names, self._lookup)
        except InputError as error:
            self._tell(url, str(error))
            self._heard(replace(it, refused=str(error)))
            return answer(near, 403, f"refused (hosts): {error}")
        try:
            far = connected(places, url.port)
        except OSError as error:
            return answer(near, 502, f"`{url.host}:{url.port}` cannot be reached: {error}")
        self._tell(url, "")
        self._heard(it)
        began_s, tally = time.monotonic(), Tally()
        try:
            with closing(far):
                if head.method == "CONNECT":
                    near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    far.sendall(head.rest)
                    tally.sent += len(head.rest)
                    return pump_both(near, far, tally)
                return _carry_one(near, far, head, url, tally)
        finally:
            it = replace(it, ended=True, sent_bytes=tally.sent, received_bytes=tally.received)
            self._heard(replace(it, duration_ms=int((time.monotonic() - began_s) * 1000)))

    def _tell(self, url: Url, refused: str) -> None:
        """Tell of a host once when it is reached, and once when it is refused."""
        key = (f"{url.host}:{url.port}", bool(refused))
        with self._lock:
            self.refused += bool(refused)
            if key in self._seen or len(self._seen) >= MAX_EGRESS_TOLD:
                return
            self._seen.add(key)
        self._told(f"refused {key[0]}: {refused}" if refused else f"connected to {key[0]}")


# ── reading ──


def read_head(near: socket.socket) -> RequestHead:
    """
    Receive the head of one request.

    Raises:
        InputError: it is too long, cut short, or no head that all servers read alike.
    """
    data = b""
    while b"\r\n\r\n" not in data:
        more = near.recv(8_192)
        if not more or len(data) > MAX_EGRESS_HEAD_BYTES:
            raise InputError("the request ends early" if not more else "its head is too long")
        data += more
    block, _, rest = data.partition(b"\r\n\r\n")
    return RequestHead(*_parsed(block), rest)


def _parsed(block: bytes) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    lines = block.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[0].isalpha():
        raise InputError("the request line is no `METHOD ADDRESS HTTP/1.1`")
    fields = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or "\n" in line or "\r" in line:
            raise InputError("a header is malformed")
        fields.append((name, value.strip()))
    return words[0], words[1], tuple(fields)


def _plain(head: RequestHead) -> Url:
    """Return the address of a plain request, which stands in its first line as a whole."""
    url = read_url(head.target)
    if url.scheme != "http":
        raise UrlError("a proxy carries `http://…`, and `CONNECT` for all else")
    return url


def _length(head: RequestHead) -> int | None:
    """
    Return how many bytes the body has, None for one in chunks.

    Raises:
        InputError: two servers could cut it at two places.
    """
    if _FRAMING & _named(head):
        raise InputError("`Connection` names the length of the body")  # a server would not see it
    lengths = [value for name, value in head.fields if name.lower() == "content-length"]
    codings = [value.lower() for name, value in head.fields if name.lower() == "transfer-encoding"]
    if len(lengths) + len(codings) > 1 or (codings and codings != ["chunked"]):
        raise InputError("the length of the body is told twice, or in an odd way")
    if codings:
        return None
    text = lengths[0] if lengths else "0"
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InputError("the length of the body is no number")
    return int(text)


def _named(head: RequestHead) -> set[str]:
    """Return the headers that ``Connection`` names: they are meant for us, and go no further."""
    return {
        word.strip().lower()
        for name, value in head.fields
        if name.lower() == "connection"
        for word in value.split(",")
    }


# ── carrying ──


def _carry_one(
    near: socket.socket, far: socket.socket, head: RequestHead, url: Url, tally: Tally
) -> None:
    """Send one request on, as the judged host would get it, and its answer back."""
    try:
        length = _length(head)
    except InputError as error:
        return answer(near, 400, f"refused (call): {error}")
    path = "/" + url.tidy.split("/", 3)[3].partition("#")[0]
    host = url.host if url.port == 80 else f"{url.host}:{url.port}"
    kept = [f"{n}: {v}" for n, v in head.fields if n.lower() not in _HOP | _named(head)]
    lines = [f"{head.method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *kept]
    far.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    back = threading.Thread(target=pump_back, args=(near, far, tally), daemon=True)
    back.start()
    near.settimeout(IDLE_S)
    body = _Body(near, head.rest)
    with suppress(OSError, InputError):
        body.send(far, length)
    tally.sent += body.sent
    back.join()
    return None


class _Body:
    """The body of one request: as many bytes as it says, and not one more."""

    def __init__(self, near: socket.socket, rest: bytes) -> None:
        self._near = near
        self._rest = rest
        self.sent = 0

    def send(self, far: socket.socket, length: int | None) -> None:
        if length is not None:
            self._send(far, length)
            return
        while True:
            line = self._line()
            size = line.partition(b";")[0].strip()
            if not size or len(size) > 15 or not set(size) <= set(b"0123456789abcdefABCDEF"):
                raise InputError("a chunk is malformed")
            count = int(size, 16)
            far.sendall(b"%x\r\n" % count)
            if not count:
                while self._line():  # trailers are left out
                    pass
                far.sendall(b"\r\n")
                return
            self._send(far, count)
            if self._line():
                raise InputError("a chunk is longer than it says")
            far.sendall(b"\r\n")

    def _send(self, far: socket.socket, count: int) -> None:
        while count:
            data, self._rest = self._rest[:count], self._rest[count:]
            data = data or self._near.recv(min(count, 65_536))
            if not data:
                raise InputError("the body ends early")
            far.sendall(data)
            self.sent += len(data)
            count -= len(data)

    def _line(self) -> bytes:
        while b"\r\n" not in self._rest:
            more = self._near.recv(4_096)
            if not more or len(self._rest) > MAX_EGRESS_HEAD_BYTES:
                raise InputError("the body ends early")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\r\n")
        return line


def answer(near: socket.socket, code: int, text: str) -> None:
    """Answer a request that is not carried, in a way that a person and a program can read."""
    reason = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}[code]
    body = f"broker: {text}\n".encode()
    short = " ".join(text.split())[:120].encode("ascii", "replace").decode()
    lines = [f"HTTP/1.1 {code} {reason}: {short}", "Content-Type: text/plain; charset=utf-8"]
    lines += [f"Content-Length: {len(body)}", "Connection: close", "X-Broker: refused", "", ""]
    with suppress(OSError):
        near.sendall("\r\n".join(lines).encode("ascii", "replace") + body)


def _broken(near: socket.socket, error: Exception) -> None:
    answer(near, 502, f"the proxy failed inside ({type(error).__name__})")
