"""`broker key auditor`, and the auditor's way from there to a verdict."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from broker.cli.wires import installation_key
from broker.home import Home
from broker.receipt.keys import Key
from broker.receipt.sealing import load_auditor, load_auditor_key
from broker.receipt.store import Receipts
from tests.console import Console


@pytest.fixture
def key(broker: Console, tmp_path: Path) -> Path:
    """An auditor's key pair, in a folder of the auditor's."""
    place = tmp_path / "auditor"
    place.mkdir(mode=0o700)
    assert broker("key", "auditor", "-o", str(place / "a.key")).code == 0
    return place / "a.key"


@pytest.fixture
def session(broker: Console, key: Path, broker_home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a session that was run for that auditor, with what was told of its beginning."""
    monkeypatch.chdir(key.parent)
    said = broker("run", "--forward", "a.key.pub", "--scope", "tools=Read", "--", "true")
    assert said.code == 0, said.err
    (told,) = [line for line in said.err.splitlines() if "forward-secure for auditor" in line]
    key.with_name("noted").write_text(told.rsplit(" ", 1)[1])
    home = Home.find({"BROKER_HOME": str(broker_home)})
    (name,) = [path.name for path in home.sessions.iterdir()]
    assert name in told
    return name


def noted(key: Path) -> str:
    """Return what the auditor wrote down when the session began."""
    return key.with_name("noted").read_text()


def test_a_pair_is_made_and_told(broker: Console, tmp_path: Path) -> None:
    """The two files are told with what each is for, and as one document."""
    said = broker("key", "auditor", "-o", str(tmp_path / "a.key"))
    assert said.code == 0
    assert "keep it away from the host" in said.out
    made = load_auditor(tmp_path / "a.key")
    assert f"auditor {made.public.name}" in said.out
    said = broker("key", "auditor", "-o", str(tmp_path / "b.key"), "--json")
    document = said.json()
    assert document == {
        "auditor": load_auditor(tmp_path / "b.key").public.name,
        "private": str(tmp_path / "b.key"),
        "public": str(tmp_path / "b.key.pub"),
        "key": load_auditor_key(tmp_path / "b.key.pub").text,
    }
    assert load_auditor(tmp_path / "b.key").secret.hex() not in said.out


def test_no_key_is_overwritten(broker: Console, key: Path) -> None:
    """A second pair by the same name is refused, and the first stays."""
    before = key.read_bytes()
    said = broker("key", "auditor", "-o", str(key))
    assert (said.code, key.read_bytes()) == (2, before)
    assert "is there already" in said.err


def test_the_host_says_what_it_cannot_check(broker: Console, session: str) -> None:
    """On the host the session verifies by its head and checkpoint, its tags unchecked."""
    said = broker("receipt", session, "--verify", "--json")
    assert said.code == 0, said.out
    verdict = said.json()["verdict"]
    assert (verdict["state"], verdict["tags"], verdict["forward"]) == ("SEALED", "unchecked", True)
    assert (verdict["level"], verdict["completeness"]) == ("signed", "KNOWN")
    said = broker("receipt", session, "--verify")
    assert "gone from this host" in said.out


def test_the_auditor_checks_the_tags(broker: Console, session: str, key: Path) -> None:
    """With the auditor's key every tag is checked; with what was noted, nothing is left open."""
    said = broker("receipt", session, "--verify", "--auditor-key", str(key))
    assert said.code == 0, said.out
    assert "--expect-head" in said.out
    words = ("--auditor-key", str(key), "--expect-head", noted(key), "--json")
    verdict = broker("receipt", session, "--verify", *words).json()["verdict"]
    assert (verdict["tags"], verdict["warnings"]) == ("checked", [])


def test_the_auditor_needs_no_installation(
    broker: Console, session: str, key: Path, broker_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without any secret of the host, its copies and the auditor's key are enough."""
    copy = key.with_name("copy")
    copy.mkdir()
    home = Home.find({"BROKER_HOME": str(broker_home)})
    shutil.copy(home.sessions / session / "receipt.jsonl", copy / "receipt.jsonl")
    shutil.copy(home.heads / session, copy / "head")
    shutil.copy(home.checkpoints / session, copy / "checkpoint")
    shutil.copy(home.keys / "signing.vkey", copy / "vkey")
    monkeypatch.setenv("BROKER_HOME", str(key.with_name("empty")))
    named = {name: str(copy / name) for name in ("head", "checkpoint", "vkey")}
    given = [word for name, path in named.items() for word in (f"--{name}", path)]
    files = (str(copy / "receipt.jsonl"), *given, "--auditor-key", str(key))
    said = broker("receipt", *files, "--verify", "--level", "mac", "--expect-head", noted(key))
    assert said.code == 0, said.out + said.err
    said = broker("receipt", *files)
    assert "open" in said.out
    content = (copy / "receipt.jsonl").read_bytes()
    (copy / "receipt.jsonl").write_bytes(content[: content.rindex(b"\n", 0, -1) + 1])
    said = broker("receipt", *files, "--verify")
    assert (said.code, "truncated" in said.out) == (1, True)
    (copy / "head").write_bytes((copy / "head").read_bytes().replace(b"0", b"1"))
    assert broker("receipt", *files, "--verify").code == 1


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--auditor-key", "nowhere.key"), 2, "no auditor's key"),
        (("--auditor-key", "a.key.pub"), 2, ""),
        (("--auditor-key", "other.key"), 2, "sealed to auditor"),
        (("--level", "chain", "--auditor-key", "a.key"), 2, "leave them out"),
    ],
)
def test_what_is_told_otherwise(
    broker: Console, session: str, key: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    """A key that is needed, missing, public, another's or of no use is told."""
    broker("key", "auditor", "-o", "other.key")
    said = broker("receipt", session, "--verify", *words)
    assert said.code == code
    assert told in said.out + said.err


def test_an_ordinary_session_is_no_less_than_asked(
    broker: Console, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an auditor's key an ordinary session does not verify."""
    monkeypatch.chdir(key.parent)
    assert broker("run", "--quiet", "--", "true").code == 0
    said = broker("receipt", "--verify", "--auditor-key", str(key))
    assert said.code == 1
    assert "downgrade" in said.out


def test_the_configuration_names_an_auditor(
    broker: Console, key: Path, broker_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `forward` in the configuration every run is forward-secure, and a bad file is told."""
    monkeypatch.chdir(key.parent)
    home = Home.find({"BROKER_HOME": str(broker_home)})
    home.config.mkdir(parents=True, mode=0o700)
    settings = home.config / "broker.toml"
    settings.write_text(f"[broker]\nforward = {json.dumps(str(key) + '.pub')}\n")
    settings.chmod(0o600)
    assert "forward-secure" in broker("run", "--", "true").err
    assert broker("receipt", "--verify", "--auditor-key", str(key)).code == 0
    settings.write_text('[broker]\nforward = "nowhere.pub"\n')
    said = broker("run", "--", "true")
    assert said.code == 2
    assert "nowhere.pub" in said.err
    assert len(Receipts(home, _key(home)).sessions()) == 1


def _key(home: Home) -> Key:

    return installation_key(home)
