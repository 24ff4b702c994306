"""Mirroring beside a run: nobody waits for it, and what is left is told."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.fleet.background import Mirroring
from broker.fleet.target import Target
from tests.fleetkit import Fleet


def test_what_was_signed_is_there_at_the_end(tmp_path: Path) -> None:
    """A last pass is made when the run is over, and nothing is said where nothing is left."""
    fleet = Fleet(tmp_path)
    mirroring = Mirroring(fleet.bench.home, fleet.url)
    session = fleet.session(1, seals=False)
    mirroring.start()
    session.seal()
    said: list[str] = []
    mirroring.finish(said.append)
    assert said == []
    assert fleet.states() == [("OPEN", ""), ("SEALED", "")]


def test_a_run_that_never_started_is_mirrored_too(tmp_path: Path) -> None:
    """Where no pass was begun, one is made at the end."""
    fleet = Fleet(tmp_path)
    fleet.session()
    said: list[str] = []
    Mirroring(fleet.bench.home, fleet.url).finish(said.append)
    assert (said, fleet.states()) == ([], [("OPEN", ""), ("SEALED", "")])


@pytest.mark.parametrize("error", [StoreError("the network is gone"), RuntimeError("x")])
def test_a_store_that_is_gone_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A failure says how much is left and what to do, and passes go on until the store is back."""
    fleet = Fleet(tmp_path)
    fleet.session()

    def gone(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Target, "put", gone)
        said: list[str] = []
        Mirroring(fleet.bench.home, fleet.url).finish(said.append)
        assert "are not mirrored at" in said[0]
        assert ("the network is gone" in said[0]) == isinstance(error, StoreError)
        assert "broker receipt mirror" in said[1]
        mirroring = Mirroring(fleet.bench.home, fleet.url, pause_s=0.01)
        mirroring.start()
        time.sleep(0.05)
    said.clear()
    mirroring.finish(said.append)
    assert said == []


def test_a_store_that_hangs_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a run waits for a moment only, and no decision waits at all."""
    fleet = Fleet(tmp_path)
    monkeypatch.setattr(Target, "put", lambda *_: time.sleep(5))
    fleet.session()
    mirroring = Mirroring(fleet.bench.home, fleet.url)
    mirroring.start()
    before = time.monotonic()
    session = fleet.session(3)
    said: list[str] = []
    mirroring.finish(said.append, within_s=0.1)
    assert time.monotonic() - before < 3
    assert session.allowed == 3
    assert "it takes longer" in said[0]
