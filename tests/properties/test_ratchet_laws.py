"""
Laws of the evolving key, against a reference that keeps every key and computes anew.

The reference is written from the page of the format: HMAC by the standard library, no state.
"""

from __future__ import annotations

import hmac
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from broker.receipt.keys import Key
from broker.receipt.ratchet import Ratchet
from tests.receiptkit import KEY

BODIES = st.lists(st.binary(max_size=40), max_size=8)
SECRETS = st.binary(min_size=32, max_size=32).filter(lambda s: s != s[:1] * 32)


def mac(key: bytes, label: str, body: bytes) -> bytes:
    return hmac.digest(key, label.encode() + b"\0" + body, "sha256")


def reference(secret: bytes, sid: str, bodies: list[bytes]) -> tuple[bytes, str, list[str]]:
    """Return the key after the lines, the aggregate over them, and their tags."""
    keys = [secret]
    for _ in bodies:
        keys.append(mac(keys[-1], "receipt/1 step", b""))
    tags = [
        mac(mac(key, "receipt/1 line", sid.encode()), "receipt/1 line", body).hex()
        for key, body in zip(keys, bodies, strict=False)
    ]
    aggregate = sha256(b"receipt/1 aggregate\0" + sid.encode()).hexdigest()
    for key, tag in zip(keys, tags, strict=False):
        use = mac(key, "receipt/1 aggregate", sid.encode())
        aggregate = mac(use, "receipt/1 aggregate", (aggregate + tag).encode()).hex()
    return keys[-1], aggregate, tags


def walked(ratchet: Ratchet, bodies: list[bytes]) -> list[str]:
    """Move past bodies, and return their tags."""
    tags = []
    for body in bodies:
        tags.append(ratchet.tag(body))
        ratchet.step()
    return tags


@given(SECRETS, BODIES)
def test_it_is_the_reference(secret: bytes, bodies: list[bytes]) -> None:
    """Keys, tags and aggregate are those of the reference, for any lines."""
    ratchet = Ratchet.start(Key.of(secret), "s1")
    tags = walked(ratchet, bodies)
    key, aggregate, wanted = reference(secret, "s1", bodies)
    assert tags == wanted
    assert (ratchet.n, ratchet.position.key, ratchet.aggregate) == (len(bodies), key, aggregate)


@given(BODIES, BODIES)
def test_it_goes_on_where_it_was(before: list[bytes], after: list[bytes]) -> None:
    """A ratchet made from another's position is that other, from there on."""
    whole = Ratchet.start(KEY, "s1")
    walked(whole, before)
    resumed = Ratchet(KEY.kid, "s1", whole.position)
    assert walked(resumed, after) == walked(whole, after)
    assert resumed.position == whole.position


@given(BODIES, BODIES)
def test_two_histories_have_two_aggregates(one: list[bytes], other: list[bytes]) -> None:
    """Lines that were changed, cut, added or reordered show in the aggregate."""
    first, second = (Ratchet.start(KEY, "s1") for _ in range(2))
    walked(first, one)
    walked(second, other)
    assert (first.aggregate == second.aggregate) == (one == other)


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=8), st.integers(0, 7))
def test_a_key_signs_one_line(bodies: list[bytes], skipped: int) -> None:
    """The key of one line gives another tag than the key of any other, whatever the body."""
    body = bodies[skipped % len(bodies)]
    ratchet = Ratchet.start(KEY, "s1")
    tags = []
    for each in bodies:
        tags.append(ratchet.tag(body))
        ratchet.tag(each)
        ratchet.step()
    assert len({*tags, ratchet.tag(body)}) == len(bodies) + 1


@given(BODIES)
def test_another_session_has_other_tags(bodies: list[bytes]) -> None:
    """With the same start key, no tag and no aggregate of one session serves another."""
    one, other = Ratchet.start(KEY, "s1"), Ratchet.start(KEY, "s2")
    assert not set(walked(one, bodies)) & set(walked(other, bodies))
    assert one.aggregate != other.aggregate
