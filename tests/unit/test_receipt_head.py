"""The head's two slots."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break
from broker.receipt.chain import genesis
from broker.receipt.head import HEAD_BYTES, SLOT_BYTES, Head, HeadForm
from broker.receipt.keys import Key
from tests.receiptkit import KEY

FORM = HeadForm("s1", KEY)
BLANK = bytes(SLOT_BYTES)
LAST = "ab" * 32


def slot(n: int) -> bytes:
    """Return an authentic slot over n lines."""
    return FORM.slot(Head(n, LAST, 100 * n))


def test_a_slot_is_one_line_of_json() -> None:
    """A slot is canonical JSON that a person can read, filled up to 512 bytes."""
    text = slot(7)
    assert (len(text), text[-1:]) == (SLOT_BYTES, b"\n")
    fields = json.loads(text)
    assert list(fields) == ["bytes", "last", "n", "sid", "tag"]
    assert {**fields, "tag": ""} == {"bytes": 700, "last": LAST, "n": 7, "sid": "s1", "tag": ""}


def test_the_first_head_covers_nothing() -> None:
    """A new head is whole from the start, covers no line and links to the session's name."""
    slots = FORM.read(FORM.first())
    assert (slots.head, slots.slot, slots.torn) == (Head(0, genesis("s1"), 0), 0, False)
    assert len(FORM.first()) == HEAD_BYTES


@pytest.mark.parametrize(
    ("content", "n", "number", "torn"),
    [
        (slot(1) + BLANK, 1, 0, False),
        (BLANK + slot(1), 1, 1, False),
        (slot(4) + slot(5), 5, 1, False),
        (slot(9) + slot(5), 9, 0, False),
        (slot(4) + slot(5)[:100] + slot(3)[100:], 4, 0, True),
        (b"x" * SLOT_BYTES + slot(5), 5, 1, True),
        (slot(4) + b" " * SLOT_BYTES, 4, 0, True),
    ],
)
def test_the_slot_with_the_most_lines_counts(
    content: bytes, n: int, number: int, torn: bool
) -> None:
    """Of two slots the newer counts; one that is neither blank nor authentic is told."""
    slots = FORM.read(content)
    assert (slots.head.n, slots.slot, slots.torn) == (n, number, torn)


@pytest.mark.parametrize(
    "content", [b"", BLANK * 2, b"\n" * HEAD_BYTES, b'{"n":1}'.ljust(HEAD_BYTES)]
)
def test_a_head_without_an_authentic_slot(content: bytes) -> None:
    """A head in which no slot is authentic is a break, not an absence."""
    with pytest.raises(Break) as caught:
        FORM.read(content)
    assert caught.value.reason == "head_mac"


def test_a_head_of_another_size() -> None:
    """A head that is cut or has something behind its slots is not believed."""
    good = slot(4) + slot(5)
    for content in (good[:-1], good + b"x", slot(4)):
        with pytest.raises(Break):
            FORM.read(content)


def test_another_session_or_key() -> None:
    """The slots of another session, or under another key, are not this session's."""
    for form in (HeadForm("s2", KEY), HeadForm("s1", Key.of(bytes(range(1, 33))))):
        with pytest.raises(Break):
            form.read(slot(4) + slot(5))


@given(st.integers(0, SLOT_BYTES * 8 - 1))
def test_no_bit_of_a_slot_can_change(bit: int) -> None:
    """A slot with any bit flipped, in its text or in its filling, is not authentic."""
    changed = bytearray(slot(4))
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Break):
        FORM.read(bytes(changed) + BLANK)


# ── with an aggregate ──


def forward(n: int) -> bytes:
    """Return an authentic slot over n lines of a forward-secure session."""
    return FORM.slot(Head(n, LAST, 100 * n, "cd" * 32))


def test_a_forward_head_says_so_from_the_start() -> None:
    """The head of a forward-secure session has an aggregate before there is a line."""
    slots = FORM.read(FORM.first("cd" * 32))
    assert slots.head == Head(0, genesis("s1"), 0, "cd" * 32)
    assert next(iter(json.loads(forward(7)))) == "agg"
    assert len(forward(2**53 - 1)) == SLOT_BYTES


@pytest.mark.parametrize(
    ("content", "n", "number", "torn"),
    [
        (forward(5) + forward(5), 5, 0, False),
        (forward(5) + forward(4), 5, 0, False),
        (forward(5) + b"x" * SLOT_BYTES, 5, 0, False),
        (b"x" * SLOT_BYTES + forward(5), 5, 1, True),
        (forward(6)[:100] + forward(5)[100:] + forward(5), 5, 1, True),
        (forward(5) + BLANK, 5, 0, False),
    ],
)
def test_slot_1_repeats_slot_0(content: bytes, n: int, number: int, torn: bool) -> None:
    """With an aggregate only a torn slot 0 says that a newer line had been written."""
    slots = FORM.read(content)
    assert (slots.head.n, slots.slot, slots.torn) == (n, number, torn)


def test_the_aggregate_is_under_the_tag() -> None:
    """An aggregate can be neither changed nor taken away without the key."""
    for changed in (
        forward(5).replace(b"cd", b"ce"),
        forward(5).replace(b'"agg":"' + b"cd" * 32 + b'",', b""),
    ):
        with pytest.raises(Break):
            FORM.read(changed.rstrip(b" \n").ljust(SLOT_BYTES - 1) + b"\n" + BLANK)
