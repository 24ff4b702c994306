"""Who is at the other end of a socket."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from broker.service import peer
from broker.service.peer import is_own, peer_uid


def test_a_peer_of_the_same_user_is_known() -> None:
    """The kernel names the user of the process at the other end."""
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        assert peer_uid(here) == os.geteuid()
        assert is_own(here)


def test_a_peer_of_another_user_is_not_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is not this user is told apart, and so is one that the kernel does not name."""
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        monkeypatch.setattr(peer.os, "geteuid", lambda: 12_345)
        assert not is_own(here)
    assert peer_uid(here) is None
    assert not is_own(here)


@pytest.mark.skipif(sys.platform == "darwin", reason="reads the structure of macOS by hand")
def test_the_structure_of_macos_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS the user stands behind the structure's version."""

    class Stand:
        def getsockopt(self, level: int, option: int, size: int) -> bytes:
            assert (level, option) == (0, 1)
            return (
                (0).to_bytes(4, sys.byteorder) + (501).to_bytes(4, sys.byteorder) + bytes(size - 8)
            )

    monkeypatch.setattr(peer.sys, "platform", "darwin")
    assert peer_uid(Stand()) == 501  # type: ignore[arg-type]  # stands in for a socket
