"""Public keys of before are trusted as far as the ledger leads from them, and no further."""

from __future__ import annotations

import pytest

from broker.cli.trusted import trusted_keys
from broker.receipt.keyring import public_key
from broker.receipt.rotation import rotate
from broker.receipt.signing import SigningKey
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


@pytest.mark.parametrize("times", [0, 1, 2])
def test_every_key_that_was_in_use(bench: Bench, times: int) -> None:
    """All of them, from the first to the one in use; of a session, those since it began."""
    bench.open().seal()
    keys = [public_key(bench.home)]
    for _ in range(times):
        rotate(bench.home, bench.clock())
        keys.append(public_key(bench.home))
    last = bench.open()
    last.seal()
    assert [key.vkey for key in trusted_keys(bench.home)] == [key.vkey for key in keys]
    assert [key.vkey for key in trusted_keys(bench.home, last.sid)] == [keys[-1].vkey]


def test_nothing_is_trusted_for_lying_in_the_archive(bench: Bench) -> None:
    """A key that was planted there, or that a broken ledger names, is none."""
    bench.open().seal()
    rotate(bench.home, bench.clock())
    planted = SigningKey.of(bytes(range(32)))
    (bench.home.keys / "archive" / "00000000.vkey").write_text(f"{planted.vkey}\n")
    assert len(trusted_keys(bench.home)) == 2
    bench.receipts().ledger.path.write_bytes(b"")
    assert [key.vkey for key in trusted_keys(bench.home)] == [public_key(bench.home).vkey]
