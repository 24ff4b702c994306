"""The signing key: its arithmetic against published vectors, its names, its files."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break, InputError, UnverifiableError
from broker.receipt.signing import (
    SigningKey,
    VerifyKey,
    is_key_name,
    load_or_create_signing_key,
    load_signing_key,
    load_verify_key,
    strict_base64,
    vkey_path,
)
from tests.receiptkit import in_child

SEED = bytes(range(32))
KEY = SigningKey.of(SEED)


def accepted(public: str, message: bytes, signature: str) -> bool:
    """Whether a public key is believed to be one, and accepts the signature."""
    try:
        return VerifyKey("x", bytes.fromhex(public)).accepts(message, bytes.fromhex(signature))
    except InputError:
        return False


# ── arithmetic ──


def test_rfc_8032(shared: Path) -> None:
    """The three examples of RFC 8032 come out byte for byte, and verify."""
    cases = json.loads((shared / "vectors/rfc8032-ed25519/rfc8032_7_1.json").read_text())
    assert len(cases) == 3
    for case in cases:
        key, message = SigningKey.of(bytes.fromhex(case["seed"])), bytes.fromhex(case["message"])
        assert key.public.public.hex() == case["public"]
        assert key.sign(message).hex() == case["signature"]
        assert key.public.accepts(message, key.sign(message))


def test_the_original_signatures(shared: Path) -> None:
    """The first 128 signatures of the reference implementation come out byte for byte."""
    lines = (shared / "vectors/rfc8032-ed25519/sign.input.first128").read_text().splitlines()
    assert len(lines) == 128
    for line in lines:
        secret, public, message, signed = (bytes.fromhex(part) for part in line.split(":")[:4])
        key = SigningKey.of(secret[:32])
        assert (key.public.public, key.sign(message)) == (public, signed[:64])


def test_wycheproof_ed25519(shared: Path) -> None:
    """All 151 signatures of Wycheproof are accepted or refused as published."""
    groups = json.loads((shared / "vectors/wycheproof/ed25519_test.json").read_text())["testGroups"]
    cases = [(group["publicKey"]["pk"], case) for group in groups for case in group["tests"]]
    assert len(cases) == 151
    for public, case in cases:
        answer = accepted(public, bytes.fromhex(case["msg"]), case["sig"])
        assert answer == (case["result"] == "valid"), case["tcId"]


def cctv(shared: Path) -> list[dict[str, Any]]:
    """Return 914 signatures at the edges of the curve's arithmetic."""
    path = shared / "vectors/rfc8032-ed25519/cctv_ed25519vectors.json"
    found: list[dict[str, Any]] = json.loads(path.read_text())
    assert len(found) == 914
    return found


def test_keys_of_small_order_are_refused(shared: Path) -> None:
    """No key of small order and no key spelled otherwise than canonically is a key here."""
    for case in cctv(shared):
        flags = set(case["flags"] or ())
        if flags & {"low_order_A", "non_canonical_A"}:
            with pytest.raises(InputError, match="no point"):
                VerifyKey("x", bytes.fromhex(case["key"]))


def test_the_rule_of_verification_is_pinned(shared: Path) -> None:
    """Of the signatures at the edges, those that the library's rule accepts are these many."""
    flags: Counter[str] = Counter()
    for case in cctv(shared):
        if accepted(case["key"], case["msg"].encode(), case["sig"]):
            flags["accepted"] += 1
            flags.update(case["flags"] or ())
    assert flags["accepted"] == 86
    assert not flags["non_canonical_R"]
    assert not flags["reencoded_k"]


@given(st.binary(max_size=200), st.integers(0, 511))
def test_no_bit_of_a_signature_is_free(message: bytes, bit: int) -> None:
    """A signature verifies; with any bit turned it does not, nor over a longer message."""
    signature = KEY.sign(message)
    turned = bytearray(signature)
    turned[bit // 8] ^= 1 << bit % 8
    assert KEY.public.accepts(message, signature)
    assert not KEY.public.accepts(message, bytes(turned))
    assert not KEY.public.accepts(message + b"x", signature)
    with pytest.raises(Break) as caught:
        KEY.public.verify(message, bytes(turned))
    assert caught.value.reason == "checkpoint_sig"


@pytest.mark.parametrize("length", [0, 32, 63, 65])
def test_a_signature_has_64_bytes(length: int) -> None:
    """Signatures of another length are refused, not an error."""
    assert not KEY.public.accepts(b"x", KEY.sign(b"x").ljust(65, b"\0")[:length])


# ── names ──


def test_a_name_says_which_key() -> None:
    """The name holds the first digits of the public key's hash, and no `repr` the secret."""
    assert KEY.name == "capability-broker/" + KEY.public.fingerprint[:16]
    assert KEY.vkey.startswith(f"{KEY.name}+{KEY.key_id.hex()}+")
    assert repr(SEED)[2:-1] not in repr(KEY)
    assert "seed" not in repr(KEY)


@given(st.binary(min_size=32, max_size=32))
def test_a_vkey_reads_back(seed: bytes) -> None:
    """What is written as a vkey is read as the same key, with or without a newline."""
    public = SigningKey.of(seed).public
    assert VerifyKey.parse(public.vkey) == VerifyKey.parse(public.vkey + "\n") == public


def test_published_vkeys(shared: Path) -> None:
    """Published keys are read, and published faults refused."""
    folder = shared / "vectors/c2sp-signed-note"
    for note in json.loads((folder / "notes.json").read_text()):
        names = [note["vkey"]] if isinstance(note["vkey"], str) else note["vkey"]
        assert [VerifyKey.parse(name).vkey for name in names] == names
    bad = json.loads((folder / "bad_vkeys.json").read_text())
    assert len(bad) == 5
    for case in bad:
        with pytest.raises(InputError) as caught:
            VerifyKey.parse(case["vkey"])
        assert caught.value.code == "receipt.vkey", case["why"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "+" + KEY.vkey.split("+", 1)[1],
        KEY.vkey + "\n\n",
        " " + KEY.vkey,
        KEY.vkey.replace("capability", "capabilitx"),
        KEY.vkey + "=",
        KEY.vkey[:-1],
        KEY.vkey.replace("+", "\t+", 1),
    ],
)
def test_what_is_no_vkey_is_refused(text: str) -> None:
    """Text around, inside or short of a vkey makes it none."""
    with pytest.raises(InputError):
        VerifyKey.parse(text)


