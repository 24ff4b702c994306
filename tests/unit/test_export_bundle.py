"""A bundle holds what an auditor needs, and verifies where nothing of ours is installed."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from broker.errors import Break, InputError
from broker.export import bundle, intoto
from broker.home import Home
from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.commitment import commit
from broker.receipt.evidence import Evidence
from broker.receipt.keys import load_key
from broker.receipt.merkle import Frontier
from broker.receipt.signing import SigningKey
from broker.receipt.store import Receipts
from broker.receipt.verify import Verdict
from tests.exportkit import LINES, SID, home_at, session, signer_of
from tests.receiptkit import AT, outcome, tampered_tag

ALL = {
    "README.txt", "checkpoint", "receipt.jsonl", "signing.vkey", "statement.dsse.json",
    "verify_receipt.py",
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with a sealed session and an open one."""
    home = home_at(tmp_path / "home")
    session(home)
    session(home, "open", seal=None)
    return home


def evidence(home: Home, sid: str, covered: int | None = LINES) -> Evidence:
    """Return a session with a checkpoint over its first lines, or with none."""
    path, checkpoint = home.sessions / sid / "receipt.jsonl", home.checkpoints / sid
    signer = signer_of(home)
    if covered is not None:
        tree = Frontier()
        for line in path.read_bytes().split(b"\n")[:covered]:
            tree.append(line)
        home.checkpoints.mkdir(exist_ok=True)
        checkpoint.write_bytes(sign_checkpoint(signer, of_receipt(sid), covered, tree.root()))
        checkpoint.chmod(0o600)
    key = load_key(home.keys / "receipt.key")
    return Evidence(path, sid, key, home.heads / sid, checkpoint, (signer.public,))


def written(home: Home, what: Evidence, folder: Path) -> Verdict:
    """Write a bundle."""
    return bundle.write(folder, what, signer_of(home), now=AT * 2)


def checked(folder: Path, *words: str) -> int:
    """Verify a bundle with what lies in it alone, on a bare Python."""
    command = [sys.executable, "-I", "-S", "verify_receipt.py", "receipt.jsonl", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode


def how(folder: Path) -> list[str]:
    """Return the words that the README tells an auditor to type."""
    told = (folder / "README.txt").read_text()
    (line,) = (each for each in told.splitlines() if "verify_receipt.py receipt" in each)
    return line.split("receipt.jsonl", 1)[1].split()


def test_a_bundle_verifies_by_itself(home: Home, tmp_path: Path) -> None:
    """All parts are there, for the owner alone, and the verifier in it accepts what is in it."""
    folder = tmp_path / "out"
    verdict = written(home, evidence(home, SID), folder)
    assert (verdict.state, verdict.level) == ("SEALED", "signed")
    assert set(os.listdir(folder)) == ALL
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in ALL} == {0o600}
    assert (folder / "receipt.jsonl").read_bytes() == (
        home.sessions / SID / "receipt.jsonl"
    ).read_bytes()
    assert checked(folder, *how(folder), "--require-seal", "--level", "signed") == 0
    secret = (home.keys / "receipt.key").read_bytes()
    seed = (home.keys / "signing.key").read_bytes()
    for name in ALL:
        content = (folder / name).read_bytes()
        assert secret not in content
        assert seed not in content


def test_its_statement_is_of_its_receipt(home: Home, tmp_path: Path) -> None:
    """The statement in the folder is about the file in the folder, whole or cut."""
    for sid, covered in ((SID, LINES), ("open", 5), ("open", None)):
        folder = tmp_path / f"{sid}-{covered}"
        (home.checkpoints / sid).unlink(missing_ok=True)
        written(home, evidence(home, sid, covered), folder)
        content = (folder / "receipt.jsonl").read_bytes()
        signed = (folder / "statement.dsse.json").read_bytes()
        statement = intoto.open_statement(signed, [signer_of(home).public])
        assert intoto.compare(statement, [content]) == 0
        assert statement.predicate["receipt"]["lines"] == content.count(b"\n")


