"""`broker receipt --verify --all URL`, as a person and a script read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.cli.fleet import is_address, mirror_notes
from broker.receipt.keyring import public_key
from tests.console import Console
from tests.fleetkit import Fleet, objects


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A store with two sessions of this machine."""
    made = Fleet(tmp_path)
    monkeypatch.setenv("BROKER_HOME", str(made.bench.home.state.parent))
    made.session()
    made.session()
    made.push()
    return made


def _verify(broker: Console, fleet: Fleet, *more: str) -> tuple[int, str, str]:
    done = broker("receipt", "--verify", "--all", fleet.url, "--jobs", "1", *more)
    return done.code, done.out, done.err


def test_a_whole_fleet_verifies(broker: Console, fleet: Fleet) -> None:
    """Each session is named, and the last line states the verdict."""
    code, out, _ = _verify(broker, fleet)
    assert code == 0, out
    lines = out.splitlines()
    assert lines[-1].startswith("verified: 2 sessions of 1 installation: nothing was changed")
    assert [line.split()[0] for line in lines[:-1]] == ["OPEN", "SEALED", "SEALED"]


def test_one_break_is_exit_1(broker: Console, fleet: Fleet) -> None:
    """What is wrong is named with its place; as a document too."""
    victim = sorted((fleet.folder().parent / "sessions").iterdir())[0]
    objects(victim)[0].unlink()
    code, out, _ = _verify(broker, fleet)
    assert code == 1
    assert f"{victim.name}; truncated: a checkpoint there covers 5 lines and 0 are left" in out
    assert "not verified: 1 BROKEN, of 2 sessions of 1 installation" in out
    code, out, _ = _verify(broker, fleet, "--json")
    found = json.loads(out)
    assert (code, found["exit"], found["verified"]) == (1, 1, False)
    (broken,) = [each for each in found["sessions"] if each["state"] == "BROKEN"]
    assert broken["sid"] == victim.name
    assert broken["break"]["line"] == 0


def test_a_key_that_is_missing_is_exit_2(broker: Console, fleet: Fleet) -> None:
    """Another machine's key verifies nothing here; the right one does, by text and by file."""
    other = fleet.another()
    fleet.session(bench=other)
    wrong = public_key(other.home).vkey
    code, out, _ = _verify(broker, fleet, "--vkey", wrong)
    assert code == 2
    assert "give its `--vkey`" in out
    assert _verify(broker, fleet, "--vkey", wrong, "--vkey", fleet.key().vkey)[0] == 0
    path = fleet.root / "fleet.vkey"
    path.write_text(fleet.key().vkey + "\n", encoding="utf-8")
    assert _verify(broker, fleet, "--vkey", str(path))[0] == 0


def test_nothing_there_is_exit_2(broker: Console, fleet: Fleet) -> None:
    """Nothing to verify is not success, nor is a store that is unknown."""
    done = broker("receipt", "--verify", "--all", f"file://{fleet.root}/none")
    assert (done.code, "nothing to verify" in done.err) == (2, True)
    done = broker("receipt", "--verify", "--all", "nope://x/y")
    assert (done.code, "no address of a store" in done.err) == (2, True)


@pytest.mark.parametrize(
    "more", [["--level", "mac"], ["--quick"], ["--key-file", "x"], ["--no-head"], ["--refused"]]
)
def test_what_does_not_go_with_it(broker: Console, fleet: Fleet, more: list[str]) -> None:
    """A mirror is verified whole and by public keys; anything else is told."""
    assert broker("receipt", "--verify", "--all", fleet.url, *more).code == 2
    assert broker("receipt", "--all", fleet.url).code == 2


def test_what_is_not_mirrored_yet_is_told(broker: Console, fleet: Fleet) -> None:
    """A session's own verdict says how much of it lies elsewhere, until all does."""
    session = fleet.session()
    settings = fleet.bench.home.config / "broker.toml"
    settings.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    settings.write_text(f'[receipts]\nmirror = "{fleet.url}"\n', encoding="utf-8")
    settings.chmod(0o600)
    done = broker("receipt", session.sid, "--verify")
    assert done.code == 0
    assert f"0 of 5 lines are mirrored at {fleet.url} so far" in done.out
    assert broker("receipt", "mirror").code == 0
    assert "lines are mirrored" not in broker("receipt", session.sid, "--verify").out
    settings.write_text("[receipts]\nmirror = 5\n", encoding="utf-8")
    assert mirror_notes(fleet.bench.home, session.sid, 5) == ()


def test_what_an_address_is() -> None:
    """A session's name and a file are none."""
    assert [is_address(each) for each in ("s3://b/x", "k3v", "a/b.jsonl", None)] == [
        True, False, False, False
    ]  # fmt: skip
