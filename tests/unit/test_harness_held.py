"""The session behind the gate: its own or the live one, the agent is held the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import AttenuationError, InputError
from broker.harness.held import Held, LiveSession, OwnSession
from broker.home import Home
from broker.service.client import SessionClient
from broker.service.server import Server
from broker.session import Session

SCOPE = ["tools=read,write,shell,task,fetch", "writes=src/**", "calls=6"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with one file."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("a = 1\n")
    return tmp_path


@pytest.fixture
def session(workspace: Path) -> Iterator[Session]:
    """An open session, sealed at the end."""
    opened = Session.open(SCOPE, workspace=workspace, home=Home.find(os.environ))
    yield opened
    opened.seal()


@pytest.fixture(params=["own", "live"])
def held(request: pytest.FixtureRequest, session: Session) -> Iterator[Held]:
    """The session as the gate sees it: in this process, or over its socket."""
    if request.param == "own":
        yield OwnSession(session)
        return
    folder = Path(os.environ["BROKER_HOME"])
    server = Server(session, folder / "s", {})
    server.bind()
    server.start()
    yield LiveSession(SessionClient(str(folder / "s")))
    server.stop()


def test_calls_are_decided_under_the_ticket(held: Held) -> None:
    """What the scope permits is allowed, and what it does not is refused by name."""
    path = {"path": "src/a.py"}
    assert held.decide("read", path, call="1", ticket="", actor="main").allowed
    other = {"path": "a.py", "content": ""}
    refusal = held.decide("write", other, call="2", ticket="", actor="main").refusal
    assert refusal is not None
    assert refusal.caveat == "writes"


def test_a_delegate_is_held_to_its_own_ticket(held: Held, session: Session) -> None:
    """A narrower ticket refuses what its parent allows, also for helpers of helpers."""
    one = held.delegate(["tools=read,task"], parent="", asked_by="main", holder="helper-1")
    two = held.delegate(["paths=src"], parent=one, asked_by="helper-1", holder="helper-2")
    shell = {"command": "true"}
    assert held.decide("shell", shell, call="1", ticket="", actor="main").allowed
    for ticket, actor in ((one, "helper-1"), (two, "helper-2")):
        assert not held.decide("shell", shell, call="2", ticket=ticket, actor=actor).allowed
    path = {"path": "b.py"}
    assert held.decide("read", path, call="3", ticket=one, actor="helper-1").allowed
    assert not held.decide("read", path, call="4", ticket=two, actor="helper-2").allowed


def test_a_widening_is_refused_by_name(held: Held) -> None:
    """A delegate that is to get more than its caller holds gets nothing."""
    one = held.delegate(["tools=read"], parent="", asked_by="main", holder="helper-1")
    with pytest.raises(AttenuationError) as caught:
        held.delegate(["tools=read,shell"], parent=one, asked_by="helper-1", holder="helper-2")
    assert caught.value.kind == "tools"


def test_a_malformed_scope_is_an_input_error(held: Held) -> None:
    """A model's scope that cannot be read is an error, and no ticket."""
    with pytest.raises(InputError):
        held.delegate(["tool=read"], parent="", asked_by="main", holder="helper-1")


def test_helpers_spend_the_same_budget(held: Held) -> None:
    """Calls of a helper count against the ticket it was narrowed from."""
    one = held.delegate(["tools=read"], parent="", asked_by="main", holder="helper-1")
    path = {"path": "src/a.py"}
    for number in range(6):
        asked = held.decide("read", path, call=str(number), ticket=one, actor="helper-1")
        assert asked.allowed
    refusal = held.decide("read", path, call="7", ticket="", actor="main").refusal
    assert refusal is not None
    assert refusal.caveat == "calls"


def test_who_called_and_how_it_ended_stands_in_the_receipt(held: Held, session: Session) -> None:
    """The receipt names the helper that called, and whether its call succeeded."""
    one = held.delegate(["tools=read"], parent="", asked_by="main", holder="helper-1")
    held.decide("read", {"path": "src/a.py"}, call="c1", ticket=one, actor="helper-1")
    held.record("c1", ok=False, result="no")
    text = session.receipt_path.read_text()
    assert '"actor":"helper-1"' in text
    assert '"call":"c1","ok":false' in text


def test_what_the_rules_said_and_what_happened_besides_is_recorded(
    held: Held, session: Session
) -> None:
    """The receipt holds the answer of the permission rules, and notes of stopped calls."""
    held.permission("c1", allowed=False, reason="the person said no")
    held.note("call `c2` was stopped")
    session.seal()
    text = session.receipt_path.read_text()
    assert '"answer":"refuse","call":"c1","reason":"the person said no"' in text
    assert "call `c2` was stopped" in text
    assert '"source":"' in text
