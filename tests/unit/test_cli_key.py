"""`broker key` shows names and public halves, and no secret."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.home import Home
from broker.receipt.keys import load_key
from broker.receipt.signing import VerifyKey, load_signing_key
from tests.console import Console
from tests.sessionkit import Bench


@pytest.fixture
def home(broker_home: Path) -> Home:
    return Home.find({"BROKER_HOME": str(broker_home)})


def test_new_and_show(broker: Console, home: Home) -> None:
    """New keys are made once, and shown by name, fingerprint and public half."""
    made = broker("key", "new")
    assert (made.code, made.err) == (0, "")
    assert broker("key", "show").out == made.out
    key, signing = load_key(home.keys / "receipt.key"), load_signing_key(home.keys / "signing.key")
    for shown in (key.kid, signing.name, signing.vkey, signing.public.fingerprint):
        assert shown in made.out
    for secret in (key.secret, signing.seed):
        assert secret.hex() not in made.out
    again = broker("key", "new")
    assert (again.code, again.out) == (2, "")
    assert "broker key rotate" in again.err


def test_the_vkey_alone(broker: Console, home: Home) -> None:
    """The public key alone is one line, and needs no secret to be read."""
    broker("key", "new")
    public = load_signing_key(home.keys / "signing.key").public
    (home.keys / "signing.key").unlink()
    said = broker("key", "show", "--vkey")
    assert (said.code, said.out) == (0, public.vkey + "\n")
    assert VerifyKey.parse(said.out) == public


def test_as_json(broker: Console, home: Home) -> None:
    """The JSON document names the same, with paths and dates."""
    said = broker("key", "new", "--json").json()
    assert broker("key", "show", "--json").json() == said
    assert isinstance(said, dict)
    assert said["line"]["kid"] == load_key(home.keys / "receipt.key").kid
    assert VerifyKey.parse(said["signing"]["vkey"]).key_id.hex() == said["signing"]["key_id"]
    assert said["signing"]["path"] == os.fspath(home.keys / "signing.key")
    assert said["line"]["since"].endswith("Z")


def test_without_keys(broker: Console, home: Home) -> None:
    """Without keys there is nothing to show, and nothing is made by looking."""
    for words in (("show",), ("show", "--vkey"), ("show", "--json")):
        said = broker("key", *words)
        assert (said.code, said.out) == (2, "")
        assert "broker key new" in said.err
    assert broker("key", "archive").out == "no key was ever changed here\n"
    assert broker("key", "archive", "--json").json() == []
    assert not home.keys.exists()
    assert broker("key").code == 2


def test_an_unsafe_key_is_told(broker: Console, home: Home) -> None:
    """A key that others can read is not shown as if it were one."""
    broker("key", "new")
    (home.keys / "signing.key").chmod(0o640)
    said = broker("key", "show")
    assert (said.code, said.out) == (2, "")
    assert "chmod 600" in said.err


def test_a_lost_key_is_not_made_anew(broker: Console, home: Home) -> None:
    """Where sessions were signed with a key that is gone, no other takes its place."""
    broker("key", "new")
    home.heads.mkdir(parents=True)
    (home.heads / "s1").write_bytes(b"")
    (home.keys / "receipt.key").unlink()
    said = broker("key", "new")
    assert said.code == 2
    assert "from a copy" in said.err
    assert not (home.keys / "receipt.key").exists()
    assert broker("key", "new", "--old-is-lost").code == 0
    assert (home.keys / "receipt.key").exists()


def test_an_older_installation_gets_a_signing_key(broker: Console, home: Home) -> None:
    """Where only the line key exists, the other is made and the line key stays."""
    broker("key", "new")
    before = (home.keys / "receipt.key").read_bytes()
    (home.keys / "signing.key").unlink()
    (home.keys / "signing.vkey").unlink()
    assert broker("key", "new").code == 0
    assert (home.keys / "receipt.key").read_bytes() == before


# ── changing them ──


def test_rotate(broker: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both keys are changed, the old ones archived, and what was sealed before still verifies."""
    bench = Bench(tmp_path)
    monkeypatch.setenv("BROKER_HOME", str(tmp_path / "home"))
    session = bench.open()
    session.decide("Read", {"file_path": "src/a.py"})
    session.seal()
    kid, vkey = bench.key().kid, broker("key", "show", "--vkey").out.strip()
    said = broker("key", "rotate")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"changed: line key {kid} to {bench.key().kid}\n")
    assert broker("key", "show", "--vkey").out.strip() != vkey
    names = broker("key", "archive", "--json").json()
    assert isinstance(names, list)
    key_id = VerifyKey.parse(vkey).key_id.hex()
    assert sorted(each["name"] for each in names) == sorted((f"{kid}.key", f"{key_id}.vkey"))
    assert f"{kid}.key" in broker("key", "archive").out
    assert broker("receipt", session.sid, "--verify").code == 0
    proof = str(tmp_path / "proof")
    assert broker("receipt", "prove", session.sid, "--line", "1", "-o", proof).code == 0
    assert broker("receipt", "verify-proof", proof, "--key", vkey).code == 0
    later = bench.open()
    later.seal()
    assert broker("receipt", later.sid, "--verify").code == 0
    assert broker("receipt", "--verify", "--all").code == 0


def test_rotate_waits_for_sessions(
    broker: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running session is not cut off from its key; an abandoned one is sealed first."""
    bench = Bench(tmp_path)
    monkeypatch.setenv("BROKER_HOME", str(tmp_path / "home"))
    session = bench.open()
    key = bench.key()
    said = broker("key", "rotate")
    assert (said.code, said.out) == (2, "")
    assert f"session `{session.sid}` is running" in said.err
    assert bench.key() == key
    session._ground.abandon()
    session._receipt.close()
    assert broker("key", "rotate", "--json").code == 0
    assert bench.key() != key
    assert broker("receipt", session.sid, "--verify").code == 0


def test_a_rotation_cut_off(broker: Console, home: Home) -> None:
    """While a change of keys is unfinished none is shown; the command finishes it."""
    broker("key", "new")
    (home.keys / "incoming").mkdir(mode=0o700)
    said = broker("key", "show")
    assert said.code == 2
    assert "was cut off" in said.err
    assert broker("key", "rotate").code == 0
    assert broker("key", "show").code == 0


def test_nothing_to_rotate(broker: Console, home: Home) -> None:
    """Without keys there are none to change."""
    said = broker("key", "rotate")
    assert (said.code, said.out) == (2, "")
    assert "broker key new" in said.err
