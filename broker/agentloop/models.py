"""
The models of one run, asked through their provider.

Decided here: that each agent has a conversation of its own, that its requests are recorded on a
branch of its name, that a person's line is followed for so many turns and no more, and in which
words a provider that does not answer is told of. Not decided here: how a conversation is told over
an API (``dialect``), how the provider is reached (``clients``).

Rules a maintainer keeps: what did not come to its end is no part of a conversation; trying again is
the client's, and each attempt of it is a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from broker.agentloop.conversation import Dialogue, ModelReply
from broker.agentloop.dialect import ApiDialect, Question
from broker.errors import LimitError, ModelError
from broker.harness.outcome import Result
from broker.harness.script import MAIN, ToolCall, Turn
from broker.limits import MAX_AGENT_TURNS
from broker.records.failures import failed
from broker.records.model import Failure, FailureKind
from broker.records.recorder import on_branch

_WELL: Final = frozenset(("end_turn", "tool_use", "stop", "tool_calls", "completed", "pause_turn"))
_MEND: Final[Mapping[FailureKind, str]] = {
    "auth": "check its key",
    "rate_limit": "wait, and say it again",
    "overloaded": "wait, and say it again",
    "context_overflow": "the conversation is longer than this model takes: begin a new session, "
    "or go on with a larger model by `--resume` and `--model`",
    "network": "check the connection, and say it again",
    "aborted": "say it again",
    "provider": "say it again, or take another model",
    "unknown": "say it again, or take another model",
}


def unanswered(failure: Failure, model: str) -> ModelError:
    """
    Return the error that tells a person of a failure, and what may help.

    >>> unanswered(Failure("overloaded", "status 529: Overloaded"), "a/b").message
    '`a/b` did not answer (overloaded): status 529: Overloaded; wait, and say it again'
    """
    said = f"`{model}` did not answer ({failure.kind}): {failure.message}"
    return ModelError(f"{said}; {_MEND[failure.kind]}", kind=failure.kind)


class ProviderClient(Protocol):
    """What asks a provider."""

    def events(self, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Send a request and yield the events of its answer; ``ModelError`` where none comes."""


@dataclass(slots=True)
class ProviderModels:
    """
    Every model of one session.

    Args:
        client: asks the provider.
        dialect: tells the conversation.
        question: returns what every request begins with: the model, the prompt, the tools.
        tell: is given text of an agent as it comes.
        talk: the first agent's conversation.
        turns: how many turns an agent takes for one line of a person, at most.
    """

    client: ProviderClient
    dialect: ApiDialect
    question: Callable[[], Question]
    tell: Callable[[str, str], object]
    talk: Dialogue = field(default_factory=Dialogue)
    turns: int = MAX_AGENT_TURNS

    def model(self, prompt: str | None = None, actor: str = MAIN) -> TalkingModel:
        """Return the model that answers a prompt; without one, that of the first agent."""
        talk = self.talk
        if prompt is not None:
            talk = Dialogue()
            talk.say(prompt)
        return TalkingModel(self, actor, talk, self.turns)


@dataclass(slots=True)
class TalkingModel:
    """One agent's model; ``left`` counts the turns that it may still take."""

    models: ProviderModels
    actor: str
    talk: Dialogue
    left: int

    def turn(self, results: Sequence[Result]) -> Turn | None:
        """
        Tell the results, ask, and return what the model says; None when it has ended.

        Raises:
            ModelError: the provider does not answer.
            LimitError: the agent has taken its turns.
        """
        self.talk.answer(results)
        if not self.talk.due:
            return None
        if not self.left:
            raise LimitError(
                f"`{self.actor}` took {self.models.turns} turns for one line and was stopped: "
                "look at what it does, then let it go on, or give it more by --turns",
                code="limit.turns",
            )
        self.left -= 1
        reply = self._asked()
        self.talk.add(reply)
        if self.talk.due:
            return None  # it had nothing to say
        early = f"\n(the answer ended early: {reply.finish})" if reply.finish not in _WELL else ""
        if early:
            self.models.tell(self.actor, early)
        calls = tuple(ToolCall(c.tool, c.arguments, fault=c.fault) for c in reply.calls)
        return Turn(reply.text + early, calls)

    def _asked(self) -> ModelReply:
        models = self.models
        asked = models.question()
        hearing = models.dialect.gathering()
        with on_branch(self.actor):
            for event in models.client.events(models.dialect.body(asked, self.talk.pieces)):
                if added := hearing.take(event):
                    models.tell(self.actor, added)
        reply = hearing.reply()
        if reply is None:
            raise unanswered(failed("network", "the answer has no end"), asked.model)
        return reply
