"""
The session that holds the reference agent: the live one of ``broker run``, or its own.

Decided here: how the gate's questions reach a session, and what the default permission rules
answer when nobody is there to ask. Not decided here: what a ticket lets through.

Rules a maintainer keeps: without a session there is no agent; who is not there to be asked has
not said yes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.calls import Decision
from broker.permissions import DEFAULTS, Permission, effects, permission
from broker.resolve import Resolver
from broker.service.client import SessionClient

if TYPE_CHECKING:
    from broker.session import Session

EFFECTS: Final = tuple(DEFAULTS)


@dataclass(frozen=True, slots=True)
class Rules:
    """
    The default permission rules, as this run applies them.

    ``allowed`` are the effects that the person said yes to beforehand; ``ask`` asks them about
    a call with any other, and is None when nobody can be asked.
    """

    resolver: Resolver
    allowed: Collection[str] = ()
    ask: Callable[[str], bool] | None = None

    def denied(self, tool: str, arguments: Mapping[str, object]) -> str | None:
        """Return why a call that the ticket allowed may still not run, or None."""
        call = self.resolver.resolve(tool, dict(arguments))
        yes: dict[str, Permission] = dict.fromkeys(self.allowed, "allow")
        answers = {**DEFAULTS, **yes}
        if permission(call, answers) == "allow":
            return None
        asked = ", ".join(sorted(e for e in effects(call) if answers.get(e) != "allow"))
        if self.ask is None:
            return f"`{tool}` needs a person's yes ({asked}), and nobody is here to be asked"
        if self.ask(f"{tool} ({asked})"):
            return None
        return f"the person said no to `{tool}`"


@dataclass(frozen=True, slots=True)
class OwnSession:
    """A session in this process, for running a script without ``broker run``."""

    session: Session
    rules: Rules

    def decide(
        self, tool: str, arguments: Mapping[str, object], *, call: str, ticket: str, actor: str
    ) -> Decision:
        """Decide a call; what it answers stands in the receipt already."""
        return self.session.decide(
            tool, arguments, call_id=call, ticket=ticket or None, actor=actor
        )

    def permitted(
        self, tool: str, arguments: Mapping[str, object], *, call: str, actor: str
    ) -> str | None:
        """Return why the default permission rules say no, or None; the answer is recorded."""
        denied = self.rules.denied(tool, arguments)
        self.session.permission(call, allowed=denied is None, reason=denied or "")
        return denied

    def delegate(self, scope: Sequence[str], *, parent: str, asked_by: str, holder: str) -> str:
        """Return the id of a narrower ticket, or raise ``AttenuationError`` by name."""
        ticket = self.session.delegate(
            scope, parent=parent or None, asked_by=asked_by, holder=holder
        )
        return ticket.id

    def record(self, call: str, *, ok: bool, result: str) -> None:
        """Record how an allowed call ended."""
        self.session.result(call, ok=ok, output=result)


@dataclass(frozen=True, slots=True)
class LiveSession:
    """The session of the ``broker run`` that this process runs in, asked over its socket."""

    client: SessionClient
    rules: Rules

    def decide(
        self, tool: str, arguments: Mapping[str, object], *, call: str, ticket: str, actor: str
    ) -> Decision:
        """Decide a call; what it answers stands in the receipt already."""
        return self._under(ticket).decide(tool, arguments, call_id=call, actor=actor)

    def permitted(
        self, tool: str, arguments: Mapping[str, object], *, call: str, actor: str
    ) -> str | None:
        """Return why the default permission rules say no, or None; the answer is recorded."""
        denied = self.rules.denied(tool, arguments)
        self.client.permission(call, allowed=denied is None, reason=denied or "")
        return denied

    def delegate(self, scope: Sequence[str], *, parent: str, asked_by: str, holder: str) -> str:
        """Return a narrower ticket, or raise ``AttenuationError`` by name."""
        held = self._under(parent).delegate(*scope, holder=holder, asked_by=asked_by)
        return held.ticket or ""

    def record(self, call: str, *, ok: bool, result: str) -> None:
        """Record how an allowed call ended."""
        self.client.result(call, ok=ok, output=result)

    def _under(self, ticket: str) -> SessionClient:
        return SessionClient(self.client.path, ticket) if ticket else self.client
