"""`broker receipt mirror`: what is put, what is left, and where that is not configured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.fleet.target import Target
from tests.console import Console
from tests.fleetkit import Fleet


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A machine with one session, and a mirror that is configured."""
    made = Fleet(tmp_path)
    monkeypatch.setenv("BROKER_HOME", str(made.bench.home.state.parent))
    made.session()
    _configure(made, f'[receipts]\nmirror = "{made.url}"\n')
    return made


def _configure(fleet: Fleet, text: str) -> None:
    settings = fleet.bench.home.config / "broker.toml"
    settings.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings.write_text(text, encoding="utf-8")
    settings.chmod(0o600)


def test_what_is_not_there_is_put(broker: Console, fleet: Fleet) -> None:
    """The first time each chain is named, and the second time nothing is left."""
    done = broker("receipt", "mirror")
    assert done.code == 0, done.err
    assert [line.split()[0] for line in done.out.splitlines()] == ["put", "put"]
    assert broker("receipt", "mirror").out == "everything that is signed is mirrored already\n"
    found = json.loads(broker("receipt", "mirror", "--json").out)
    assert found == {"mirror": fleet.url, "mirrored": True, "put": []}


def test_what_is_left_is_exit_2(
    broker: Console, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that takes nothing leaves everything, with the reason."""

    def gone(*_: object) -> None:
        raise StoreError("the network is gone")

    monkeypatch.setattr(Target, "put", gone)
    done = broker("receipt", "mirror")
    assert done.code == 2
    assert "the network is gone" in done.out
    assert json.loads(broker("receipt", "mirror", "--json").out)["mirrored"] is False


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no mirror is configured"),
        ('[receipts]\nmirror = "/srv"\n', "address of a store"),
        ("[receipts]\ncopy = 1\n", "no such setting `copy`"),
        ("receipts = 1\n", "no such setting"),
        ('[receipts]\nmirror = "nope://x/y"\n', "no address of a store"),
    ],
)
def test_what_is_not_configured(broker: Console, fleet: Fleet, text: str, word: str) -> None:
    """Without an address there is nothing to do, and a wrong one is told."""
    _configure(fleet, text)
    done = broker("receipt", "mirror")
    assert (done.code, word in done.err) == (2, True), done.err
