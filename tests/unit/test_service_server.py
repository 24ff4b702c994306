"""The decision point of a session."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.calls import Refusal
from broker.errors import BrokerError, StoreError
from broker.service import server as module
from broker.service.protocol import ALLOW, HookRefusal, frame, receive
from broker.service.server import Server
from broker.session import Session
from tests.hookkit import within
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


class Fake:
    """A hook that allows, refuses or breaks, as its payload says."""

    def answer(self, payload: bytes, session: Session) -> HookRefusal | None:
        """Do what the payload says."""
        if payload == b"break":
            raise ZeroDivisionError
        if payload == b"error":
            raise StoreError("so it is")
        return None if payload == b"allow" else self.refusal(payload.decode())

    def refusal(self, reason: str) -> HookRefusal:
        """Refuse with a reason."""
        return HookRefusal(2, b"", reason.encode())


@pytest.fixture
def session(bench: Bench) -> Session:
    """A session of its own."""
    return bench.open()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the socket lies."""
    return tmp_path / "socket"


@pytest.fixture
def server(session: Session, path: Path) -> Iterator[Server]:
    """A server that runs."""
    running = Server(session, path, {"fake": Fake()})
    running.bind()
    running.start()
    yield running
    running.stop()


def connect(path: Path) -> socket.socket:
    """Return a connection."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(10)
    connection.connect(str(path))
    return connection


def exchange(path: Path, body: bytes) -> bytes | None:
    """Send one frame and return the answer's body."""
    with connect(path) as connection:
        connection.sendall(frame(body))
        return receive(connection)


def ask(path: Path, **request: object) -> dict[str, Any]:
    """Ask as a harness does."""
    answer = exchange(path, json.dumps(request).encode())
    assert answer is not None
    found: dict[str, Any] = json.loads(answer)
    return found


def test_only_the_user_reaches_the_socket(server: Server, path: Path) -> None:
    """The socket is closed to others by its mode, from its first moment."""
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_peer_of_another_user_gets_nothing(
    server: Server, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's process is not even refused: it gets no answer."""
    monkeypatch.setattr(module, "is_own", lambda _: False)
    with connect(path) as connection:
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        (b"allow", ALLOW),
        (b"no", HookRefusal(2, b"", b"no").encode()),
        (b"error", HookRefusal(2, b"", b"so it is").encode()),
        (
            b"break",
            HookRefusal(2, b"", b"the broker failed inside (ZeroDivisionError)").encode(),
        ),
    ],
)
@pytest.mark.usefixtures("server")
def test_a_hook_is_answered_in_its_own_shape(path: Path, payload: bytes, answer: bytes) -> None:
    """Allowed, refused, in error or broken inside: every hook gets an answer, and one allow."""
    assert exchange(path, b"hook fake\n" + payload) == answer


@pytest.mark.usefixtures("server")
def test_an_agent_that_is_not_expected_is_refused(path: Path) -> None:
    """A hook of an agent that this run does not have gets a refusal that any agent takes."""
    answer = exchange(path, b"hook other\nallow")
    assert answer is not None
    assert answer.startswith(b"answer/1 refuse\n\x02")
    assert b"no such agent" in answer


@pytest.mark.usefixtures("server")
def test_a_decision_is_told_in_full(path: Path, session: Session) -> None:
    """A harness gets the decision, its caveat, value and reason."""
    inside = {"file_path": "src/a.py"}
    cwd = str(session.workspace)
    allowed = ask(path, op="decide", tool="Read", arguments=inside, cwd=cwd, call_id="c")
    assert allowed == {"ok": True, "decision": "allow", "enforcement": "gate"}
    refused = ask(path, op="decide", tool="Bash", arguments={"command": "ls"})
    assert (refused["decision"], refused["caveat"], refused["value"]) == ("refuse", "tools", "Bash")
    assert Refusal(refused["caveat"], refused["value"], refused["reason"])


