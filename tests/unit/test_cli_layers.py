"""What `broker doctor` says of the recording."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from broker.capture import shims
from broker.cli.layers import layers
from broker.errors import LaunchError


def test_each_layer_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 72: on a machine that can, each layer is found to work, and nothing is left behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert {each.name: each.state for each in layers()} == {
        "models": "ok", "shells": "ok", "snapshots": "ok",
    }  # fmt: skip
    assert os.listdir(tmp_path) == []


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without git, or where shims cannot be made, is told so."""

    def fail(_: object) -> None:
        raise LaunchError("no room")

    monkeypatch.setattr(shims.Shims, "make", fail)
    monkeypatch.setenv("PATH", "/nowhere")
    found = {each.name: each for each in layers()}
    assert (found["shells"].state, found["snapshots"].state) == ("note", "note")
    assert found["shells"].text == "not recorded here: no room"
    assert "install it" in found["snapshots"].text
