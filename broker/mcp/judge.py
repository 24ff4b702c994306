"""
Whom the gateway asks: the session of the run that it stands in, or one of its own.

Decided here: that whatever breaks while a session is asked is a refusal. Not decided here: what
passes (``broker.session``).

Rule a maintainer keeps: a decision that could not be had is a refusal; what could not be
recorded after a call has run changes nothing any more, and is said on standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from broker.boundary import contained
from broker.calls import Decision, Refusal
from broker.mcp.offer import Offer


class Deciding(Protocol):
    """A session, here or behind a socket."""

    def decide(
        self,
        tool: object,
        arguments: object,
        *,
        call_id: str = "",
        server: str | None = None,
        cwd: str | None = None,
        again: bool = False,
    ) -> Decision:
        """Decide a call, and record the decision."""
        ...

    def result(self, call_id: str, *, ok: bool, output: object = None) -> None:
        """Record how an allowed call ended."""
        ...

    def note(self, text: str, *, source: str) -> None:
        """Record what somebody says."""
        ...


class Judge:
    """
    Asks one session about one server's tools.

    Args:
        session: whom to ask.
        offer: what its ticket could ever allow.
        server: the server's name, as our own configuration spells it.
        cwd: where the server reads relative paths from, where that is known.
        again: an agent's hook may have asked about the same call already; see
            ``broker.sessions.standing``.
        say: takes a line for the person.
    """

    def __init__(
        self,
        session: Deciding,
        offer: Offer,
        server: str,
        *,
        cwd: str | None = None,
        again: bool = False,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.server = server
        self.say = say
        self._session = session
        self._offer = offer
        self._cwd = cwd
        self._again = again

    def admits(self, tool: str) -> bool:
        """Whether any call of the server's tool could ever be allowed."""
        return self._offer.admits(tool)

    def decide(self, tool: object, arguments: object, call_id: str) -> Decision:
        """Return the session's decision; a refusal when there is none."""
        ask = partial(
            self._session.decide,
            tool,
            arguments,
            call_id=call_id,
            server=self.server,
            cwd=self._cwd,
            again=self._again,
        )
        return contained(ask, _undecided)

    def result(self, call_id: str, *, ok: bool, output: object) -> None:
        """Record how an allowed call ended."""
        contained(partial(self._session.result, call_id, ok=ok, output=output), self._unrecorded)

    def note(self, text: str) -> None:
        """Record what the server says of itself."""
        source = f"mcp:{self.server}"
        contained(partial(self._session.note, text, source=source), self._unrecorded)

    def _unrecorded(self, error: Exception) -> None:
        self.say(f"warning: not recorded: {error}")


def _undecided(error: Exception) -> Decision:
    why = f"the broker failed inside ({type(error).__name__}); no call is allowed"
    return Decision(Refusal("session", "", f"{why}; tell the person"))
