"""`broker receipt export` writes what verifies, and nothing where it does not."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.home import Home
from broker.intent import TypedLine
from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.disk import DISK, make_private_folder
from broker.receipt.merkle import Frontier
from broker.session import Session
from tests.console import Console, process
from tests.exportkit import LINES, SID, home_at, session, signer_of
from tests.forwardkit import AUDITOR


@pytest.fixture
def home(broker_home: Path) -> Home:
    """A home with a sealed session and a signing key."""
    home = home_at(broker_home)
    session(home)
    signer_of(home)
    return home


def test_to_standard_output(broker: Console, home: Home) -> None:
    """An export of a sealed session is all that is said."""
    said = broker("receipt", "export", "abc", "--format", "csv")
    assert (said.code, said.err) == (0, "")
    assert len(list(csv.reader(io.StringIO(said.out, newline="")))) == LINES + 1
    latest = broker("receipt", "export", "--format", "csv")
    assert latest.out == said.out


def test_the_bytes_are_the_same_in_any_locale(home: Home) -> None:
    """A locale without UTF-8 changes nothing in an export."""
    words = ("receipt", "export", "--format", "csv")
    plain = process(*words, env={"LC_ALL": "C.UTF-8"})
    other = process(*words, env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    assert "café" in plain.out
    assert (plain.out, plain.code) == (other.out, 0)


@pytest.mark.parametrize("name", ["in-toto", "agent-receipts", "aat", "otel", "csv"])
def test_to_a_file(broker: Console, home: Home, tmp_path: Path, name: str) -> None:
    """Each format goes to a file, and one line says what was exported."""
    path = tmp_path / "x"
    said = broker("receipt", "export", SID, "--format", name, "-o", str(path))
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{path}: SEALED, {LINES} lines, level mac, completeness KNOWN\n"
    again = broker("receipt", "verify-export", str(path), SID)
    assert (again.code, again.err) == (0, "")
    assert again.out.startswith(f"verified: {name}, ")


def test_a_receipt_that_does_not_verify(broker: Console, home: Home, tmp_path: Path) -> None:
    """A break is 1 with its place, what came before it is all there is, and no file is left."""
    place = home.sessions / SID / "receipt.jsonl"
    place.write_bytes(place.read_bytes().replace(b'"shell"', b'"Shell"', 1))
    said = broker("receipt", "export", SID, "--format", "csv")
    assert said.code == 1
    assert said.out.count("\n") == 6
    assert "(mac): " in said.err
    assert ", at line 5, byte offset " in said.err
    for name in ("csv", "in-toto", "bundle"):
        path = tmp_path / name
        assert broker("receipt", "export", SID, "--format", name, "-o", str(path)).code == 1
        assert not path.is_file()
    assert os.listdir(tmp_path) in (["bundle"], [])


def test_a_bundle(broker: Console, home: Home, tmp_path: Path) -> None:
    """A bundle is a folder, with the values that were chosen, and takes no name that is taken."""
    folder, values = tmp_path / "out", tmp_path / "values.jsonl"
    values.write_bytes(b'{"disclosure":"x","n":5}\n')
    wrong = ("receipt", "export", SID, "--format", "bundle", "-o", str(tmp_path / "wrong"))
    refused = broker(*wrong, "--disclosures", str(values))
    assert refused.code == 1
    assert "did not commit" in refused.err
    session = Session.open(
        [], workspace=tmp_path, home=home, intent=TypedLine("hi", "argument"), conceal=["intent"]
    )
    session.seal()
    values.unlink()
    assert broker("receipt", "disclose", session.sid, "-o", str(values)).code == 0
    bundle = ("receipt", "export", session.sid, "--format", "bundle", "-o", str(folder))
    said = broker(*bundle, "--disclosures", str(values))
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"{folder}: SEALED, 4 lines, ")
    assert (folder / "disclosures.jsonl").read_bytes() == values.read_bytes()
    again = broker(*bundle)
    assert (again.code, again.out) == (2, "")


def test_the_verifier_alone(broker: Console, tmp_path: Path) -> None:
    """The one-file verifier goes to stdout or to a file, and needs no session."""
    said = broker("receipt", "export", "--verifier")
    assert said.code == 0
    path = tmp_path / "verify.py"
    assert broker("receipt", "export", "--verifier", "-o", str(path)).out == f"{path}\n"
    assert path.read_text(encoding="utf-8") == said.out
    compile(said.out, "verify.py", "exec")


def test_an_auditor_s_copy(broker: Console, home: Home, tmp_path: Path) -> None:
    """A copy is exported with the public key and a checkpoint, where there is no secret."""
    lines = (home.sessions / SID / "receipt.jsonl").read_bytes()
    copy, checkpoint, vkey = (tmp_path / name for name in ("c.jsonl", "checkpoint", "k.vkey"))
    copy.write_bytes(lines)
    tree = Frontier()
    for line in lines.split(b"\n")[:LINES]:
        tree.append(line)
    signer = signer_of(home)
    checkpoint.write_bytes(sign_checkpoint(signer, of_receipt(SID), LINES, tree.root()))
    vkey.write_text(signer.vkey)
    wanted = broker("receipt", "export", SID, "--format", "csv").out
    (home.keys / "receipt.key").unlink()
    with_key = ("--checkpoint", str(checkpoint), "--vkey", str(vkey))
    said = broker("receipt", "export", str(copy), "--format", "csv", *with_key)
    assert (said.code, said.err) == (0, "")
    assert said.out == wanted
    copy.write_bytes(lines.replace(b"shell", b"Shell", 1))
    said = broker("receipt", "export", str(copy), "--format", "csv", *with_key)
    assert (said.code, said.out) == (1, wanted[: wanted.index("\n") + 1])


def test_an_open_session_says_so(broker: Console, home: Home) -> None:
    """What is still open is exported too, and stderr says that it is."""
    session(home, "open", seal=None)
    said = broker("receipt", "export", "open", "--format", "aat")
    assert said.code == 0
    assert said.err == f"exported: OPEN, {LINES - 1} lines, level mac, completeness KNOWN\n"


@pytest.mark.parametrize(
    "words",
    [
        (SID,),
        (SID, "--format", "xml"),
        (SID, "--format", "bundle"),
        ("zzz", "--format", "csv"),
        (SID, "--format", "csv", "-o", "/no/such/folder/x"),
        (SID, "--verifier"),
        ("--format", "csv", "--verifier"),
        (SID, "--format", "csv", "--disclosures", "x"),
        (SID, "--format", "bundle", "-o", "/tmp", "--disclosures", "/no/such/file"),
    ],
)
def test_what_cannot_be_done(broker: Console, home: Home, words: tuple[str, ...]) -> None:
    """Wrong words are 2, with one line that says what is wrong."""
    said = broker("receipt", "export", *words)
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1


def test_without_a_signing_key(broker: Console, broker_home: Path) -> None:
    """What is signed needs the key; the rest does not."""
    session(home_at(broker_home))
    said = broker("receipt", "export", SID, "--format", "in-toto")
    assert said.code == 2
    assert "broker key new" in said.err
    assert broker("receipt", "export", SID, "--format", "csv").code == 0


def test_without_any_key(broker: Console, home: Home) -> None:
    """Nothing is exported that could not be verified."""
    (home.keys / "receipt.key").unlink()
    said = broker("receipt", "export", SID, "--format", "csv")
    assert (said.code, said.out) == (2, "")


def test_a_reader_that_goes_away(home: Home) -> None:
    """A closed pipe ends the export without a traceback."""
    code = "from broker.cli.main import main; main()"
    command = [sys.executable, "-c", code, "receipt", "export", "--format", "aat"]
    done = subprocess.run(
        f"{' '.join(repr(c) for c in command)} | head -c 1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("{", "")


def test_the_help_names_the_formats(broker: Console) -> None:
    """One page of help says what there is, and what an export is not."""
    said = broker("receipt", "export", "--help")
    assert said.code == 0
    for word in ("in-toto", "agent-receipts", "aat", "otel", "csv", "bundle", "--verifier"):
        assert word in said.out


def test_a_forward_secure_session(broker: Console, home: Home, tmp_path: Path) -> None:
    """The host exports what its head vouches for and says so; the auditor's key checks the tags."""
    session = Session.open([], workspace=tmp_path, home=home, auditor=AUDITOR.public)
    session.decide("Read", {"file_path": "a"})
    session.seal()
    make_private_folder(tmp_path / "auditor")
    DISK.replace(tmp_path / "auditor" / "key", bytes(range(200, 232)))
    words = ("receipt", "export", session.sid, "--format", "csv")
    alone = broker(*words)
    assert alone.code == 0
    path = tmp_path / "x.csv"
    said = broker(*words, "--auditor-key", str(tmp_path / "auditor" / "key"), "-o", str(path))
    assert said.code == 0
    assert "the auditor's key checks their tags" not in said.err
    assert "the auditor's key checks their tags" in broker(*words, "-o", f"{path}2").err
    assert path.read_bytes().decode() == alone.out
    key = ("--auditor-key", str(tmp_path / "auditor" / "key"))
    assert broker("receipt", "verify-export", str(path), session.sid, *key).code == 0
    assert broker(*words[:2], SID, *words[3:], *key).code == 1  # it is not forward-secure
