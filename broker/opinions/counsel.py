"""
All opinions of a session, and what they come to for one call.

Decided here: that every opinion must allow what the ticket allowed, in which order they are asked,
and what is recorded of it. Not decided here: when a call is asked about
(``broker.sessions.deciding``).

Rules a maintainer keeps: an opinion never loosens, so it is heard on what the ticket allows and on
nothing else; what could not be asked is refused; an opinion counts for the very call that it was
asked about; what was asked and answered goes into the receipt as digests, and the questions carry a
nonce, so that nobody guesses from a digest what a receipt conceals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from broker.boundary import contained
from broker.calls import Call, Decision, Refusal
from broker.errors import LimitError
from broker.limits import MAX_NAME_CHARS
from broker.opinions.opinion import Opined, Opinion
from broker.opinions.question import Consultation, questions
from broker.redaction.hiding import clipped

CAVEAT: Final = "opinion"
NONCE_BYTES: Final = 16
_PERSON: Final = "do not work around this"

UNHEARD: Final = Decision(
    Refusal(CAVEAT, "", "no second opinion was asked, so the call is refused; try it again")
)


@dataclass(frozen=True, slots=True)
class Weighed:
    """
    What the opinions say of one call.

    ``answers`` are those that were asked, by name; ``refusal`` is None when all of them allow.
    """

    answers: tuple[tuple[str, Opined], ...]
    refusal: Refusal | None

    def data(self) -> list[dict[str, object]]:
        """Return what is recorded of it."""
        return [_data(name, answer) for name, answer in self.answers]

    def faults(self) -> tuple[tuple[str, str], ...]:
        """Return the opinions that could not be had, and why."""
        return tuple((name, each.fault) for name, each in self.answers if each.fault)


@dataclass(slots=True)
class Weighing:
    """
    One call on its way to a decision. Used by one thread.

    ``hear`` is asked outside of the session's lock, ``weigh`` inside of it: nobody waits for the
    opinion on another's call. ``ticket`` is the id of the ticket that would allow it.
    """

    counsel: Counsel
    call: Call
    actor: str
    ticket: str = ""
    heard: Weighed | None = None

    @property
    def wanted(self) -> bool:
        """Whether there are opinions to be heard before the call may pass."""
        return self.heard is None and bool(self.counsel.opinions)

    def weigh(self, decision: Decision) -> Decision:
        """Return the stricter of the ticket's decision and the opinions."""
        if not decision.allowed or not self.counsel.opinions:
            return decision
        if self.heard is None:
            return UNHEARD  # the ticket allows what it refused a moment ago
        return decision if self.heard.refusal is None else Decision(self.heard.refusal)

    def hear(self, anew: Callable[[], Call]) -> Weighed:
        """
        Ask the opinions, and keep what they say.

        Args:
            anew: reads the call once more, when they have answered.
        """
        heard = self.counsel.ask(self.call, self.actor, self.ticket)
        if heard.refusal is None and anew() != self.call:
            why = "what it touches changed while a second opinion was asked, so it is refused"
            heard = Weighed(heard.answers, Refusal(CAVEAT, "", f"{why}; try it again"))
        self.heard = heard
        return heard


class Counsel:
    """
    The opinions that one session asks.

    Args:
        opinions: in the order in which they are asked.
        session: the session's name.
        randomness: returns as many random bytes as it is told.

    >>> Counsel((), "k3v", bytes).ask(Call("read"), "main", "9f2c").refusal is None
    True
    """

    def __init__(
        self, opinions: Sequence[Opinion], session: str, randomness: Callable[[int], bytes]
    ) -> None:
        self.opinions = tuple(opinions)
        self._session, self._randomness = session, randomness

    def about(self, call: Call, actor: str) -> Weighing:
        """Return what a decision about a call is weighed with."""
        return Weighing(self, call, actor)

    def ask(self, call: Call, actor: str, ticket: str) -> Weighed:
        """
        Ask each opinion about a call, until one does not allow it.

        Args:
            call: what the tool and its arguments were resolved to.
            actor: which agent calls.
            ticket: the id of the ticket that allowed it.
        """
        try:
            asked = questions(call)
        except LimitError as error:
            why = f"no second opinion can be asked on this call, since {error.message}"
            return Weighed((), Refusal(CAVEAT, call.tool, f"{why}; {_PERSON}"))
        nonce = self._randomness(NONCE_BYTES).hex()
        given = call.arguments or {}
        inquiry = Consultation(asked, actor, self._session, ticket, nonce, call.digest, given)
        answers: list[tuple[str, Opined]] = []
        for opinion in self.opinions:
            answer = contained(partial(opinion.ask, inquiry), _broken)
            answers.append((opinion.name, answer))
            if answer.said != "allow":
                return Weighed(tuple(answers), _refusal(opinion.name, answer))
        return Weighed(tuple(answers), None)


def _broken(error: Exception) -> Opined:
    return Opined("none", fault=f"asking it failed inside ({type(error).__name__})")


def _refusal(name: str, answer: Opined) -> Refusal:
    if answer.said == "refuse":
        why = f": {answer.reason}" if answer.reason else ""
        said = f"the second opinion `{name}` does not allow it{why}; {_PERSON}; ask the person"
        return Refusal(CAVEAT, name, f"{said}, who may have `{name}` permit it")
    said = f"the second opinion `{name}` could not be had, so the call is refused; {_PERSON}"
    return Refusal(CAVEAT, name, f"{said}; tell the person, whose receipt says why")


def _data(name: str, answer: Opined) -> dict[str, object]:
    found: dict[str, object] = {"name": name[:MAX_NAME_CHARS], "said": answer.said}
    for key, value in (("asked", answer.asked), ("answered", answer.answered)):
        if value:
            found[key] = value
    if answer.fault:
        fault = answer.fault.encode("utf-8", "backslashreplace").decode()
        found["fault"] = clipped(fault, 400, "…")
    return found
