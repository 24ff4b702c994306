"""
The session that holds an agent: the live one of ``broker run``, or its own.

Decided here: how the pipeline's questions reach a session. Not decided here: what a ticket lets
through, which the session says on its one road.

A rule a maintainer keeps: without a session there is no agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from broker.calls import Call, Decision
from broker.service.client import SessionClient

if TYPE_CHECKING:
    from broker.session import Session

_SOURCE: Final = "harness"
Hear = Callable[[Call], object]


class Held(Protocol):
    """What the pipeline needs of a session."""

    def decide(
        self,
        tool: str,
        arguments: Mapping[str, object],
        *,
        call: str,
        ticket: str,
        actor: str,
        server: str = "",
        heard: Hear | None = None,
    ) -> Decision:
        """
        Decide a call; what it answers stands in the receipt already.

        ``server`` is the MCP server that answers it, if one does. ``heard`` is told what the call
        was resolved to, where that is known here, so that nobody has to look again.
        """

    def permission(self, call: str, *, allowed: bool, reason: str) -> None:
        """Record what the permission rules said after the ticket."""

    def delegate(self, scope: Sequence[str], *, parent: str, asked_by: str, holder: str) -> str:
        """Return the id of a narrower ticket, or raise ``AttenuationError`` by name."""

    def record(self, call: str, *, ok: bool, result: str) -> None:
        """Record how an allowed call ended."""

    def note(self, text: str) -> None:
        """Record what happened to a call besides."""


@dataclass(frozen=True, slots=True)
class OwnSession:
    """A session in this process, for running without ``broker run``."""

    session: Session

    def decide(
        self,
        tool: str,
        arguments: Mapping[str, object],
        *,
        call: str,
        ticket: str,
        actor: str,
        server: str = "",
        heard: Hear | None = None,
    ) -> Decision:
        """Decide a call; what it answers stands in the receipt already."""
        return self.session.decide(
            tool,
            arguments,
            call_id=call,
            ticket=ticket or None,
            server=server or None,
            actor=actor,
            heard=heard,
        )

    def permission(self, call: str, *, allowed: bool, reason: str) -> None:
        """Record what the permission rules said after the ticket."""
        self.session.permission(call, allowed=allowed, reason=reason)

    def delegate(self, scope: Sequence[str], *, parent: str, asked_by: str, holder: str) -> str:
        """Return the id of a narrower ticket, or raise ``AttenuationError`` by name."""
        ticket = self.session.delegate(
            scope, parent=parent or None, asked_by=asked_by, holder=holder
        )
        return ticket.id

    def record(self, call: str, *, ok: bool, result: str) -> None:
        """Record how an allowed call ended."""
        self.session.result(call, ok=ok, output=result)

    def note(self, text: str) -> None:
        """Record what happened to a call besides."""
        self.session.note(text, source=_SOURCE)


@dataclass(frozen=True, slots=True)
class LiveSession:
    """The session of the ``broker run`` that this process runs in, asked over its socket."""

    client: SessionClient

    def decide(
        self,
        tool: str,
        arguments: Mapping[str, object],
        *,
        call: str,
        ticket: str,
        actor: str,
        server: str = "",
        heard: Hear | None = None,
    ) -> Decision:
        """Decide a call; what it answers stands in the receipt already."""
        asked = self._under(ticket)
        return asked.decide(tool, arguments, call_id=call, actor=actor, server=server or None)

    def permission(self, call: str, *, allowed: bool, reason: str) -> None:
        """Record what the permission rules said after the ticket."""
        self.client.permission(call, allowed=allowed, reason=reason)

    def delegate(self, scope: Sequence[str], *, parent: str, asked_by: str, holder: str) -> str:
        """Return a narrower ticket, or raise ``AttenuationError`` by name."""
        held = self._under(parent).delegate(*scope, holder=holder, asked_by=asked_by)
        return held.ticket or ""

    def record(self, call: str, *, ok: bool, result: str) -> None:
        """Record how an allowed call ended."""
        self.client.result(call, ok=ok, output=result)

    def note(self, text: str) -> None:
        """Record what happened to a call besides."""
        self.client.note(text, source=_SOURCE)

    def _under(self, ticket: str) -> SessionClient:
        return SessionClient(self.client.path, ticket) if ticket else self.client
