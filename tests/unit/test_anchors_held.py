"""Whether the ledger is still what outside anchors have seen of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.anchors.anchor import AnchorError
from broker.anchors.configured import lines_of_chain
from broker.anchors.evidence import LEDGER, Attestations
from broker.anchors.git import GitRemote
from broker.anchors.held import Holding, ledger_held
from broker.anchors.witness import Witness
from broker.errors import Break, BrokerError
from broker.home import Home
from tests.anchorkit import Log, WitnessServer, bare_remote


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A fresh home."""
    return Home.find({"BROKER_HOME": str(tmp_path / "home")})


@pytest.fixture
def anchor(tmp_path: Path) -> GitRemote:
    """A remote that holds the first five rows."""
    made = GitRemote("g", bare_remote(tmp_path / "r.git"), "receipts", tmp_path / "mine.git")
    made.submit(Log(9).note(5), Log(9).grown(5))
    return made


def put(home: Home, log: Log) -> None:
    """Write the rows of a ledger."""
    path = lines_of_chain(home, LEDGER)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(row + b"\n" for row in log.lines))
    path.chmod(0o600)


def fault(home: Home, anchor: GitRemote | Witness) -> BrokerError:
    """Return what is wrong with what an anchor holds."""
    (held,) = ledger_held(home, [anchor], [Log(0).key.public])
    assert held.fault is not None
    return held.fault


def test_a_ledger_that_grew_is_what_the_anchor_has_seen(home: Home, anchor: GitRemote) -> None:
    """As many rows or more, of which the first are those that were anchored."""
    for rows in (5, 9):
        put(home, Log(rows))
        assert list(ledger_held(home, [anchor], [Log(0).key.public])) == [Holding("g", 5)]


@pytest.mark.parametrize("rows", [0, 4])
def test_a_ledger_that_was_cut_or_deleted(home: Home, anchor: GitRemote, rows: int) -> None:
    """Fewer rows than an anchor holds, or no ledger at all, is a break whatever else is gone."""
    if rows:
        put(home, Log(rows))
    found = fault(home, anchor)
    assert isinstance(found, Break)
    assert found.reason == "anchor_missing"
    assert f"holds 5 rows of the ledger, and {rows} are left here" in found.message


def test_a_ledger_that_was_forked(home: Home, anchor: GitRemote) -> None:
    """Other rows in the place of those that were anchored are a break."""
    log = Log(9)
    log.lines[2] = b"rewritten"
    put(home, log)
    found = fault(home, anchor)
    assert isinstance(found, Break)
    assert found.reason == "anchor"


def test_a_checkpoint_of_somebody_else(home: Home, tmp_path: Path) -> None:
    """What others pushed under our name and another key does not count for ours."""
    made = GitRemote("g", bare_remote(tmp_path / "r2.git"), "receipts", tmp_path / "mine2.git")
    other = Log(9, bytes(range(1, 33)))
    made.submit(other.note(5), other.grown(5))
    put(home, Log(9))
    assert isinstance(fault(home, made), AnchorError)


def test_a_witness_is_believed_by_its_evidence(home: Home) -> None:
    """Who keeps nothing to be asked for counts by what it answered, and only as long as it fits."""
    log = Log(9)
    put(home, log)
    with WitnessServer(log.key.public) as server:
        witness = Witness("w", server.url, server.vkey)
        assert isinstance(fault(home, witness), AnchorError)
        kept = Attestations(home)
        note = kept.keep_note(LEDGER, 5, log.note(5))
        kept.keep(note, "w", witness.submit(log.note(5), log.grown(5)))
        assert list(ledger_held(home, [witness], [log.key.public])) == [Holding("w", 5)]
        kept.keep(note, "w", b"something else")
        assert isinstance(fault(home, witness), Break)


def test_one_that_is_away_keeps_no_other_back(home: Home, anchor: GitRemote) -> None:
    """Each anchor is told of by itself."""
    put(home, Log(9))
    away = GitRemote("away", "/nowhere.git", "receipts", home.state / "x.git")
    first, second = ledger_held(home, [away, anchor], [Log(0).key.public])
    assert isinstance(first.fault, AnchorError)
    assert second == Holding("g", 5)
