"""
The start key of a forward-secure session, sealed to an auditor's public key.

Decided here: the auditor's key pair, its files and name, and how a start key is sealed: HPKE in
base mode (RFC 9180) with X25519, HKDF-SHA256 and ChaCha20-Poly1305, bound to one session. Not
decided here: what the start key signs (``ratchet``), where the sealed key stands (``forward``).

The private half is a file of 32 bytes, kept by the rules of every secret (``keys``), and never
on the host that writes receipts. The public half is one line of text:

    broker-auditor/<16 hex> x25519 <64 hex>

The 16 digits name the key, and are made from it: a digit that was mistyped is seen.

Rules a maintainer keeps:

- Sealing proves nothing about who sealed: anyone with the public half can seal a key of their
  own. What ties a start key to the day its session began is a copy of line 0 elsewhere.
- The library that does the arithmetic is loaded inside functions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.errors import Break, InputError, StoreError, UnverifiableError
from broker.receipt import disk
from broker.receipt.form import RECEIPT
from broker.receipt.keys import KEY_BYTES, Key, load_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite

SUITE: Final = "hpke-base-x25519-hkdf_sha256-chacha20poly1305"
SEALED_BYTES: Final = 32 + KEY_BYTES + 16  # the sender's share, the key, the cipher's tag
PUBLIC_SUFFIX: Final = ".pub"
_INFO: Final = f"{RECEIPT.name} start key".encode() + b"\0"
_NAME_LABEL: Final = f"{RECEIPT.name} auditor".encode() + b"\0"
_PUBLIC: Final = re.compile(r"broker-auditor/([0-9a-f]{16}) x25519 ([0-9a-f]{64})\n?")
_MAX_PUBLIC_BYTES: Final = 1_024


@dataclass(frozen=True, slots=True)
class AuditorKey:
    """
    The public half of an auditor's key: seals, and opens nothing.

    >>> AuditorKey(bytes(range(32))).name
    '107c08182aff6a5c'
    """

    public: bytes

    @property
    def name(self) -> str:
        """The first 16 hex digits of a hash of the key."""
        return sha256(_NAME_LABEL + self.public).hexdigest()[:16]

    @property
    def text(self) -> str:
        """The key as one line of text."""
        return f"broker-auditor/{self.name} x25519 {self.public.hex()}"

    @classmethod
    def parse(cls, text: str) -> AuditorKey:
        """
        Read a key from its one line of text.

        Raises:
            InputError: it is none (``receipt.auditor``).
        """
        match = _PUBLIC.fullmatch(text)
        if match is None:
            raise _no_auditor("it is not `broker-auditor/<16 hex> x25519 <64 hex>`")
        key = cls(bytes.fromhex(match[2]))
        if key.name != match[1]:
            raise _no_auditor("its name does not belong to it: a digit was changed")
        return key

    def seal(self, start: bytes, sid: str) -> bytes:
        """
        Seal a start key, so that only the auditor can open it, and only for this session.

        Raises:
            InputError: the public key is a point that nobody chose.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import (  # noqa: PLC0415
            X25519PublicKey,
        )

        public = X25519PublicKey.from_public_bytes(self.public)
        try:
            return _suite().encrypt(start, public, _info(sid))
        except ValueError:  # a point of small order: every sender would share the same secret
            raise _no_auditor("it is no point that an auditor would choose") from None


@dataclass(frozen=True, slots=True)
class Auditor:
    """An auditor's key pair. No ``repr`` shows the secret."""

    secret: bytes = field(repr=False)
    public: AuditorKey

    @classmethod
    def of(cls, secret: bytes) -> Auditor:
        """Return the pair that 32 secret bytes make."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import (  # noqa: PLC0415
            X25519PrivateKey,
        )

        public = X25519PrivateKey.from_private_bytes(secret).public_key()
        return cls(secret, AuditorKey(public.public_bytes_raw()))

    def open(self, sealed: bytes, sid: str) -> bytes:
        """
        Return the start key that was sealed for a session.

        Raises:
            Break: it was not sealed to this key, or for another session (``start_key``).
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric.x25519 import (  # noqa: PLC0415
            X25519PrivateKey,
        )

        try:
            return _suite().decrypt(
                sealed, X25519PrivateKey.from_private_bytes(self.secret), _info(sid)
            )
        except InvalidTag:
            raise Break(
                "start_key", f"the start key was not sealed to this auditor for `{sid}`"
            ) from None


def _suite() -> Suite:
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite  # noqa: PLC0415

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def _info(sid: str) -> bytes:
    return _INFO + sid.encode()


def _no_auditor(why: str) -> InputError:
    return InputError(f"not an auditor's public key: {why}", code="receipt.auditor")


# ── files ──


def public_path(path: Path) -> Path:
    """Return where the public half of the key at ``path`` lies: beside it."""
    return path.with_name(path.name + PUBLIC_SUFFIX)


def create_auditor(path: Path, *, randomness: Callable[[int], bytes] = os.urandom) -> Auditor:
    """
    Make a key pair: the private half at ``path`` with mode 0600, the public half beside it.

    Raises:
        InputError: one of the files is there already.
        UnverifiableError: others can write the folder.
        StoreError: a file cannot be written.
    """
    disk.require_posix()
    beside = public_path(path)
    for taken in (path, beside):
        if os.path.lexists(taken):
            raise InputError(f"`{taken}` is there already: give another name", code="input.exists")
    disk.check_folder(path.parent, "key folder")
    made = Auditor.of(Key.of(randomness(KEY_BYTES)).secret)
    try:
        disk.DISK.replace(path, made.secret)
        disk.DISK.replace(beside, f"{made.public.text}\n".encode())
    except OSError as error:
        raise StoreError(
            f"the auditor's key `{path}` cannot be written: {disk.said(error)}"
        ) from error
    return made


def load_auditor(path: Path) -> Auditor:
    """
    Read the private half, after checking its file and folder.

    Raises:
        UnverifiableError: missing or unsafe.
    """
    return Auditor.of(load_key(path).secret)


def load_auditor_key(path: Path) -> AuditorKey:
    """
    Read the public half.

    Raises:
        UnverifiableError: missing, or others can write it.
        InputError: it is no public key.
    """
    disk.require_posix()
    fd = disk.open_checked(path, "auditor's public key", forbidden=disk.OTHERS_WRITE)
    try:
        content = os.read(fd, _MAX_PUBLIC_BYTES + 1)
    except OSError as error:
        raise UnverifiableError(
            f"the auditor's public key `{path}` cannot be read", code="unverifiable.unreadable"
        ) from error
    finally:
        os.close(fd)
    try:
        return AuditorKey.parse(content.decode("ascii"))
    except UnicodeDecodeError:
        raise _no_auditor(f"`{path}` is not text") from None
