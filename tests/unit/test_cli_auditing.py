"""`broker receipt --verify --all`, and what the ledger says when one session is verified."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from broker.cli.auditing import document, line
from broker.cli.wires import KEY_NAME
from broker.errors import Break, UnverifiableError
from broker.home import Home
from broker.receipt import Receipts, load_or_create_key
from broker.receipt.audit import Audited
from tests.anchorkit import bare_remote
from tests.console import Console

AT = 1_767_225_600_000_000_000


@pytest.fixture
def receipts(broker_home: Path) -> Receipts:
    """Two sessions, one sealed and one open."""
    home = Home.find({"BROKER_HOME": str(broker_home)})
    receipts = Receipts(home, load_or_create_key(home.keys / KEY_NAME))
    for sid in ("sealed", "open"):
        receipt = receipts.create(sid, opening={}, at=AT)
        receipt.append("note", {}, at=AT)
        if sid == "sealed":
            receipt.seal("complete", at=AT)
        receipt.close()
    return receipts


def test_all_is_well(broker: Console, receipts: Receipts) -> None:
    """One line a session, the ledger first, and a closing line that says so."""
    said = broker("receipt", "--verify", "--all")
    assert said.code == 0
    first, *_, last = said.out.splitlines()
    assert first == "OPEN          ledger"
    assert "SEALED        sealed, 3 lines, level mac" in said.out
    assert last == "verified: 2 sessions and the ledger: nothing was changed, cut or left out"


def test_a_break_is_named(broker: Console, receipts: Receipts) -> None:
    """A session that is gone is named with its reason, and the exit code is 1."""
    shutil.rmtree(receipts.path("open").parent)
    receipts.head_path("open").unlink()
    said = broker("receipt", "--verify", "--all")
    assert said.code == 1
    assert "BROKEN        open; missing: session `open` began and its receipt is gone" in said.out
    assert said.out.splitlines()[-1] == "not verified: 1 BROKEN, of 2 sessions and the ledger"


def test_json(broker: Console, receipts: Receipts) -> None:
    """The document holds each finding, and by itself whether all stands."""
    said = broker("receipt", "--verify", "--all", "--json")
    found = said.json()
    assert (said.code, found["verified"], found["exit"]) == (0, True, 0)
    assert [each["sid"] for each in found["sessions"]] == ["ledger", "sealed", "open"]
    receipts.path("open").unlink()
    receipts.path("sealed").chmod(0o666)
    said = broker("receipt", "--verify", "--all", "--json")
    found = said.json()
    assert (said.code, found["verified"], found["exit"]) == (1, False, 1)
    states = {each["sid"]: each for each in found["sessions"]}
    assert states["open"]["break"]["reason"] == "missing"
    assert states["sealed"]["error"]["code"] == "unverifiable.mode"


def test_what_cannot_be_verified_is_2(broker: Console, receipts: Receipts) -> None:
    """An unsafe file alone is no break, and no success either."""
    receipts.path("sealed").chmod(0o666)
    assert broker("receipt", "--verify", "--all").code == 2


def test_nothing_and_no_key_are_2(broker: Console, receipts: Receipts, broker_home: Path) -> None:
    """Nothing to verify is not success, nor is a missing key."""
    (broker_home / "data" / "keys" / "receipt.key").rename(broker_home / "key")
    assert broker("receipt", "--verify", "--all").code == 2
    shutil.rmtree(broker_home / "state")
    shutil.rmtree(broker_home / "data")
    load_or_create_key(broker_home / "data" / "keys" / KEY_NAME)
    assert broker("receipt", "--verify", "--all").code == 2


def test_all_goes_with_verify(broker: Console, receipts: Receipts) -> None:
    """`--all` alone, or with a session, is a slip of the hand."""
    for words in (["--all"], ["--all", "--verify", "sealed"], ["--all", "--verify", "--refused"]):
        assert broker("receipt", *words).code == 2


def test_one_session_is_held_against_the_ledger(broker: Console, receipts: Receipts) -> None:
    """An older copy of receipt and head together verifies by itself, and is found all the same."""
    path, head = receipts.path("open"), receipts.head_path("open")
    older = path.read_bytes(), head.read_bytes()
    receipts.resume("open", at=AT).seal("complete", at=AT)
    assert broker("receipt", "open", "--verify").code == 0
    path.write_bytes(older[0])
    head.write_bytes(older[1])
    said = broker("receipt", "open", "--verify", "--json")
    assert (said.code, said.json()["break"]["reason"]) == (1, "truncated")
    key = str(receipts.home.keys / KEY_NAME)
    assert broker("receipt", "open", "--verify", "--key-file", key).code == 0


def test_a_session_of_which_nothing_is_left_is_missing(broker: Console, receipts: Receipts) -> None:
    """Asked for by its name, a session that is gone is a loss, not an unknown name."""
    shutil.rmtree(receipts.path("open").parent)
    receipts.head_path("open").unlink()
    said = broker("receipt", "open", "--verify", "--json")
    assert (said.code, said.json()["break"]["reason"]) == (1, "missing")


def test_a_finding_as_a_line_and_as_data() -> None:
    """What a receipt or a person supplied is escaped, and errors are told apart from breaks."""
    broken = Audited("s1", "BROKEN", fault=Break("mac", "a\x1b[2J", line=3, offset=9))
    assert line(broken) == r"BROKEN        s1; mac: a\x1b[2J"
    assert document(broken)["break"] == {
        "reason": "mac",
        "message": "a\x1b[2J",
        "line": 3,
        "offset": 9,
    }
    unsafe = Audited("s1", "UNVERIFIABLE", fault=UnverifiableError("no"), warnings=("w",))
    assert line(unsafe) == "UNVERIFIABLE  s1; no; w"
    assert json.dumps(document(unsafe))


def test_anchors_are_asked_what_they_hold(
    broker: Console, broker_home: Path, tmp_path: Path
) -> None:
    """Everything deleted is seen by what a git remote holds of the ledger; without one, told."""
    (tmp_path / "ws").mkdir()
    home = Home.find({"BROKER_HOME": str(broker_home)})
    home.config.mkdir(parents=True)
    assert broker("run", "--workspace", str(tmp_path / "ws"), "--", "true").code == 0
    said = broker("receipt", "--verify", "--all", "--level", "anchored")
    assert (said.code, "no anchor is configured" in said.err) == (2, True)
    config = home.config / "broker.toml"
    remote = bare_remote(tmp_path / "remote.git")
    config.write_text(f'[anchors.audit]\nkind = "git"\nremote = "{remote}"\n')
    config.chmod(0o600)
    assert broker("receipt", "anchor").code == 0
    said = broker("receipt", "--verify", "--all", "--level", "anchored")
    assert said.code == 0, said.out
    assert "anchor audit; 2" in said.out or "anchor audit; 3" in said.out
    for folder in (home.sessions, home.heads, home.ledger, home.checkpoints):
        shutil.rmtree(folder)
    said = broker("receipt", "--verify", "--all", "--level", "anchored")
    assert said.code == 1
    assert "anchor_missing" in said.out


@pytest.mark.parametrize("word", ["--require-seal", "--quick", "--refused", "--continue"])
def test_what_is_about_one_session_is_not_about_all(broker: Console, word: str) -> None:
    """An option that `--all` would pass over is an error, not a demand that nobody made."""
    said = broker("receipt", "--verify", "--all", word)
    assert said.code == 2
    assert "--all verifies every session" in said.err
