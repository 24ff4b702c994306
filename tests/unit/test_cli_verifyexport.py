"""`broker receipt verify-export` tells an export that still fits from one that does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.export import intoto
from broker.export.source import Source
from broker.home import Home
from broker.receipt.audit import expect
from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.merkle import Frontier
from broker.receipt.sealing import AuditorKey
from broker.receipt.signing import SigningKey
from tests.console import Console
from tests.exportkit import LINES, SID, SIGNER, home_at, session, signer_of
from tests.forwardkit import AUDITOR
from tests.sessionkit import Bench


@pytest.fixture
def home(broker_home: Path) -> Home:
    """A home with a sealed session and a signing key."""
    home = home_at(broker_home)
    session(home)
    signer_of(home)
    return home


def exported(broker: Console, place: Path, name: str, sid: str = SID) -> Path:
    """Export a session to a file."""
    path = place / name
    assert broker("receipt", "export", sid, "--format", name, "-o", str(path)).code == 0
    return path


def checkpoint_file(home: Home, place: Path, lines: int = LINES) -> Path:
    """Write a signed checkpoint over the first lines of the session."""
    tree = Frontier()
    for line in (home.sessions / SID / "receipt.jsonl").read_bytes().split(b"\n")[:lines]:
        tree.append(line)
    path = place / "checkpoint"
    path.write_bytes(sign_checkpoint(signer_of(home), of_receipt(SID), lines, tree.root()))
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("name", ["in-toto", "agent-receipts", "aat", "otel", "csv"])
def test_an_edited_export(broker: Console, home: Home, tmp_path: Path, name: str) -> None:
    """One changed byte is 1, with the place; as JSON too."""
    path = exported(broker, tmp_path, name)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    said = broker("receipt", "verify-export", str(path), SID, "--format", name)
    assert said.code == 1
    assert said.out.startswith("not verified (")
    document = broker("receipt", "verify-export", str(path), SID, "--json", "--format", name).json()
    assert (document["verified"], document["format"]) == (False, name)
    assert document["break"]["reason"] in {"export", "dsse"}


def test_a_statement(broker: Console, home: Home, tmp_path: Path) -> None:
    """A statement is checked by the key, and compared with a receipt where one is named."""
    path = exported(broker, tmp_path, "in-toto")
    receipt = home.sessions / SID / "receipt.jsonl"
    verify = ("receipt", "verify-export", str(path))
    assert "subject not compared" in broker(*verify).out
    for words in (
        (SID,),
        ("--receipt", str(receipt)),
        ("--receipt", str(receipt), "--vkey", signer_of(home).vkey),
        ("--receipt", str(receipt), "--vkey", str(home.keys / "signing.vkey")),
    ):
        said = broker(*verify, *words)
        assert (said.code, said.err) == (0, "")
        assert "of this receipt" in said.out
    document = broker(*verify, SID, "--json").json()
    assert document["verified"] is True
    assert document["checked"][0] == f"signed by {signer_of(home).name}"
    assert broker(*verify, "--vkey", SIGNER.vkey).code == 1


def test_a_statement_of_another_receipt(broker: Console, home: Home, tmp_path: Path) -> None:
    """A well-signed statement about another file is 1, by its subject."""
    path = exported(broker, tmp_path, "in-toto")
    session(home, "abc2", more=1)
    said = broker("receipt", "verify-export", str(path), "abc2")
    assert said.code == 1
    assert said.out.startswith("not verified (subject): ")


def test_an_open_session_that_went_on(broker: Console, home: Home, tmp_path: Path) -> None:
    """A statement about an open session fits after it has grown, and says by how much."""
    receipt = session(home, "open", seal=None)
    path = exported(broker, tmp_path, "in-toto", "open")
    grown = tmp_path / "grown.jsonl"
    grown.write_bytes(receipt.read_bytes() + b"{}\n")
    said = broker("receipt", "verify-export", str(path), "--receipt", str(grown))
    assert said.code == 0
    assert "has grown by 3 bytes since" in said.out


def test_credentials_without_the_receipt(broker: Console, home: Home, tmp_path: Path) -> None:
    """Signed credentials are checked by the public key alone."""
    path = exported(broker, tmp_path, "agent-receipts")
    said = broker("receipt", "verify-export", str(path))
    assert said.code == 0
    assert said.out.startswith("verified: agent-receipts, 5 credentials, signed by ")
    assert broker("receipt", "verify-export", str(path), "--vkey", SIGNER.vkey).code == 1


def test_a_trail_without_the_receipt(broker: Console, home: Home, tmp_path: Path) -> None:
    """A checkpoint shows that no record is missing; without one nothing is claimed."""
    path = exported(broker, tmp_path, "aat")
    checkpoint = checkpoint_file(home, tmp_path)
    verify = ("receipt", "verify-export", str(path))
    said = broker(*verify, "--checkpoint", str(checkpoint))
    assert said.code == 0
    assert f"none missing among the {LINES} signed for" in said.out
    assert broker(*verify).code == 2
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    assert broker(*verify).code == 2
    assert broker(*verify, "--checkpoint", str(checkpoint)).code == 1
    path.write_bytes(b"".join(lines[:3] + lines[4:]))
    assert broker(*verify).code == 1


@pytest.mark.parametrize("name", ["otel", "csv"])
def test_what_says_nothing_about_itself(
    broker: Console, home: Home, tmp_path: Path, name: str
) -> None:
    """Formats without a signature or a chain need the receipt."""
    path = exported(broker, tmp_path, name)
    said = broker("receipt", "verify-export", str(path))
    assert (said.code, said.out) == (2, "")
    assert "name the session" in said.err


def test_the_receipt_must_verify(broker: Console, home: Home, tmp_path: Path) -> None:
    """An export is never found right beside a receipt that is not what was signed."""
    path = exported(broker, tmp_path, "csv")
    place = home.sessions / SID / "receipt.jsonl"
    place.write_bytes(place.read_bytes()[:-1])
    said = broker("receipt", "verify-export", str(path), SID)
    assert said.code == 1
    assert "truncated" in said.out


@pytest.mark.parametrize(
    "words",
    [
        ("/no/such/file",),
        ("{path}", "zzz"),
        ("{path}", "--vkey", "/no/such/key"),
        ("{path}", "--vkey", "a+b+c"),
        ("{path}", "--receipt", "/no/such/receipt"),
        ("{path}", "--format", "xml"),
        ("{folder}",),
        ("{empty}",),
    ],
)
def test_what_cannot_be_told(
    broker: Console, home: Home, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Wrong words, missing files and files that are no export are 2, with one line."""
    path = exported(broker, tmp_path, "in-toto")
    empty = tmp_path / "empty"
    empty.touch()
    filled = [word.format(path=path, folder=tmp_path, empty=empty) for word in words]
    said = broker("receipt", "verify-export", *filled)
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1


