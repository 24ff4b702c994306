"""The one-file verifier: it stands alone, and its arithmetic is that of the standards."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.receipt.merkle import Frontier
from broker.standalone import verify_receipt as alone
from tests.standalone.vectors import checkpoint, path_to, tree_hash

SOURCE = Path(alone.__file__)


# ── it stands alone ──


def test_it_is_short() -> None:
    """It has fewer than 300 lines, none longer than 100 characters."""
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 300
    assert max(map(len, lines)) <= 100


def test_it_imports_the_standard_library_alone() -> None:
    """No import reaches us or a library, not even inside a function."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    named = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert named <= sys.stdlib_module_names


def test_it_is_python_3_9() -> None:
    """Nothing in it takes a newer language; where an older Python is installed, it runs there."""
    ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 9))
    for name in ("python3.9", "python3.10"):
        found = shutil.which(name)
        if found is None:
            continue
        done = subprocess.run(
            [found, "-I", str(SOURCE), "--help"], capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, 127) or "not found" in done.stderr
        assert "Traceback" not in done.stderr


def test_help_says_how_it_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    """Its help shows the three ways to call it, and what each exit code means."""
    with pytest.raises(SystemExit):
        alone.main(["--help"])
    printed = capsys.readouterr().out
    assert "--vkey signing.vkey --checkpoint checkpoint" in printed
    assert "Exit code: 0 verified; 1 changed" in printed


def test_a_file_that_is_not_there_can_not_be_told(capsys: pytest.CaptureFixture[str]) -> None:
    """R9.8: no file, no verdict: exit code 2, and one line that says so."""
    assert alone.main(["/nowhere/receipt.jsonl", "--level", "chain"]) == 2
    printed = capsys.readouterr().out
    assert printed.startswith("verdict: 'unverifiable'")
    assert printed.count("\n") == 1


# ── signatures (R8.6) ──


def library_accepts(public: bytes, message: bytes, signature: bytes) -> bool:
    """Return what the library that signs for us says of a signature."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@settings(max_examples=20)
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=80), st.integers(0, 767))
def test_signatures_hold_until_a_bit_is_changed(seed: bytes, message: bytes, bit: int) -> None:
    """R8.6: a signature of the library holds, and holds no more with any bit of it changed."""
    signer = Ed25519PrivateKey.from_private_bytes(seed)
    public, signature = signer.public_key().public_bytes_raw(), signer.sign(message)
    assert alone.signed_by(public, message, signature)
    both = bytearray(public + signature)
    both[bit // 8] ^= 1 << bit % 8
    assert not alone.signed_by(bytes(both[:32]), message, bytes(both[32:]))


@pytest.mark.parametrize("length", [0, 31, 32, 63, 65, 96])
def test_a_signature_has_64_bytes(length: int) -> None:
    """R8.6: no other length is a signature, nor is a key of another length a key."""
    signer = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    public, signature = signer.public_key().public_bytes_raw(), signer.sign(b"")
    assert not alone.signed_by(public, b"", (signature * 2)[:length])
    assert not alone.signed_by((public * 4)[:length] if length != 32 else b"", b"", signature)


def test_s_has_one_spelling() -> None:
    """R8.6: the order added to S gives another signature of the same text, and is refused."""
    signer = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    public, signature = signer.public_key().public_bytes_raw(), signer.sign(b"x")
    s = int.from_bytes(signature[32:], "little") + alone.ORDER
    assert not alone.signed_by(public, b"x", signature[:32] + s.to_bytes(32, "little"))


SMALL_ORDER = [0, 1, alone.P - 1, 2**255 | 1, 2**255 | (alone.P - 1)]


@pytest.mark.parametrize("y", SMALL_ORDER)
def test_a_key_of_small_order_signs_nothing(y: int) -> None:
    """R8.6: a key with which one signature fits many texts is no key."""
    public = y.to_bytes(32, "little")
    forged = (1).to_bytes(32, "little") + bytes(32)
    assert not any(alone.signed_by(public, bytes([i]), forged) for i in range(16))


def test_rfc_8032(shared: Path) -> None:
    """R8.6: the examples of RFC 8032, section 7.1, hold."""
    rows = json.loads((shared / "vectors/rfc8032-ed25519/rfc8032_7_1.json").read_text())
    for row in rows:
        public, message, signature = (
            bytes.fromhex(row[name]) for name in ("public", "message", "signature")
        )
        assert alone.signed_by(public, message, signature)
    assert len(rows) == 3


def test_wycheproof(shared: Path) -> None:
    """R8.6: each of Wycheproof's Ed25519 cases is answered as it says."""
    groups = json.loads((shared / "vectors/wycheproof/ed25519_test.json").read_text())["testGroups"]
    counted = 0
    for group in groups:
        public = bytes.fromhex(group["publicKey"]["pk"])
        for row in group["tests"]:
            message, signature = bytes.fromhex(row["msg"]), bytes.fromhex(row["sig"])
            assert alone.signed_by(public, message, signature) == (row["result"] == "valid"), row
            counted += 1
    assert counted == 151


