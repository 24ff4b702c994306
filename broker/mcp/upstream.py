"""
Requests to an MCP server over HTTP, and what comes back of them.

Decided here: how a server is reached, which headers go there and come back, and what is taken
for an answer at all. Not decided here: what becomes of a message (``broker.mcp.gateway``).

Rules a maintainer keeps: no redirect is followed or passed on, since a client that follows one
has left the gateway; nothing comes back in an encoding that is not read here.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from socket import SHUT_RDWR
from typing import Final
from urllib.parse import urlsplit

from broker.errors import InputError, StoreError
from broker.limits import MAX_REQUEST_BYTES

CONNECT_S: Final = 30.0
SESSION_HEADER: Final = "Mcp-Session-Id"
EVENTS: Final = "text/event-stream"
JSON: Final = "application/json"
_CHUNK: Final = 2**16
# What belongs to one connection, or is set anew for the next.
_OURS: Final = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te"),
        *("trailer", "transfer-encoding", "upgrade", "host", "content-length", "origin"),
        *("accept-encoding", "proxy-connection", "expect"),
    )
)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    secure: bool
    host: str
    port: int | None
    path: str


def read_address_of(url: str) -> Address:
    """
    Return where a server's address leads.

    >>> read_address_of("https://example.org/mcp").path
    '/mcp'

    Raises:
        InputError: not an address of the web, or one with a name and a password in it.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(f"`{url}` is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"`{url}` is no address of the web: write `https://HOST/PATH`")
    if parts.username is not None or parts.fragment:
        raise InputError("an address holds no name, password or fragment: use `--header`")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(parts.scheme == "https", parts.hostname, port, path)


class Reply:
    """What a server answers: status and headers at once, the body as it comes."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self._socket = connection.sock
        self._response = connection.getresponse()
        with suppress(OSError, AttributeError):
            self._socket.settimeout(None)  # a stream may be silent for hours
        self.status = self._response.status
        self.kind = (self._response.getheader("Content-Type") or "").partition(";")[0].strip()
        self.kind = self.kind.lower()
        self.session = self._response.getheader(SESSION_HEADER)

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers that go on to the client."""
        for name, value in self._response.getheaders():
            if name.lower() not in _OURS:
                yield name, value

    def fault(self) -> str:
        """Return why this is no answer that could go on, or an empty text."""
        encoding = self._response.getheader("Content-Encoding", "identity").strip().lower()
        if encoding != "identity":
            return "the server's answer is encoded although it was asked not to be"
        if 300 <= self.status < 400:
            there = self._response.getheader("Location", "elsewhere")
            return f"the server leads on to `{there[:200]}`: give that address instead"
        return ""

    def body(self) -> bytes:
        """
        Return the whole body.

        Raises:
            StoreError: it breaks off, or is too long.
        """
        try:
            found = self._response.read(MAX_REQUEST_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise StoreError(f"the server's answer breaks off: {error}") from error
        if len(found) > MAX_REQUEST_BYTES:
            raise StoreError(f"the server's answer has more than {MAX_REQUEST_BYTES} bytes")
        return found

    def chunks(self) -> Iterator[bytes]:
        """Yield the body as it comes, to its end or to where it breaks off."""
        try:
            while chunk := self._response.read1(_CHUNK):
                yield chunk
        except (OSError, ValueError, http.client.HTTPException):
            return

    def close(self) -> None:
        """Leave, also when another thread reads."""
        with suppress(OSError, AttributeError):
            self._socket.shutdown(SHUT_RDWR)
        with suppress(OSError):
            self._connection.close()


class Upstream:
    """
    One server behind an address.

    Args:
        url: its address.
        headers: are sent with every request, such as a credential.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.address = read_address_of(url)
        self._headers = dict(headers or {})

    def ask(self, method: str, headers: Mapping[str, str], body: bytes | None = None) -> Reply:
        """
        Send one request.

        Raises:
            StoreError: the server cannot be reached.
        """
        connection = self._connection()
        ours = {name.lower() for name in self._headers} | _OURS
        sent = {name: value for name, value in headers.items() if name.lower() not in ours}
        sent |= self._headers
        sent["Accept-Encoding"] = "identity"
        try:
            connection.request(method, self.address.path, body, sent)
            return Reply(connection)
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            raise StoreError(f"the server cannot be reached: {error}") from error

    def _connection(self) -> http.client.HTTPConnection:
        address = self.address
        if address.secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                address.host, address.port, timeout=CONNECT_S, context=context
            )
        return http.client.HTTPConnection(address.host, address.port, timeout=CONNECT_S)
