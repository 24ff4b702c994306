"""`broker receipt adopt` and `retire` write down what a person decides."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker.cli.wires import KEY_NAME
from broker.home import Home
from broker.receipt import Receipts, load_or_create_key
from broker.receipt.disk import DISK, make_private_folder
from broker.sessions.alive import Alive
from tests.console import Console
from tests.forwardkit import fill_forward

AT = 1_767_225_600_000_000_000


@pytest.fixture
def receipts(broker_home: Path) -> Receipts:
    """Two sessions of three lines."""
    home = Home.find({"BROKER_HOME": str(broker_home)})
    receipts = Receipts(home, load_or_create_key(home.keys / KEY_NAME))
    for sid in ("one", "two"):
        receipt = receipts.create(sid, opening={}, at=AT)
        receipt.append("note", {}, at=AT)
        receipt.seal("complete", at=AT)
    return receipts


def cut(receipts: Receipts, sid: str) -> None:
    """Cut the last line off, as a backup from before does."""
    path = receipts.path(sid)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def test_adopt(broker: Console, receipts: Receipts) -> None:
    """What was found is said, and the verdict is good from then on, with the reason."""
    cut(receipts, "one")
    assert broker("receipt", "one", "--verify").code == 1
    said = broker("receipt", "adopt", "on", "--reason", "from the \u202e backup")
    assert said.code == 0
    assert said.out.startswith("adopted one, found as: ")
    verified = broker("receipt", "one", "--verify")
    assert verified.code == 0
    assert r"from the \u202e backup" in verified.out
    assert broker("receipt", "adopt", "one", "--reason", "x").code == 2


def test_retire(broker: Console, receipts: Receipts) -> None:
    """A session of which nothing is left is named by its row."""
    shutil.rmtree(receipts.path("two").parent)
    receipts.head_path("two").unlink()
    assert broker("receipt", "two", "--verify").code == 1
    said = broker("receipt", "retire", "tw", "--reason", "as agreed", "--json")
    assert said.json() == {
        "retired": "two",
        "found": {"reason": "missing", "message": "session `two` began and its receipt is gone"},
    }
    assert broker("receipt", "two", "--verify").code == 2
    assert broker("receipt", "--verify", "--all").code == 0


def test_a_running_session_is_not_adopted(broker: Console, receipts: Receipts) -> None:
    """While a broker holds the session, nobody signs its head anew."""
    cut(receipts, "one")
    alive = Alive.hold(receipts.path("one").parent)
    assert broker("receipt", "adopt", "one", "--reason", "x").code == 2
    alive.drop()
    assert broker("receipt", "adopt", "one", "--reason", "x").code == 0


def test_another_ledger(broker: Console, receipts: Receipts) -> None:
    """Where the ledger is gone, another is begun on demand, and only then."""
    assert broker("receipt", "adopt", "--ledger", "--reason", "x").code == 2
    receipts.ledger.path.unlink()
    cut(receipts, "one")
    assert broker("receipt", "two", "--verify").code == 1
    said = broker("receipt", "adopt", "--ledger", "--reason", "lost")
    assert said.code == 0
    assert "sessions adopted: 1" in said.out
    assert "does not verify: one" in said.out
    assert broker("receipt", "two", "--verify").code == 0
    assert broker("receipt", "--verify", "--all").code == 1


@pytest.mark.parametrize(
    "words",
    [
        ("adopt", "one"),
        ("adopt", "--reason", "x"),
        ("adopt", "one", "--ledger", "--reason", "x"),
        ("adopt", "nine", "--reason", "x"),
        ("retire", "--reason", "x"),
        ("retire", "one"),
        ("retire", "one", "--reason", "x"),
        ("retire", "one", "--reason", " "),
    ],
)
def test_words_that_are_refused(
    broker: Console, receipts: Receipts, words: tuple[str, ...]
) -> None:
    """Without a reason, a session or a finding nothing is decided."""
    before = receipts.ledger.path.read_bytes()
    assert broker("receipt", *words).code == 2
    assert receipts.ledger.path.read_bytes() == before


def test_adopt_a_forward_secure_session(
    broker: Console, receipts: Receipts, tmp_path: Path
) -> None:
    """Without the auditor's key both ways out are named; with it the session stands again."""
    receipt = fill_forward(receipts, "far", 2)
    receipt.seal("complete", at=AT + 60)
    receipts.head_path("far").unlink()
    words = ("receipt", "adopt", "far", "--reason", "the head was lost")
    said = broker(*words)
    assert (said.code, said.out) == (2, "")
    assert "--auditor-key FILE" in said.err
    assert "broker receipt retire far" in said.err
    make_private_folder(tmp_path / "auditor")
    key = ("--auditor-key", str(tmp_path / "auditor" / "key"))
    DISK.replace(tmp_path / "auditor" / "key", bytes(range(200, 232)))
    assert broker(*words, *key).out.startswith("adopted far, found as: ")
    assert broker("receipt", "far", "--verify").code == 0
    assert broker("receipt", "far", "--verify", *key).code == 0
    assert broker("receipt", "adopt", "--ledger", "--reason", "x", *key).code == 2
