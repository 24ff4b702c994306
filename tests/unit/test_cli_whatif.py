"""`broker whatif` says which calls of a run another ticket would have refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.home import Home
from tests.console import Console
from tests.sessionkit import Bench


@pytest.fixture
def sid(tmp_path: Path, broker_home: Path) -> str:
    """A session with four calls that ran and one that did not."""
    bench = Bench(tmp_path, Home.find({"BROKER_HOME": str(broker_home)}))
    session = bench.open(["tools=Read,Edit,Bash", "paths=src/**", "until=1h"], intent="tidy a.py")
    session.decide("Read", {"file_path": "src/a.py"})
    session.decide("Edit", {"file_path": "src/a.py", "old_string": "a", "new_string": "b"})
    session.decide("Edit", {"file_path": "docs/a.md", "old_string": "a", "new_string": "b"})
    session.decide("Bash", {"command": "ls"})
    session.decide("Read", {"file_path": "src/b.py"})
    session.seal()
    return session.sid


def test_the_same_scope_refuses_nothing(broker: Console, sid: str) -> None:
    """Under the scope of the run itself every call passes, though the deadline is long over."""
    said = broker("whatif", "--scope", "tools=Read,Edit,Bash", "--scope", "paths=src/**")
    assert (said.code, said.err) == (0, "")
    assert "0 of 4 calls would be refused" in said.out
    assert "1 refused then and left out" in said.out


def test_a_narrower_scope_names_what_it_refuses(broker: Console, sid: str) -> None:
    """Each refused call stands on a line with its caveat and reason, and the exit code is 1."""
    said = broker("whatif", sid, "--scope", "tools=Read,Edit", "--scope", "calls=2")
    assert said.code == 1
    rows = [line.split()[:3] for line in said.out.splitlines() if line[:1].isdigit()]
    assert rows[:2] == [["6", "Bash", "tools"], ["7", "Read", "calls"]]
    assert "2 of 4 calls would be refused (calls 1, tools 1)" in said.out
    assert "calls left: 0 of 2" in said.out


def test_attempted_calls_can_be_taken_in(broker: Console, sid: str) -> None:
    """With --attempted a call that was refused then is asked about too."""
    said = broker("whatif", sid, "--scope", "tools=Read,Edit,Bash", "--attempted", "--json")
    answer = said.json()
    assert isinstance(answer, dict)
    assert (said.code, answer["refused"], answer["spent"], answer["left"]) == (0, 0, 5, None)
    assert [c["then"] for c in answer["calls"]].count("refuse") == 1
    assert {c["read"] for c in answer["calls"]} == {"receipt"}


def test_what_cannot_be_told_is_undecided(broker: Console, sid: str) -> None:
    """A scope that looks into arguments of which only a digest is left is not decided."""
    said = broker("whatif", "--scope", 'tools=@reads,Bash,Edit(file_path under "src/", …in intent)')
    assert said.code == 2
    assert "of 1 it cannot be told" in said.out


def test_without_a_scope_nothing_is_asked(broker: Console, sid: str) -> None:
    """No scope, a malformed one and an unknown run are bad input."""
    assert broker("whatif").code == 2
    assert broker("whatif", "--scope", "path=x").code == 2
    assert broker("whatif", "nosuch", "--scope", "calls=1").code == 2
