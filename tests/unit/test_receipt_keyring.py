"""Which keys of an installation count: those that rotations lead from to the ones in use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.errors import Break, UnverifiableError
from broker.home import Home
from broker.receipt.keyring import (
    Keyring,
    archive,
    archived_key,
    line_key_path,
    public_key,
    signing_key_path,
)
from broker.receipt.keys import Key
from broker.receipt.signing import SigningKey, load_or_create_signing_key

KEYS = [Key.of(bytes([n, 9] * 16)) for n in range(4)]
PAIRS = [SigningKey.of(bytes([n, 8] * 16)) for n in range(4)]


class Row(NamedTuple):
    """A rotation as the ledger tells it."""

    kid_from: str
    kid_to: str
    vkey_from: str
    vkey_to: str


def row(number: int, to: int | None = None) -> Row:
    """Return the rotation from one key pair to the next, or to another."""
    after = number + 1 if to is None else to
    return Row(KEYS[number].kid, KEYS[after].kid, PAIRS[number].vkey, PAIRS[after].vkey)


def keyring(rows: list[Row], current: int = 3) -> Keyring:
    """Return the keyring of an installation that uses a key now."""
    return Keyring.of(KEYS[current].kid, PAIRS[current].public, rows)


def test_without_rotations_the_keys_in_use_count() -> None:
    """An installation that never changed its keys has one of each."""
    ring = keyring([], 0)
    assert (ring.kids, ring.publics) == ((KEYS[0].kid,), (PAIRS[0].public,))
    assert ring.vouching(KEYS[0].kid) == (PAIRS[0].public,)


def test_rotations_lead_to_the_keys_in_use() -> None:
    """Every key of the chain counts, in the order of use."""
    ring = keyring([row(0), row(1), row(2)])
    assert ring.kids == tuple(key.kid for key in KEYS)
    assert ring.publics == tuple(pair.public for pair in PAIRS)


def test_a_key_vouches_only_for_what_began_before_it_was_replaced() -> None:
    """A session is vouched for by the key of its time and later ones, never by earlier ones."""
    ring = keyring([row(0), row(1), row(2)])
    for number, key in enumerate(KEYS):
        assert ring.vouching(key.kid) == tuple(pair.public for pair in PAIRS[number:])
    with pytest.raises(Break) as caught:
        ring.vouching("0" * 16)
    assert caught.value.reason == "kid"


BROKEN = {
    "ends elsewhere": ([row(0), row(1)], 3),
    "a gap": ([row(0), row(2)], 3),
    "out of order": ([row(1), row(0), row(2)], 3),
    "another line key": ([row(2)._replace(kid_to=KEYS[0].kid)], 3),
    "another signing key": ([row(2)._replace(vkey_to=PAIRS[0].vkey)], 3),
    "no key": ([row(2)._replace(vkey_from="x+y+z")], 3),
}


@pytest.mark.parametrize("name", BROKEN)
def test_rotations_that_lead_elsewhere(name: str) -> None:
    """Rows that do not form one chain to the keys in use make no keyring."""
    rows, current = BROKEN[name]
    with pytest.raises(Break) as caught:
        keyring(rows, current)
    assert caught.value.reason == "kid"


@pytest.fixture
def home(broker_home: Path) -> Home:
    return Home.find({"BROKER_HOME": str(broker_home)})


def test_nothing_is_believed_for_lying_in_the_archive(home: Home) -> None:
    """A planted key is listed by its file's name, and no keyring has it."""
    assert archive(home) == []
    folder = home.keys / "archive"
    folder.mkdir(parents=True)
    (folder / f"{KEYS[0].kid}.key").write_bytes(KEYS[0].secret)
    assert [kept.name for kept in archive(home)] == [f"{KEYS[0].kid}.key"]
    assert keyring([], 1).kids == (KEYS[1].kid,)


def test_an_archived_key_is_what_its_name_says(home: Home) -> None:
    """A line key is found by its name alone, and only when it is that key and safe."""
    folder = home.keys / "archive"
    folder.mkdir(parents=True, mode=0o700)
    path = folder / f"{KEYS[0].kid}.key"
    assert archived_key(home, KEYS[0].kid) is None
    path.write_bytes(KEYS[0].secret)
    path.chmod(0o600)
    assert archived_key(home, KEYS[0].kid) == KEYS[0]
    path.write_bytes(KEYS[1].secret)
    assert archived_key(home, KEYS[0].kid) is None
    path.chmod(0o644)
    with pytest.raises(UnverifiableError):
        archived_key(home, KEYS[0].kid)
    assert archived_key(home, "../receipt") is None


def test_the_public_key_needs_no_secret(home: Home) -> None:
    """What this installation pins is read from the public file alone."""
    pair = load_or_create_signing_key(signing_key_path(home))
    os.unlink(signing_key_path(home))
    assert public_key(home) == pair.public
    assert line_key_path(home) == home.keys / "receipt.key"
