"""
The laws of the quick way past lines.

1. Whatever bytes are in a file, scanning ends as walking line by line does: with the same chain,
   or with the same break at the same place. That holds also for what a holder of the key signs.
2. What scanning accepts, the quick level accepts; and nobody without the key can make a file that
   the quick level accepts and scanning refuses.
3. However the work is cut up among chunks and processes, the outcome is the same.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from hashlib import sha256
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break
from broker.limits import MAX_LINE_BYTES
from broker.receipt import scan, segments, shapes
from broker.receipt.chain import Chain, genesis
from broker.receipt.entry import encode_data, format_at
from broker.receipt.head import Head, Slots
from tests.properties.test_receipt_laws import records
from tests.receiptkit import AT, KEY, signed

SOME: list[dict[str, Any]] = [
    {"call": "c", "decision": "allow", "n": 5, "subjects": ["a", "b"], "tool": "Read"},
    {"call": "c", "ok": True, "why": None, "more": {"n": 1, "list": [1, "x"]}},
    {"text": 'line\nbreak, "quote", back\\slash, \x01 and é'},
    {"_sd": ["A" * 43], "n": 1},
    {},
]
PIECES = [b'"', b"\\", b"\\n", b"\\/", b"\\u0061", b"\\u001f", b"\\u001F", b"\\u000a", b"\x00",
          b"\x1f", b"\n", b"\r", b"\xff", b"\xed\xa0\x80", b"\xc3\xa9", b"\xe2\x80\xa8", b" ", b"0",
          b"00", b"-", b"-0", b"1.0", b"1e5", b"9" * 15, b"9" * 16, b"9007199254740991", b"true",
          b"null", b"[]", b"{}", b"[", b"}", b",", b":", b"Z", b"z", b"2", b"T", b'"a":1,', b'","',
          b'"kind":"seal"', b"open", b"note", b"1" * 300]  # fmt: skip

edits = st.tuples(st.integers(0, 900), st.integers(0, 6), st.sampled_from(PIECES))
entries = st.tuples(
    st.sampled_from(["note", "decision", "result"]),
    st.sampled_from(SOME) | records,
    st.sampled_from([AT, AT + 10**6, AT + 10**9, AT - 10**7]),
)


Row = tuple[str, dict[str, Any], int]
Edit = tuple[int, int, bytes]


def edited(content: bytes, edit: Edit) -> bytes:
    """Put a piece in the place of some bytes."""
    place, length, piece = edit
    place %= len(content) + 1
    return content[:place] + piece + content[place + length :]


def written(
    rows: list[Row],
    change: Callable[[int, bytes], bytes] = lambda _n, body: body,
    seal: bool = False,
) -> list[bytes]:
    """Write lines as a holder of the key does who may change any body before signing it."""
    chain = Chain("s1", KEY)
    last, lines = genesis("s1"), []
    rows = [("open", {"format": "receipt/1"}, AT), *rows]
    if seal:
        rows = [*rows, ("seal", {}, AT)]
    for n, (kind, data, at) in enumerate(rows):
        text = encode_data(chain.seal_data("complete") if kind == "seal" else data)
        body = (
            f'{{"at":"{format_at(at)}","data":{text},"kid":"{KEY.kid}","kind":"{kind}",'
            f'"n":{n},"prev":"{last}","sid":"s1"}}'
        )
        lines.append(signed(change(n, body.encode()), "s1"))
        last = sha256(lines[-1]).hexdigest()
        chain.push(kind, format_at(at), lines[-1])
    return lines


Outcome = tuple[Any, ...]


def outcome(act: Callable[[Chain], object], tree: bool) -> Outcome:
    """Return where a chain stands after an act, or what broke."""
    chain = Chain("s1", KEY, tree=tree)
    try:
        rest = act(chain)
    except Break as error:
        return (error.reason, error.line, error.offset, error.message, chain.state())
    return (rest, chain.state(), chain.text)


def both(content: bytes, *, tree: bool, head: Head | None, **how: Any) -> tuple[Outcome, Outcome]:
    """Return what walking line by line says of a file, and what scanning says."""
    slots = None if head is None else Slots(head, 0, torn=False)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        fd, size = file.fileno(), len(content)

        def walk(chain: Chain) -> bytes:
            walk = scan.Walk(fd, size, chain, slots)
            for _ in walk:
                pass
            return walk.fragment

        def quickly(chain: Chain) -> bytes:
            return scan.scan(fd, size, chain, slots, **how)

        with mock.patch.object(shapes, "_MANY", 1):  # hold even a few lines to shapes together
            together = outcome(quickly, tree)
        fast = outcome(quickly, tree)
        assert fast == together
        return outcome(walk, tree), fast


def head_at(lines: list[bytes], n: int) -> Head:
    """Return the head that acknowledges so many lines."""
    covered = lines[:n]
    last = sha256(covered[-1]).hexdigest() if covered else genesis("s1")
    return Head(n, last, sum(len(line) + 1 for line in covered))


def joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


@given(
    st.lists(entries, max_size=12),
    st.lists(edits, max_size=3),
    st.sampled_from([300, 1_000, 131_072]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 14),
)
def test_law_1_any_bytes(
    rows: list[Row],
    changes: list[Edit],
    chunk: int,
    seal: bool,
    tree: bool,
    n: int,
) -> None:
    """A file changed anywhere, by anybody, is judged as line by line, also against a head."""
    lines = written(rows, seal=seal)
    content = joined(lines)
    for change in changes:
        content = edited(content, change)
    head = head_at(lines, n) if n <= len(lines) else None
    with mock.patch.object(scan, "CHUNK_BYTES", chunk):
        slow, fast = both(content, tree=tree, head=head)
    assert fast == slow


@given(st.lists(entries, min_size=1, max_size=8), st.data(), st.booleans())
def test_law_1_what_the_key_signs(rows: list[Row], data: st.DataObject, seal: bool) -> None:
    """A body that a holder of the key changed before signing is judged as line by line."""
    odd = data.draw(st.integers(0, len(rows) + seal))
    change = data.draw(edits)
    twice = data.draw(st.none() | edits)

    def forged(n: int, body: bytes) -> bytes:
        if n != odd:
            return body
        once = edited(body, change)
        return once if twice is None else edited(once, twice)

    # The same rows before and after, so that every shape is known when the odd line comes.
    lines = written([*rows, *rows], lambda n, body: forged(n - len(rows), body), seal)
    slow, fast = both(joined(lines), tree=True, head=None)
    assert fast == slow


@pytest.mark.parametrize("piece", [*PIECES, b"x"])
@pytest.mark.parametrize("place", [b"abc", b'abc"', b"17", b"17}", b"note", b"2026-11", b"000Z"])
def test_law_1_every_piece_at_the_places_that_count(piece: bytes, place: bytes) -> None:
    """A body that is odd within a text, a number, a kind or an instant is judged alike."""
    row = ("note", {"a": "abc", "n": 17}, AT)
    lines = written([row, row, row], lambda n, body: body.replace(place, piece) if n == 2 else body)
    for tree in (True, False):
        slow, fast = both(joined(lines), tree=tree, head=None)
        assert fast == slow


@pytest.mark.parametrize("digests", [["A" * 43], [], ["x"], ["B" * 43, "A" * 43]])
def test_law_1_commitments(digests: list[str]) -> None:
    """Data of a shape that was seen is held to the rules for commitments all the same."""
    row = ("note", {"_sd": ["A" * 43], "n": 1}, AT)
    slow, fast = both(
        joined(written([row, row, ("note", {"_sd": digests, "n": 2}, AT)])), tree=True, head=None
    )
    assert fast == slow
    assert (fast[0] == b"") == (digests == ["A" * 43])


def test_law_1_lines_behind_a_seal() -> None:
    """Whatever a holder of the key writes behind a seal, it is after the seal, quickly too."""
    rows = [("note", {"a": "abc"}, AT)] * 3
    lines = written(rows, seal=True)
    more = Chain("s1", KEY)
    for line in lines:
        more.accept(line)
    for _ in range(2):
        lines.append(more.compose("note", '{"a":"x"}', format_at(AT)))
        more.push("note", format_at(AT), lines[-1])
    for how in ({}, {"quick": True}):
        slow, fast = both(joined(lines), tree=True, head=None, **how)
        assert fast == slow
        assert fast[:2] == ("after_seal", 5)


@pytest.mark.parametrize(("more", "answer"), [(0, b""), (1, "size")])
def test_law_1_a_line_too_long(more: int, answer: object) -> None:
    """A line of the limit is passed by, and one byte more is refused by size, signed or not."""
    row = ("note", {"a": "abc"}, AT)
    room = MAX_LINE_BYTES - len(written([row, row])[2]) + 3 + more
    lines = written(
        [row, row, row], lambda n, body: body.replace(b"abc", b"x" * room) if n == 2 else body
    )
    assert len(lines[2]) == MAX_LINE_BYTES + more
    slow, fast = both(joined(lines), tree=False, head=None)
    assert fast == slow
    assert fast[0] == answer


@given(st.lists(entries, min_size=1, max_size=6), st.lists(edits, max_size=2), st.booleans())
def test_law_2_the_quick_level(rows: list[Row], changes: list[Edit], seal: bool) -> None:
    """Without the key, what the quick level accepts is what scanning accepts."""
    lines = written([*rows, *rows], seal=seal)
    content = joined(lines)
    for change in changes:
        content = edited(content, change)
    slow, fast = both(content, tree=True, head=head_at(lines, len(lines)), quick=True)
    assert isinstance(slow[0], bytes) == isinstance(fast[0], bytes)
    if isinstance(slow[0], bytes):
        assert fast[1].n == slow[1].n
        assert fast[1].last == slow[1].last
        assert fast[1].closing == slow[1].closing
        assert fast[1].at == slow[1].at
        assert fast[1].kind == slow[1].kind


@pytest.fixture(scope="module")
def long() -> list[bytes]:
    """A sealed receipt of some hundred lines."""
    return written([("note", SOME[i % 4], AT + i % 50 * 10**6) for i in range(300)], seal=True)


@pytest.mark.parametrize("seed", range(12))
def test_law_3_processes(long: list[bytes], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among processes the outcome is that of one, wherever the file is broken, if at all."""
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 3_000 + 700 * seed)
    monkeypatch.setattr(segments, "_LAST_BYTES", 900)
    lines = [*long]
    n = 25 * seed
    if seed % 4 == 1:
        lines[n] = edited(lines[n], (40, 1, b"x"))
    elif seed % 4 == 2:
        lines[n], lines[n + 1] = lines[n + 1], lines[n]
    elif seed % 4 == 3:
        del lines[n]
    head = head_at(long, 299 - n)
    slow, fast = both(joined(lines), tree=seed % 2 == 0, head=head, jobs=2)
    assert fast == slow
    slow, fast = both(joined(lines), tree=True, head=Head(n, "0" * 64, 5), jobs=3)
    assert fast == slow


def test_law_3_every_place_of_a_break(long: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a byte is changed, and wherever a chunk ends, the break is the same."""
    content = joined(long[:40])
    for place in range(0, len(content), 211):
        monkeypatch.setattr(scan, "CHUNK_BYTES", 500 + place % 977)
        changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        slow, fast = both(changed, tree=False, head=None)
        assert fast == slow
        assert isinstance(fast[0], str)


def test_a_dead_process_changes_nothing(long: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another process dies, its segment is walked all the same."""
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 3_000)
    monkeypatch.setattr(segments, "_LAST_BYTES", 900)
    monkeypatch.setattr(segments, "_verify", lambda *_: os._exit(3))
    slow, fast = both(joined(long), tree=True, head=None, jobs=2)
    assert fast == slow
    assert slow[0] == b""
