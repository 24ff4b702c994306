"""Which chains a session signs for, and with which key."""

from __future__ import annotations

from broker.receipt.keyring import signing_key_path
from broker.sessions.checkpointfiles import checkpoint_file
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


def test_every_session_of_a_home_signs_with_one_key(bench: Bench) -> None:
    """The key is made once; each session has a file of its own."""
    one, other = (checkpoint_file(bench.home, sid) for sid in ("s1", "s2"))
    assert one.key.vkey == other.key.vkey
    assert signing_key_path(bench.home).exists()
    assert (one.path.name, other.path.name) == ("s1", "s2")


def test_a_session_covers_its_receipt_and_the_ledger(bench: Bench) -> None:
    """At the seal both have a checkpoint over all their lines."""
    session = bench.open()
    session.seal()
    file = checkpoint_file(bench.home, session.sid)
    assert file.path.exists()
    assert bench.verdict(session.sid).level == "signed"
