"""Envelopes: what was signed is what is read, and nothing else is believed."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from broker.errors import Break
from broker.export.dsse import MAX_SIGNATURES, open_envelope, pae, seal_envelope
from broker.receipt.signing import SigningKey
from tests.exportkit import SIGNER

TYPE = "application/vnd.example+json"
OTHER = SigningKey.of(bytes(range(1, 33)))
KEYS = [SIGNER.public]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def changed(change: Callable[[dict[str, Any]], None]) -> bytes:
    """Return an envelope that was changed after it was signed."""
    envelope = json.loads(seal_envelope(b'{"a":1}', TYPE, SIGNER))
    change(envelope)
    return json.dumps(envelope).encode()


def refused(content: bytes, kind: str = TYPE) -> str:
    """Return why an envelope is refused."""
    with pytest.raises(Break) as caught:
        open_envelope(content, kind, KEYS)
    assert caught.value.reason == "dsse"
    return caught.value.message


@given(TEXT, st.binary(max_size=40))
def test_what_is_signed_is_read(kind: str, payload: bytes) -> None:
    """Any payload of any type comes back as it was."""
    assert open_envelope(seal_envelope(payload, kind, SIGNER), kind, KEYS) == payload


@given(TEXT, st.binary(max_size=40))
def test_another_implementation_agrees(kind: str, payload: bytes) -> None:
    """An independent implementation computes the same bytes to sign, and accepts the signature."""
    envelope = Envelope.from_dict(json.loads(seal_envelope(payload, kind, SIGNER)))
    assert envelope.payload == payload
    assert envelope.pae() == pae(kind, payload)
    assert envelope.verify([sslib_key(SIGNER)], 1)


def sslib_key(key: SigningKey) -> SSlibKey:
    """Return a key as the other implementation takes it."""
    value = {"public": key.public.public.hex()}
    return SSlibKey(key.name, "ed25519", "ed25519", value)


def test_another_implementation_refuses_what_we_refuse() -> None:
    """A changed payload is refused by both."""
    content = changed(lambda e: e.update(payload=b64encode(b'{"a":2}').decode()))
    assert "was changed" in refused(content)
    with pytest.raises(VerificationError):
        Envelope.from_dict(json.loads(content)).verify([sslib_key(SIGNER)], 1)


def test_an_envelope_of_another_is_read() -> None:
    """What the other implementation writes, with its base64 and its spacing, is read."""
    envelope = Envelope(b'{"a":1}', TYPE, {})
    signature = SIGNER.sign(envelope.pae())
    document = {
        "payloadType": TYPE,
        "signatures": [{"sig": urlsafe_b64encode(signature).decode().rstrip("=")}],
        "payload": urlsafe_b64encode(b'{"a":1}').decode(),
        "more": True,
    }
    assert open_envelope(json.dumps(document, indent=2).encode(), TYPE, KEYS) == b'{"a":1}'


def test_one_of_several_signatures_is_enough() -> None:
    """A signature of a stranger beside ours takes nothing away; alone it is not enough."""
    theirs = json.loads(seal_envelope(b'{"a":1}', TYPE, OTHER))["signatures"]
    both = changed(lambda e: e["signatures"].insert(0, theirs[0]))
    assert open_envelope(both, TYPE, KEYS) == b'{"a":1}'
    assert "was changed, or was not signed by" in refused(
        changed(lambda e: e.update(signatures=theirs))
    )


def test_the_key_s_name_in_an_envelope_decides_nothing() -> None:
    """A stranger's signature under our key's name is refused, and ours under any name is read."""
    theirs = json.loads(seal_envelope(b'{"a":1}', TYPE, OTHER))["signatures"]
    theirs[0]["keyid"] = SIGNER.name
    assert "was changed" in refused(changed(lambda e: e.update(signatures=theirs)))
    named = changed(lambda e: e["signatures"][0].update(keyid="somebody"))
    assert open_envelope(named, TYPE, KEYS) == b'{"a":1}'


CHANGES: list[Callable[[dict[str, Any]], None]] = [
    lambda e: e.update(payload=b64encode(b'{"a":2}').decode()),
    lambda e: e.update(payloadType="application/vnd.other+json"),
    lambda e: e.update(payloadType=None),
    lambda e: e.update(payload=None),
    lambda e: e.update(payload="a"),
    lambda e: e.update(payload="é==="),
    lambda e: e.update(signatures=[]),
    lambda e: e.update(signatures={}),
    lambda e: e.update(signatures=[1]),
    lambda e: e.update(signatures=[{}]),
    lambda e: e.update(signatures=[{"sig": ""}]),
    lambda e: e.update(signatures=e["signatures"] * (MAX_SIGNATURES + 1)),
    lambda e: e.pop("payload"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_envelope(change: Callable[[dict[str, Any]], None]) -> None:
    """Whatever is changed in it, an envelope is refused."""
    refused(changed(change))


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000, b'{"payload":"","payload":""}'],
)
def test_what_is_no_envelope(content: bytes) -> None:
    """Whatever else the file holds is a break, never a fault of the reader."""
    refused(content)


def test_another_type_is_refused_after_the_signature() -> None:
    """A payload of another type, well signed, is refused; it could mean anything."""
    assert "is of type" in refused(seal_envelope(b"{}", "text/x", SIGNER))


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_no_bit_can_be_flipped(place: int, bit: int) -> None:
    """Flipping a bit of an envelope never yields another payload than the one that was signed."""
    content = bytearray(seal_envelope(b'{"a":1}', TYPE, SIGNER))
    content[place % len(content)] ^= 1 << bit
    try:
        read = open_envelope(bytes(content), TYPE, KEYS)
    except Break:
        return
    assert read == b'{"a":1}'
