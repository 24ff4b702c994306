"""Walking the lines of a file, however it is cut into reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.receipt import scan
from tests.receiptkit import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions."""
    return Scene.at(tmp_path)


@pytest.mark.parametrize("chunk", [1, 7, 300, 4_096])
def test_the_size_of_a_chunk_changes_nothing(
    scene: Scene, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the file is cut into reads, the verdict is the same."""
    whole = scene.verify("s1")
    monkeypatch.setattr(scan, "CHUNK_BYTES", chunk)
    assert scene.verify("s1") == whole