def test_edge_cases_are_judged_as_the_library_judges_them(shared: Path) -> None:
    """R8.6: of 914 odd keys and signatures, those of small order aside, both hold the same."""
    rows = json.loads((shared / "vectors/rfc8032-ed25519/cctv_ed25519vectors.json").read_text())
    held = 0
    for row in rows:
        public, signature = bytes.fromhex(row["key"]), bytes.fromhex(row["sig"])
        flags, message = set(row["flags"] or ()), row["msg"].encode()
        ours = alone.signed_by(public, message, signature)
        if "low_order_A" in flags or flags & {"non_canonical_A", "non_canonical_R"}:
            assert not ours
        else:
            assert ours == library_accepts(public, message, signature)
        held += ours
    assert (len(rows), held) == (914, 86)


# ── the tree (R7) ──


@given(st.lists(st.binary(max_size=3), max_size=40))
def test_the_tree_is_the_definition(leaves: list[bytes]) -> None:
    """R7.1: the growing tree, the definition and the broker's own tree have one root."""
    edge: list[bytes] = []
    other = Frontier()
    for size, leaf in enumerate(leaves):
        alone.grow(edge, size, leaf)
        other.append(leaf)
    assert alone.tree_hash(edge) == tree_hash(leaves) == other.root()


@given(st.lists(st.binary(max_size=3), min_size=1, max_size=40), st.data())
def test_a_path_leads_to_the_root_from_its_own_leaf_alone(
    leaves: list[bytes], data: st.DataObject
) -> None:
    """R7.2: the path of a line leads to the root; with one hash more or less it leads nowhere."""
    index = data.draw(st.integers(0, len(leaves) - 1))
    path, leaf = path_to(leaves, index), alone.sha256(b"\0" + leaves[index])
    assert alone.led_to(leaf, index, len(leaves), path) == tree_hash(leaves)
    for wrong in ([*path, bytes(32)], path[:-1] if path else [bytes(32)]):
        with pytest.raises(alone.Flaw) as caught:
            alone.led_to(leaf, index, len(leaves), wrong)
        assert caught.value.args[0] == "proof"


def test_public_inclusion_vectors(shared: Path) -> None:
    """R7.2: every public inclusion vector is answered as it says."""
    counted = 0
    for file in sorted((shared / "vectors/rfc6962-merkle/inclusion").rglob("*.json")):
        row = json.loads(file.read_text())
        root, leaf = (unbase64(row[name]) for name in ("root", "leafHash"))
        path = [unbase64(each) for each in row["proof"] or []]
        index, size = row["leafIdx"], row["treeSize"]
        whole = len(leaf) == len(root) == 32  # in our files they cannot have another length
        try:
            right = whole and 0 <= index < size and alone.led_to(leaf, index, size, path) == root
        except alone.Flaw:
            right = False
        assert right == (not row["wantErr"]), file.name
        counted += 1
    assert counted == 98


def unbase64(text: str | None) -> bytes:
    """Return what base64 of the vectors stands for."""
    return alone.base64.b64decode(text or "")


# ── notes and keys (R8.1 to R8.4) ──


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a+b",
        "PeterNeumann+c74f20a3",
        "PeterNeumann+c74f20a3+",
        "PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "Peter Neumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+C74F20A3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
    ],
)
def test_what_is_no_key(text: str) -> None:
    """R8.1: a key with another key id, kind, length or spelling is none."""
    with pytest.raises(alone.Flaw) as caught:
        alone.vkey(text)
    assert caught.value.args[0] == "vkey"


def test_a_key_is_read_as_text_and_from_a_file(tmp_path: Path) -> None:
    """R8.1: a public key is its line of text, or a file that holds that line."""
    text = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    file = tmp_path / "a.vkey"
    file.write_text(text + "\n")
    assert alone.vkey(text) == alone.vkey(str(file))
    assert alone.vkey(text)[0] == "PeterNeumann"


def test_public_notes(shared: Path) -> None:
    """R8.2: a public note is refused for its signature where that is wrong, else for its text."""
    counted = 0
    for row in json.loads((shared / "vectors/c2sp-signed-note/notes.json").read_text()):
        keys = row["vkey"] if isinstance(row["vkey"], list) else [row["vkey"]]
        for key in keys:
            with pytest.raises(alone.Flaw) as caught:
                alone.checkpoint(row["note"].encode(), alone.vkey(key))
            # Their texts are no checkpoints, so none is accepted, rightly signed or not.
            assert caught.value.args[0].startswith("checkpoint_")
            counted += 1
    assert counted > 10


def test_public_proof_files(shared: Path, tmp_path: Path) -> None:
    """R8.8: proof files that are malformed are refused for that, and the others for their note."""
    key = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    file, line = tmp_path / "proof", tmp_path / "line"
    line.write_bytes(b"{}\n")
    for row in json.loads((shared / "vectors/c2sp-checkpoint/tlog_proofs.json").read_text()):
        file.write_text(row["proof"])
        arguments = alone.argparse.Namespace(vkey=key, proof=str(file), receipt=str(line))
        with pytest.raises(alone.Flaw) as caught:
            alone.verify_proof(arguments)
        malformed = caught.value.args[0] == "proof_format"
        assert malformed == (row["want"] == "reject"), row["name"]


def test_a_checkpoint_is_read_under_its_own_key_alone() -> None:
    """R8.4: session, size and root come from a checkpoint of the key that is given."""
    from tests.standalone.vectors import VKEY

    lines = [b"a", b"b"]
    assert alone.checkpoint(checkpoint(lines), alone.vkey(VKEY)) == ("k3v-1", 2, tree_hash(lines))
    other = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    with pytest.raises(alone.Flaw):
        alone.checkpoint(checkpoint(lines), alone.vkey(other))
