"""What is left of a session, for one that follows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import Break, InputError
from broker.home import Home
from broker.intent import TypedLine
from broker.session import Session
from broker.sessions.following import earlier_session


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """The broker's folders."""
    (tmp_path / "ws").mkdir()
    return Home.find({"BROKER_HOME": str(tmp_path / "home")})


def opened(home: Home, *texts: str) -> Session:
    """Open a session."""
    workspace = home.state.parent.parent / "ws"
    return Session.open(texts, workspace=workspace, home=home, intent=TypedLine("go", "argument"))


def test_calls_are_what_was_not_spent(home: Home) -> None:
    """Every caveat stays, each number of calls is what is left, and an instant stays."""
    session = opened(home, "tools=read,write", "calls=5", "until=2099-01-01T00:00:00Z")
    session.decide("read", {"path": "a"})
    session.delegate(["calls=3", "tools=read"], asked_by="person", holder="main")
    session.decide("read", {"path": "a"})
    session.decide("write", {"path": "a", "content": ""})
    session.seal()
    left = earlier_session(session.sid[:6], home)
    assert left.texts == (
        "tools=read,write",
        "calls=3",
        "until=2099-01-01T00:00:00Z",
        "calls=2",
        "tools=read",
    )
    ticket = session.holds("main")[0]
    assert left.after["ticket"] == ticket.id
    assert left.after["last"] == left.entries[-1].hash
    assert left.entries[-1].kind == "seal"


def test_nothing_is_left_of_a_spent_ticket(home: Home) -> None:
    """A budget that is used up stays used up."""
    session = opened(home, "calls=1")
    session.decide("read", {"path": "a"})
    session.seal()
    assert earlier_session(session.sid, home).texts == ("calls=0",)


def test_a_running_session_is_left_alone(home: Home) -> None:
    """Two processes never spend from one budget twice."""
    session = opened(home, "calls=1")
    with pytest.raises(InputError, match="running"):
        earlier_session(session.sid, home)
    session.seal()
    with pytest.raises(InputError, match="no session"):
        earlier_session("zzz", home)


def test_a_receipt_that_was_changed_leaves_nothing(home: Home) -> None:
    """What is left is read from verified entries alone."""
    session = opened(home, "calls=1")
    session.seal()
    content = session.receipt_path.read_bytes()
    session.receipt_path.write_bytes(content.replace(b"calls=1", b"calls=9"))
    with pytest.raises(Break):
        earlier_session(session.sid, home)


def test_the_next_receipt_names_it(home: Home) -> None:
    """A following session says in its first line which one it follows."""
    session = opened(home, "calls=1")
    session.seal()
    left = earlier_session(session.sid, home)
    following = Session.open(left.texts, workspace=left.workspace, home=home, after=left.after)
    following.seal()
    assert earlier_session(following.sid, home).entries[0].data["previous"] == left.after
