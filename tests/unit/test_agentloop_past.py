"""A conversation from the records of an earlier session."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from broker.agentloop.conversation import ModelReply, SpokenLine
from broker.agentloop.dialect import ModelQuery
from broker.agentloop.messages import MessagesDialect
from broker.agentloop.past import kept_conversation
from broker.capabilities.clock import FakeClock
from broker.capabilities.memory import MemoryFiles
from broker.errors import InputError
from broker.loopback.anthropic import Anthropic
from broker.loopback.script import Say
from broker.loopback.server import events
from broker.records.recorder import Recorder, on_branch
from broker.records.store import KeptRecords, RecordStore
from broker.records.transport import recording_transport

WIRE = Anthropic()
STREAM = events(WIRE.stream(WIRE.write(Say("Hello."), "main-0", "m")))


def recorded(*turns: tuple[str, str, bytes], bodies: bool = True) -> KeptRecords:
    """Record questions of agents and their answers, and return the records."""
    store = RecordStore(MemoryFiles().below("/r"))
    recorder = Recorder(store, FakeClock(), bodies=bodies)
    answers: list[bytes] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        head = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=head, content=answers.pop(0))

    with httpx2.Client(
        transport=recording_transport(httpx2.MockTransport(answer), recorder)
    ) as client:
        for branch, text, said in turns:
            body: Any = MessagesDialect().body(ModelQuery("m", "p", ()), [SpokenLine(text)])
            answers.append(said)
            with on_branch(branch):
                client.post("https://p.test/v1/messages", content=json.dumps(body).encode())
    return store.read()


def test_the_last_question_and_its_answer_are_the_conversation() -> None:
    """What helpers said is no part of it."""
    kept = recorded(("main", "one", STREAM), ("helper-1", "other", STREAM))
    said, reply = kept_conversation(kept, "s").pieces
    assert said == SpokenLine("one")
    assert isinstance(reply, ModelReply)
    assert reply.text == "Hello."


def test_an_answer_that_broke_off_is_no_part_of_it() -> None:
    """The question is there, to be asked again."""
    kept = recorded(("main", "one", STREAM[:200]))
    talk = kept_conversation(kept, "s")
    assert talk.pieces == [SpokenLine("one")]
    assert talk.due


def test_secrets_stay_hidden() -> None:
    """What was cleared of a secret is gone on with without it."""
    kept = recorded(("main", "API_KEY=hunter2secret", STREAM))
    said = kept_conversation(kept, "s").pieces[0]
    assert isinstance(said, SpokenLine)
    assert "hunter2" not in said.text


@pytest.mark.parametrize("turns", [(), (("helper-1", "x", STREAM),)])
def test_no_conversation_is_said(turns: Any) -> None:
    """A session in which nothing was asked has nothing to go on with."""
    with pytest.raises(InputError, match="no conversation"):
        kept_conversation(recorded(*turns), "s")


def test_bodies_that_were_not_kept_are_said() -> None:
    """Nothing is guessed where the switch left bodies out."""
    with pytest.raises(InputError, match="BROKER_PROVIDER_AUDIT"):
        kept_conversation(recorded(("main", "one", STREAM), bodies=False), "s")
