"""The ledger comes to be once, takes rows from anybody, and goes missing loudly."""

from __future__ import annotations

import errno
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.home import Home
from broker.receipt.disk import Disk
from broker.receipt.form import LEDGER
from broker.receipt.head import HEAD_BYTES, Head, HeadForm
from broker.receipt.keys import Key
from broker.receipt.ledger import Ledger
from broker.receipt.ledgermark import read_mark
from tests.receiptkit import AT, KEY, Faults, in_child, new_receipts, outcome

NEW = Key.of(bytes(range(1, 33)))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home where nothing has begun yet."""
    return Home.find({"BROKER_HOME": str(tmp_path)})


@pytest.fixture
def ledger(home: Home) -> Ledger:
    """A ledger of its first row."""
    made = Ledger(home, KEY)
    made.ready(AT)
    return made


def add(ledger: Ledger, *sids: str, key: Key = KEY) -> None:
    """Write `begin` rows."""
    for sid in sids:
        ledger.begin(sid, kid=key.kid, first="a" * 64, level="mac", forward=False, at=AT)


def test_it_comes_to_be_with_its_mark(home: Home, ledger: Ledger) -> None:
    """Its files are for the owner alone, and the mark among the keys names its first row."""
    book = ledger.read()
    assert (book.n, book.sessions) == (1, {})
    assert read_mark(ledger.mark_path) == book.first == book.last
    for path in (ledger.path, ledger.head_path, ledger.mark_path):
        assert path.stat().st_mode & 0o777 == 0o600
    assert home.ledger.stat().st_mode & 0o777 == 0o700


def test_before_it_there_is_nothing_to_verify(home: Home) -> None:
    """Where nothing has begun, reading is no success and no break, and makes nothing."""
    assert outcome(Ledger(home, KEY).read) == "unverifiable.nothing"
    assert list(home.state.parent.iterdir()) == []


def test_one_row_is_one_durable_append(tmp_path: Path) -> None:
    """A row costs one write and one sync of each file, however long the ledger is."""
    faults = Faults()
    ledger = Ledger(Home.find({"BROKER_HOME": str(tmp_path)}), KEY, system=faults.disk())
    ledger.ready(AT)
    for number in range(40):
        faults.calls.clear()
        ledger.ready(AT)
        add(ledger, f"s{number}")
        assert faults.calls == ["write", "sync", "pwrite", "sync"]


def test_processes_and_threads_write_one_ledger(ledger: Ledger) -> None:
    """Rows of four processes at once are all there, each once."""
    children = []
    for who in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                add(ledger, *(f"s{who}-{i}" for i in range(15)))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert ends == [0] * 4
    assert len(ledger.read().sessions) == 60


def test_two_makers_make_one(home: Home) -> None:
    """Processes that begin the first sessions at the same time find one ledger."""
    receipts = partial(new_receipts, home.state.parent)
    children = []
    for who in range(8):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                receipts().create(f"s{who}", opening={}, at=AT).close()
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert ends == [0] * 8
    assert sorted(receipts().ledger.read().sessions) == [f"s{who}" for who in range(8)]


@pytest.mark.parametrize("left", ["head", "empty", "fragment", "no mark"])
def test_a_ledger_that_a_crash_left_half_made_is_made(home: Home, left: str) -> None:
    """What a crash leaves before the first session is no loss, and the next start goes on."""
    ledger = Ledger(home, KEY)
    ledger.ready(AT)
    first = ledger.path.read_bytes()
    ledger.mark_path.unlink()
    if left != "no mark":
        shutil.rmtree(ledger.path.parent)
        ledger.path.parent.mkdir(mode=0o700)
        ledger.head_path.touch(mode=0o600)
        ledger.head_path.write_bytes(b"")
    if left in ("empty", "fragment"):
        ledger.path.touch(mode=0o600)
        ledger.path.write_bytes(first[: 20 * (left == "fragment")])
    if left != "no mark":
        ledger.head_path.write_bytes(HeadForm("ledger", KEY, LEDGER).first())
        assert outcome(ledger.read) == "unverifiable.nothing"
    ledger.ready(AT)
    add(ledger, "s1")
    assert ledger.read().n == 2
    assert read_mark(ledger.mark_path) == ledger.read().first


@pytest.mark.parametrize("gone", ["rows", "head", "both", "state"])
def test_a_ledger_that_is_gone_lets_no_session_begin(home: Home, ledger: Ledger, gone: str) -> None:
    """Its mark says that there was one: nothing begins, and the error says how to go on."""
    add(ledger, "s1")
    if gone == "state":
        shutil.rmtree(home.state)
    if gone in ("rows", "both"):
        ledger.path.unlink()
    if gone in ("head", "both"):
        ledger.head_path.unlink()
    with pytest.raises(StoreError, match="adopt --ledger") as caught:
        new_receipts(home.state.parent).create("s2", opening={}, at=AT)
    assert caught.value.code == "store.ledger"
    assert not (home.sessions / "s2").exists()
    assert outcome(ledger.read) == "no_ledger"


def test_sessions_without_a_ledger_are_a_loss_too(home: Home, ledger: Ledger) -> None:
    """Where the mark is gone as well, a session still says that there was a ledger."""
    new_receipts(home.state.parent).create("s1", opening={}, at=AT).close()
    shutil.rmtree(home.ledger)
    ledger.mark_path.unlink()
    assert outcome(lambda: ledger.ready(AT)) == "store.ledger"
    assert outcome(ledger.read) == "no_ledger"


def test_another_ledger_in_its_place_is_not_it(home: Home, ledger: Ledger, tmp_path: Path) -> None:
    """A ledger begun anew by whoever has the key is not the one that the mark names."""
    other = Ledger(Home.find({"BROKER_HOME": str(tmp_path / "other")}), KEY)
    other.ready(AT + 10**9)
    for mine, theirs in ((ledger.path, other.path), (ledger.head_path, other.head_path)):
        mine.write_bytes(theirs.read_bytes())
    assert outcome(ledger.read) == "no_ledger"


class _KeysReadOnly(Disk):
    """A disk whose folder of keys may not be written."""

    def replace(self, path: Path, content: bytes) -> None:
        if path.parent.name == "keys":
            raise OSError(errno.EROFS, "read-only file system")
        Disk.replace(self, path, content)


def test_a_folder_of_keys_that_cannot_be_written(home: Home) -> None:
    """Without a mark the ledger still comes to be, and sessions alone tell of it."""
    ledger = Ledger(home, KEY, system=_KeysReadOnly())
    ledger.ready(AT)
    assert read_mark(ledger.mark_path) is None
    add(ledger, "s1")
    assert ledger.read().n == 2


# ── rotation ──


def archived(kid: str) -> Key | None:
    return KEY if kid == KEY.kid else None


def put_key(home: Home, key: Key) -> None:
    home.keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = home.keys / "receipt.key"
    path.touch(mode=0o600)
    path.write_bytes(key.secret)


def test_a_rotation_hands_the_ledger_over(home: Home, ledger: Ledger) -> None:
    """Rows go on under the incoming key, and a process that holds the old one follows."""
    add(ledger, "s1")
    ledger.rotate(NEW, vkey_from="a", vkey_to="b", at=AT)
    put_key(home, NEW)
    fresh = Ledger(home, NEW, archived=archived)
    add(fresh, "s2", key=NEW)
    ledger.head("s1", n=4, last="b" * 64, at=AT)  # a session of before, in a process of before
    book = fresh.read()
    assert (book.n, book.sessions["s1"].n, book.sessions["s2"].under) == (5, 4, NEW.kid)
    assert [each.vkey_to for each in book.rotations] == ["b"]
    assert outcome(lambda: add(ledger, "s3")) == "store.rotated"
    assert outcome(ledger.read) == "head_mac"


def test_a_rotation_that_was_cut_off_is_finished(home: Home, ledger: Ledger) -> None:
    """The outgoing key's head over the rotation is what a crash leaves; the next row mends it."""
    add(ledger, "s1")
    rows = ledger.path.read_bytes()
    other = Ledger(home, KEY)
    other.rotate(NEW, vkey_from="a", vkey_to="b", at=AT)
    content = ledger.path.read_bytes()
    assert content.startswith(rows)
    book = Ledger(home, NEW, archived=archived).read()
    slot = HeadForm("ledger", KEY, LEDGER).slot(Head(book.n, book.last, book.size))
    ledger.head_path.write_bytes(slot.ljust(HEAD_BYTES, b"\0"))
    fresh = Ledger(home, NEW, archived=archived)
    assert fresh.read().rotating
    add(fresh, "s2", key=NEW)
    assert not fresh.read().rotating
    assert [*fresh.read().sessions] == ["s1", "s2"]


def test_a_killed_writer_leaves_the_lock(ledger: Ledger) -> None:
    """A process that dies with the lock held keeps nobody out."""

    def die() -> None:
        with ledger._rows(AT):
            os.kill(os.getpid(), 9)

    assert in_child(die) == -9
    add(ledger, "s1")
    assert [*ledger.read().sessions] == ["s1"]
