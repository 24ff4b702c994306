"""
Asks a decision service over HTTP or its unix socket; with the standard library alone.

Decided here: how requests are spelled and connections kept, and that whatever keeps an answer from
arriving is a refusal. Not decided here: anything else; the service decides.

Rules a maintainer keeps: a decision is a refusal unless the whole answer says allow; a request is
sent once and never again, since it may have been decided; no redirect is followed, so that a key
goes to one address only; over the network keys travel by TLS or stay on this machine.
"""

from __future__ import annotations

import http.client
import ipaddress
import os
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from broker.calls import Decision, Refusal
from broker.errors import AttenuationError, BrokerError, InputError, StoreError
from broker.limits import MAX_SERVED_BODY_BYTES
from broker.service.client import read_decision
from broker.service.protocol import read_object, write_object

Reader = Callable[[Mapping[str, object]], Decision]

KEY_VARIABLE: Final = "BROKER_SERVICE_KEY"
TIMEOUT_S: Final = 30.0
_KEPT_S: Final = 20.0  # that a connection may lie idle; the service itself waits for a minute
_KEPT: Final = 16  # connections that lie idle
_ANSWER_BYTES: Final = 4 * MAX_SERVED_BODY_BYTES


class ServiceClient:
    """
    A decision service in another process, or on another machine. Safe among threads.

    Args:
        address: ``https://HOST:PORT``, ``unix:/PATH``, or ``http://`` on this machine.
        key: the bearer key; by default that of ``BROKER_SERVICE_KEY``.
        ticket: the wire form that is asked under.
        timeout_s: the longest wait for one step of a request.
        context: how TLS connections are opened; the system's authorities by default.

    Raises:
        InputError: the address is malformed, or would send a key in the clear.

    >>> ServiceClient("http://pdp.example.com", "k")
    Traceback (most recent call last):
    broker.errors.InputError: `http://pdp.example.com` would send keys and tickets in the clear: ...
    """

    def __init__(
        self,
        address: str,
        key: str | None = None,
        ticket: str = "",
        *,
        timeout_s: float = TIMEOUT_S,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.address = address
        self.ticket = ticket
        self._key = os.environ.get(KEY_VARIABLE, "") if key is None else key
        self._timeout_s = timeout_s
        self._context = context
        self._place = _read_address(address)
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []

    # ── decisions: these never raise ──

    def check(
        self,
        tool: str,
        arguments: Mapping[str, object],
        *,
        call_id: str = "",
        server: str | None = None,
        cwd: str | None = None,
        actor: str = "",
    ) -> Decision:
        """
        Ask whether a call is allowed under this client's ticket.

        It never raises: a service that cannot be asked refuses by the caveat ``session``.
        """
        body: dict[str, object] = {"ticket": self.ticket, "tool": tool, "arguments": arguments}
        more = {"call_id": call_id, "server": server, "cwd": cwd, "actor": actor}
        body |= {name: value for name, value in more.items() if value}
        return self._decided("/v1/check", body, read_decision)

    def evaluate(
        self,
        subject: Mapping[str, object],
        action: Mapping[str, object],
        resource: Mapping[str, object],
        context: Mapping[str, object] | None = None,
    ) -> Decision:
        """
        Ask as AuthZEN spells it; this client's ticket goes along, if it has one.

        It never raises: a service that cannot be asked refuses by the caveat ``session``.
        """
        body: dict[str, object] = {"subject": subject, "action": action, "resource": resource}
        given = dict(context or {})
        if self.ticket:
            given["ticket"] = self.ticket
        return self._decided("/access/v1/evaluation", {**body, "context": given}, _evaluated)

    def _decided(self, path: str, body: Mapping[str, object], read: Reader) -> Decision:
        try:
            return read(self._ask(path, body))
        except BrokerError as error:
            return _closed(str(error))
        except (TypeError, ValueError, RecursionError) as error:
            return _closed(f"the call cannot be sent: {error}")

    # ── tickets ──

    def mint(self, line: str, *texts: str) -> ServiceClient:
        """
        Mint a ticket by an operator's key, and return a client that asks under it.

        Args:
            line: the line that a person typed, which says why.
            texts: what the ticket permits, as ``KEY=VALUE`` texts.

        Raises:
            InputError: the line or a text is malformed.
            StoreError: it is refused, or the service cannot be asked.
        """
        return self._holding(self._ask("/v1/mint", {"line": line, "scope": texts}))

    def attenuate(self, *texts: str) -> ServiceClient:
        """
        Derive a narrower ticket, and return a client that asks under it.

        Raises:
            AttenuationError: it would widen; ``kind`` names the caveat.
            InputError: a text is malformed.
            StoreError: the service cannot be asked.
        """
        return self._holding(self._ask("/v1/attenuate", {"ticket": self.ticket, "scope": texts}))

    def describe(self) -> dict[str, object]:
        """
        Return what this client's ticket permits, and what was spent.

        Raises:
            StoreError, InputError: the service cannot be asked, or there is no such ticket.
        """
        return self._ask("/v1/describe", {"ticket": self.ticket})

    def result(self, call_id: str, *, ok: bool, output: object = None) -> None:
        """
        Tell how an allowed call ended; the receipt keeps a digest of the output.

        Raises:
            StoreError, InputError: it could not be recorded.
        """
        body = {"ticket": self.ticket, "call_id": call_id, "ok": ok, "output": output}
        self._ask("/v1/result", body)

    def end(self, sid: str) -> None:
        """
        Seal a minted session by an operator's key; its tickets permit nothing any more.

        Raises:
            StoreError, InputError: it is refused, or could not be done.
        """
        self._ask("/v1/end", {"sid": sid})

    def revoke(self, ticket: str, reason: str) -> None:
        """
        Take a ticket back by an operator's key, with all that was narrowed from it.

        Args:
            ticket: its id, or its wire form.
            reason: why; kept in receipts.

        Raises:
            StoreError, InputError: it is refused, or could not be done.
        """
        self._ask("/v1/revoke", {"ticket": ticket, "reason": reason})

    def close(self) -> None:
        """Close the connections that lie idle."""
        while self._idle:
            self._idle.pop()[1].close()

    def _holding(self, found: Mapping[str, object]) -> ServiceClient:
        ticket = found.get("ticket")
        if not isinstance(ticket, str) or not ticket:
            raise StoreError("the service's answer holds no ticket")
        return ServiceClient(
            self.address, self._key, ticket, timeout_s=self._timeout_s, context=self._context
        )

    # ── requests ──

    def _ask(self, path: str, body: Mapping[str, object]) -> dict[str, object]:
        content = write_object(dict(body))
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        connection = self._connection()
        try:
            connection.request("POST", path, content, headers)
            heard = connection.getresponse()
            answer = heard.read(_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            raise StoreError(f"the service cannot be asked: {error or 'no answer'}") from error
        if len(answer) > _ANSWER_BYTES:
            connection.close()
            raise StoreError("the service's answer is too long")
        if heard.length:
            connection.close()
            raise StoreError("the service's answer is cut off")
        self._keep(connection, over=heard.will_close)
        return _read(heard.status, answer)

    def _connection(self) -> http.client.HTTPConnection:
        while self._idle:
            since, kept = self._idle.pop()
            if time.monotonic() - since < _KEPT_S:
                return kept
            kept.close()
        kind, host, port = self._place
        if kind == "unix":
            return _UnixConnection(host, self._timeout_s)
        if kind == "https":
            context = self._context or ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)

    def _keep(self, connection: http.client.HTTPConnection, *, over: bool) -> None:
        if over or len(self._idle) >= _KEPT:
            connection.close()
        else:
            self._idle.append((time.monotonic(), connection))


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket in the place of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _read_address(address: str) -> tuple[str, str, int | None]:
    if address.startswith("unix:/"):
        return "unix", address.removeprefix("unix:"), None
    try:
        found = urlsplit(address)
        host, port = found.hostname or "", found.port
    except ValueError as error:
        raise InputError(f"`{address}` is no address of a service: {error}") from None
    if found.scheme not in {"http", "https"} or not host or found.path.strip("/") or found.query:
        raise InputError(f"`{address}` is no address of a service: write https://HOST:PORT")
    if found.scheme == "http" and not _here(host):
        raise InputError(
            f"`{address}` would send keys and tickets in the clear: write https://, or ask on this "
            "machine"
        )
    return found.scheme, host, port


def _here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(status: int, answer: bytes) -> dict[str, object]:
    found = read_object(answer)
    if 200 <= status < 300:
        return found
    error = found.get("error")
    told = error if isinstance(error, dict) else {}
    text, code, kind = (told.get(name) for name in ("message", "code", "kind"))
    message = text if isinstance(text, str) else f"the service answered with {status}"
    if isinstance(kind, str):
        raise AttenuationError(message, kind=kind)
    if status in {400, 404} and isinstance(code, str):
        raise InputError(message, code=code)
    raise StoreError(message)


def _evaluated(answer: Mapping[str, object]) -> Decision:
    """Return the decision of an evaluation; an answer that cannot be read is a refusal."""
    context = answer.get("context")
    told = context if isinstance(context, dict) else {}
    decided = answer.get("decision")
    word = "allow" if decided is True else "refuse" if decided is False else "unreadable"
    return read_decision({"enforcement": "gate", **told, "decision": word})


def _closed(why: str) -> Decision:
    return Decision(Refusal("session", "", f"{why}; no call is allowed; tell the person"))