@given(st.binary(max_size=9), st.text("AQYZabz019+/=", max_size=8))
def test_base64_has_one_spelling(content: bytes, text: str) -> None:
    """A text that decodes is the one that its bytes encode to."""
    from base64 import b64encode

    assert strict_base64(b64encode(content).decode()) == content
    try:
        found = strict_base64(text)
    except ValueError:
        return
    assert b64encode(found).decode() == text


def test_names_have_no_blanks() -> None:
    """A blank of any script, a control character or a plus sign makes a name none."""
    assert is_key_name("Kö/π")
    assert not any(map(is_key_name, ("", "a b", "a\u2003b", "a\u00a0b", "a\x01", "a+", "a\n")))


# ── files ──


def test_a_pair_is_made_once_and_kept_private(tmp_path: Path) -> None:
    """The first call makes seed and public half, for the owner alone; later calls read them."""
    path = tmp_path / "data" / "keys" / "signing.key"
    key = load_or_create_signing_key(path)
    assert sorted(os.listdir(path.parent)) == ["signing.key", "signing.vkey"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in path.parent.iterdir()} == {0o600}
    assert path.read_bytes() == key.seed
    assert load_or_create_signing_key(path) == load_signing_key(path) == key
    assert load_verify_key(vkey_path(path)) == key.public


def test_loading_creates_nothing(tmp_path: Path) -> None:
    """A missing key is an error, and stays missing."""
    with pytest.raises(UnverifiableError, match="there is no signing key"):
        load_signing_key(tmp_path / "signing.key")
    with pytest.raises(UnverifiableError, match="there is no verification key"):
        load_verify_key(tmp_path / "signing.vkey")
    assert os.listdir(tmp_path) == []


def test_a_lost_public_half_is_written_again(tmp_path: Path) -> None:
    """A crash between the two files is mended by the next start."""
    path = tmp_path / "signing.key"
    key = load_or_create_signing_key(path)
    vkey_path(path).unlink()
    assert load_signing_key(path) == key
    assert not vkey_path(path).exists()
    load_or_create_signing_key(path)
    assert load_verify_key(vkey_path(path)) == key.public


def test_halves_of_two_pairs_are_refused(tmp_path: Path) -> None:
    """Where somebody exchanged the seed or the public half, nothing is signed."""
    path = tmp_path / "signing.key"
    load_or_create_signing_key(path)
    path.write_bytes(SEED)
    for load in (load_signing_key, load_or_create_signing_key):
        with pytest.raises(UnverifiableError) as caught:
            load(path)
        assert caught.value.code == "unverifiable.key_pair"


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("elsewhere")


UNSAFE = {
    "mode": lambda path: path.chmod(0o640),
    "symlink": _link,
    "hardlink": lambda path: os.link(path, path.with_name("other")),
    "key_length": lambda path: path.write_bytes(SEED + b"\n"),
    "key_weak": lambda path: path.write_bytes(bytes(32)),
    "folder": lambda path: path.parent.chmod(0o777),
}


@pytest.mark.parametrize("code", sorted(UNSAFE))
def test_an_unsafe_seed_is_refused(code: str, tmp_path: Path) -> None:
    """The seed is held to the rules of every secret, by both calls, and is never replaced."""
    path = tmp_path / "keys" / "signing.key"
    load_or_create_signing_key(path)
    UNSAFE[code](path)
    for load in (load_signing_key, load_or_create_signing_key):
        with pytest.raises(UnverifiableError) as caught:
            load(path)
        assert caught.value.code == f"unverifiable.{code}"


@pytest.mark.parametrize("content", [b"", b"\xff", b"x" * 5_000, KEY.vkey.encode() * 2])
def test_a_file_without_a_vkey_is_told(content: bytes, tmp_path: Path) -> None:
    """A file that holds no public key cannot be verified with."""
    path = tmp_path / "signing.vkey"
    path.write_bytes(content)
    with pytest.raises(UnverifiableError) as caught:
        load_verify_key(path)
    assert caught.value.code == "unverifiable.vkey"


def test_creators_racing_get_one_pair(tmp_path: Path) -> None:
    """Threads and a forked process that begin at once end with one pair."""
    path = tmp_path / "signing.key"
    found: list[SigningKey] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        found.append(load_or_create_signing_key(path))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert in_child(lambda: os._exit(load_signing_key(path) != found[0])) == 0
    assert len({key.vkey for key in found}) == 1


def test_the_library_is_loaded_late() -> None:
    """Importing all of the receipt's rooms, and the public door, loads no cryptography."""
    code = (
        "import sys, broker; broker.authorize; import broker.hookclient, broker.receipt.checkpoint;"
        "sys.exit('cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
