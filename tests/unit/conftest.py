"""Fixtures of the unit tests."""

from __future__ import annotations

import pytest

from tests.console import Console


@pytest.fixture
def broker(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Console:
    """The `broker` command, run in this process."""
    return Console(capsys, monkeypatch)
