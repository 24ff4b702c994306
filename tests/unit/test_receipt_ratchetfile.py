"""The kept ratchet's two slots."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import InputError
from broker.limits import MAX_SAFE_INT, MAX_SID_CHARS
from broker.receipt.entry import check_sid
from broker.receipt.head import SLOT_BYTES
from broker.receipt.keys import Key
from broker.receipt.ratchet import Position, Ratchet
from broker.receipt.ratchetfile import (
    BLANK,
    RATCHET_BYTES,
    KeptRatchet,
    RatchetForm,
    ratchet_path,
)
from tests.receiptkit import KEY

FORM = RatchetForm("s1", KEY)
KEPT = KeptRatchet("0123456789abcdef", Position(7, bytes(range(32)), "cd" * 32), "ab" * 32, 700)


def slot(n: int) -> bytes:
    """Return an authentic slot after n lines."""
    return FORM.slot(replace(KEPT, position=replace(KEPT.position, n=n)))


def test_a_slot_is_one_line_of_json() -> None:
    """A slot is canonical JSON that a person can read, filled up to 512 bytes."""
    text = FORM.slot(KEPT)
    assert (len(text), text[-1:]) == (SLOT_BYTES, b"\n")
    fields = json.loads(text)
    assert list(fields) == ["agg", "bytes", "key", "kid", "last", "n", "sid", "tag"]
    assert FORM.read(text + BLANK[SLOT_BYTES:]) == KEPT


def test_the_largest_slot_fits() -> None:
    """With the longest name and the largest numbers a slot has 512 bytes like any other."""
    large = replace(KEPT, position=replace(KEPT.position, n=MAX_SAFE_INT), size=MAX_SAFE_INT)
    assert len(RatchetForm("s" * MAX_SID_CHARS, KEY).slot(large)) == SLOT_BYTES


@pytest.mark.parametrize(
    ("content", "n"),
    [
        (slot(7) + slot(7), 7),
        (slot(8) + slot(7), 8),
        (slot(7) + b"x" * SLOT_BYTES, 7),
        (slot(8)[:100] + slot(7)[100:] + slot(7), 7),
        (b"\0" * SLOT_BYTES + slot(7), 7),
    ],
)
def test_the_slot_with_the_most_lines_counts(content: bytes, n: int) -> None:
    """Of two slots the newer counts, whatever a crash made of the other."""
    kept = FORM.read(content)
    assert kept is not None
    assert kept.position.n == n


def test_a_blank_file_holds_no_key() -> None:
    """Before line 0 and after the seal the file says that there is no key."""
    assert FORM.read(BLANK) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        BLANK[:-1],
        BLANK + b"\0",
        b" " * RATCHET_BYTES,
        slot(7),
        slot(7) + slot(7) + b"\n",
        RatchetForm("s2", KEY).slot(KEPT) * 2,
        RatchetForm("s1", Key.of(bytes(range(1, 33)))).slot(KEPT) * 2,
    ],
    ids=["empty", "short", "long", "spaces", "half", "more", "another session", "another key"],
)
def test_a_file_that_is_not_ours(content: bytes) -> None:
    """From a file that was not made with this key for this session, nothing is believed."""
    assert FORM.read(content) is None


@given(st.integers(0, SLOT_BYTES - 1), st.integers(1, 255))
def test_every_byte_counts(place: int, change: int) -> None:
    """No byte of a slot can be changed without the key."""
    changed = bytearray(slot(7))
    changed[place] ^= change
    assert FORM.read(bytes(changed) * 2) is None


def test_it_goes_on_as_it_was() -> None:
    """What is read back is the same ratchet, with the same key and name."""
    ratchet = Ratchet.start(KEY, "s1")
    ratchet.tag(b"{}")
    ratchet.step()
    kept = FORM.read(FORM.slot(KeptRatchet(KEY.kid, ratchet.position, "ab" * 32, 9)) * 2)
    assert kept is not None
    again = kept.ratchet("s1")
    assert (again.kid, again.position) == (ratchet.kid, ratchet.position)
    assert again.tag(b"x") == ratchet.tag(b"x")


def test_nothing_shows_the_key() -> None:
    """No repr shows what was kept."""
    assert KEPT.position.key.hex() not in repr(KEPT)
    assert repr(KEPT.position.key) not in repr(KEPT)


def test_its_name_is_no_sessions() -> None:
    """The file lies beside the head, and no session can have its name."""
    name = ratchet_path(Path("heads/s1")).name
    assert name == "s1.ratchet"
    with pytest.raises(InputError):
        check_sid(name)
