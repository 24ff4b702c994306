"""`broker receipt prove` and `verify-proof`: one line for somebody who has only the public key."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from broker.receipt.checkpoint import of_receipt, sign_checkpoint
from broker.receipt.proof import Proof
from broker.receipt.signing import SigningKey, load_signing_key
from tests.console import Console, process
from tests.sessionkit import Bench
from tests.unit.test_receipt_merkle import tree_hash

OTHER = SigningKey.of(bytes(range(32)))


class Sealed:
    """A sealed session of six lines, and the console of the installation that has it."""

    def __init__(self, root: Path, broker: Console, patch: pytest.MonkeyPatch) -> None:
        bench = Bench(root)
        patch.setenv("BROKER_HOME", str(root / "home"))
        patch.chdir(root)
        session = bench.open(intent="read \u202e a.py")
        for tool in ("Read", "Bash"):
            session.decide(tool, {"file_path": "src/a.py"})
        session.seal()
        self.bench, self.broker, self.sid = bench, broker, session.sid
        self.receipt, self.note = session.receipt_path, bench.home.checkpoints / session.sid
        self.vkey = load_signing_key(bench.home.keys / "signing.key").vkey

    def lines(self) -> list[bytes]:
        """Return the lines of the receipt."""
        return self.receipt.read_bytes().split(b"\n")[:-1]


@pytest.fixture
def sealed(tmp_path: Path, broker: Console, monkeypatch: pytest.MonkeyPatch) -> Sealed:
    return Sealed(tmp_path, broker, monkeypatch)


def test_prove_and_verify(sealed: Sealed) -> None:
    """Every line is proven, and shown by whoever has the proof and the public key."""
    for n, line in enumerate(sealed.lines()):
        said = sealed.broker("receipt", "prove", sealed.sid[:8], "--line", str(n), "-o", "p")
        assert (said.code, said.err) == (0, "")
        assert f"line {n} of session {sealed.sid}, among the first 6" in said.out
        told = sealed.broker("receipt", "verify-proof", "p", "--key", sealed.vkey)
        assert (told.code, told.err) == (0, "")
        first, shown = told.out.splitlines()
        assert first.startswith(f"proven: line {n} of session {sealed.sid}")
        assert shown == line.decode().replace("\u202e", "\\u202e")


def test_no_secret_is_needed_to_verify(sealed: Sealed, tmp_path: Path) -> None:
    """On a machine without any key or session, the proof shows its line; the key in a file."""
    sealed.broker("receipt", "prove", sealed.sid, "--line", "3", "-o", "p")
    Path("k").write_text(sealed.broker("key", "show", "--vkey").out)
    shutil.rmtree(tmp_path / "home")
    told = process("receipt", "verify-proof", "p", "--key", "k", "--json")
    assert (told.code, told.err) == (0, "")
    answer = told.json()
    assert isinstance(answer, dict)
    assert (answer["verified"], answer["sid"], answer["line"], answer["size"]) == (
        True,
        sealed.sid,
        3,
        6,
    )
    assert json.loads(answer["content"])["n"] == 3
    assert answer["signer"] == sealed.vkey.partition("+")[0]
    assert not (tmp_path / "home").exists()


def test_to_stdout_and_from_stdin(sealed: Sealed) -> None:
    """Without -o the proof is the answer, byte for byte, in any locale."""
    proof = process("receipt", "prove", sealed.sid, "--line", "1", env={"PYTHONIOENCODING": "utf8"})
    assert (proof.code, proof.err) == (0, "")
    assert Proof.parse(proof.out.encode()).index == 1
    ascii_ = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    assert process("receipt", "prove", sealed.sid, "--line", "1", env=ascii_).out == proof.out
    told = sealed.broker(
        "receipt", "verify-proof", "-", "--key", sealed.vkey, stdin=proof.out.encode()
    )
    assert told.code == 0


def test_a_proof_without_its_line(sealed: Sealed) -> None:
    """A proof may leave its line out; then whoever verifies needs the line."""
    words = ("receipt", "verify-proof", "p", "--key", sealed.vkey)
    sealed.broker("receipt", "prove", sealed.sid, "--line", "3", "--without-line", "-o", "p")
    line = sealed.lines()[3]
    assert b"extra" not in Path("p").read_bytes()
    said = sealed.broker(*words)
    assert (said.code, said.out) == (2, "")
    Path("l").write_bytes(line + b"\n")
    assert sealed.broker(*words, "--line-file", "l").code == 0
    Path("l").write_bytes(line.replace(b"allow", b"refuse"))
    said = sealed.broker(*words, "--line-file", "l")
    assert (said.code, said.out[:19]) == (1, "not proven (proof):")


def test_what_does_not_verify_is_1(sealed: Sealed) -> None:
    """Another key, another line, a changed proof: 1, the reason, and nothing of the line."""
    sealed.broker("receipt", "prove", sealed.sid, "--line", "3", "-o", "p")
    content = Path("p").read_bytes()
    cases = {
        "checkpoint_sig": (content, OTHER.vkey),
        "proof": (content.replace(b"index 3", b"index 2"), sealed.vkey),
        "proof_format": (content.replace(b"\n", b"\r\n"), sealed.vkey),
    }
    for reason, (changed, key) in cases.items():
        Path("p").write_bytes(changed)
        said = sealed.broker("receipt", "verify-proof", "p", "--key", key)
        assert (said.code, said.err) == (1, "")
        assert said.out.startswith(f"not proven ({reason}):")
        assert len(said.out.splitlines()) == 1
        answer = sealed.broker("receipt", "verify-proof", "p", "--key", key, "--json").json()
        assert isinstance(answer, dict)
        assert (answer["verified"], answer["break"]["reason"]) == (False, reason)
        assert "content" not in answer


def test_bad_input_is_2(sealed: Sealed) -> None:
    """No such line, session, file or key: 2."""
    sealed.broker("receipt", "prove", sealed.sid, "--line", "3", "-o", "p")
    Path("k").write_bytes(b"\xff")
    for words in (
        ("prove", sealed.sid),
        ("prove", sealed.sid, "--line", "6"),
        ("prove", sealed.sid, "--line", "-1"),
        ("prove", "zzz", "--line", "1"),
        ("prove", sealed.sid, "--line", "1", "--json"),
        ("prove", sealed.sid, "--line", "1", "-o", "no/such/folder"),
        ("verify-proof", "p"),
        ("verify-proof", "p", "--key", "k"),
        ("verify-proof", "p", "--key", "nowhere"),
        ("verify-proof", "p", "--key", sealed.vkey[:-3]),
        ("verify-proof", "nowhere", "--key", sealed.vkey),
    ):
        said = sealed.broker("receipt", *words)
        assert (said.code, said.out) == (2, ""), words
        assert said.err.count("\n") == 1


def test_only_what_verifies_is_proven(sealed: Sealed) -> None:
    """Out of a receipt that was changed no proof is made, with the secret or without."""
    whole = sealed.receipt.read_bytes()
    sealed.receipt.write_bytes(whole.replace(b"Read", b"Glob"))
    said = sealed.broker("receipt", "prove", sealed.sid, "--line", "1", "-o", "p")
    assert (said.code, Path("p").exists()) == (1, False)
    sealed.receipt.write_bytes(whole)
    # Whoever has the seed but not the lines signed something else.
    key = load_signing_key(sealed.bench.home.keys / "signing.key")
    lines = sealed.lines()
    sealed.note.write_bytes(sign_checkpoint(key, of_receipt(sealed.sid), 5, tree_hash(lines[:4])))
    said = sealed.broker("receipt", "prove", sealed.sid, "--line", "1", "-o", "p")
    assert (said.code, Path("p").exists()) == (1, False)
    sealed.note.write_bytes(sign_checkpoint(OTHER, of_receipt(sealed.sid), 6, tree_hash(lines)))
    assert sealed.broker("receipt", "prove", sealed.sid, "--line", "1").code == 1


def test_what_no_checkpoint_covers(sealed: Sealed) -> None:
    """A line beyond the checkpoint is 2, and so is a session without one."""
    session = sealed.bench.open()
    session.decide("Read", {"file_path": "src/a.py"})
    assert sealed.broker("receipt", "prove", session.sid, "--line", "1", "-o", "p").code == 0
    assert Proof.parse(Path("p").read_bytes()).index == 1
    said = sealed.broker("receipt", "prove", session.sid, "--line", "2", "-o", "p")
    assert said.code == 2
    assert "covers the first 2" in said.err
    os.unlink(sealed.bench.home.checkpoints / session.sid)
    assert sealed.broker("receipt", "prove", session.sid, "--line", "1").code == 2
    session.seal()
    os.unlink(sealed.note)  # that of a sealed session cannot be missing
    assert sealed.broker("receipt", "prove", sealed.sid, "--line", "1").code == 1
