"""
The key pair that signs checkpoints: its file, its name, and its public text.

Decided here: how the pair is kept and named, and which public keys are believed to be keys. Not
decided here: what is signed (``note``, ``checkpoint``), which old keys count (``keyring``).

The secret is an Ed25519 seed of 32 bytes, kept by the rules of every secret (``keys``). The
public half is one line of text, a ``vkey`` as C2SP's signed notes have it:

    capability-broker/<16 hex>+<key id, 8 hex>+<base64 of 0x01 and the public key>

The 16 hex digits are the first of the public key's SHA-256, so a name says which key it means.
Whoever has that line can verify, and cannot sign.

Rules a maintainer keeps:

- The library that does the arithmetic is loaded inside functions: nothing that decides a call
  waits for it.
- A public key of small order is refused: with one, a single signature fits many texts.
- Whatever else this key signs must never be able to pass for a note; see ``sign``.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from broker.errors import Break, InputError, UnverifiableError
from broker.limits import MAX_VKEY_BYTES
from broker.receipt import disk
from broker.receipt.keys import KEY_BYTES, key_folder, load_secret, put_secret

KEY_ID_BYTES: Final = 4
NAME_PREFIX: Final = "capability-broker/"
_ED25519: Final = b"\x01"
_SIGN_BIT: Final = 1 << 255
_FIELD: Final = 2**255 - 19
# The heights of the eight points of small order (RFC 8032 keeps a point's height and a sign).
_ORDER_8: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER: Final = frozenset((0, 1, _FIELD - 1, _ORDER_8, _FIELD - _ORDER_8))


def strict_base64(text: str) -> bytes:
    """
    Return what a base64 text encodes; a text has one spelling only.

    Raises:
        ValueError: it is not base64, or another text would encode the same.

    >>> strict_base64("YQ=="), b64decode("YR==")
    (b'a', b'a')
    """
    try:
        found = b64decode(text, validate=True)
    except Base64Error:
        raise ValueError("not base64") from None
    if b64encode(found).decode() != text:
        raise ValueError("not the one spelling of base64")
    return found


def is_key_name(name: str) -> bool:
    """
    Whether ``name`` can name a key on a note: some text without blanks and plus signs.

    >>> is_key_name("example.com/log"), is_key_name("a b"), is_key_name("a+b")
    (True, False, False)
    """
    return bool(name) and "+" not in name and not any(c.isspace() or c < " " for c in name)


@dataclass(frozen=True, slots=True)
class VerifyKey:
    """
    A public key: verifies signatures, makes none.

    Args:
        name: its name on notes.
        public: the 32 bytes of the Ed25519 point.

    >>> text = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
    >>> key = VerifyKey.parse(text)
    >>> key.name, key.key_id.hex(), key.vkey == text
    ('example.com/foo', '530d903a', True)
    """

    name: str
    public: bytes

    def __post_init__(self) -> None:
        if not is_key_name(self.name):
            raise _no_vkey(f"`{self.name!a}` cannot be the name of a key")
        if len(self.public) != KEY_BYTES:
            raise _no_vkey(f"an Ed25519 key has {KEY_BYTES} bytes, not {len(self.public)}")
        height = int.from_bytes(self.public, "little") % _SIGN_BIT
        if height >= _FIELD or height in _SMALL_ORDER:
            raise _no_vkey("the key is no point that a signer would choose")

    @classmethod
    def parse(cls, text: str) -> VerifyKey:
        """
        Read a public key from its one line of text, with or without a newline at the end.

        Raises:
            InputError: it is none (``receipt.vkey``).
        """
        name, _, rest = text.removesuffix("\n").partition("+")
        digits, _, encoded = rest.partition("+")
        try:
            raw = strict_base64(encoded)
        except ValueError:
            raise _no_vkey("its last part is not base64") from None
        if raw[:1] != _ED25519:
            raise _no_vkey("it is of no kind this version knows: only Ed25519 is")
        key = cls(name, raw[1:])
        if digits != key.key_id.hex():
            raise _no_vkey("its key id does not belong to its name and key")
        return key

    @property
    def key_id(self) -> bytes:
        """The four bytes by which a note tells keys of one name apart."""
        named = self.name.encode() + b"\n" + _ED25519 + self.public
        return sha256(named).digest()[:KEY_ID_BYTES]

    @property
    def vkey(self) -> str:
        """The key as one line of text."""
        return f"{self.name}+{self.key_id.hex()}+{b64encode(_ED25519 + self.public).decode()}"

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the public key, 64 hex digits: what two people compare."""
        return sha256(self.public).hexdigest()

    def accepts(self, message: bytes, signature: bytes) -> bool:
        """Whether ``signature`` is this key's over ``message``."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  see the rules above
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
            Ed25519PublicKey,
        )

        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except (InvalidSignature, ValueError):  # ValueError: the bytes are no point of the curve
            return False
        return True

    def verify(self, message: bytes, signature: bytes, reason: str = "checkpoint_sig") -> None:
        """
        Check that ``signature`` is this key's over ``message``.

        Raises:
            Break: it is not; ``reason`` is the reason given.
        """
        if not self.accepts(message, signature):
            raise Break(reason, f"the signature of `{self.name}` does not fit what it signs")


def _no_vkey(why: str) -> InputError:
    return InputError(f"not a verification key: {why}", code="receipt.vkey")


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The key pair of one installation. No ``repr`` shows the secret."""

    seed: bytes = field(repr=False)
    public: VerifyKey

    @classmethod
    def of(cls, seed: bytes) -> SigningKey:
        """
        Return the pair that a seed of 32 bytes makes; its name comes from its public half.

        >>> SigningKey.of(bytes(range(32))).name
        'capability-broker/56475aa75463474c'
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
            Ed25519PrivateKey,
        )

        public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
        return cls(seed, VerifyKey(NAME_PREFIX + sha256(public).hexdigest()[:16], public))

    @property
    def name(self) -> str:
        """The name on notes."""
        return self.public.name

    @property
    def key_id(self) -> bytes:
        """The four bytes beside the name."""
        return self.public.key_id

    @property
    def vkey(self) -> str:
        """The public half as one line of text."""
        return self.public.vkey

    def sign(self, message: bytes) -> bytes:
        """
        Return the 64 bytes of the signature over ``message``.

        The caller sees to it that no message of one kind can be read as one of another: a note
        begins with its origin, a DSSE envelope signs what begins with ``DSSEv1``.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
            Ed25519PrivateKey,
        )

        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(message)


