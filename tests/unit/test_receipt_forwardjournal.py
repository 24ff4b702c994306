"""
The files of a forward-secure session: the order of calls, and what lies on disk after each.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from broker.errors import BrokerError, FatalStoreError
from broker.receipt.forward import read_kept, read_opening
from broker.receipt.head import SLOT_BYTES
from broker.receipt.keys import Key
from broker.receipt.ratchet import Ratchet
from broker.receipt.ratchetfile import RATCHET_BYTES, ratchet_path
from broker.receipt.store import Receipts
from tests.forwardkit import AUDITOR, by_auditor, fill_forward, on_host
from tests.receiptkit import AT, KEY, Faults, decision, failing, new_receipts, outcome, short

CALLS = ["write", "sync", "pwrite", "sync", "pwrite", "pwrite", "sync", "pwrite"]


@pytest.fixture
def faults() -> Faults:
    """A disk that can be told to fail."""
    return Faults()


@pytest.fixture
def receipts(tmp_path: Path, faults: Faults) -> Receipts:
    """Receipts on that disk."""
    return new_receipts(tmp_path, faults.disk())


def start_of(receipts: Receipts, sid: str) -> Ratchet:
    """Return the session's ratchet from its beginning, as only the auditor can."""
    fd = os.open(receipts.path(sid), os.O_RDONLY)
    try:
        start = AUDITOR.open(read_opening(fd).sealed, sid)
    finally:
        os.close(fd)
    return Ratchet.start(Key.of(start), sid)


def history(receipts: Receipts, sid: str) -> list[tuple[bytes, str]]:
    """Return the key of every line of a receipt and of the next, each with its aggregate."""
    ratchet = start_of(receipts, sid)
    found = [(ratchet.position.key, ratchet.aggregate)]
    for line in receipts.path(sid).read_bytes().split(b"\n")[:-1]:
        assert ratchet.tag(line[:-74] + b"}") == line[-66:-2].decode()
        ratchet.step()
        found.append((ratchet.position.key, ratchet.aggregate))
    return found


def on_disk(receipts: Receipts) -> bytes:
    """Return every byte of every file of the home."""
    root = receipts.path("s1").parents[3]
    return b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())


def test_the_order_of_calls(receipts: Receipts, faults: Faults) -> None:
    """The line is durable before the ratchet, and the ratchet before the head."""
    receipt = fill_forward(receipts, "s1", 0)
    faults.calls.clear()
    receipt.append("decision", decision(1), at=AT)
    assert faults.calls == CALLS


def test_no_file_holds_an_older_key_or_aggregate(receipts: Receipts) -> None:
    """After each durable line the disk holds the key of the next line, and of no other."""
    receipt = fill_forward(receipts, "s1", 0)
    for n in range(5):
        *before, (key, aggregate) = history(receipts, "s1")
        found = on_disk(receipts)
        for old_key, old_aggregate in before:
            assert old_key.hex().encode() not in found
            assert old_key not in found
            assert old_aggregate.encode() not in found
        assert found.count(key.hex().encode()) == 2
        assert aggregate.encode() in found
        receipt.append("decision", decision(n), at=AT)


def test_nor_after_a_group(receipts: Receipts) -> None:
    """Lines that wait for a group's sync are signed by keys that are on disk only until it."""
    receipt = fill_forward(receipts, "s1", 1)
    kept = read_kept(receipts.head_path("s1"), "s1", KEY)
    for _ in range(3):
        receipt.append("note", {}, at=AT, durable=False)
    assert read_kept(receipts.head_path("s1"), "s1", KEY) == kept
    receipt.flush()
    *before, (key, _) = history(receipts, "s1")
    found = on_disk(receipts)
    assert key.hex().encode() in found
    assert not any(old.hex().encode() in found for old, _ in before)
    assert len(before) == 5


def test_after_the_seal_there_is_no_key(receipts: Receipts) -> None:
    """A sealed session keeps no key, in no file and not in its object."""
    receipt = fill_forward(receipts, "s1", 2)
    receipt.seal("complete", at=AT)
    found = on_disk(receipts)
    assert not any(key.hex().encode() in found for key, _ in history(receipts, "s1"))
    assert not ratchet_path(receipts.head_path("s1")).exists()
    assert (on_host(receipts, "s1"), by_auditor(receipts, "s1")) == ("SEALED", "SEALED")


