"""
Questions to the person about calls that a rule refused, while the agent waits.

Decided here: which refusals become a question, how long a call waits for its answer, and what an
answer does. Not decided here: what a yes may let through (``broker.sessions.admitting``), where a
person is asked and how what they type gets here (``broker.asking``).

A refusal is recorded before anything is asked, and what the person says is recorded after it, so a
receipt shows both. When the wait is over the call stays refused; a later yes counts for the next
call that is the very same.

Rules a maintainer keeps: nobody but a typed line answers, with the code of that question; a call is
asked about once, and after a no never again; questions are few, so that nobody says yes to be left
in peace; whatever breaks here leaves the refusal as it was.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from broker.authorize import ASK
from broker.calls import Call, Decision, PathSubject, Refusal
from broker.errors import BrokerError, InputError
from broker.guard import TicketGuard
from broker.intent import TypedLine
from broker.session import MAIN, Session
from broker.sessions.admitting import admit, could_admit

WAIT_S: Final = 12.0  # a call's wait for its answer, well within a hook's own deadline
MAX_QUESTIONS: Final = 32  # of one session
MAX_WAITING: Final = 4  # calls that wait at one time; more are refused at once and may come again
MAX_WRONG: Final = 3  # lines with a wrong code, until no line answers any more
SOURCE: Final = "ask"  # of the notes in the receipt
_CODE_DIGITS: Final = 6
_ANSWER: Final = re.compile(r"(yes|always|no|never)(?: +([0-9]{6}))?(?: .*)?", re.DOTALL)

Say = Literal["yes", "always", "no", "never"]
State = Literal["open", "yes", "no"]


@dataclass(frozen=True, slots=True)
class Question:
    """
    A refused call, as the person is asked about it.

    ``number`` counts from 1 within a session; ``code`` is what an answer must repeat, so that
    neither keys that were typed before it was shown nor a program that cannot see it answer.
    """

    number: int
    code: str
    actor: str
    tool: str
    server: str | None
    arguments: Mapping[str, object]
    paths: tuple[PathSubject, ...]
    reason: str
    asked_at: int


@dataclass(slots=True)
class _Asked:
    question: Question
    guard: TicketGuard
    call: Call
    state: State = "open"
    settled: threading.Event = field(default_factory=threading.Event)


class AskingSession(Session):
    """
    A session that may ask the person about a call before its refusal is final.

    ``ask`` is told of each new question, and must not wait. ``wait_s`` is how long a call waits.
    """

    ask: Callable[[Question], object] | None = None
    wait_s: float = WAIT_S

    def __init__(self, ground: Any) -> None:
        super().__init__(ground)
        self._asked: dict[tuple[str, Call], _Asked] = {}
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._wrong, self._never = 0, False

    def decide(self, tool: object, arguments: object, **how: Any) -> Decision:
        """Decide a call; where a rule refuses it, ask, and decide it anew after a yes."""
        decision = super().decide(tool, arguments, **how)
        refusal = decision.refusal
        if refusal is None or refusal.caveat != "tools" or self.ask is None or self.rehearsing:
            return decision
        if how.get("veto") is not None:
            return decision
        try:
            asked = self._question(tool, arguments, how, refusal)
        except BrokerError:
            return decision
        if asked is None:
            return decision
        if asked.state == "open":
            if not self._waiting.acquire(blocking=False):
                return _with(refusal, "too many calls wait for the person: try this one again")
            try:
                asked.settled.wait(self.wait_s)
            finally:
                self._waiting.release()
        if asked.state == "yes":
            return super().decide(tool, arguments, **how)
        if asked.state == "no":
            return _with(refusal, "the person was asked about this very call, and said no")
        return _with(refusal, "the person is being asked: try this very call again later")

    def open_questions(self) -> tuple[Question, ...]:
        """Return the questions without an answer, in their order."""
        with self._lock:
            return tuple(a.question for a in self._asked.values() if a.state == "open")

    def answered(self, line: TypedLine) -> str:
        """
        Take a line that a person typed as the answer to a question.

        Args:
            line: ``yes CODE``, ``always CODE``, ``no CODE`` or ``never``; behind it the person may
                say why, which is kept with it.

        Returns:
            What came of it, in a few words for the person.

        Raises:
            InputError: it answers no question, or is no line that a person typed.
            StoreError: it cannot be recorded, or the session is over.
        """
        if type(line) is not TypedLine or line.depth != 0:
            raise InputError("a question is answered by a typed line only", code="intent.source")
        with self._lock:
            self._still_open()
            if self._wrong >= MAX_WRONG:
                raise InputError("too many lines had a wrong code: nothing is answered any more")
            say, asked = self._meant(line.text.strip())
            if say == "never":
                return self._all_no()
            if asked is None:
                self._wrong += 1
                raise InputError("no open question has this code")
            text = f"question {asked.question.number}"
            if say == "no":
                self._settle(asked, "no")
            else:
                at = self._now()
                admit(self._ground, asked.guard, asked.call, line, at, once=say == "yes")
                self._settle(asked, "yes")
            return f"{text}: {say}"

    # ── inside ──

    def _meant(self, text: str) -> tuple[Say, _Asked | None]:
        found = _ANSWER.fullmatch(text)
        if found is None:
            raise InputError("answer with `yes CODE`, `always CODE`, `no CODE`, or `never`")
        say: Say = found[1]  # type: ignore[assignment]  # the expression names exactly these
        if say == "never":
            return say, None
        if found[2] is None:
            raise InputError(f"repeat the question's code, as in `{say} 123456`")
        matching = (a for a in self._asked.values() if a.state == "open")
        return say, next((a for a in matching if a.question.code == found[2]), None)

    def _all_no(self) -> str:
        self._never = True
        for asked in self._asked.values():
            if asked.state == "open":
                self._settle(asked, "no")
        self.note("the person wants to be asked no more", source=SOURCE)
        return "nothing is asked any more"

    def _settle(self, asked: _Asked, state: State) -> None:
        asked.state = state
        if state == "no":
            self.note(f"question {asked.question.number}: answered no", source=SOURCE)
        asked.settled.set()

    def _question(
        self, tool: object, arguments: object, how: Mapping[str, Any], refusal: Refusal
    ) -> _Asked | None:
        """Return the question about a call, asked now where it is new; None: it is not asked."""
        server, cwd = how.get("server"), how.get("cwd")
        call = self._ground.resolver.resolve(tool, arguments, server=server, cwd=cwd)
        actor = str(how.get("actor", MAIN))
        with self._lock:
            at = self._now()
            guard = self._refusing(call, actor, how, at)
            if guard is None:
                return None
            key = (guard.ticket.id, call)
            known = self._asked.get(key)
            if known is not None:
                return known
            if self._never or len(self._asked) >= MAX_QUESTIONS:
                return None
            if could_admit(guard, call, at) is None:
                return None
            question = Question(
                number=len(self._asked) + 1,
                code=self._code(),
                actor=actor,
                tool=call.tool,
                server=call.server,
                arguments=dict(call.arguments or {}),
                paths=call.paths,
                reason=refusal.reason.removesuffix(f"; {ASK}"),
                asked_at=at,
            )
            self.note(
                f"question {question.number}: {actor} asks for {call.tool} {call.digest}",
                source=SOURCE,
            )
            asked = self._asked[key] = _Asked(question, guard, call)
        assert self.ask is not None  # noqa: S101 - looked at before
        self.ask(question)
        return asked

    def _refusing(
        self, call: Call, actor: str, how: Mapping[str, Any], at: int
    ) -> TicketGuard | None:
        """Return the guard of the ticket whose tools refuse a call, if one alone does."""
        among: Sequence[str] = how.get("among", ())
        again = how.get("again") is True
        guards = self._tickets.guards(call, how.get("ticket"), actor, among, at, again=again)
        for guard in guards:
            counts = guard.budget.spent(guard.line)
            refusal = guard.judge(call, at, counts).refusal
            if refusal is not None:
                return guard if refusal.caveat == "tools" else None
        return None

    def _code(self) -> str:
        number = int.from_bytes(self._ground.outside.randomness(8), "big")
        return f"{number % 10**_CODE_DIGITS:0{_CODE_DIGITS}d}"


def _with(refusal: Refusal, why: str) -> Decision:
    return Decision(replace(refusal, reason=f"{refusal.reason}; {why}"))
