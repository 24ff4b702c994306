"""Level anchored is what an anchor outside holds of the very lines that are here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.cli.wires import KEY_NAME
from broker.home import Home
from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.disk import DISK, make_private_folder
from broker.receipt.keyring import PUBLIC_KEY
from broker.receipt.merkle import Frontier
from broker.receipt.signing import SigningKey
from tests.anchorkit import bare_remote
from tests.console import Console, Said
from tests.receiptkit import KEY, Scene

SIGNER = SigningKey.of(bytes(range(32)))


@pytest.fixture
def scene(broker_home: Path, tmp_path: Path) -> Scene:
    """An installation with keys, three sessions, a signed one, and a git remote for an anchor."""
    scene = Scene.at(broker_home)
    home = Home.find({"BROKER_HOME": str(broker_home)})
    make_private_folder(home.keys)
    DISK.replace(home.keys / KEY_NAME, KEY.secret)
    DISK.replace(home.keys / PUBLIC_KEY, f"{SIGNER.vkey}\n".encode())
    tree = Frontier()
    for line in scene.lines("s1"):
        tree.append(line)
    make_private_folder(home.checkpoints)
    note = sign_checkpoint(SIGNER, of_receipt("s1"), 12, tree.root())
    DISK.replace(home.checkpoints / "s1", note)
    make_private_folder(home.config)
    remote = bare_remote(tmp_path / "remote.git")
    text = f'[anchors.audit]\nkind = "git"\nremote = "{remote}"\n'
    DISK.replace(home.config / "broker.toml", text.encode())
    return scene


def asked(broker: Console) -> Said:
    """Demand the level."""
    return broker("receipt", "s1", "--verify", "--level", "anchored")


def test_before_anything_was_handed_in(broker: Console, scene: Scene) -> None:
    """A checkpoint that only we hold is not anchored."""
    said = asked(broker)
    assert said.code == 1
    assert "not verified (no_anchor)" in said.out


def test_what_an_anchor_holds(broker: Console, scene: Scene) -> None:
    """Handed in, the level is reached, and who holds it is told; nobody is asked otherwise."""
    assert broker("receipt", "anchor", "s1").code == 0
    said = asked(broker)
    assert said.code == 0, said.out
    assert "    anchored by audit" in said.out
    assert "level anchored, completeness KNOWN" in said.out
    found = broker("receipt", "s1", "--verify", "--level", "anchored", "--json").json()
    assert (found["verdict"]["anchors"], found["verdict"]["anchored_lines"]) == (["audit"], 12)
    assert "level signed" in broker("receipt", "s1", "--verify").out


def test_an_anchor_that_is_not_reached(broker: Console, scene: Scene, tmp_path: Path) -> None:
    """N01: without it the level is not reached; the levels below stand."""
    assert broker("receipt", "anchor", "s1").code == 0
    os.rename(tmp_path / "remote.git", tmp_path / "away.git")
    assert asked(broker).code == 1
    assert broker("receipt", "s1", "--verify").code == 0


def test_evidence_that_is_wrong_is_a_break(
    broker: Console, scene: Scene, broker_home: Path
) -> None:
    """What an anchor is said to hold, and does not, is no matter of a level."""
    assert broker("receipt", "anchor", "s1").code == 0
    place = broker_home / "state" / "anchors" / "s1" / "12.audit"
    DISK.replace(place, b"0" * 40 + b"\n")
    said = asked(broker)
    assert said.code == 1
    assert "not verified (anchor)" in said.out
