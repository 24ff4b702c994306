"""A body in pieces, so that a conversation that is sent again costs nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.limits import MAX_INLINE_BYTES
from broker.records.pieces import BodyPiece, cut, kept, original

VALUES = st.recursive(
    st.none() | st.integers() | st.text() | st.text("x", min_size=600, max_size=700),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


def texts(pieces: tuple[BodyPiece, ...]) -> dict[str, tuple[str, str]]:
    """Return the pieces by name, as a store finds them."""
    return {piece.id: (piece.text, piece.before) for piece in pieces}


@given(
    value=st.dictionaries(st.text(), VALUES, max_size=5),
    spelling=st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]),
    ascii_only=st.booleans(),
)
def test_joined_the_parts_are_the_body(
    value: object, spelling: tuple[str, str], ascii_only: bool
) -> None:
    """However a body is spelled, what was kept of it is the same, byte by byte."""
    content = json.dumps(value, separators=spelling, ensure_ascii=ascii_only).encode()
    body, pieces = kept(content)
    assert original(body, texts(pieces).__getitem__) == content
    assert body.size_bytes == len(content)


@given(content=st.binary() | st.text().map(str.encode))
def test_any_bytes_are_kept(content: bytes) -> None:
    """What is no JSON, and no text, is kept as it is."""
    body, pieces = kept(content)
    assert original(body, texts(pieces).__getitem__) == content


def conversation(length: int) -> bytes:
    """Return the request of a conversation of some length, tools and all."""
    rows = [{"role": "user", "content": f"{n} " + "words " * 160} for n in range(length)]
    tools = [{"name": f"t{n}", "description": "d" * 900} for n in range(20)]
    return json.dumps({"messages": rows, "tools": tools, "model": "m"}).encode()


def test_a_conversation_that_is_sent_again_costs_what_is_new() -> None:
    """A hundred requests of a growing conversation keep less than three times what is new."""
    known: set[str] = set()
    written = 0
    for length in range(1, 101):
        body, pieces = kept(conversation(length))
        fresh = [piece for piece in pieces if piece.id not in known]
        known |= {piece.id for piece in fresh}
        written += sum(len(piece.text) + 180 for piece in fresh)
        written += len(json.dumps(body.data())) + 400
    new = len(conversation(100))
    sent = sum(len(conversation(length)) for length in range(1, 101))
    assert written < 3 * new
    assert written < sent / 15


def test_a_mark_that_moves_costs_only_what_comes_after() -> None:
    """A message that changes makes new pieces of itself and those behind it, and of no other."""
    rows = [f"{n}" * 50 for n in range(9)]
    first = cut(json.dumps({"m": rows})).pieces
    rows[7] = "changed"
    second = cut(json.dumps({"m": rows})).pieces
    assert [a.id == b.id for a, b in zip(first, second, strict=True)] == [True] * 7 + [False] * 2


def test_a_large_body_spills() -> None:
    """Above the limit a body is marked so, and one in no parts that we know is a piece as well."""
    assert not kept(b"x" * MAX_INLINE_BYTES)[0].spilled
    body, pieces = kept(b"x" * (MAX_INLINE_BYTES + 1))
    assert body.spilled
    assert len(pieces) == 1


def test_a_piece_that_was_changed_is_noticed() -> None:
    """The digest of the body tells that one of its pieces is another."""
    body, pieces = kept(b'{"messages":["a","b"]}')
    found = texts(pieces)
    found[pieces[0].id] = ('"c"', "")
    with pytest.raises(ValueError, match="not the ones"):
        original(body, found.__getitem__)
