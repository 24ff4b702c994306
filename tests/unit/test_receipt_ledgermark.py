"""The mark of a ledger is read as it was written, and from no file that others could make."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from broker.errors import UnverifiableError
from broker.receipt.ledgermark import put_mark, read_mark
from tests.receiptkit import Faults, failing


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    """No mark is an empty text; a later one takes the place of the one before."""
    path = tmp_path / "keys" / "ledger"
    assert read_mark(path) is None
    for first in ("a" * 64, "b" * 64):
        put_mark(path, first)
        assert read_mark(path) == first


def test_a_link_is_no_mark(tmp_path: Path) -> None:
    """What a link names was put there by somebody."""
    (tmp_path / "mark").symlink_to(tmp_path / "other")
    with pytest.raises(UnverifiableError):
        read_mark(tmp_path / "mark")


@pytest.mark.parametrize(
    ("number", "told"), [(errno.EROFS, False), (errno.EACCES, False), (errno.EIO, True)]
)
def test_keys_that_may_not_be_written_have_no_mark(tmp_path: Path, number: int, told: bool) -> None:
    """A folder of keys that is read-only goes without; any other fault is told."""
    path = tmp_path / "keys" / "ledger"
    system = Faults(0, failing(number), "sync").disk()
    if told:
        with pytest.raises(OSError, match=os.strerror(number)):
            put_mark(path, "a" * 64, system)
    else:
        put_mark(path, "a" * 64, system)
    assert read_mark(path) is None
