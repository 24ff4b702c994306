"""The anchors that a configuration names, and what is queued for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.anchors.configured import anchors, hand_in_all, lines_of_chain, queue
from broker.anchors.evidence import LEDGER, Attestations
from broker.anchors.git import GitRemote
from broker.anchors.timestamp import Authority
from broker.anchors.witness import Witness
from broker.config import AnchorSetting
from broker.errors import BrokerError
from broker.home import Home
from tests.anchorkit import Log, bare_remote


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A fresh home."""
    return Home.find({"BROKER_HOME": str(tmp_path / "home")})


def put(path: Path, content: bytes) -> None:
    """Write a file as the broker does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o600)


def test_each_kind_is_made(home: Home) -> None:
    """Settings become the anchor they name; roots are relative to the configuration."""
    git, tsa, witness = anchors(
        [
            AnchorSetting("g", "git", {"remote": "r"}),
            AnchorSetting("t", "rfc3161", {"url": "u", "roots": "roots.pem"}),
            AnchorSetting("w", "witness", {"url": "u", "vkey": "v"}),
        ],
        home,
    )
    assert isinstance(git, GitRemote)
    assert git.branch == "receipts"
    assert isinstance(tsa, Authority)
    assert tsa.roots == home.config / "roots.pem"
    assert isinstance(witness, Witness)


def test_sessions_and_the_ledger_are_queued(home: Home) -> None:
    """The newest checkpoints are copied with the number of lines they cover; none is no fault."""
    log = Log(9)
    queue(home, ["s1"])
    assert Attestations(home).chains() == []
    put(home.checkpoints / "s1", log.note(3, "receipt/s1"))
    put(home.ledger / "checkpoint", log.note(5))
    queue(home, ["s1", "s2"])
    assert Attestations(home).notes("s1")[0].size == 3
    assert Attestations(home).notes(LEDGER)[0].note == log.note(5)


def test_what_is_no_checkpoint_is_not_queued(home: Home) -> None:
    """A file of another form is told."""
    put(home.checkpoints / "s1", b"no note")
    with pytest.raises(BrokerError):
        queue(home, ["s1"])


def test_the_ledger_grows_at_an_anchor(home: Home, tmp_path: Path) -> None:
    """Checkpoint after checkpoint of the ledger is handed in, each grown from the one before."""
    log = Log(9)
    put(lines_of_chain(home, LEDGER), b"".join(line + b"\n" for line in log.lines))
    settings = [AnchorSetting("g", "git", {"remote": bare_remote(tmp_path / "r.git")})]
    for size in (2, 5, 9):
        put(home.ledger / "checkpoint", log.note(size))
        queue(home, [])
        (handed,) = hand_in_all(home, settings)
        assert (handed.of, handed.size, handed.fault) == (LEDGER, size, "")
    assert list(hand_in_all(home, settings)) == []
