"""
An Ed25519 public key as a ``did:key``: a name that is the key itself, so nobody has to look it up.

Decided here: the one spelling (multicodec ``ed25519-pub``, base58btc). Nothing is read from it:
who verifies uses a key that was pinned, and only compares names.
"""

from __future__ import annotations

from typing import Final

_ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_ED25519_PUB: Final = b"\xed\x01"


def did_key(public: bytes) -> str:
    """
    Return the ``did:key`` of the 32 bytes of a public key.

    >>> did_key(bytes(32))
    'did:key:z6MkeTG3bFFSLYVU7VqhgZxqr6YzpaGrQtFMh1uvqGy1vDnP'
    """
    return f"did:key:z{_base58(_ED25519_PUB + public)}"


def _base58(content: bytes) -> str:
    number = int.from_bytes(content, "big")
    digits = ""
    while number:
        number, digit = divmod(number, 58)
        digits = _ALPHABET[digit] + digits
    return _ALPHABET[0] * (len(content) - len(content.lstrip(b"\0"))) + digits
