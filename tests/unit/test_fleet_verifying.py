"""Verifying a fleet by public keys alone: what was changed, cut or left out is named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from broker.errors import UnverifiableError
from broker.fleet.verifying import installations, jobs_of
from broker.receipt.rotation import rotate
from tests.fleetkit import Fleet, objects
from tests.forwardkit import AUDITOR


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """A store with three sessions of one machine."""
    made = Fleet(tmp_path)
    for calls in (1, 2, 3):
        made.session(calls)
    made.push()
    return made


def test_a_fleet_verifies_without_any_secret(tmp_path: Path) -> None:
    """The receipts of two machines verify with their public keys, in a store of any kind."""
    fleet = Fleet(tmp_path, f"memory://{uuid4().hex}")
    other = fleet.another()
    for bench in (fleet.bench, other):
        fleet.session(bench=bench)
        fleet.session(seals=False, bench=bench)
        fleet.push(bench)
    found = fleet.verify(fleet.key(), fleet.key(other))
    assert sorted(each.state for each in found) == ["OPEN"] * 4 + ["SEALED"] * 2
    assert not any(each.why for each in found)
    assert len({each.installation for each in found}) == 2
    assert all(each.lines for each in found)


def test_a_machine_whose_key_was_not_given(fleet: Fleet) -> None:
    """Without its public key nothing is said to be right, and nothing to be wrong."""
    other = fleet.another()
    fleet.session(bench=other)
    found = fleet.verify(fleet.key(other))
    assert [(each.state, each.code) for each in found] == [
        ("UNVERIFIABLE", "unverifiable.missing_key")
    ]


def _flip(path: Path, place: int = 40) -> None:
    content = bytearray(path.read_bytes())
    content[-place] ^= 1
    path.write_bytes(content)


def _swap_ends(folder: Path) -> None:
    path = objects(folder)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))


ATTACKS: dict[str, Callable[[Path], object]] = {
    "an object of lines is removed": lambda folder: objects(folder)[0].unlink(),
    "all objects are removed": shutil.rmtree,
    "the checkpoints are removed": lambda folder: [
        path.unlink() for path in objects(folder, ".checkpoint")
    ],
    "a byte of the lines is changed": lambda folder: _flip(objects(folder)[-1], 200),
    "a byte of the checkpoint is changed": lambda folder: _flip(objects(folder, ".checkpoint")[-1]),
    "two lines are swapped": _swap_ends,
    "an object is emptied": lambda folder: objects(folder)[0].write_bytes(b""),
    "lines are there twice": lambda folder: shutil.copy(
        objects(folder)[0], folder / "0000000001-0000000002.jsonl"
    ),
    "an object is made huge": lambda folder: os.truncate(objects(folder)[0], 2**34),
    "an object is renamed": lambda folder: objects(folder)[0].rename(
        folder / "0000000009-0000000012.jsonl"
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_change_to_a_session_is_seen(fleet: Fleet, attack: str) -> None:
    """Whoever can write to the store changes a session: it is broken, and the others are not."""
    victim = sorted(fleet.folder().parent.joinpath("sessions").iterdir())[0]
    ATTACKS[attack](victim)
    found = {each.sid: each for each in fleet.verify()}
    assert found[victim.name].state in ("BROKEN", "UNVERIFIABLE"), attack
    assert found.pop(victim.name).why
    assert {each.state for each in found.values()} == {"OPEN", "SEALED"}


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_change_to_the_ledger_is_seen(fleet: Fleet, attack: str) -> None:
    """A ledger that was changed is broken, and its sessions are verified by themselves."""
    ATTACKS[attack](fleet.folder())
    ledger, *sessions = fleet.verify()
    assert (ledger.sid, ledger.state) == ("ledger", "BROKEN"), attack
    assert [each.state for each in sessions] == ["SEALED"] * 3


def test_a_session_that_is_rolled_back_is_seen(tmp_path: Path) -> None:
    """The newest objects of a session are taken away: the ledger knows how it ended."""
    fleet = Fleet(tmp_path)
    session = fleet.session(2, seals=False)
    fleet.push()
    before = fleet.saved() / fleet.folder(session).relative_to(fleet.store)
    session.seal()
    fleet.push()
    assert fleet.states() == [("OPEN", ""), ("SEALED", "")]
    shutil.rmtree(fleet.folder(session))
    shutil.copytree(before, fleet.folder(session))
    assert fleet.states() == [("OPEN", ""), ("BROKEN", "truncated")]


def test_a_session_of_another_machine_in_its_place(fleet: Fleet) -> None:
    """A receipt that is genuine elsewhere is none here."""
    other = fleet.another()
    stranger = fleet.session(bench=other)
    fleet.push(other)
    victim = sorted(fleet.folder().parent.joinpath("sessions").iterdir())[0]
    (theirs,) = fleet.store.glob(f"*/sessions/{stranger.sid}")
    shutil.rmtree(victim)
    shutil.copytree(theirs, victim)
    states = {each.sid: each.state for each in fleet.verify(fleet.key(), fleet.key(other))}
    assert states[victim.name] == "BROKEN"


def test_a_ledger_of_another_machine_in_its_place(fleet: Fleet) -> None:
    """A whole installation under another's name is told as what it is."""
    other = fleet.another()
    fleet.session(bench=other)
    fleet.push(other)
    (theirs,) = [path for path in fleet.store.iterdir() if path != fleet.folder().parent]
    shutil.rmtree(fleet.folder())
    shutil.copytree(theirs / "ledger", fleet.folder())
    ledger = next(
        each
        for each in fleet.verify(fleet.key(), fleet.key(other))
        if each.installation == fleet.folder().parent.name
    )
    assert (ledger.state, ledger.code) == ("BROKEN", "swapped")


