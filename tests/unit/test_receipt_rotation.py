"""Changing the keys: what it changes, and that no moment of a crash loses anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.errors import Break, BrokerError, StoreError, UnverifiableError
from broker.receipt.audit import audit
from broker.receipt.book import Book
from broker.receipt.checkpoint import OF_LEDGER, CheckpointFile
from broker.receipt.keyring import Keyring, archived_key, line_key_path, public_key
from broker.receipt.keyring import signing_key_path as seed_path
from broker.receipt.keys import load_or_create_key
from broker.receipt.ledger import CHECKPOINT_NAME, Ledger
from broker.receipt.rotation import finish, rotate, unfinished
from broker.receipt.signing import load_or_create_signing_key, load_signing_key
from tests.receiptkit import in_child
from tests.sessionkit import Bench
from tests.unit.test_receipt_merkle import tree_hash


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """An installation with one sealed session."""
    return begun(tmp_path)


def begun(place: Path) -> Bench:
    """Return an installation with one sealed session."""
    bench = Bench(place)
    session = bench.open()
    session.decide("Read", {"file_path": "src/a.py"})
    session.seal()
    return bench


def book(bench: Bench) -> Book:
    """Return what the ledger says, read with the key in use."""
    return bench.receipts().ledger.read()


def keyring(bench: Bench) -> Keyring:
    """Return the keys that count."""
    return Keyring.of(bench.key().kid, public_key(bench.home), book(bench).rotations)


def check(bench: Bench) -> None:
    """Check that everything of an installation is in order, and that it goes on."""
    load_signing_key(seed_path(bench.home))
    assert not unfinished(bench.home)
    bench.open().seal()
    ring = keyring(bench)
    for listed in book(bench).sessions.values():
        assert listed.kid in ring.kids
        assert audit(bench.receipts(), listed.sid).state == "SEALED"
    rows = bench.receipts().ledger.path.read_bytes().split(b"\n")[:-1]
    file = CheckpointFile(
        bench.home.ledger / CHECKPOINT_NAME, load_signing_key(seed_path(bench.home)), OF_LEDGER
    )
    found = file.read()
    assert found is not None
    assert (found.size, found.root) == (len(rows), tree_hash(rows))


def test_a_rotation_changes_both_keys(bench: Bench) -> None:
    """Both keys are new, the old ones are archived, the old seed is nowhere any more."""
    key, signing = bench.key(), load_signing_key(seed_path(bench.home))
    changed = rotate(bench.home, bench.clock())
    fresh = load_signing_key(seed_path(bench.home))
    assert (changed.kid_from, changed.vkey_from) == (key.kid, signing.vkey)
    assert (changed.kid_to, changed.vkey_to) == (bench.key().kid, fresh.vkey)
    assert key.kid != bench.key().kid
    assert signing.seed != fresh.seed
    assert archived_key(bench.home, key.kid) == key
    assert public_key(bench.home) == fresh.public
    files = [path for path in bench.home.data.rglob("*") if path.is_file()]
    assert not any(signing.seed in path.read_bytes() for path in files)
    assert {path.stat().st_mode & 0o077 for path in files} == {0}
    check(bench)


def test_many_rotations_form_one_chain(bench: Bench) -> None:
    """After each rotation every receipt of before verifies, and each key vouches for its time."""
    names = [bench.key().kid]
    for _ in range(3):
        names.append(rotate(bench.home, bench.clock()).kid_to)
        check(bench)
    ring = keyring(bench)
    assert list(ring.kids) == names
    assert len(ring.vouching(names[0])) == 4
    assert ring.vouching(names[-1]) == (public_key(bench.home),)


def test_the_first_thing_can_be_a_rotation(tmp_path: Path) -> None:
    """An installation without any session can change its keys."""
    bench = Bench(tmp_path)
    with pytest.raises(UnverifiableError):
        rotate(bench.home, bench.clock())
    bench.open().seal()
    bench = Bench(tmp_path / "other")
    load_or_create_key(line_key_path(bench.home))
    load_or_create_signing_key(seed_path(bench.home))
    rotate(bench.home, bench.clock())
    check(bench)


@pytest.mark.parametrize("damage", ["row", "checkpoint"])
def test_a_broken_ledger_is_not_handed_on(damage: str, bench: Bench) -> None:
    """What does not verify, or is not what was signed last, gets no new keys."""
    key, path = bench.key(), bench.receipts().ledger.path
    if damage == "row":
        path.write_bytes(path.read_bytes().replace(b'"level":"signed"', b'"level":"sigmed"'))
    else:
        signing = load_signing_key(seed_path(bench.home))
        (bench.home.ledger / CHECKPOINT_NAME).unlink()
        CheckpointFile(bench.home.ledger / CHECKPOINT_NAME, signing, OF_LEDGER).put(2, bytes(32))
    with pytest.raises(BrokerError):
        rotate(bench.home, bench.clock())
    assert bench.key() == key
    assert not unfinished(bench.home)


def test_bad_randomness_changes_nothing(bench: Bench) -> None:
    """A source that gives equal bytes makes no key, and the next start clears up."""
    key = bench.key()
    with pytest.raises(UnverifiableError):
        rotate(bench.home, bench.clock(), randomness=bytes)
    assert finish(bench.home)
    assert bench.key() == key
    check(bench)


def test_nothing_to_finish(bench: Bench) -> None:
    """Without a rotation that was cut off nothing is done."""
    assert not finish(bench.home)
    check(bench)


def killed(bench: Bench, at: int) -> bool:
    """Rotate in a process that dies before its ``at``-th renaming; whether it died."""

    def act() -> None:
        real, left = os.rename, at

        def rename(source: object, target: object) -> None:
            nonlocal left
            if left == 0:
                os._exit(9)
            left -= 1
            real(source, target)  # type: ignore[arg-type]  # whatever is given is handed on

        os.rename = rename  # type: ignore[assignment]  # of this process alone
        rotate(bench.home, bench.clock())

    return in_child(act) == 9


def test_no_moment_of_a_crash_loses_a_key(tmp_path: Path) -> None:
    """Killed before any of its renamings, a rotation is finished or taken back afterwards."""
    ended: list[bool] = []
    for at in range(100):
        bench = begun(tmp_path / str(at))
        before = bench.key().kid
        if not killed(bench, at):
            break
        # What a start does first; sometimes only by opening a session.
        if at % 2:
            finish(bench.home)
        else:
            bench.open().seal()
        ended.append(bench.key().kid != before)
        check(bench)
        assert ended[-1] == bool(book(bench).rotations)
    assert ended == sorted(ended)  # once the row is there, it counts
    assert set(ended) == {False, True}
    assert len(ended) >= 8


def test_a_broken_ledger_is_not_finished(bench: Bench) -> None:
    """Where nobody can tell which keys are in use, both stay where they are."""
    assert killed(bench, 7)
    path = bench.receipts().ledger.path
    path.write_bytes(path.read_bytes().replace(b'"kind":"end"', b'"kind":"emd"'))
    before = sorted(bench.home.keys.rglob("*"))
    with pytest.raises(Break):
        finish(bench.home)
    assert sorted(bench.home.keys.rglob("*")) == before
    with pytest.raises(BrokerError):
        bench.open()


def test_a_full_disk_leaves_what_was_in_use(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the row cannot be written, the keys in use stay in use."""

    def full(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    key = bench.key()
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "rotate", full)
        with pytest.raises(StoreError):
            rotate(bench.home, bench.clock())
    assert unfinished(bench.home)
    bench.open().seal()
    assert bench.key() == key
    check(bench)
