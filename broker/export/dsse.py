"""
The envelope of signed statements: DSSE v1 (Dead Simple Signing Envelope), with Ed25519.

Decided here: what is signed (the type and the exact bytes, each behind its length), and in which
order an envelope is believed: first the signature over the bytes under a key that was pinned,
then the type, and only then is anyone handed the payload. Not decided here: what a payload says.

Rules a maintainer keeps:

- ``keyid`` is a hint that nobody signed, so nothing is decided by it.
- Both alphabets of base64 are read, as the specification asks; one is written.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from broker.errors import Break
from broker.receipt.entry import canonical
from broker.receipt.signing import SigningKey

MAX_SIGNATURES: Final = 16

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_URL_SAFE: Final = str.maketrans("-_", "+/")
_KEYS: Final = {"payload", "payloadType", "signatures"}


class Verifies(Protocol):
    """A key that verifies, as ``broker.receipt.signing.VerifyKey`` does."""

    @property
    def name(self) -> str:
        """What the key is called, for messages."""
        ...

    def accepts(self, message: bytes, signature: bytes, /) -> bool:
        """Whether a signature is this key's over a message."""
        ...


def pae(payload_type: str, payload: bytes) -> bytes:
    """
    Return the bytes that are signed.

    >>> pae("http://example.com/HelloWorld", b"hello world")
    b'DSSEv1 29 http://example.com/HelloWorld 11 hello world'
    """
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def seal_envelope(payload: bytes, payload_type: str, signer: SigningKey) -> bytes:
    """Return the envelope around a payload as one line of JSON."""
    signature = signer.sign(pae(payload_type, payload))
    envelope = {
        "payload": b64encode(payload).decode(),
        "payloadType": payload_type,
        "signatures": [{"keyid": signer.name, "sig": b64encode(signature).decode()}],
    }
    return canonical(envelope).encode() + b"\n"


def open_envelope(content: bytes, payload_type: str, keys: Iterable[Verifies]) -> bytes:
    """
    Return the payload of an envelope that one of the keys has signed.

    Args:
        content: the envelope, as JSON.
        payload_type: the only type that is accepted.
        keys: the keys that are trusted; none of them comes from the envelope.

    Raises:
        Break: it is no envelope, none of the keys has signed it, or its payload is of another
            type (``dsse``).
    """
    try:
        envelope = json.loads(content, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise Break("dsse", "the envelope is not JSON, or says something twice") from error
    if not isinstance(envelope, dict) or not envelope.keys() >= _KEYS:
        raise Break("dsse", "not an envelope: it needs `payload`, `payloadType` and `signatures`")
    kind, signatures = envelope["payloadType"], envelope["signatures"]
    if not isinstance(kind, str) or not isinstance(signatures, list):
        raise Break("dsse", "not an envelope: its type is no text, or its signatures are no list")
    if not 0 < len(signatures) <= MAX_SIGNATURES:
        raise Break("dsse", f"an envelope has 1 to {MAX_SIGNATURES} signatures")
    payload = _bytes(envelope["payload"])
    message = pae(kind, payload)
    trusted = tuple(keys)
    if not any(key.accepts(message, _signature(s)) for s in signatures for key in trusted):
        names = ", ".join(f"`{key.name}`" for key in trusted)
        raise Break("dsse", f"the envelope was changed, or was not signed by {names}")
    if kind != payload_type:
        raise Break("dsse", f"the payload is of type `{kind}`, not `{payload_type}`")
    return payload


def _once(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found


def _signature(value: object) -> bytes:
    if not isinstance(value, dict):
        raise Break("dsse", "a signature is not an object")
    return _bytes(value.get("sig"))


def _bytes(value: object) -> bytes:
    told = value.translate(_URL_SAFE) if isinstance(value, str) else "*"
    if _BASE64.fullmatch(told) is None or len(told) % 4 == 1:
        raise Break("dsse", "the envelope holds something that is not base64")
    stripped = told.rstrip("=")
    return b64decode(stripped + "=" * (-len(stripped) % 4))