def test_a_running_session_is_open(tmp_path: Path) -> None:
    """What runs is verified as far as it is signed, and a session without a row yet is told."""
    fleet = Fleet(tmp_path)
    fleet.session(1)
    fleet.push()
    rows = fleet.saved() / fleet.folder().relative_to(fleet.store)
    fleet.session(1)
    fleet.push()
    shutil.rmtree(fleet.folder())
    shutil.copytree(rows, fleet.folder())
    *_, stranger = fleet.verify()
    assert stranger.state == "SEALED"
    assert "the mirrored ledger does not name it yet" in stranger.warnings


def test_lines_that_no_checkpoint_covers_yet(fleet: Fleet, tmp_path: Path) -> None:
    """A pass that was cut off between lines and checkpoint leaves lines, which are told."""
    session = fleet.session(2, seals=False)
    fleet.push()
    folder = fleet.folder(session)
    noted = int(objects(folder, ".checkpoint")[-1].name.partition(".")[0])
    extra = folder / f"{noted:010}-{noted + 1:010}.jsonl"
    extra.write_bytes(b'{"not": "signed"}\n')
    found = {each.sid: each for each in fleet.verify()}[session.sid]
    assert (found.state, found.lines) == ("OPEN", noted)
    assert any("no checkpoint in the mirror covers" in each for each in found.warnings)


def test_keys_that_were_changed(fleet: Fleet) -> None:
    """After a rotation the key in use now vouches for the whole ledger and for older sessions."""
    home = fleet.bench.home
    rotate(home, at=fleet.bench.clock())
    fleet.session(1)
    fleet.push()
    assert {state for state, _ in fleet.states()} == {"OPEN", "SEALED"}


def test_what_a_person_took_away_is_retired(fleet: Fleet) -> None:
    """A session that was retired with a reason is told as that, and is no break."""
    receipts = fleet.bench.receipts()
    sid = next(iter(receipts.ledger.read().sessions))
    shutil.rmtree(receipts.path(sid).parent)
    receipts.head_path(sid).unlink()
    receipts.ledger.retire(sid, reason="asked to", found="missing", at=fleet.bench.clock())
    fleet.session(1)
    fleet.push()
    found = {each.sid: each for each in fleet.verify()}
    assert (found[sid].state, found[sid].warnings) == ("RETIRED", ("asked to",))


def test_a_forward_secure_session(tmp_path: Path) -> None:
    """Its tags are the auditor's to check; the signature vouches for its lines here too."""
    fleet = Fleet(tmp_path)
    session = fleet.bench.open(("tools=Read",), auditor=AUDITOR.public)
    session.decide("Read", {"file_path": "src/a.py"})
    session.seal()
    fleet.push()
    assert fleet.states() == [("OPEN", ""), ("SEALED", "")]


def test_nothing_to_verify(tmp_path: Path) -> None:
    """A store without a mirror is no success, and what is none of ours is not looked at."""
    fleet = Fleet(tmp_path)
    (fleet.store / "photos").mkdir(parents=True)
    with pytest.raises(UnverifiableError, match="nothing to verify"):
        installations(fleet.target)
    ledger, jobs = jobs_of(fleet.target, "0" * 16, ())
    assert (ledger.state, jobs) == ("BROKEN", [])
