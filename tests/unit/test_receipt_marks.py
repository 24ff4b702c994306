"""What others say of the lines is met where it stands, or is a break there."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from broker.errors import Break
from broker.receipt.chain import Chain
from broker.receipt.marks import EARLIER, Mark, Marks
from broker.receipt.since import Since
from tests.receiptkit import AT, KEY, Scene


@pytest.fixture
def lines(tmp_path: Path) -> list[bytes]:
    """The eleven lines of an open session."""
    return Scene.at(tmp_path).lines("s2")


def walk(marks: Marks, lines: list[bytes]) -> Chain:
    """Accept lines and meet marks, as an inspection does."""
    chain = Chain("s2", KEY)
    for line in lines:
        start = chain.size
        chain.accept(line)
        if chain.n in marks:
            marks.meet(chain, start)
    return chain


def root(lines: list[bytes]) -> bytes:
    """Return the root of some lines."""
    tree = walk(Marks(()), lines).tree
    assert tree is not None
    return tree.root()


def last(lines: list[bytes], n: int) -> str:
    """Return the hash of the last of ``n`` lines."""
    return sha256(lines[n - 1]).hexdigest()


def test_marks_that_are_right(lines: list[bytes]) -> None:
    """Several at one line, by hash and by root: each is met, and where they end is told."""
    marks = Marks(
        [
            Mark(3, "the ledger", last=last(lines, 3)),
            Mark(3, "the checkpoint", root=root(lines[:3])),
            Mark(11, "a friend", last=last(lines, 11)),
        ]
    )
    assert marks.numbers() == {3, 11}
    chain = walk(marks, lines)
    marks.check_met(chain)
    assert marks.numbers() == set()
    assert marks.ends == {3: sum(len(line) + 1 for line in lines[:3]), 11: chain.size}
    assert marks.kept() == ((3, last(lines, 3)), (11, last(lines, 11)))


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        (Mark(5, "a friend", last="0" * 64), "fork"),
        (Mark(5, "the ledger", last="0" * 64, reason="swapped"), "swapped"),
        (Mark(5, "the checkpoint", root=bytes(32)), "checkpoint_root"),
    ],
)
def test_a_mark_that_is_wrong(mark: Mark, reason: str, lines: list[bytes]) -> None:
    """The break names who says otherwise, the line, and where it begins."""
    with pytest.raises(Break, match=mark.says) as caught:
        walk(Marks([mark]), lines)
    start = sum(len(line) + 1 for line in lines[:4])
    assert (caught.value.reason, caught.value.line, caught.value.offset) == (reason, 4, start)


def test_a_mark_beyond_the_end(lines: list[bytes]) -> None:
    """Lines that somebody names and that are not there are a loss; the nearest is named."""
    marks = Marks([Mark(14, "a friend", last="0" * 64), Mark(12, "the ledger", last="0" * 64)])
    with pytest.raises(Break, match="the ledger names 12 lines and 11 are left") as caught:
        marks.check_met(walk(marks, lines))
    assert caught.value.reason == "truncated"


def test_anchors_are_counted_once_met(lines: list[bytes]) -> None:
    """Of each anchor, the most lines that it was found to hold."""
    marks = Marks(
        [
            Mark(3, "anchor git", root=root(lines[:3]), anchor="git"),
            Mark(7, "anchor git", root=root(lines[:7]), anchor="git"),
            Mark(5, "anchor w", root=root(lines[:5]), anchor="w"),
        ]
    )
    assert marks.anchored == {}
    walk(marks, lines)
    assert marks.anchored == {"git": 7, "w": 5}


# ── from one verification to the next ──


def earlier(lines: list[bytes]) -> Since:
    """Return where a verification of eight lines ended, which met two marks."""
    marks = Marks(
        [
            Mark(2, "the ledger", last=last(lines, 2)),
            Mark(6, "the checkpoint", root=root(lines[:6])),
        ]
    )
    chain = walk(marks, lines[:8])
    covered = (6, root(lines[:6]).hex(), marks.ends[6])
    return Since(chain.state(), "mac", AT, covered, marks.kept())


def test_marks_that_are_known_from_before(lines: list[bytes]) -> None:
    """What was met then, and what speaks of just the lines verified then, counts as met."""
    since = earlier(lines)
    marks = Marks(
        [
            Mark(2, "the ledger", last=last(lines, 2)),
            Mark(6, "the checkpoint", root=root(lines[:6]), anchor="git"),
            Mark(8, EARLIER, last=last(lines, 8)),
            Mark(8, "a friend", last=last(lines, 8), root=root(lines[:8])),
            Mark(10, "a friend", last=last(lines, 10)),
        ]
    )
    assert marks.pass_by(since, root(lines[:8]))
    assert marks.numbers() == {10}
    assert marks.anchored == {"git": 6}
    assert marks.ends[6] == since.covered[2]
    assert marks.kept() == ((2, last(lines, 2)), (8, last(lines, 8)))


@pytest.mark.parametrize("n", [2, 4, 6, 8])
@pytest.mark.parametrize("kind", ["last", "root"])
def test_marks_that_are_not_known(n: int, kind: str, lines: list[bytes]) -> None:
    """Anything else about lines that are not read again keeps every mark ahead."""
    wrong = Mark(n, "a friend", last="0" * 64) if kind == "last" else Mark(n, "x", root=bytes(32))
    marks = Marks([wrong])
    assert not marks.pass_by(earlier(lines), root(lines[:8]))
    assert marks.numbers() == {n}
