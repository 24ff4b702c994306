"""
A gateway that also tells the run's recorder what passes it, and what does not.

Decided here: what is told of each message. Not decided here: what becomes of it
(``broker.mcp.gateway``), and how it is written (``broker.capture.intake``).

What is told is what arrives: an answer as the client gets it, a refused call as refused, with the
caveat and the number by which the receipt names its decision.

Rules a maintainer keeps: telling comes after the ruling, changes nothing of it, and never fails or
delays it; a message that nobody could read is told only as such.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Final

from broker.calls import Decision
from broker.errors import InputError
from broker.mcp.gateway import Gateway, Ruling
from broker.mcp.judge import Judge
from broker.mcp.messages import Id, Message, read_message

MAX_TOLD_BYTES: Final = 2**20  # of one message; a longer one is told without its content

Tell = Callable[[Mapping[str, object], bytes | None], None]


class TeedGateway(Gateway):
    """
    A gateway that tells. Safe among threads, if ``tell`` is.

    Args:
        judge: asks the session.
        prefix: begins the id of every call.
        tell: takes the fields of a message and its content as JSON, or None where it is left out.
    """

    def __init__(self, judge: Judge, prefix: str, tell: Tell) -> None:
        super().__init__(judge, prefix)
        self._tell = tell
        self._server = judge.server
        self._now = _Now()
        self._methods: dict[tuple[str, Id | None], str] = {}

    def from_client(self, raw: bytes) -> Ruling:
        """Decide about a message of the client, and tell of it."""
        return self._ruled("client", raw, super().from_client)

    def from_server(self, raw: bytes) -> Ruling:
        """Decide about a message of the server, and tell of it."""
        return self._ruled("server", raw, super().from_server)

    def unanswered(self, raw: bytes, why: str) -> bytes | None:
        """Return the answer to a request that gets none, and tell of it."""
        found = super().unanswered(raw, why)
        if found is not None:
            self._tell_answer("client", read_message(found), {"ok": False})
        return found

    def deserted(self) -> list[bytes]:
        """Return the answers to what waits when the server has gone, and tell of them."""
        found = super().deserted()
        for answer in found:
            self._tell_answer("client", read_message(answer), {"ok": False})
        return found

    def _decided(self, message: Message) -> tuple[Decision, str]:
        found = super()._decided(message)
        self._now.decided = found
        return found

    def _ruled(self, sender: str, raw: bytes, rule: Callable[[bytes], Ruling]) -> Ruling:
        self._now.decided = None
        ruling = rule(raw)
        try:
            message = read_message(raw)
        except InputError:
            fields = {"kind": "mcp.request", "server": self._server, "sender": sender}
            self._tell({**fields, "method": "", "allowed": False, "left_out": "unreadable"}, None)
            return ruling
        if message.kind == "response":
            receiver = "server" if sender == "client" else "client"
            self._tell_back(receiver, message, ruling)
        else:
            self._tell_asked(sender, message, ruling)
        return ruling

    def _tell_asked(self, sender: str, message: Message, ruling: Ruling) -> None:
        """Tell of a request or a notification, and of the answer that we gave in its stead."""
        fields: dict[str, object] = {
            "kind": "mcp.request",
            "server": self._server,
            "sender": sender,
            "method": message.method,
            "allowed": ruling.onward is not None,
        }
        if message.id is None:
            fields["notification"] = True
        else:
            fields["id"] = message.id
        if self._now.decided is not None:
            decision, fields["call"] = self._now.decided
            if decision.refusal is not None:
                fields["caveat"] = decision.refusal.caveat
        self._send(fields, dict(message.params))
        if ruling.back is not None:
            self._tell_answer(sender, read_message(ruling.back), {"ok": False, "allowed": False})
        elif message.id is not None:
            self._remember((sender, message.id), message.method)

    def _tell_back(self, receiver: str, message: Message, ruling: Ruling) -> None:
        """Tell of an answer, as its receiver gets it; one that nobody asked for went nowhere."""
        if ruling.onward is None:
            return
        body = message.body
        result = body.get("result")
        failed = "error" in body or (isinstance(result, dict) and result.get("isError") is True)
        more: dict[str, object] = {"ok": not failed}
        if ruling.onward != message.raw:
            more["filtered"] = True
            message = read_message(ruling.onward)
        self._tell_answer(receiver, message, more)

    def _tell_answer(self, receiver: str, message: Message, more: Mapping[str, object]) -> None:
        """``sender`` of an answer's record is who had asked: by that and the id the two are one."""
        fields: dict[str, object] = {
            "kind": "mcp.response",
            "server": self._server,
            "sender": receiver,
            "method": self._methods.pop((receiver, message.id), ""),
            **more,
        }
        if message.id is not None:
            fields["id"] = message.id
        key = "error" if "error" in message.body else "result"
        self._send(fields, {key: message.body.get(key)})

    def _remember(self, key: tuple[str, Id], method: str) -> None:
        if len(self._methods) < _MAX_WAITING:
            self._methods[key] = method

    def _send(self, fields: Mapping[str, object], content: Mapping[str, object]) -> None:
        said = json.dumps(content, separators=(",", ":")).encode()
        if len(said) > MAX_TOLD_BYTES:
            self._tell({**fields, "left_out": f"{len(said)} bytes"}, None)
        else:
            self._tell(fields, said)


_MAX_WAITING: Final = 2_048


class _Now(threading.local):
    """What this thread's session said of the message in hand."""

    decided: tuple[Decision, str] | None = None
