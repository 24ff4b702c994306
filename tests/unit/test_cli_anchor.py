"""`broker receipt anchor` hands in what is pending, and says what is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli.wires import KEY_NAME
from broker.home import Home
from broker.receipt import Receipts, load_or_create_key
from tests.anchorkit import Log, bare_remote
from tests.console import Console

AT = 1_767_225_600_000_000_000


@pytest.fixture
def home(broker_home: Path) -> Home:
    """An installation with a session that has a checkpoint."""
    found = Home.find({"BROKER_HOME": str(broker_home)})
    receipts = Receipts(found, load_or_create_key(found.keys / KEY_NAME))
    receipts.create("abc1", opening={}, at=AT).close()
    found.checkpoints.mkdir(parents=True, exist_ok=True)
    log = Log(3)
    note = found.checkpoints / "abc1"
    note.write_bytes(log.note(3, "receipt/abc1"))
    note.chmod(0o600)
    return found


def configure(home: Home, text: str) -> None:
    """Write the configuration."""
    home.config.mkdir(parents=True, exist_ok=True)
    path = home.config / "broker.toml"
    path.write_text(text)
    path.chmod(0o600)


def test_without_an_anchor_there_is_nothing_to_do(broker: Console, home: Home) -> None:
    """That is told with the way to mend it, and is no success."""
    said = broker("receipt", "anchor")
    assert said.code == 2
    assert "no anchor is configured" in said.err


def test_a_checkpoint_is_handed_in_once(broker: Console, home: Home, tmp_path: Path) -> None:
    """The first call hands it in, the next has nothing left."""
    remote = bare_remote(tmp_path / "remote.git")
    configure(home, f'[anchors.audit]\nkind = "git"\nremote = "{remote}"\n')
    said = broker("receipt", "anchor", "abc1")
    assert said.code == 0, said.err
    assert "taken   abc1, 3 lines, by audit" in said.out
    assert broker("receipt", "anchor", "abc1").out == "everything is anchored already\n"
    assert broker("receipt", "anchor", "--json").json() == {"anchored": True, "handed_in": []}


def test_what_is_left_is_told(broker: Console, home: Home, tmp_path: Path) -> None:
    """An anchor that is away leaves the checkpoint for another time, with exit code 2."""
    gone = tmp_path / "gone.git"
    configure(home, f'[anchors.audit]\nkind = "git"\nremote = "{gone}"\n')
    said = broker("receipt", "anchor", "abc1")
    assert said.code == 2
    assert "left    abc1, 3 lines, by audit: " in said.out
    again = broker("receipt", "anchor", "--json")
    assert again.code == 2
    assert again.json()["handed_in"][0]["anchor"] == "audit"
