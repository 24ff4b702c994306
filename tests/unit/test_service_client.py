"""Asking a running session from Python."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.calls import Decision
from broker.errors import AttenuationError, InputError, StoreError
from broker.service.client import SessionClient, read_decision
from broker.service.protocol import frame
from broker.service.server import Server
from broker.session import Session
from tests.hookkit import Stand
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

INSIDE = {"file_path": "src/a.py"}


@pytest.fixture
def session(bench: Bench) -> Session:
    """A session with a budget."""
    return bench.open(["tools=Read", "calls=500"])


@pytest.fixture
def path(session: Session, tmp_path: Path) -> Iterator[Path]:
    """The socket of a running session."""
    server = Server(session, tmp_path / "s", {})
    server.bind()
    server.start()
    yield tmp_path / "s"
    server.stop()


def caveat(decision: Decision) -> str:
    """Return the caveat that refused, or a dash."""
    return decision.refusal.caveat if decision.refusal else "-"


def test_a_client_gets_the_sessions_decisions(path: Path, session: Session) -> None:
    """Allowed, refused and delegated: what the session decides is what the client returns."""
    client = SessionClient(str(path))
    assert client.decide("Read", INSIDE, cwd=str(session.workspace), call_id="c").allowed
    assert caveat(client.decide("Bash", {"command": "ls"})) == "tools"
    child = client.delegate("calls=1", holder="agent:x", asked_by="main")
    assert child.decide("Read", INSIDE, cwd=str(session.workspace)).allowed
    assert caveat(child.decide("Read", INSIDE, cwd=str(session.workspace))) == "calls"
    client.result("c", ok=False)
    assert client.describe()["allowed"] == 2


def test_a_widening_is_raised_by_name(path: Path) -> None:
    """Errors come back as the classes they were raised as."""
    client = SessionClient(str(path))
    with pytest.raises(AttenuationError) as caught:
        client.delegate("tools=Bash")
    assert caught.value.kind == "tools"
    with pytest.raises(InputError) as malformed:
        client.delegate("path=x")
    assert malformed.value.code == "scope"


def test_a_session_that_is_gone_refuses(tmp_path: Path) -> None:
    """A decision is a refusal, and anything else an error, when nobody answers."""
    client = SessionClient(str(tmp_path / "none"))
    assert caveat(client.decide("Read", INSIDE)) == "session"
    for ask in (client.describe, lambda: client.delegate("calls=1")):
        with pytest.raises(StoreError):
            ask()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        frame(b"")[:2],
        frame(b"{}"),
        frame(b"[]"),
        frame(b'{"ok":1,"decision":"allow","enforcement":"gate"}'),
        frame(b'{"ok":true,"decision":"allow"}'),
        frame(b'{"ok":true,"decision":"allow","enforcement":"total"}'),
        frame(b'{"ok":true,"decision":"refuse","enforcement":"gate"}'),
        frame(b'{"ok":true,"decision":["allow"],"enforcement":["gate"]}'),
        frame(b'{"ok":false,"error":{"code":"store.fatal","message":"x"}}'),
        frame(b'{"ok":false,"error":7}'),
    ],
)
def test_an_answer_that_does_not_say_allow_refuses(tmp_path: Path, answer: bytes) -> None:
    """Only a whole answer that says allow, at a level that exists, allows."""
    with Stand(tmp_path / "s", lambda _: answer):
        assert caveat(SessionClient(str(tmp_path / "s")).decide("Read", INSIDE)) == "session"


def test_a_hung_session_refuses_in_time(tmp_path: Path) -> None:
    """A harness does not wait for ever."""
    with Stand(tmp_path / "s", lambda _: None):
        client = SessionClient(str(tmp_path / "s"), timeout_s=0.2)
        assert caveat(client.decide("Read", INSIDE)) == "session"


@pytest.mark.parametrize("arguments", [{"x": object()}, {"x": float("nan")}, {1: {2: {3, 4}}}])
def test_arguments_that_are_no_json_refuse(path: Path, arguments: object) -> None:
    """What cannot be sent cannot be decided, and does not raise."""
    assert caveat(SessionClient(str(path)).decide("Read", arguments)) == "session"


def test_endless_nesting_refuses(path: Path) -> None:
    """Arguments deeper than any reader goes are refused on this side or that."""
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert not SessionClient(str(path)).decide("Read", deep).allowed


def test_the_environment_names_the_session() -> None:
    """Socket and ticket come from the environment; without a socket there is no session."""
    client = SessionClient.find({"BROKER_SOCKET": "/s", "BROKER_TICKET": "t"})
    assert (client.path, client.ticket) == ("/s", "t")
    assert SessionClient.find({"BROKER_SOCKET": "/s", "BROKER_TICKET": ""}).ticket is None
    for environ in ({}, {"BROKER_SOCKET": ""}):
        with pytest.raises(InputError) as caught:
            SessionClient.find(environ)
        assert caught.value.code == "input.session"


def _spend(path: str, cwd: str, tries: int, counted: multiprocessing.Queue[int]) -> None:
    client = SessionClient(path)
    counted.put(sum(client.decide("Read", INSIDE, cwd=cwd).allowed for _ in range(tries)))


def test_processes_share_the_sessions_budget(bench: Bench, tmp_path: Path) -> None:
    """Four processes of 20 calls each on a session of 50 make exactly 50."""
    session = bench.open(["tools=Read", "calls=50"])
    server = Server(session, tmp_path / "many", {})
    server.bind()
    context = multiprocessing.get_context("fork")
    counted = context.Queue()
    ours = (str(tmp_path / "many"), str(session.workspace), 20, counted)
    workers = [context.Process(target=_spend, args=ours) for _ in range(4)]
    for worker in workers:
        worker.start()
    server.start()
    total = sum(counted.get(timeout=60) for _ in workers)
    for worker in workers:
        worker.join()
    server.stop()
    assert total == 50


def test_an_answer_is_read_strictly() -> None:
    """An answer without its parts is a refusal of its own."""
    whole = {
        "decision": "refuse",
        "enforcement": "none",
        "caveat": "a",
        "value": "b",
        "reason": "c",
    }
    assert caveat(read_decision(whole)) == "a"
    for name in whole:
        assert caveat(read_decision({k: v for k, v in whole.items() if k != name})) == "session"
