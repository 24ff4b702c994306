"""
Asks a running session: for Python harnesses, and for ``broker check`` inside a run.

Decided here: that whatever keeps an answer from arriving is a refusal. Not decided here:
anything else; the session decides.

``broker run`` puts the socket into ``BROKER_SOCKET``; a delegate finds its ticket in
``BROKER_TICKET``. Agents with hooks do not need this module, see ``broker.hookclient``.

Rules a maintainer keeps: a decision is a refusal unless the whole answer says allow; a request
is sent once and never again, since it may have been decided; every request has a connection
of its own, so that forks and threads share none.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final, get_args

from broker.calls import Decision, Enforcement, Refusal
from broker.errors import (
    AttenuationError,
    BrokerError,
    InputError,
    StoreError,
    TicketVerificationError,
)
from broker.service.protocol import frame, read_object, receive, write_object

SOCKET_VARIABLE: Final = "BROKER_SOCKET"
SESSION_VARIABLE: Final = "BROKER_SESSION"
TICKET_VARIABLE: Final = "BROKER_TICKET"
RECORDER_VARIABLE: Final = "BROKER_RECORDER"  # where a run is recorded; see `broker.capture.door`
REPLAY_VARIABLE: Final = (
    "BROKER_REPLAY"  # where results are asked for; see `broker.replay.answering`
)
TIMEOUT_S: Final = 60.0


class SessionClient:
    """
    A session in another process, asked over its socket.

    Args:
        path: the socket.
        ticket: the id or wire form to ask under; the session's root ticket by default.
        timeout_s: the longest wait for one step of a request.
    """

    def __init__(
        self, path: str, ticket: str | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.path = path
        self.ticket = ticket
        self.timeout_s = timeout_s

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> SessionClient:
        """
        Return the client of the session that this process runs in.

        Raises:
            InputError: no session is named in the environment.
        """
        path = environ.get(SOCKET_VARIABLE)
        if not path:
            raise InputError(
                f"no session: `{SOCKET_VARIABLE}` is not set; start with `broker run -- COMMAND`",
                code="input.session",
            )
        return cls(path, environ.get(TICKET_VARIABLE) or None)

    def decide(
        self,
        tool: object,
        arguments: object,
        *,
        call_id: str = "",
        server: str | None = None,
        cwd: str | None = None,
        actor: str = "",
        again: bool = False,
    ) -> Decision:
        """
        Ask for a decision; it is recorded, and debited when it allows.

        It never raises: a session that cannot be asked refuses by the caveat ``session``.
        """
        request = {"op": "decide", "tool": tool, "arguments": arguments, "call_id": call_id}
        request |= {"ticket": self.ticket, "server": server, "cwd": cwd}
        request["actor"] = actor or None
        request["again"] = again
        try:
            return read_decision(self._ask(request))
        except BrokerError as error:
            return _closed(str(error))
        except (TypeError, ValueError, RecursionError) as error:
            return _closed(f"the call cannot be sent: {error}")

    def delegate(self, *texts: str, holder: str = "", asked_by: str = "") -> SessionClient:
        """
        Derive a narrower ticket, and return a client that asks under it.

        Args:
            texts: the caveats to add, as ``KEY=VALUE`` texts.
            holder: the actor that the ticket is kept for.
            asked_by: the actor that asks.

        Raises:
            AttenuationError: it would widen; ``kind`` names the caveat.
            InputError: a text is malformed.
            StoreError: the session cannot be asked.
        """
        request: dict[str, object] = {"op": "delegate", "scope": list(texts), "holder": holder}
        request |= {"parent": self.ticket, "asked_by": asked_by or None}
        answer = self._ask(request)
        wire = answer.get("ticket")
        if not isinstance(wire, str):
            raise StoreError("the session's answer holds no ticket")
        return SessionClient(self.path, wire, timeout_s=self.timeout_s)

    def result(self, call_id: str, *, ok: bool, output: object = None) -> None:
        """
        Tell the session how an allowed call ended.

        Raises:
            StoreError: it could not be recorded.
        """
        self._ask({"op": "result", "call_id": call_id, "ok": ok, "output": output})

    def permission(self, call_id: str, *, allowed: bool, reason: str = "") -> None:
        """
        Tell the session what the harness's own permission rules said after the ticket.

        Raises:
            StoreError: it could not be recorded.
        """
        self._ask({"op": "permission", "call_id": call_id, "allowed": allowed, "reason": reason})

    def note(self, text: str, *, source: str) -> None:
        """
        Tell the session what an MCP server says of its tools.

        Raises:
            StoreError: it could not be recorded.
        """
        self._ask({"op": "offer", "text": text, "server": source})

    def describe(self) -> dict[str, object]:
        """
        Return what the session says of itself and of this client's ticket.

        Raises:
            StoreError: the session cannot be asked.
        """
        return self._ask({"op": "describe", "ticket": self.ticket})

    def _ask(self, request: Mapping[str, object]) -> dict[str, object]:
        body = frame(write_object(dict(request)))
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(self.timeout_s)
                connection.connect(self.path)
                connection.sendall(body)
                answer = receive(connection)
        except OSError as error:
            raise StoreError(f"the session cannot be asked: {error}") from error
        if answer is None:
            raise StoreError("the session closed the connection without an answer")
        found = read_object(answer)
        if found.get("ok") is not True:
            raise _error(found.get("error"))
        return found


def read_decision(answer: Mapping[str, object]) -> Decision:
    """
    Return the decision of an answer; one that cannot be read is a refusal.

    >>> read_decision({"decision": "allow", "enforcement": "gate"}).allowed
    True
    >>> read_decision({"decision": "allow"}).refusal.caveat
    'session'
    """
    level = answer.get("enforcement")
    levels: dict[object, Enforcement] = {e: e for e in get_args(Enforcement)}
    if level in levels and answer.get("decision") == "allow":
        return Decision(None, levels[level])
    caveat, value, reason = (answer.get(k) for k in ("caveat", "value", "reason"))
    if (
        level in levels
        and answer.get("decision") == "refuse"
        and isinstance(caveat, str)
        and isinstance(value, str)
        and isinstance(reason, str)
    ):
        return Decision(Refusal(caveat, value, reason), levels[level])
    return _closed("the session's answer cannot be read")


def _error(found: object) -> BrokerError:
    """Return the error that a session reports, as nearly as it can be told here."""
    if not isinstance(found, dict):
        return StoreError("the session's answer cannot be read")
    code, message, kind = (found.get(k) for k in ("code", "message", "kind"))
    text = message if isinstance(message, str) else "the session reports an error"
    if code == AttenuationError.code and isinstance(kind, str):
        return AttenuationError(text, kind=kind)
    if code == TicketVerificationError.code:
        return TicketVerificationError(text)
    if isinstance(code, str) and not code.startswith((StoreError.code, BrokerError.code)):
        return InputError(text, code=code)
    return StoreError(text)


def _closed(why: str) -> Decision:
    return Decision(Refusal("session", "", f"{why}; no call is allowed; tell the person"))
