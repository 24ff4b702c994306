"""`broker sessions` lists what there was, in the state that verifies."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli.wires import KEY_NAME
from broker.home import Home
from broker.receipt import Receipts, load_or_create_key
from broker.receipt.repair import retire
from tests.console import Console

AT = 1_767_225_600_000_000_000


def test_none(broker: Console, broker_home: Path) -> None:
    """Before the first run there is no session, which is no error, and nothing is made."""
    said = broker("sessions")
    assert (said.code, said.out) == (0, "no session yet: `broker run` begins one\n")
    assert broker("sessions", "--json").json() == []
    assert list(broker_home.iterdir()) == []


@pytest.fixture
def receipts(broker_home: Path) -> Receipts:
    """Three sessions: one sealed, one open, one tampered with."""
    home = Home.find({"BROKER_HOME": str(broker_home)})
    receipts = Receipts(home, load_or_create_key(home.keys / KEY_NAME))
    for sid in ("sealed", "open", "broken"):
        receipt = receipts.create(sid, opening={}, at=AT)
        receipt.append("intent", {"line": f"do {sid} \u202e"}, at=AT)
        if sid == "sealed":
            receipt.seal("complete", at=AT)
        receipt.close()
    path = receipts.path("broken")
    path.write_bytes(path.read_bytes().replace(b"do broken", b"do BROKEN"))
    return receipts


def test_list(broker: Console, receipts: Receipts) -> None:
    """Each session has the state that the ledger knows, its lines and its intent."""
    said = broker("sessions")
    assert said.code == 0
    lines = {line.split()[0]: line for line in said.out.splitlines()}
    assert r"SEALED  3      do sealed \u202e" in lines["sealed"]
    assert r"OPEN    2      do open \u202e" in lines["open"]
    assert "do BROKEN" not in said.out


def test_verified(broker: Console, receipts: Receipts) -> None:
    """Asked to verify, it reads every receipt; a broken one says why, and no more."""
    said = broker("sessions", "--verify")
    lines = {line.split()[0]: line for line in said.out.splitlines()}
    assert r"SEALED  3      do sealed \u202e" in lines["sealed"]
    assert "BROKEN         mac: " in lines["broken"]
    assert "do BROKEN" not in said.out


def test_json(broker: Console, receipts: Receipts) -> None:
    """The JSON holds the same, one object a session, and says what was verified."""
    found = {s["sid"]: s for s in broker("sessions", "--verify", "--json").json()}
    assert {sid: (s["state"], s["verified"]) for sid, s in found.items()} == {
        "sealed": ("SEALED", True),
        "open": ("OPEN", True),
        "broken": ("BROKEN", False),
    }
    assert found["broken"]["lines"] is None
    assert found["sealed"]["intent"] == "do sealed \u202e"
    assert not any(s["verified"] for s in broker("sessions", "--json").json())


def test_a_lost_file(broker: Console, receipts: Receipts) -> None:
    """A session whose receipt or head is gone is still listed, even where nothing is left of it."""
    receipts.path("open").unlink()
    receipts.head_path("open").unlink()
    receipts.head_path("sealed").unlink()
    found = {s["sid"]: s for s in broker("sessions", "--json").json()}
    assert found["open"]["state"] == found["sealed"]["state"] == "MISSING"
    found = {s["sid"]: s for s in broker("sessions", "--verify", "--json").json()}
    assert found["open"]["why"].startswith("missing: ")
    assert found["sealed"]["why"].startswith("no_head: ")


def test_retired_and_unlisted(broker: Console, receipts: Receipts) -> None:
    """A person's word is shown, and a session without a row is told apart."""
    receipts.path("open").unlink()
    retire(receipts, "open", reason="as agreed", at=AT)
    for find in (receipts.path, receipts.head_path):
        find("stray").parent.mkdir(exist_ok=True)
        find("stray").write_bytes(find("sealed").read_bytes())
    found = {s["sid"]: s for s in broker("sessions", "--json").json()}
    assert (found["open"]["state"], found["open"]["why"]) == ("RETIRED", "as agreed")
    assert (found["stray"]["state"], found["stray"]["intent"]) == ("UNLISTED", "")
    found = {s["sid"]: s for s in broker("sessions", "--verify", "--json").json()}
    assert (found["open"]["state"], found["stray"]["state"]) == ("RETIRED", "BROKEN")


def test_without_a_ledger(broker: Console, receipts: Receipts) -> None:
    """Where the ledger cannot be read, that is said, and the folders are listed."""
    receipts.ledger.path.unlink()
    said = broker("sessions", "--json")
    assert "the ledger" in said.err
    assert {s["state"] for s in said.json()} == {"UNLISTED"}
    verified = broker("sessions", "--verify", "--json").json()
    assert {s["state"] for s in verified} == {"BROKEN"}
