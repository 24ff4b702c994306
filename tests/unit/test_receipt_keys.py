"""The secret: its tags, its file, its birth."""

from __future__ import annotations

import hmac
import json
import os
import re
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import InputError, StoreError, UnverifiableError
from broker.receipt.form import RECEIPT
from broker.receipt.keys import (
    Key,
    Mac,
    load_key,
    load_or_create_key,
    sign,
)
from tests.receiptkit import KEY, in_child


@given(st.binary(max_size=200), st.binary(max_size=40), st.binary(max_size=300))
def test_two_hashes_are_one_hmac(key: bytes, prefix: bytes, body: bytes) -> None:
    """The tag equals the library's HMAC for keys and bodies of every length."""
    assert Mac(key, prefix).tag(body) == hmac.digest(key, prefix + body, "sha256").hex()


def test_published_tags(shared: Path) -> None:
    """The tags of RFC 4231 come out as published."""
    text = (shared / "vectors" / "rfc4231-hmac" / "rfc-4231-sha256.txt").read_text()
    cases = re.findall(r"^Key = (\w+)\n(?:#.*\n)*Msg = (\w+)\n(?:#.*\n)*MD = (\w+)", text, re.M)
    assert len(cases) >= 5
    for key, message, tag in cases:
        assert Mac(bytes.fromhex(key)).tag(bytes.fromhex(message)) == tag


def test_wycheproof_tags(shared: Path) -> None:
    """All 174 tags of Wycheproof are made or refused as published, shortened ones too."""
    path = shared / "vectors" / "wycheproof" / "hmac_sha256_test.json"
    groups = json.loads(path.read_text())["testGroups"]
    cases = [(group["tagSize"] // 4, case) for group in groups for case in group["tests"]]
    assert len(cases) == 174
    for digits, case in cases:
        made = Mac(bytes.fromhex(case["key"])).tag(bytes.fromhex(case["msg"]))
        assert (made[:digits] == case["tag"]) == (case["result"] == "valid"), case["tcId"]


def test_sign_binds_its_label() -> None:
    """The same body under another label has another tag, and a label cannot run into a body."""
    assert sign(KEY.secret, "a", b"b") == hmac.digest(KEY.secret, b"a\0b", "sha256").hex()
    assert sign(KEY.secret, "a", b"b") != sign(KEY.secret, "ab", b"")
    assert sign(KEY.secret, RECEIPT.line_label, b"x") != sign(KEY.secret, RECEIPT.head_label, b"x")


@pytest.mark.parametrize("length", [0, 16, 31, 33, 64])
def test_sign_takes_32_bytes(length: int) -> None:
    """A key of another length is refused."""
    with pytest.raises(InputError, match="32 bytes"):
        sign(bytes(length), "label", b"")


def test_session_keys_differ_by_label_and_session() -> None:
    """A session's tag is bound to the session and to the use."""
    tags = {
        KEY.mac(label, sid).tag(b"")
        for label in (RECEIPT.line_label, RECEIPT.head_label)
        for sid in "ab"
    }
    assert len(tags) == 4


def test_a_key_has_a_name_and_keeps_its_secret() -> None:
    """The kid is 16 hex digits of a labelled hash, and no `repr` shows the secret."""
    assert KEY.kid == "01881659522b0519"
    assert repr(KEY) == "Key(kid='01881659522b0519')"
    assert Key.of(bytes(range(1, 33))).kid != KEY.kid


@pytest.mark.parametrize("byte", [0, 7, 255])
def test_a_repeated_byte_is_no_key(byte: int) -> None:
    """A key of equal bytes was never chosen at random."""
    with pytest.raises(UnverifiableError) as caught:
        Key.of(bytes([byte]) * 32)
    assert caught.value.code == "unverifiable.key_weak"


def test_a_key_is_made_once_and_kept_private(tmp_path: Path) -> None:
    """The first call makes file and folder for the owner alone; later calls read the same key."""
    path = tmp_path / "data" / "keys" / "receipt.key"
    key = load_or_create_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_bytes() == key.secret
    assert load_or_create_key(path) == load_key(path) == key
    assert os.listdir(path.parent) == ["receipt.key"]


def test_the_file_is_private_from_its_first_byte(tmp_path: Path) -> None:
    """Under the loosest umask no file with the key is ever open to others."""
    before = os.umask(0)
    try:
        path = tmp_path / "keys" / "receipt.key"
        load_or_create_key(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_loading_creates_nothing(tmp_path: Path) -> None:
    """A missing key is an error, and stays missing."""
    path = tmp_path / "receipt.key"
    with pytest.raises(UnverifiableError, match="there is no key"):
        load_key(path)
    assert os.listdir(tmp_path) == []


def test_an_unsafe_key_is_not_replaced(tmp_path: Path) -> None:
    """A key that others can read is refused and left as it is, also by the call that creates."""
    path = tmp_path / "receipt.key"
    path.write_bytes(KEY.secret)
    path.chmod(0o640)
    with pytest.raises(UnverifiableError, match="chmod 600"):
        load_or_create_key(path)
    assert path.read_bytes() == KEY.secret


def test_a_dangling_link_is_not_followed(tmp_path: Path) -> None:
    """Where a link waits in the key's place, no key is made behind it."""
    (tmp_path / "receipt.key").symlink_to("elsewhere")
    with pytest.raises(UnverifiableError, match="is a link"):
        load_or_create_key(tmp_path / "receipt.key")
    assert os.listdir(tmp_path) == ["receipt.key"]


@pytest.mark.parametrize("chance", [bytes, lambda n: b"short", lambda n: b"x" * n])
def test_bad_randomness_makes_no_key(tmp_path: Path, chance: object) -> None:
    """A source of randomness that gives equal or too few bytes makes no key."""
    with pytest.raises(UnverifiableError):
        load_or_create_key(tmp_path / "receipt.key", randomness=chance)  # type: ignore[arg-type]  # on purpose
    assert os.listdir(tmp_path) == []


def test_an_unwritable_folder_is_told(tmp_path: Path) -> None:
    """A key that cannot be written is an error of the store, with the path."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="key folder"):
        load_or_create_key(tmp_path / "file" / "receipt.key")


def test_threads_racing_get_one_key(tmp_path: Path) -> None:
    """Many creators at once all get the key of the first, and none sees half of it."""
    path = tmp_path / "receipt.key"
    found: list[Key] = []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        found.append(load_or_create_key(path))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [load_key(path)] * 8


def test_processes_racing_get_one_key(tmp_path: Path) -> None:
    """Creators in other processes end with the same key as we do, round after round."""
    for round_ in range(10):
        path = tmp_path / str(round_) / "receipt.key"
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    mine = load_or_create_key(path)
                    code = 0 if mine == load_key(path) else 2
                finally:
                    os._exit(code)
            children.append(child)
        key = load_or_create_key(path)
        assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
        assert load_key(path) == key


def test_a_creator_killed_on_the_way_leaves_no_half_key(tmp_path: Path) -> None:
    """A crash while the key is made leaves none, and the next creator makes one."""
    path = tmp_path / "receipt.key"

    def act() -> None:
        def die(count: int) -> bytes:
            os._exit(9)

        load_or_create_key(path, randomness=die)

    assert in_child(act) == 9
    assert not path.exists()
    assert load_or_create_key(path) == load_key(path)
