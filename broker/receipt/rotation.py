"""
Changing the keys of an installation: both at once, by a row that the outgoing key signs.

Decided here: the order in which keys are changed, and how a change that was cut off is finished
or taken back. Not decided here: which keys are believed (``keyring``), what the row is and who
reads it (``ledger``).

    1. the incoming keys are written to data/keys/incoming
    2. the outgoing line key and the outgoing public key are copied to data/keys/archive
    3. the row is written; from here on the keys are changed
    4. the incoming keys take the places of the outgoing ones; the old seed is gone with that
    5. the ledger gets a checkpoint by the incoming key

A crash before the third step leaves keys that nothing names: ``finish`` removes them. After it,
``finish`` does the rest. Every session that begins calls it first.

All of it happens under the lock of the folder of keys. A session takes that lock too, shared and
through ``steady``, from reading its key to being seen as running: so none begins under a key that
is changed meanwhile, and no key is changed under a session.

Rules a maintainer keeps:

- A ledger that does not verify, or that is not what was signed last, is not handed to new keys:
  that would cover up what is wrong with it.
- Nothing that verifies old receipts is ever removed; no old seed is ever kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.errors import Break, BrokerError, StoreError
from broker.home import Home
from broker.receipt import disk
from broker.receipt.checkpoint import OF_LEDGER, CheckpointFile
from broker.receipt.covering import FollowedTree
from broker.receipt.keyring import (
    ARCHIVE,
    LINE_KEY,
    PUBLIC_KEY,
    SIGNING_KEY,
    line_key_path,
    signing_key_path,
)
from broker.receipt.keys import KEY_BYTES, Key, key_folder, load_key, put_secret
from broker.receipt.ledger import CHECKPOINT_NAME, Ledger
from broker.receipt.signing import SigningKey, load_signing_key

INCOMING: Final = "incoming"
# The public half goes first: it can be made again from the seed. The line key says that all did.
_ORDER: Final = (PUBLIC_KEY, SIGNING_KEY, LINE_KEY)


@dataclass(frozen=True, slots=True)
class Changed:
    """What a rotation has changed: the keys before it, and the keys in use now."""

    kid_from: str
    kid_to: str
    vkey_from: str
    vkey_to: str


def unfinished(home: Home) -> bool:
    """Whether a change of keys was cut off."""
    return os.path.lexists(home.keys / INCOMING)


@contextmanager
def steady(home: Home) -> Iterator[None]:
    """
    Keep the keys as they are, once a change that was cut off is finished.

    Nothing in here may make a key: that takes the same lock alone.

    Raises:
        Break, StoreError: as ``finish``.
    """
    while True:
        finish(home)
        with key_folder(home.keys, shared=True):
            if not unfinished(home):  # another change may have been cut off meanwhile
                yield
                return


def rotate(
    home: Home,
    at: int,
    *,
    may: Callable[[], object] = lambda: None,
    randomness: Callable[[int], bytes] = os.urandom,
) -> Changed:
    """
    Put new keys in the place of the ones in use, and archive those.

    Args:
        home: where they lie.
        at: the instant.
        may: raises where a session is not at its end; called when none can begin any more.
        randomness: where the new keys come from.

    Raises:
        Break: the ledger does not verify, or is not what was signed last.
        UnverifiableError: a key or another file is missing or unsafe.
        StoreError: something cannot be written; what was in use is still in use, or ``finish``
            does the rest.
    """
    with key_folder(home.keys):
        may()
        _finish(home)
        key, signing = load_key(line_key_path(home)), load_signing_key(signing_key_path(home))
        ledger = Ledger(home, key)
        ledger.ready(at)
        _check(ledger, signing)
        incoming, fresh = _stage(home, randomness)
        _archive(home, key, signing)
        ledger.rotate(incoming, vkey_from=signing.vkey, vkey_to=fresh.vkey, at=at)
        _install(home)
        sign_ledger(home, incoming, fresh)
    return Changed(key.kid, incoming.kid, signing.vkey, fresh.vkey)


def finish(home: Home) -> bool:
    """
    Finish a change of keys that was cut off, or take it back; return whether there was one.

    Raises:
        Break: the ledger does not verify, so nobody can tell which keys are in use.
        StoreError: something cannot be written.
    """
    if not unfinished(home):
        return False
    with key_folder(home.keys):
        return _finish(home)


def _finish(home: Home) -> bool:
    folder = home.keys / INCOMING
    if not folder.is_dir():
        return False
    path = folder / LINE_KEY
    if os.path.lexists(path):
        if not _written(home, load_key(path)):
            _take_back(home)
            return True
        _install(home)
    else:
        _drop(folder)
    sign_ledger(home, load_key(line_key_path(home)), load_signing_key(signing_key_path(home)))
    return True


def _written(home: Home, incoming: Key) -> bool:
    """Whether the ledger has the row that hands over to the incoming key."""
    try:
        book = Ledger(home, incoming).read()
    except Break:
        Ledger(home, load_key(line_key_path(home))).read()  # in order without it, or broken
        return False
    return bool(book.rotations)


def _check(ledger: Ledger, signing: SigningKey) -> None:
    """See that the ledger verifies, and continues what was signed last."""
    ledger.read()
    file = CheckpointFile(ledger.path.with_name(CHECKPOINT_NAME), signing, OF_LEDGER)
    FollowedTree(ledger.path, ledger.head_path, file.read()).snapshot()


def _stage(home: Home, randomness: Callable[[int], bytes]) -> tuple[Key, SigningKey]:
    folder = home.keys / INCOMING
    folder.mkdir(mode=0o700)
    seed, secret = randomness(KEY_BYTES), randomness(KEY_BYTES)
    put_secret(folder / SIGNING_KEY, seed, "signing key")
    fresh = SigningKey.of(seed)
    disk.DISK.replace(folder / PUBLIC_KEY, f"{fresh.vkey}\n".encode())
    put_secret(folder / LINE_KEY, secret)
    disk.DISK.sync_folder(home.keys)
    return Key.of(secret), fresh


def _archive(home: Home, key: Key, signing: SigningKey) -> None:
    line, public = _archived(home, key, signing)
    disk.make_private_folder(line.parent)
    disk.DISK.replace(line, key.secret)
    disk.DISK.replace(public, f"{signing.vkey}\n".encode())


def _archived(home: Home, key: Key, signing: SigningKey) -> tuple[Path, Path]:
    folder = home.keys / ARCHIVE
    return folder / f"{key.kid}.key", folder / f"{signing.key_id.hex()}.vkey"


def _install(home: Home) -> None:
    """Let the incoming keys take their places, those that have not yet."""
    folder = home.keys / INCOMING
    for name in _ORDER:
        with suppress(FileNotFoundError):
            os.rename(folder / name, home.keys / name)
            disk.DISK.sync_folder(home.keys)
    _drop(folder)


def _take_back(home: Home) -> None:
    """Remove incoming keys that no row names, and the copies of keys that stay in use."""
    key, signing = load_key(line_key_path(home)), load_signing_key(signing_key_path(home))
    for path in _archived(home, key, signing):
        path.unlink(missing_ok=True)
    _drop(home.keys / INCOMING)


def _drop(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        path.unlink()
    folder.rmdir()


def sign_ledger(home: Home, key: Key, signing: SigningKey) -> None:
    """
    Sign a checkpoint over the ledger as it is, if there is one.

    Raises:
        StoreError: it cannot be signed now; the next session signs it.
    """
    ledger = Ledger(home, key)
    if not os.path.lexists(ledger.path):
        return
    file = CheckpointFile(ledger.path.with_name(CHECKPOINT_NAME), signing, OF_LEDGER)
    try:
        file.put(*FollowedTree(ledger.path, ledger.head_path, file.read()).snapshot())
    except (BrokerError, OSError) as error:
        raise StoreError(f"the ledger has no checkpoint by the new key: {error}") from error
