"""The ledger's checkpoint must be of the rows there are, and of no more."""

from __future__ import annotations

import pytest

from broker.receipt.checkpoint import OF_LEDGER, sign_checkpoint
from broker.receipt.ledgernote import check_noted, ledger_note
from broker.receipt.signing import load_signing_key
from tests.receiptkit import outcome
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


def answer(bench: Bench, content: bytes) -> str:
    """Return what a note is held to be."""
    receipts = bench.receipts()
    return outcome(lambda: check_noted(receipts, receipts.ledger.read(), content))


def test_what_a_session_signed_is_of_its_rows(bench: Bench) -> None:
    """After a session the note fits; without one there is nothing to hold the rows against."""
    bench.open().seal()
    content = ledger_note(bench.receipts())
    assert content
    assert answer(bench, content) == answer(bench, b"") == "None"
    bench.open()
    assert answer(bench, content) == "None"
    (bench.home.ledger / "checkpoint").unlink()
    assert ledger_note(bench.receipts()) == b""


@pytest.mark.parametrize(("size", "said"), [(2, "checkpoint_root"), (99, "truncated")])
def test_other_rows_are_found(bench: Bench, size: int, said: str) -> None:
    """A note over other rows, or over more than there are, is a break."""
    bench.open().seal()
    key = load_signing_key(bench.home.keys / "signing.key")
    assert answer(bench, sign_checkpoint(key, OF_LEDGER, size, bytes(32))) == said