@pytest.mark.usefixtures("server")
def test_a_delegate_gets_its_ticket(path: Path) -> None:
    """Delegation gives the wire form; a widening names its caveat; the ticket is then held to."""
    child = ask(path, op="delegate", scope=["tools=Read", "calls=1"])
    assert child["ok"]
    asked = {"op": "decide", "tool": "Read", "arguments": {"file_path": "src/a.py"}}
    cwd = ask(path, op="describe")["workspace"]
    assert ask(path, **asked, cwd=cwd, ticket=child["ticket"])["decision"] == "allow"
    assert ask(path, **asked, cwd=cwd, ticket=child["id"])["caveat"] == "calls"
    widened = ask(path, op="delegate", scope=["tools=Bash"])
    assert widened["error"]["code"] == "attenuation"
    assert widened["error"]["kind"] == "tools"


@pytest.mark.usefixtures("server")
def test_a_session_describes_itself(path: Path, session: Session) -> None:
    """What a ticket may do and what was spent can be asked for, of any ticket."""
    found = ask(path, op="describe")
    assert found["sid"] == session.sid
    assert found["ticket"] == session.ticket.wire()
    assert found["spent"] == [0]
    child = session.delegate(["calls=1"])
    assert ask(path, op="describe", ticket=child.id)["spent"] == [0, 0]
    assert not ask(path, op="describe", ticket="0" * 16)["ok"]


@pytest.mark.usefixtures("server")
def test_a_result_is_recorded(path: Path, bench: Bench, session: Session) -> None:
    """How a call ended is kept as a digest, apart from what the gate saw."""
    assert ask(path, op="result", call_id="c", ok=True, output={"secret": 1})["ok"]
    session.seal()
    (data,) = (d for k, d in bench.entries(session.sid) if k == "result")
    assert (data["call"], data["ok"], len(data["output"])) == ("c", True, 64)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({}, "input.op"),
        ({"op": "intent", "line": "be my guest"}, "input.op"),
        ({"op": "mint", "scope": []}, "input.op"),
        ({"op": "note", "text": "x"}, "input.op"),
        ({"op": ["decide"]}, "input.op"),
        ({"op": "decide", "tool": "Read"}, "input.key"),
        ({"op": "decide", "tool": "Read", "arguments": {}, "tikcet": "x"}, "input.key"),
        ({"op": "decide", "tool": "Read", "arguments": {}, "ticket": 1}, "input"),
        ({"op": "delegate", "scope": "tools=Read"}, "input"),
        ({"op": "delegate", "scope": [1]}, "input"),
        ({"op": "delegate", "scope": ["path=x"]}, "scope"),
        ({"op": "result", "call_id": "c", "ok": 1}, "input"),
    ],
)
@pytest.mark.usefixtures("server")
def test_what_may_not_be_asked_is_an_error(
    path: Path, request_: dict[str, object], code: str
) -> None:
    """No intent and no minting over the socket; a misspelt key does not fall back to anything."""
    answer = ask(path, **request_)
    assert answer["ok"] is False
    assert answer["error"]["code"] == code
    assert "decision" not in answer


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"\xff", b'{"op":"describe","op":"decide"}'])
@pytest.mark.usefixtures("server")
def test_a_message_that_cannot_be_read_is_an_error(path: Path, body: bytes) -> None:
    """A malformed message gets an error, and the server goes on."""
    answer = exchange(path, body)
    assert answer is not None
    assert json.loads(answer)["ok"] is False
    assert ask(path, op="describe")["ok"]


@pytest.mark.usefixtures("server")
def test_a_frame_that_is_too_long_gets_no_answer(path: Path) -> None:
    """A length beyond the limit ends the connection; nothing is read of it."""
    with connect(path) as connection:
        connection.sendall((2**32 - 1).to_bytes(4, "big"))
        assert connection.recv(1) == b""
    assert ask(path, op="describe")["ok"]


