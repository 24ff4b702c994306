"""The canary sees walls that are not there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from broker.sandbox.canary import walls_that_fail


def test_without_walls_each_attempt_is_told(tmp_path: Path) -> None:
    """Outside of any wall the key is read, a file can be made, and a packet could leave."""
    secret = tmp_path / "key"
    secret.write_text("x")
    fails = walls_that_fail({"secret": str(secret), "outside": [str(tmp_path)], "network": False})
    assert len(fails) == 2
    assert "key" in fails[0]
    assert str(tmp_path) in fails[1]
    assert list(tmp_path.iterdir()) == [secret]


def test_what_is_not_there_is_held(tmp_path: Path) -> None:
    """A place that cannot be seen counts as held: the session was opened with it."""
    gone = str(tmp_path / "gone")
    assert walls_that_fail({"secret": gone, "outside": [gone], "network": False}) == []


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EMFILE, errno.EIO])
def test_an_accident_is_no_wall(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """An attempt that fails for another reason than a wall proves nothing."""

    def fails(*_: object) -> int:
        raise OSError(number, "an accident")

    monkeypatch.setattr(os, "open", fails)
    assert len(walls_that_fail({"secret": "/k", "outside": ["/"], "network": False})) == 2
