"""A writer of the ledger walks from its last row."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.receipt.ledger import Ledger
from broker.receipt.rows import Rows
from tests.receiptkit import AT, KEY, Faults, failing, new_receipts, short


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger of four rows."""
    made = new_receipts(tmp_path).ledger
    made.ready(AT)
    add(made, "s1", "s2", "s3")
    return made


def add(ledger: Ledger, *sids: str) -> None:
    """Write `begin` rows."""
    for sid in sids:
        ledger.begin(sid, kid=KEY.kid, first="a" * 64, level="mac", forward=False, at=AT)


def opened(ledger: Ledger) -> Rows:
    """Return the rows, walked and locked."""
    rows = Rows(ledger.path, ledger.head_path, KEY, lambda kid: None, ledger._disk)
    rows.reload(AT)
    return rows


def test_the_walk_ends_where_a_whole_one_does(ledger: Ledger) -> None:
    """Begun at the last row, the chain is the one that reading every row comes to."""
    rows, book = opened(ledger), ledger.read()
    assert (rows.chain.n, rows.chain.last, rows.chain.size) == (book.n, book.last, book.size)
    assert rows.kid == KEY.kid
    rows.release()


def test_a_row_beyond_the_head_is_adopted(ledger: Ledger) -> None:
    """A crash between a row and its head loses nothing."""
    head = ledger.head_path.read_bytes()
    add(ledger, "s4")
    ledger.head_path.write_bytes(head)
    assert ledger.read().beyond == 1
    add(ledger, "s5")
    assert [*ledger.read().sessions] == ["s1", "s2", "s3", "s4", "s5"]


@pytest.mark.parametrize("change", ["cut", "forged", "another", "torn"])
def test_a_last_row_that_is_not_the_acknowledged_one_is_refused(
    ledger: Ledger, change: str
) -> None:
    """Nothing is written after a row that is not the one the head names."""
    content = ledger.path.read_bytes()
    lines = content.split(b"\n")[:-1]
    size = len(lines[-1]) + 1
    if change == "cut":
        ledger.path.write_bytes(content[:-size])
    elif change == "forged":
        ledger.path.write_bytes(content.replace(b'"sid":"s3"', b'"sid":"s4"'))
    elif change == "another":
        ledger.path.write_bytes(content[: -2 * size] + content[-size:] + content[-2 * size : -size])
    else:
        ledger.path.write_bytes(content[:-9])
    before = ledger.path.read_bytes()
    with pytest.raises(StoreError) as caught:
        add(ledger, "s9")
    assert caught.value.code == "store.ledger"
    assert "adopt --ledger" in str(caught.value)
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize("fault", ["short", "full"])
def test_a_full_disk_leaves_a_ledger_that_goes_on(tmp_path: Path, fault: str) -> None:
    """A row cut short by a full disk is cut away by the next writer; a ledger gets no seal."""
    faults = Faults()
    ledger = new_receipts(tmp_path, faults.disk()).ledger
    ledger.ready(AT)
    faults.at, faults.only = faults.calls.count("write"), "write"
    faults.act = short if fault == "short" else failing(errno.ENOSPC)
    with pytest.raises(StoreError):
        add(ledger, "s1")
    faults.act = None
    add(ledger, "s2")
    book = ledger.read()
    assert [*book.sessions] == ["s2"]
    kept = list(ledger.path.parent.glob("receipt.torn-*"))
    assert len(kept) == (fault == "short")
    assert os.path.lexists(ledger.head_path)
