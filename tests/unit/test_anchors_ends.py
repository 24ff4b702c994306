"""What anchors of the ledger show of one session."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.anchors.configured import lines_of_chain, queue
from broker.anchors.ends import anchored_end, answered
from broker.anchors.evidence import LEDGER, Attestations
from broker.errors import Break
from broker.home import Home
from broker.receipt.keyring import public_key
from tests.anchorkit import Log, WitnessServer
from tests.console import Console
from tests.sessionkit import Bench


@pytest.fixture
def home(tmp_path: Path) -> tuple[Home, str]:
    """An installation with a sealed session, whose ledger's checkpoint is to be anchored."""
    bench = Bench(tmp_path)
    session = bench.open()
    session.seal()
    queue(bench.home, [])
    return bench.home, session.sid


def test_an_end_under_an_anchored_checkpoint_is_found(home: tuple[Home, str]) -> None:
    """The last line that the row names is that of the receipt; other sessions have no such row."""
    place, sid = home
    found = anchored_end(place, sid, [public_key(place)])
    assert found is not None
    lines = (place.sessions / sid / "receipt.jsonl").read_bytes().split(b"\n")[:-1]
    assert found.n == len(lines)
    assert anchored_end(place, "another", [public_key(place)]) is None
    assert list(answered(place, found, [])) == []


def test_a_ledger_that_is_another_vouches_for_nothing(home: tuple[Home, str]) -> None:
    """Rows that were changed, cut or deleted since are a break, and so is a stranger's note."""
    place, sid = home
    path = lines_of_chain(place, LEDGER)
    rows = path.read_bytes()
    for changed in (rows.replace(b"complete", b"compleat"), rows[: rows.rindex(b"\n", 0, -1) + 1]):
        path.write_bytes(changed)
        with pytest.raises(Break) as broken:
            anchored_end(place, sid, [public_key(place)])
        assert broken.value.reason == "anchor"
    path.write_bytes(rows)
    Attestations(place).keep_note(LEDGER, 99, Log(99).note(99))
    with pytest.raises(Break) as broken:
        anchored_end(place, sid, [public_key(place)])
    assert broken.value.reason == "checkpoint_sig"


def test_a_witness_of_the_ledger_anchors_its_sessions(
    broker: Console, broker_home: Path, tmp_path: Path
) -> None:
    """A session is anchored by who saw the ledger say that it ended, and by nobody after that."""
    home = Home.find({"BROKER_HOME": str(broker_home)})
    (tmp_path / "ws").mkdir()
    assert broker("run", "--workspace", str(tmp_path / "ws"), "--", "true").code == 0
    home.config.mkdir(parents=True)
    config = home.config / "broker.toml"
    with WitnessServer(public_key(home)) as server:
        config.write_text(
            f'[anchors.w]\nkind = "witness"\nurl = "{server.url}"\nvkey = "{server.vkey}"\n'
        )
        config.chmod(0o600)
        assert broker("receipt", "--verify", "--level", "anchored").code == 1
        assert broker("receipt", "anchor").code == 0
    said = broker("receipt", "--verify", "--level", "anchored")
    assert said.code == 0, said.out
    assert "anchored by w" in said.out
    shutil.rmtree(Attestations(home).folder)
    assert broker("receipt", "--verify", "--level", "anchored").code == 1
