"""`broker receipt` shows what verifies, and says where it stops verifying."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from broker.cli.wires import KEY_NAME
from broker.home import Home
from broker.receipt import Receipts, load_or_create_key
from tests.console import Console

AT = 1_767_225_600_000_000_000


@pytest.fixture
def receipts(broker_home: Path) -> Receipts:
    """The receipts of an installation that has a key."""
    home = Home.find({"BROKER_HOME": str(broker_home)})
    return Receipts(home, load_or_create_key(home.keys / KEY_NAME))


@pytest.fixture
def path(receipts: Receipts) -> Path:
    """The receipt of a sealed session, `abc1`, with an allow and a refusal."""
    receipt = receipts.create("abc1", opening={"agent": "me", "workspace": "/ws"}, at=AT)
    receipt.append("intent", {"line": "tidy \x1b[2J up"}, at=AT)
    receipt.append("decision", {"decision": "allow", "tool": "read_file"}, at=AT)
    refused = {"decision": "refuse", "tool": "shell", "caveat": "tools", "reason": "not named"}
    receipt.append("decision", refused, at=AT)
    receipt.seal("complete", at=AT)
    receipt.close()
    return receipts.path("abc1")


def test_show(broker: Console, path: Path) -> None:
    """The latest session is shown entry by entry, escaped, with the verdict last."""
    said = broker("receipt")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == f"receipt abc1  {path}"
    assert lines[2].endswith(r"intent     tidy \x1b[2J up")
    assert lines[3].endswith("allowed    read_file")
    assert lines[-1] == "verified: SEALED, 5 lines, level mac, completeness KNOWN"
    assert broker("receipt", "abc").out == said.out


def test_refused(broker: Console, path: Path) -> None:
    """--refused leaves only the refusals, still verified."""
    lines = broker("receipt", "--refused").out.splitlines()
    assert len(lines) == 3
    assert lines[1].endswith("refused    shell  (tools) not named")


def test_json(broker: Console, path: Path) -> None:
    """The JSON holds the verdict and the entries, or only the verdict."""
    said = broker("receipt", "--json").json()
    assert said["verified"] is True
    assert said["verdict"]["state"] == "SEALED"
    assert [e["kind"] for e in said["entries"]] == [
        "open",
        "intent",
        "decision",
        "decision",
        "seal",
    ]
    assert said["entries"][0]["at"] == "2026-01-01T00:00:00Z"
    assert broker("receipt", "--json", "--verify").json()["entries"] == []
    assert len(broker("receipt", "--json", "--refused").json()["entries"]) == 1


def test_verify(broker: Console, path: Path) -> None:
    """--verify says the head and the verdict, and shows no entry."""
    said = broker("receipt", "--verify")
    assert said.code == 0
    lines = said.out.splitlines()
    assert len(lines) == 3
    last = sha256(path.read_bytes().splitlines()[-1]).hexdigest()
    assert lines[1] == f"    head 5:{last}"
    assert lines[2] == "verified: SEALED, 5 lines, level mac, completeness KNOWN"
    assert "read_file" not in said.out


def test_tampered(broker: Console, path: Path) -> None:
    """A changed line is 1, with its number and byte offset, and nothing behind it is shown."""
    lines = path.read_bytes().split(b"\n")
    offset = sum(len(line) + 1 for line in lines[:3])
    lines[3] = lines[3].replace(b'"refuse"', b'"allow"')
    path.write_bytes(b"\n".join(lines))
    said = broker("receipt", "--verify")
    assert said.code == 1
    assert said.out.splitlines()[-1].startswith("not verified (mac): ")
    assert said.out.endswith(f", at line 3, byte offset {offset}\n")
    shown = broker("receipt")
    assert shown.code == 1
    assert "read_file" in shown.out
    assert "shell" not in shown.out
    broken = broker("receipt", "--json").json()
    assert broken["verified"] is False
    assert broken["verdict"] is None
    assert (broken["break"]["line"], broken["break"]["offset"]) == (3, offset)
    assert len(broken["entries"]) == 3


def test_cut_short(broker: Console, path: Path) -> None:
    """A receipt that lost its end does not verify."""
    path.write_bytes(b"\n".join(path.read_bytes().split(b"\n")[:3]) + b"\n")
    said = broker("receipt", "--verify")
    assert said.code == 1
    assert "truncated" in said.out


def test_open_interrupted_and_torn(broker: Console, receipts: Receipts) -> None:
    """A session without a seal, sealed early or cut off while writing says so, and verifies."""
    for sid in ("open", "early", "torn"):
        receipts.create(sid, opening={}, at=AT).close()
    receipt = receipts.resume("early", at=AT)
    receipt.seal("interrupted", at=AT)
    receipt.close()
    with receipts.path("torn").open("ab") as stream:
        stream.write(b'{"at":"20')
    for sid, state, said in (
        ("open", "OPEN", "no seal yet"),
        ("early", "INTERRUPTED", "the seal says `interrupted`"),
        ("torn", "TORN", "9 bytes of a line that was being written"),
    ):
        found = broker("receipt", sid, "--verify")
        assert found.code == 0
        assert f"verified: {state}, " in found.out
        assert said in found.out


@pytest.mark.parametrize("words", [(), ("x",), ("../..",), ("\ud800",), ("--verify",)])
def test_nothing_to_verify(broker: Console, receipts: Receipts, words: tuple[str, ...]) -> None:
    """Nothing to verify is not success: it is 2."""
    said = broker("receipt", *words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("broker: ")


def test_ambiguous(broker: Console, receipts: Receipts, path: Path) -> None:
    """A beginning that two sessions share is 2, and names them."""
    receipts.create("abc2", opening={}, at=AT).close()
    said = broker("receipt", "abc")
    assert said.code == 2
    assert "abc1, abc2" in said.err


def test_no_key(broker: Console, path: Path, broker_home: Path) -> None:
    """Without the key nothing is shown and nothing is claimed."""
    (broker_home / "data" / "keys" / KEY_NAME).unlink()
    said = broker("receipt")
    assert (said.code, said.out) == (2, "")