@pytest.mark.parametrize("name", ["receipt.jsonl", "checkpoint", "signing.vkey"])
def test_a_changed_part_is_seen(home: Home, tmp_path: Path, name: str) -> None:
    """A change in any part that counts is no success."""
    folder = tmp_path / "out"
    written(home, evidence(home, SID), folder)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    assert checked(folder, *how(folder)) in (1, 2)


def test_lines_that_nobody_signed_for_are_left_out(home: Home, tmp_path: Path) -> None:
    """Of an open session only the lines under the checkpoint are handed on, and that is said."""
    folder = tmp_path / "out"
    verdict = written(home, evidence(home, "open", 5), folder)
    assert (verdict.state, verdict.lines) == ("OPEN", LINES - 1)
    assert (folder / "receipt.jsonl").read_bytes().count(b"\n") == 5
    assert checked(folder, *how(folder)) == 0
    assert f"Its last {LINES - 6} lines were not signed" in (folder / "README.txt").read_text()


def test_without_a_checkpoint(home: Home, tmp_path: Path) -> None:
    """Without a checkpoint the README claims no more than the chain."""
    folder = tmp_path / "out"
    written(home, evidence(home, "open", None), folder)
    assert set(os.listdir(folder)) == ALL - {"checkpoint"}
    assert how(folder) == ["--level", "chain"]
    assert checked(folder, *how(folder)) == 0


def test_values_that_were_chosen(home: Home, tmp_path: Path) -> None:
    """Disclosures are handed on if their lines committed to them, and nothing is if not."""
    receipts = Receipts(home, load_key(home.keys / "receipt.key"))
    receipt = receipts.create("kept", opening={}, at=AT)
    signed, texts = commit({"text": "hello", "source": "me"}, ["text"], os.urandom)
    receipt.append("note", signed, at=AT)
    receipt.seal("complete", at=AT)
    what = evidence(home, "kept", 3)
    write = partial(bundle.write, evidence=what, signer=signer_of(home), now=AT * 2)
    write(tmp_path / "out", disclosures={1: texts})
    (row,) = (tmp_path / "out" / "disclosures.jsonl").read_text().splitlines()
    assert json.loads(row) == {"n": 1, "disclosure": texts[0]}
    _, other = commit({"text": "hello"}, ["text"], os.urandom)
    for number, wrong in enumerate(({1: other}, {2: texts}, {9: texts}, {1: ["x"]})):
        folder = tmp_path / str(number)
        assert outcome(lambda w=wrong, f=folder: write(f, disclosures=w)) == "disclosure"
        assert not (folder / "receipt.jsonl").exists()
        assert not (folder / "disclosures.jsonl").exists()


def test_after_a_change_of_keys(home: Home, tmp_path: Path) -> None:
    """A checkpoint of before is handed on with the key that signed it, and the README says so."""
    what = evidence(home, SID)
    folder = tmp_path / "out"
    bundle.write(folder, what, SigningKey.of(bytes(range(1, 33))), now=AT * 2)
    assert set(os.listdir(folder)) == {*ALL, "checkpoint.vkey"}
    assert "checkpoint.vkey" in how(folder)
    assert checked(folder, *how(folder)) == 0


def test_what_does_not_verify_is_not_handed_on(home: Home, tmp_path: Path) -> None:
    """A receipt with a break, or with a checkpoint of another one, leaves no receipt behind."""
    good = evidence(home, SID)
    strange = replace(good, checkpoint=tmp_path / "strange")
    wrong = sign_checkpoint(signer_of(home), of_receipt(SID), LINES, bytes(32))
    (tmp_path / "strange").write_bytes(wrong)
    with pytest.raises(Break):
        written(home, strange, tmp_path / "one")
    lines = good.path.read_bytes().split(b"\n")
    good.path.write_bytes(b"\n".join([*lines[:-2], tampered_tag(lines[-2]), b""]))
    with pytest.raises(Break):
        written(home, good, tmp_path / "two")
    for name in ("one", "two"):
        assert "receipt.jsonl" not in os.listdir(tmp_path / name)


def test_a_folder_that_is_there_is_not_filled(home: Home, tmp_path: Path) -> None:
    """Parts of two bundles never mix."""
    with pytest.raises(InputError):
        written(home, evidence(home, SID), tmp_path)
