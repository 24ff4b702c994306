"""The folders that the broker believes are the user's own, and no links."""

from __future__ import annotations

import os

import pytest

from broker.errors import UnverifiableError
from broker.sessions.folders import check_folders
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

BELIEVED = ("state", "sessions", "heads", "checkpoints", "revoked", "config")


def test_what_is_not_there_yet_is_fine(bench: Bench) -> None:
    """A home without a file is one that nobody has tampered with."""
    check_folders(bench.home)


@pytest.mark.parametrize("name", BELIEVED)
def test_what_others_can_write_is_not_believed(bench: Bench, name: str) -> None:
    """Whoever can put a file there could revoke, permit or forget."""
    folder = getattr(bench.home, name)
    folder.mkdir(parents=True, exist_ok=True)
    check_folders(bench.home)
    os.chmod(folder, 0o777)
    with pytest.raises(UnverifiableError):
        check_folders(bench.home)


@pytest.mark.parametrize("name", ["sessions", "heads", "checkpoints", "revoked"])
def test_records_do_not_lie_behind_a_link(bench: Bench, name: str) -> None:
    """A link would have records written, and found, wherever it points."""
    folder = getattr(bench.home, name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    elsewhere = bench.workspace.parent / "elsewhere"
    elsewhere.mkdir()
    folder.symlink_to(elsewhere)
    with pytest.raises(UnverifiableError):
        check_folders(bench.home)