def vkey_path(path: Path) -> Path:
    """Return where the public half of the key at ``path`` lies: beside it."""
    return path.with_suffix(".vkey")


def load_signing_key(path: Path) -> SigningKey:
    """
    Read the key pair, after checking its files and folder.

    Raises:
        UnverifiableError: missing or unsafe, or the public half beside it is of another key.
        StoreError: the system is not POSIX.
    """
    key = SigningKey.of(load_secret(path, "signing key"))
    try:
        beside = load_verify_key(vkey_path(path))
    except UnverifiableError as error:
        if error.code != "unverifiable.missing":
            raise
        return key
    if beside != key.public:
        raise UnverifiableError(
            f"`{vkey_path(path)}` is not the public half of `{path}`: somebody replaced one of "
            "them; if it was not you, believe neither",
            code="unverifiable.key_pair",
        )
    return key


def load_or_create_signing_key(
    path: Path, *, randomness: Callable[[int], bytes] = os.urandom
) -> SigningKey:
    """
    Read the key pair, or make one where there is none, and see that its public half is there.

    Raises:
        UnverifiableError: there is a key, and it is unsafe; or its folder is.
        StoreError: it cannot be written.
    """
    with key_folder(path.parent):
        if not os.path.lexists(path):
            put_secret(path, randomness(KEY_BYTES), "signing key")
        key = load_signing_key(path)
        if not os.path.lexists(vkey_path(path)):
            disk.DISK.replace(vkey_path(path), f"{key.vkey}\n".encode())
    return key


def load_verify_key(path: Path) -> VerifyKey:
    """
    Read a public key from its file.

    Raises:
        UnverifiableError: missing, unsafe, or not a key.
    """
    disk.require_posix()
    fd = disk.open_checked(path, "verification key", forbidden=disk.OTHERS_WRITE)
    try:
        text = os.read(fd, MAX_VKEY_BYTES + 1).decode("utf-8")
        return VerifyKey.parse(text)
    except (OSError, UnicodeDecodeError, InputError) as error:
        raise UnverifiableError(
            f"`{path}` holds no verification key: {error}", code="unverifiable.vkey"
        ) from error
    finally:
        os.close(fd)
