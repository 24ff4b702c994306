"""
A holder as the hooks of a command-line agent ask it: for an agent that runs inside of our process.

Decided here: that the agent which was started is the holder itself, and that a subagent of which
nothing is known is held to the holder's ticket. Not decided here: which subagent a call is of
(``broker.agents.children``), and what passes (``broker.session``).

Rules a maintainer keeps: nobody is ever judged by a wider ticket than the holder's; where subagents
cannot be told apart they are refused, and it is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from broker.authorize import ASK
from broker.calls import Decision, Refusal
from broker.errors import InputError
from broker.frameworks.holding import Holder
from broker.session import MAIN, Session
from broker.ticket import Ticket

_ALONE: Final = (
    "the subagents of an agent cannot be told apart under `broker run` from inside of it: "
    "open the session outside of a run, or start `broker run -- claude`"
)


@dataclass(frozen=True, slots=True)
class AskedHolder:
    """A holder, as a hook asks a session: the main agent is the holder, and nobody holds more."""

    held: Holder

    def decide(
        self,
        tool: object,
        arguments: object,
        *,
        actor: str,
        among: Sequence[str],
        veto: Refusal | None,
        call_id: str,
        server: str | None,
        cwd: str | None,
    ) -> Decision:
        """Decide a call; see ``Session.decide``."""
        held, main = self.held, actor == MAIN
        if isinstance(held.asked, Session):
            bound = () if held.ticket is None else (held.ticket,)
            return held.asked.decide(
                tool,
                arguments,
                call_id=call_id,
                server=server,
                cwd=cwd,
                veto=veto,
                actor=held.actor if main else actor,
                ticket=held.ticket if main else None,
                among=() if main else tuple(among) or bound,
            )
        why = veto or (None if main else Refusal("session", "", f"{_ALONE}; {ASK}"))
        # What is refused here is asked all the same, with what is no object, to be recorded.
        told = arguments if why is None else why.reason
        found = held.check(str(tool), told, call_id=call_id, server=server, cwd=cwd)
        return found if why is None else Decision(why)

    def holds(self, actor: str, among: Sequence[str] = ()) -> tuple[Ticket, ...]:
        """
        Return the tickets that judge an actor's calls.

        Raises:
            InputError: the session is another process's, and cannot tell.
        """
        if not isinstance(self.held.asked, Session):
            raise InputError(_ALONE)
        if actor == MAIN:
            return (self.held.asked.find(self.held.ticket),)
        bound = () if self.held.ticket is None else (self.held.ticket,)
        return self.held.asked.holds(actor, tuple(among) or bound)

    def delegate(self, texts: Sequence[str], *, parent: str, asked_by: str, holder: str) -> Ticket:
        """Derive a narrower ticket for a subagent; see ``Session.delegate``."""
        session = cast(Session, self.held.asked)
        asker = self.held.actor if asked_by == MAIN else asked_by
        return session.delegate(texts, parent=parent, asked_by=asker, holder=holder)

    def result(self, call_id: str, *, ok: bool, output: object) -> None:
        """Record how a call ended."""
        self.held.result(call_id, ok=ok, output=output)

    def at_work(self, tickets: Sequence[str]) -> None:
        """Do nothing: every call names its actor here."""
