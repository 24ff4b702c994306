"""`broker sessions` lists what there was, in the state that verifies."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli.wires import KEY_NAME
from broker.home import Home
from broker.receipt import Receipts, load_or_create_key
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
    """Each session has its state, lines and intent; a broken one says why, and no more."""
    said = broker("sessions")
    assert said.code == 0
    lines = {line.split()[0]: line for line in said.out.splitlines()}
    assert r"SEALED  3      do sealed \u202e" in lines["sealed"]
    assert r"OPEN    2      do open \u202e" in lines["open"]
    assert "BROKEN         mac: " in lines["broken"]
    assert "do BROKEN" not in said.out


def test_json(broker: Console, receipts: Receipts) -> None:
    """The JSON holds the same, one object a session."""
    found = {s["sid"]: s for s in broker("sessions", "--json").json()}
    assert {sid: s["state"] for sid, s in found.items()} == {
        "sealed": "SEALED",
        "open": "OPEN",
        "broken": "BROKEN",
    }
    assert found["broken"]["lines"] is None
    assert found["sealed"]["intent"] == "do sealed \u202e"


def test_a_lost_file(broker: Console, receipts: Receipts) -> None:
    """A session whose receipt or head is gone is still listed, as broken."""
    receipts.path("open").unlink()
    receipts.head_path("sealed").unlink()
    found = {s["sid"]: s for s in broker("sessions", "--json").json()}
    assert found["open"]["state"] == found["sealed"]["state"] == "BROKEN"
    assert found["open"]["why"].startswith("missing: ")
    assert found["sealed"]["why"].startswith("no_head: ")