def test_without_a_public_key(broker: Console, home: Home, tmp_path: Path) -> None:
    """A signature that no key was given for cannot be told from any other."""
    path = exported(broker, tmp_path, "in-toto")
    (home.keys / "signing.vkey").unlink()
    assert broker("receipt", "verify-export", str(path)).code == 2


def test_nothing_is_printed_as_it_stands(broker: Console, home: Home, tmp_path: Path) -> None:
    """A type that a forger chose is shown escaped."""
    path = exported(broker, tmp_path, "in-toto")
    envelope = json.loads(path.read_text())
    envelope["payloadType"] = "\x1b[2J"
    path.write_text(json.dumps(envelope, ensure_ascii=False, separators=(",", ":")))
    said = broker("receipt", "verify-export", str(path))
    assert said.code == 1
    assert "\x1b" not in said.out


@pytest.mark.parametrize("auditor", [None, AUDITOR.public], ids=["plain", "forward"])
@pytest.mark.parametrize("name", ["in-toto", "agent-receipts", "csv"])
def test_an_export_of_before_a_change_of_keys(
    broker: Console, broker_home: Path, tmp_path: Path, name: str, auditor: AuditorKey | None
) -> None:
    """What the old key signed still fits, and the session can be exported anew, by the new one."""
    bench = Bench(tmp_path, home_at(broker_home))
    session = bench.open(auditor=auditor)
    session.decide("Read", {"file_path": "src/a.py"})
    session.seal()
    path = exported(broker, tmp_path, name, session.sid)
    old = broker("key", "show", "--vkey").out.strip()
    assert broker("key", "rotate").code == 0
    said = broker("receipt", "verify-export", str(path), session.sid)
    assert (said.code, said.err) == (0, "")
    if name != "csv":
        assert old.split("+")[0] in said.out
        assert broker("receipt", "verify-export", str(path)).code == 0
    later = exported(broker, tmp_path / "ws", name, session.sid)
    assert broker("receipt", "verify-export", str(later), session.sid).code == 0


def test_an_old_key_vouches_for_no_later_session(
    broker: Console, broker_home: Path, tmp_path: Path
) -> None:
    """Who kept the old seed cannot sign for a session that began after it was changed."""
    bench = Bench(tmp_path, home_at(broker_home))
    bench.open().seal()
    seed = (bench.home.keys / "signing.key").read_bytes()
    assert broker("key", "rotate").code == 0
    session = bench.open()
    session.decide("Read", {"file_path": "src/a.py"})
    session.seal()
    source = Source(expect(bench.receipts(), session.sid).evidence)
    path = tmp_path / "forged"
    path.write_bytes(intoto.envelope(source, SigningKey.of(seed)))
    said = broker("receipt", "verify-export", str(path), session.sid)
    assert said.code == 1
    assert "not verified (dsse)" in said.out
