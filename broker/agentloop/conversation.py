"""
A conversation in words of our own, apart from any provider's.

Decided here: what a conversation is made of, and that every call in it gets an answer: one whose
turn was stopped by the person is answered by that. Not decided here: how it is told over an API
(``messages``, ``responses``, ``chat``).

Rules a maintainer keeps: what a model said is kept as it came (``raw``), since some of it is signed
or encrypted and means nothing to anybody else; nothing is ever taken out of a conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from broker.harness.outcome import Result

STOPPED: Final = "the person stopped this turn; the call did not run, or its result is lost"


@dataclass(frozen=True, slots=True)
class AskedCall:
    """
    A call as a model asked for it; ``ref`` is the provider's name for it.

    ``fault`` says why its arguments cannot be read, where they cannot.
    """

    ref: str
    tool: str
    arguments: Mapping[str, object]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class SpokenLine:
    """Text of the person, or of the agent that handed on a task."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelReply:
    """
    What a model said at once.

    ``raw`` is its content as the API named ``api`` gave it, JSON values; ``finish`` why it ended.
    """

    text: str
    calls: tuple[AskedCall, ...]
    api: str
    raw: Sequence[Mapping[str, object]]
    finish: str = ""


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """What a call came to, as the model reads it."""

    ref: str
    text: str
    ok: bool = True


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to all calls of one reply, in their order."""

    items: tuple[CallAnswer, ...]


Piece = SpokenLine | ModelReply | Answers


@dataclass(slots=True)
class Dialogue:
    """
    What was said so far, oldest first.

    >>> talk = Dialogue()
    >>> talk.say("look"); talk.due
    True
    >>> talk.add(ModelReply("", (AskedCall("c1", "read", {}),), "chat", ())); talk.due
    False
    >>> talk.say("go on"); [type(piece).__name__ for piece in talk.pieces]
    ['SpokenLine', 'ModelReply', 'Answers', 'SpokenLine']
    """

    pieces: list[Piece] = field(default_factory=list)

    @property
    def waiting(self) -> tuple[AskedCall, ...]:
        """The calls of the last reply that nobody has answered yet."""
        last = self.pieces[-1] if self.pieces else None
        return last.calls if isinstance(last, ModelReply) else ()

    @property
    def due(self) -> bool:
        """Whether it is the model's turn to speak."""
        return bool(self.pieces) and not isinstance(self.pieces[-1], ModelReply)

    def say(self, text: str) -> None:
        """Add what a person, or a calling agent, says; calls that were stopped are answered."""
        self.settle()
        self.pieces.append(SpokenLine(text))

    def settle(self) -> None:
        """Answer the calls that were asked for and whose turn was stopped."""
        if self.waiting:
            answers = (CallAnswer(call.ref, STOPPED, ok=False) for call in self.waiting)
            self.pieces.append(Answers(tuple(answers)))

    def answer(self, results: Sequence[Result]) -> None:
        """Add the results of the calls of the last reply; without such calls they are said."""
        if self.waiting:
            pairs = zip(self.waiting, results, strict=True)
            self.pieces.append(
                Answers(tuple(CallAnswer(c.ref, r.text, r.outcome == "done") for c, r in pairs))
            )
        elif results:
            self.say("\n".join(result.text for result in results))

    def add(self, reply: ModelReply) -> None:
        """Add what the model said; a reply without any content leaves nothing."""
        if reply.raw or reply.text or reply.calls:
            self.pieces.append(reply)
