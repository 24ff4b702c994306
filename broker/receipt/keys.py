"""
The secret that signs receipts: its file, its name, and HMAC-SHA256 with labels.

Decided here: which key file is safe to use, how it comes to be, and how a tag is made. Not
decided here: what is signed.

Rules a maintainer keeps:

- Every use has its own label, and a tag made for one use never serves another.
- ``load_key`` never creates; a missing key is an error, since a fresh key would make every
  old receipt look forged.
- The secret never appears in a message or a ``repr``, and never comes from a receipt.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from broker.errors import InputError, StoreError, UnverifiableError
from broker.receipt import disk

KEY_BYTES = 32
KID_LABEL = "receipt/1 kid"

_BLOCK = 64
_INNER = bytes(x ^ 0x36 for x in range(256))
_OUTER = bytes(x ^ 0x5C for x in range(256))


class Mac:
    """
    HMAC-SHA256 with one key, over a fixed prefix and a body.

    Two plain hashes that each begin with a copy of a state, which has the key's pad in it
    already, take half the time of the library's one call; the tests hold the two equal.

    >>> Mac(b"key").tag(b"body") == __import__("hmac").digest(b"key", b"body", "sha256").hex()
    True
    """

    __slots__ = ("inner", "outer")

    def __init__(self, key: bytes, prefix: bytes = b"") -> None:
        padded = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
        self.inner = sha256(padded.translate(_INNER) + prefix).copy
        self.outer = sha256(padded.translate(_OUTER)).copy

    def tag(self, body: bytes) -> str:
        """Return the tag of ``prefix || body``: 64 lower-case hex digits."""
        inner = self.inner()
        inner.update(body)
        outer = self.outer()
        outer.update(inner.digest())
        return outer.hexdigest()


def sign(key32: bytes, label: str, body: bytes) -> str:
    """
    Return hex HMAC-SHA256 of ``label || 0x00 || body``.

    Raises:
        InputError: the key is not 32 bytes long.

    >>> sign(bytes(range(32)), "receipt/1 line", b"{}")[:16]
    '29abac0a291a3e74'
    """
    if len(key32) != KEY_BYTES:
        raise InputError(f"a signing key has {KEY_BYTES} bytes, not {len(key32)}")
    return Mac(key32, label.encode() + b"\0").tag(body)


@dataclass(frozen=True, slots=True)
class Key:
    """The secret and its public name, the ``kid``."""

    secret: bytes = field(repr=False)
    kid: str

    @classmethod
    def of(cls, secret: bytes) -> Key:
        """
        Name a secret.

        Raises:
            UnverifiableError: it is not 32 bytes long, or all its bytes are equal.
        """
        check_secret(secret)
        return cls(secret, sha256(KID_LABEL.encode() + b"\0" + secret).hexdigest()[:16])

    def mac(self, label: str, sid: str) -> Mac:
        """Return the MAC of one use in one session: its subkey is bound to both."""
        subkey = bytes.fromhex(sign(self.secret, label, sid.encode()))
        return Mac(subkey, label.encode() + b"\0")


def check_secret(secret: bytes, what: str = "key") -> None:
    """
    Check that a secret can have been chosen at random.

    Raises:
        UnverifiableError: it is not 32 bytes long, or all its bytes are equal.
    """
    if len(secret) != KEY_BYTES:
        raise UnverifiableError(
            f"the {what} has {len(secret)} bytes and must have {KEY_BYTES}",
            code="unverifiable.key_length",
        )
    if secret == secret[:1] * KEY_BYTES:
        raise UnverifiableError(
            f"the {what} is one byte repeated: nobody chose it at random",
            code="unverifiable.key_weak",
        )


def load_key(path: Path) -> Key:
    """
    Read the key, after checking its file and folder.

    Raises:
        UnverifiableError: missing or unsafe; ``code`` says how.
        StoreError: the system is not POSIX.
    """
    return Key.of(load_secret(path))


def load_secret(path: Path, what: str = "key") -> bytes:
    """
    Read a secret of 32 bytes, after checking its file and folder.

    Args:
        path: its file.
        what: what it is, for messages.

    Raises:
        UnverifiableError: missing or unsafe; ``code`` says how.
        StoreError: the system is not POSIX.
    """
    disk.require_posix()
    disk.check_folder(path.parent, "key folder")
    fd = disk.open_checked(path, what, forbidden=disk.BEYOND_OWNER)
    try:
        secret = os.read(fd, KEY_BYTES + 1)
    except OSError as error:
        raise UnverifiableError(
            f"the {what} `{path}` cannot be read", code="unverifiable.unreadable"
        ) from error
    finally:
        os.close(fd)
    check_secret(secret, what)
    return secret


def load_or_create_key(path: Path, *, randomness: Callable[[int], bytes] = os.urandom) -> Key:
    """
    Read the key, or make one where there is none. Two creators at once get the same key.

    Raises:
        UnverifiableError: there is a key, and it is unsafe; or its folder is.
        StoreError: it cannot be written.
    """
    with key_folder(path.parent):
        if not os.path.lexists(path):
            put_secret(path, randomness(KEY_BYTES))
    return load_key(path)


@contextmanager
def key_folder(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """
    Hold the lock of a folder of keys; it is made, for the owner alone, where there is none.

    Args:
        folder: the folder.
        shared: keep its keys as they are, beside others who do.

    Raises:
        UnverifiableError: it is unsafe.
        StoreError: it, or a key in it, cannot be written.
    """
    disk.require_posix()
    try:
        disk.make_private_folder(folder)
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StoreError(f"the key folder `{folder}` cannot be made: {disk.said(error)}") from error
    try:
        disk.check_folder(folder, "key folder")
        disk.lock(held, shared=shared)
        yield
    except OSError as error:
        raise StoreError(f"a key in `{folder}` cannot be written: {disk.said(error)}") from error
    finally:
        disk.unlock(held)  # a process forked meanwhile has it open too
        os.close(held)


def put_secret(path: Path, secret: bytes, what: str = "key") -> None:
    """
    Write a secret whole or not at all, with mode 0600 from its first byte.

    Raises:
        UnverifiableError: it was not chosen at random.
        OSError: it cannot be written.
    """
    check_secret(secret, what)
    disk.DISK.replace(path, secret)