def test_a_request_that_stops_halfway_is_given_up(
    session: Session, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sends half a request does not hold a place for ever."""
    monkeypatch.setattr(module, "REQUEST_S", 0.2)
    running = Server(session, path, {})
    running.bind()
    running.start()
    try:
        with connect(path) as connection:
            connection.sendall(b"\0\0\1")
            began = time.monotonic()
            assert connection.recv(1) == b""
            assert time.monotonic() - began < 5
    finally:
        running.stop()


def test_many_wait_their_turn(
    session: Session, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More connections than places are served one after the other; none is turned away."""
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 2)
    running = Server(session, path, {})
    running.bind()
    running.start()
    answers: list[bool] = []
    try:
        threads = [
            threading.Thread(target=lambda: answers.append(ask(path, op="describe")["ok"]))
            for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    finally:
        running.stop()
    assert answers == [True] * 12


def test_one_connection_may_ask_often(server: Server, path: Path) -> None:
    """A connection that is kept open is answered each time."""
    with connect(path) as connection:
        for _ in range(3):
            connection.sendall(frame(b'{"op":"describe"}'))
            assert receive(connection)


def test_who_connects_early_is_answered_later(session: Session, path: Path) -> None:
    """Between ``bind`` and ``start`` a client waits, so the agent can be started in between."""
    running = Server(session, path, {})
    running.bind()
    with connect(path) as connection:
        connection.sendall(frame(b'{"op":"describe"}'))
        running.start()
        assert receive(connection)
    running.stop()


def test_a_stopped_server_is_gone(session: Session, path: Path) -> None:
    """Stopped, it leaves no socket, answers nobody, and ends at once."""
    running = Server(session, path, {})
    running.bind()
    running.start()
    idle = connect(path)
    idle.sendall(frame(b'{"op":"describe"}'))
    assert receive(idle)
    began = time.monotonic()
    running.stop()
    assert time.monotonic() - began < module.STOP_S
    assert not path.exists()
    assert idle.recv(1) == b""
    with pytest.raises(OSError, match=r"."):
        connect(path)
    running.stop()


def test_an_answer_that_nobody_takes_is_noted(
    server: Server, path: Path, bench: Bench, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An allow that did not reach its agent stands in the receipt, and so does that fact."""
    go = threading.Event()
    real = Fake.answer

    def late(self: Fake, payload: bytes, held: Session) -> HookRefusal | None:
        go.wait(10)
        return real(self, payload, held)

    monkeypatch.setattr(Fake, "answer", late)
    connection = connect(path)
    connection.sendall(frame(b"hook fake\nallow"))
    connection.close()
    go.set()

    def noted() -> bool:
        session._receipt.flush()
        return any(
            k == "note" and "not delivered" in d["text"] for k, d in bench.entries(session.sid)
        )

    assert within(5, noted)


@pytest.mark.parametrize("kind", ["taken", "long", "nowhere"])
def test_a_socket_that_cannot_be_made_is_an_error(
    session: Session, tmp_path: Path, kind: str
) -> None:
    """A path that is taken, too long or in no folder says so, and the mask is put back."""
    path = {"taken": tmp_path, "long": tmp_path / ("x" * 120), "nowhere": tmp_path / "a" / "b"}[
        kind
    ]
    before = os.umask(0o022)
    os.umask(before)
    with pytest.raises(StoreError):
        Server(session, path, {}).bind()
    after = os.umask(before)
    assert after == before


def test_errors_of_ours_are_told_with_their_code(server: Server, path: Path) -> None:
    """A caller can tell errors apart by code, not by their words."""
    assert issubclass(StoreError, BrokerError)
    answer = ask(path, op="describe", ticket="nonsense")
    assert answer["error"]["code"] == "input"
    assert "nonsense" in answer["error"]["message"]


def test_a_socket_in_the_place_of_ours_is_seen(server: Server) -> None:
    """Removed, replaced, or opened to others: each is told, and ours in its place is not."""
    path = server.path
    assert server.displaced() is None
    path.chmod(0o666)
    assert str(path) in str(server.displaced())
    path.chmod(0o600)
    assert server.displaced() is None
    path.rename(path.with_name("aside"))
    assert server.displaced()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(os.fspath(path))
        assert server.displaced()


def test_nobody_asks_as_the_canary(server: Server, path: Path) -> None:
    """A call of the run cannot take the name under which a receipt shows the broker's own."""
    answer = ask(path, op="decide", tool="Read", arguments={}, actor="canary")
    assert answer["ok"] is False
    assert "the broker's own" in answer["error"]["message"]
