"""Which record is meant, and what it is verified with, is what was said or this installation's."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli.evidence import Asked, evidence, is_file
from broker.cli.wires import KEY_NAME
from broker.errors import InputError, UnverifiableError
from broker.home import Home
from broker.receipt.disk import DISK, make_private_folder
from broker.receipt.keyring import PUBLIC_KEY
from broker.receipt.signing import SigningKey
from tests.receiptkit import KEY, Scene

SIGNER = SigningKey.of(bytes(range(32)))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An installation with a key, a public key and three sessions."""
    Scene.at(tmp_path)
    home = Home.find({"BROKER_HOME": str(tmp_path)})
    make_private_folder(home.keys)
    DISK.replace(home.keys / KEY_NAME, KEY.secret)
    DISK.replace(home.keys / PUBLIC_KEY, f"{SIGNER.vkey}\n".encode())
    return home


@pytest.mark.parametrize(
    ("typed", "file"),
    [("k3v-1", False), ("", False), (None, False), ("a/b", True), ("a.b", True), ("..", True)],
)
def test_a_word_is_a_session_or_a_file(typed: str | None, file: bool) -> None:
    """No word can mean both: a session's name has neither slash nor dot."""
    assert is_file(typed) is file


def test_a_session_is_verified_with_what_the_installation_has(home: Home) -> None:
    """Key, head, checkpoint and public key are the session's own places."""
    found = evidence(Asked("s1"), home)
    assert (found.sid, found.key, found.vkeys) == ("s1", KEY, (SIGNER.public,))
    assert found.path == home.sessions / "s1" / "receipt.jsonl"
    assert (found.head, found.checkpoint) == (home.heads / "s1", home.checkpoints / "s1")


def test_what_is_said_takes_the_place(home: Home, tmp_path: Path) -> None:
    """Each file that is named is used instead, and only that one."""
    other = SigningKey.of(bytes(range(1, 33))).public
    named = tmp_path / "named"
    named.write_bytes(b"x")
    found = evidence(Asked("s1", head=str(named), checkpoint=str(named), vkeys=(other.vkey,)), home)
    assert (found.head, found.checkpoint, found.vkeys) == (named, named, (other,))
    assert evidence(Asked("s1", no_head=True), home).head is None


def test_the_chain_alone_is_given_nothing(home: Home) -> None:
    """At level chain nothing is used that could make it look like more."""
    for typed in ("s1", str(home.sessions / "s1" / "receipt.jsonl")):
        found = evidence(Asked(typed, level="chain"), home)
        assert (found.key, found.head, found.checkpoint, found.vkeys) == (None, None, None, ())


def test_without_a_pinned_key_there_is_none(home: Home) -> None:
    """An installation that never signed has no public key, and invents none."""
    (home.keys / PUBLIC_KEY).unlink()
    assert evidence(Asked("s1"), home).vkeys == ()


def test_a_lost_secret_is_done_without_only_where_that_is_said(home: Home) -> None:
    """Level signed and level chain need no secret; every other answer does."""
    (home.keys / KEY_NAME).unlink()
    assert evidence(Asked("s1", level="signed"), home).key is None
    for level in (None, "mac", "anchored"):
        with pytest.raises(UnverifiableError):
            evidence(Asked("s1", level=level), home)
    for typed in (None, "s", "s9", "../s1/"):
        with pytest.raises((InputError, UnverifiableError)):
            evidence(Asked(typed, level="signed"), home)


def test_an_unsafe_secret_is_not_done_without(home: Home) -> None:
    """A key that others can read is a fault, not a missing key."""
    (home.keys / KEY_NAME).chmod(0o644)
    with pytest.raises(UnverifiableError, match="mode"):
        evidence(Asked("s1", level="signed"), home)


def test_a_copy_names_itself(home: Home, tmp_path: Path) -> None:
    """The session of a file is the one that its first line names, wherever the file lies."""
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes((home.sessions / "s2" / "receipt.jsonl").read_bytes())
    found = evidence(Asked(str(copy), no_head=True), home)
    assert (found.path, found.sid, found.head, found.checkpoint) == (copy, "s2", None, None)
