"""`broker revoke`: the person at another terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from broker.budgets.sqlite import SqliteStore
from broker.home import Home
from broker.service.client import SOCKET_VARIABLE
from broker.session import Session
from tests.console import COMMAND, Console
from tests.sessionkit import Bench

BROKER = f"'{sys.executable}' -c 'from broker.cli.main import main; main()'"
# An agent that asks until it is refused.
AGENT = f"""
touch begun
while {BROKER} check Read file_path=a.py >said 2>&1; do sleep 0.3; done
"""


@pytest.fixture
def kept(tmp_path: Path, broker_home: Path) -> Bench:
    """A bench in the home that the command uses."""
    return Bench(tmp_path / "b", Home.find({"BROKER_HOME": str(broker_home)}))


def refused_by(kept: Bench, session: Session) -> str:
    """Let a session read, and return the caveat that refused, or nothing."""
    found = session.decide("Read", {"file_path": "src/a.py"}, cwd=str(kept.workspace)).refusal
    return "" if found is None else found.caveat


def test_a_session_is_revoked_by_how_its_name_begins(broker: Console, kept: Bench) -> None:
    """It is the root that is in force, told with the session; a second time changes nothing."""
    session = kept.open()
    assert refused_by(kept, session) == ""
    said = broker("revoke", session.sid[:8], "--reason", "wrong  folder")
    assert (said.code, said.err) == (0, "")
    assert said.out == f"revoked: ticket {session.ticket.id} of session {session.sid}\n"
    assert refused_by(kept, session) == "revoked"
    again = broker("revoke", session.sid[:8], "--reason", "other", "--json")
    assert again.json() == {
        "ticket": session.ticket.id,
        "session": session.sid,
        "new": False,
        "shared": False,
    }
    said = broker("receipt", session.sid[:8])
    assert f"ticket {session.ticket.id}, by the operator: wrong folder" in said.out


@pytest.mark.parametrize("command", [("revoke",), ("ticket", "revoke")])
def test_one_ticket_is_revoked_by_its_id(
    broker: Console, kept: Bench, command: tuple[str, ...]
) -> None:
    """A subagent's ticket stops, and the session goes on."""
    session = kept.open()
    child = session.delegate(["calls=2"], holder="agent:x:1")
    said = broker(*command, child.id, "--reason", "enough")
    assert (said.code, said.err) == (0, "")
    said = broker(*command, "0" * 16, "--reason", "a slip")
    assert (said.code, "is it right?" in said.err) == (0, True)
    answer = session.decide(
        "Read", {"file_path": "src/a.py"}, actor="agent:x:1", cwd=str(kept.workspace)
    )
    assert answer.refusal is not None
    assert answer.refusal.caveat == "revoked"
    assert refused_by(kept, session) == ""


def test_a_store_of_shared_counts_is_told_too(broker: Console, kept: Bench, tmp_path: Path) -> None:
    """Where counts are shared, other machines find the revocation there."""
    path = tmp_path / "counts" / "file"
    kept.home.config.mkdir(parents=True, mode=0o700, exist_ok=True)
    file = kept.home.config / "broker.toml"
    file.write_text(f'[budget]\nurl = "sqlite://{path}"\n', encoding="utf-8")
    file.chmod(0o600)
    session = kept.open()
    said = broker("revoke", session.ticket.id, "--reason", "enough", "--json")
    assert said.json()["shared"] is True  # type: ignore[index]  # a document of ours
    found = SqliteStore(path, 1.0).revoked(session.ticket.line)
    assert found is not None
    assert found.reason == "enough"


def test_what_revokes_nothing_is_bad_input(
    broker: Console, kept: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No such session, one that is over, no reason, and a run that would revoke by itself."""
    session = kept.open()
    for words in (
        ("nosuch", "--reason", "x"),
        (session.sid, "--reason", "  "),
        (session.sid, "--reason", "a\x1b"),
        (session.sid, "--reason", "x" * 1_001),
        (session.sid,),
    ):
        said = broker("revoke", *words)
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), words
    monkeypatch.setenv(SOCKET_VARIABLE, "/x")
    assert "another terminal" in broker("revoke", session.sid, "--reason", "x").err
    monkeypatch.delenv(SOCKET_VARIABLE)
    session.seal()
    assert "is over" in broker("revoke", session.sid, "--reason", "x").err
    assert not kept.home.revoked.exists()


def test_a_run_at_another_terminal_stops_at_its_next_call(tmp_path: Path) -> None:
    """A running agent's calls are allowed until the person revokes, and then none is."""
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "a.py").write_text("a\n", encoding="utf-8")
    environ = {**os.environ, "BROKER_HOME": str(tmp_path / "home")}
    command = [*COMMAND, "run", "--no-record", "--scope", "calls=500", "--", "sh", "-c", AGENT]
    run = subprocess.Popen(command, cwd=workspace, env=environ, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while not (workspace / "said").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    (sid,) = os.listdir(tmp_path / "home" / "state" / "sessions")
    done = subprocess.run(
        [*COMMAND, "revoke", sid[:6], "--reason", "enough"], env=environ, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("revoked: ticket ")
    told = run.communicate(timeout=60)[1].decode()
    assert "refused (revoked)" in (workspace / "said").read_text(encoding="utf-8")
    assert "1 refused (revoked 1)" in told