def test_the_ratchets_file_is_its_owners(receipts: Receipts) -> None:
    """The file has mode 0600 from its first byte, and is blank until line 0 is durable."""
    receipt = fill_forward(receipts, "s1", 0)
    path = ratchet_path(receipt.head_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size == RATCHET_BYTES
    assert path.read_bytes()[:SLOT_BYTES] == path.read_bytes()[SLOT_BYTES:]


def test_what_lags_behind_a_crash_is_mended(receipts: Receipts) -> None:
    """A head, or head and ratchet, older than the lines catch up when the session goes on."""
    receipt = fill_forward(receipts, "s1", 1)
    head = receipt.head_path
    olds = {path: path.read_bytes() for path in (head, ratchet_path(head))}
    receipt.append("decision", decision(2), at=AT)
    receipt.close()
    for lagging in ([head], [head, ratchet_path(head)]):
        for path in lagging:
            path.write_bytes(olds[path])
        assert (on_host(receipts, "s1"), by_auditor(receipts, "s1")) == ("OPEN", "OPEN")
        receipts.resume("s1", at=AT).close()
        assert (on_host(receipts, "s1"), by_auditor(receipts, "s1")) == ("OPEN", "OPEN")
        for path in lagging:
            assert olds[path] != path.read_bytes()


def break_ratchet(path: Path) -> None:
    path.write_bytes(b"x" * RATCHET_BYTES)


def foreign_ratchet(path: Path) -> None:
    path.write_bytes(path.with_name("s2.ratchet").read_bytes())


@pytest.mark.parametrize("act", [Path.unlink, break_ratchet, foreign_ratchet])
def test_without_its_ratchet_a_session_cannot_go_on(
    receipts: Receipts, act: Callable[[Path], object]
) -> None:
    """A ratchet that is gone, broken or another session's ends it, and nothing is written."""
    for sid in ("s1", "s2"):
        fill_forward(receipts, sid, 2).close()
    path = ratchet_path(receipts.head_path("s1"))
    act(path)
    before = receipts.path("s1").read_bytes()
    assert outcome(lambda: receipts.resume("s1", at=AT)) == "ratchet"
    assert receipts.path("s1").read_bytes() == before
    assert (on_host(receipts, "s1"), by_auditor(receipts, "s1")) == ("OPEN", "OPEN")


def test_a_ratchet_that_others_read(receipts: Receipts) -> None:
    """A ratchet that others could read is not used."""
    fill_forward(receipts, "s1", 1).close()
    ratchet_path(receipts.head_path("s1")).chmod(0o644)
    assert outcome(lambda: receipts.resume("s1", at=AT)) == "unverifiable.mode"


def test_a_ratchet_that_was_replaced_while_it_runs(receipts: Receipts) -> None:
    """Another file in the ratchet's place ends the session before anything is released."""
    receipt = fill_forward(receipts, "s1", 1)
    path = ratchet_path(receipt.head_path)
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(FatalStoreError) as caught:
        receipt.append("decision", decision(1), at=AT)
    assert caught.value.code == "store.replaced"


def test_lines_cut_under_a_kept_ratchet(receipts: Receipts) -> None:
    """A line that the head does not cover yet and the ratchet does is missed when it is gone."""
    receipt = fill_forward(receipts, "s1", 1)
    head, path = receipt.head_path, receipt.path
    older = head.read_bytes(), path.read_bytes()
    receipt.append("decision", decision(2), at=AT)
    receipt.close()
    head.write_bytes(older[0])
    path.write_bytes(older[1])
    assert on_host(receipts, "s1") == "truncated"
    assert outcome(lambda: receipts.resume("s1", at=AT)) == "truncated"


def test_a_line_beyond_the_head_without_a_key(receipts: Receipts) -> None:
    """Who has no key cannot add a line behind the acknowledged ones, with a ratchet or without."""
    receipt = fill_forward(receipts, "s1", 2)
    receipt.close()
    lines = receipt.path.read_bytes().split(b"\n")[:-1]
    links = [sha256(line).hexdigest().encode() for line in lines]
    forged = lines[-1].replace(b'"n":2', b'"n":3').replace(links[-2], links[-1])
    with receipt.path.open("ab") as file:
        file.write(forged + b"\n")
    assert (on_host(receipts, "s1"), by_auditor(receipts, "s1")) == ("mac", "mac")
    ratchet_path(receipt.head_path).unlink()
    assert on_host(receipts, "s1") == "ratchet"


FAILURES = [
    *((at, failing(errno.EIO)) for at in range(len(CALLS))),
    *((at, failing(errno.ENOSPC)) for at in range(len(CALLS))),
    *((at, short) for at, call in enumerate(CALLS) if call != "sync"),
]


@pytest.mark.parametrize(("at", "act"), FAILURES)
def test_every_call_may_fail(tmp_path: Path, at: int, act: Callable[..., object]) -> None:
    """After a failure of any call nothing is released, and the session still verifies."""
    faults = Faults()
    receipts = new_receipts(tmp_path, faults.disk())
    receipt = fill_forward(receipts, "s1", 1)
    faults.calls.clear()
    faults.at, faults.act = at, act
    with pytest.raises(BrokerError) as caught:
        receipt.append("decision", decision(1), at=AT)
    assert isinstance(caught.value, FatalStoreError)
    assert outcome(lambda: receipt.append("note", {}, at=AT)) == caught.value.code
    fine = {"OPEN", "TORN", "INTERRUPTED"}
    assert {on_host(receipts, "s1"), by_auditor(receipts, "s1")} <= fine
    receipt.close()
    ended = outcome(lambda: receipts.resume("s1", at=AT).seal("abandoned", at=AT).kind)
    assert ended in {"seal", "store.sealed"}
    assert by_auditor(receipts, "s1") == "INTERRUPTED"


def test_a_fork_goes_on_by_the_file(receipts: Receipts) -> None:
    """A child that appends takes the ratchet from its file, and the parent follows."""
    receipt = fill_forward(receipts, "s1", 1)
    child = os.fork()
    if child == 0:
        try:
            receipt.append("note", {"who": "child"}, at=AT)
            receipt.append("decision", decision(1), at=AT)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    receipt.append("decision", decision(2), at=AT)
    receipt.seal("complete", at=AT)
    assert by_auditor(receipts, "s1") == "SEALED"
    assert receipts.path("s1").read_bytes().count(b"\n") == 6
