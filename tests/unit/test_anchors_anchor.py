"""What every kind of anchor has in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.anchors.anchor import Anchor, AnchorError
from broker.anchors.git import GitRemote
from broker.anchors.timestamp import Authority
from broker.anchors.witness import Witness
from broker.errors import Break, BrokerError, StoreError
from tests.anchorkit import Log, WitnessServer, bare_remote


def anchors(place: Path, url: str, vkey: str) -> list[Anchor]:
    """Return one of each kind; assigning them is what the type checker checks."""
    return [
        GitRemote("git", bare_remote(place / "remote.git"), "receipts", place / "mine.git"),
        Authority("tsa", url, place / "roots.pem"),
        Witness("w", url, vkey),
    ]


def test_each_kind_refuses_garbage_as_evidence(tmp_path: Path) -> None:
    """No bytes that nobody vouched for count, and none of them crashes an anchor."""
    log = Log(3)
    with WitnessServer(log.key.public) as server:
        for anchor in anchors(tmp_path, server.url, server.vkey):
            for evidence in (b"", b"\xff" * 40, log.note(3), b"0" * 40):
                with pytest.raises(BrokerError):
                    anchor.check(log.note(3), evidence, 0)
            with pytest.raises(Break):
                Witness("w", server.url, server.vkey).check(b"no note", b"no note", 0)


def test_an_anchor_that_is_away_is_not_a_break() -> None:
    """Not being reached is a failure to try again, and shows nothing about a receipt."""
    assert issubclass(AnchorError, StoreError)
    assert not issubclass(AnchorError, Break)
