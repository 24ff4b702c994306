"""`broker doctor` says whether the broker can run here."""

from __future__ import annotations

from pathlib import Path

from tests.console import Console


def test_able(broker: Console) -> None:
    """Where nothing is bad it is 0, and every finding is a line."""
    said = broker("doctor")
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith("\nthe broker can run here\n")
    document = broker("doctor", "--json").json()
    assert document["able"] is True
    assert len(said.out.splitlines()) == len(document["findings"]) + 2


def test_not_able(broker: Console, broker_home: Path) -> None:
    """Where something is bad it is 1, and says which."""
    (broker_home / "state").mkdir()
    (broker_home / "state").chmod(0o777)
    said = broker("doctor")
    assert said.code == 1
    assert "bad   state" in said.out
    assert broker("doctor", "--json").json()["able"] is False
