"""A trail is whole, or the place where it is not is named, also without the receipt."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break
from broker.export import aat
from broker.export.source import Measure
from broker.export.trail import LeafTree, Promise, check_trail
from broker.receipt.entry import canonical
from broker.receipt.merkle import Frontier
from tests.exportkit import LINES, SID, home_at, lines_of, session


@pytest.fixture
def trail(tmp_path: Path) -> list[bytes]:
    """The trail of a sealed session."""
    home = home_at(tmp_path)
    session(home)
    return list(aat.records(lines_of(home), SID))


@pytest.fixture
def promise(trail: list[bytes], tmp_path: Path) -> Promise:
    """What a checkpoint over all its lines says."""
    measure = Measure()
    for line in lines_of(home_at(tmp_path)):
        measure.add(line.raw)
    return Promise(measure.lines, bytes.fromhex(measure.root))


def linked(records: list[dict[str, Any]]) -> list[bytes]:
    """Link records anew, as whoever can write the file can."""
    made: list[bytes] = []
    for n, record in enumerate(records):
        record["action_detail"]["receipt"]["line"] = n
        if made:
            record["parent_record_id"] = records[n - 1]["record_id"]
            record["prev_hash"] = sha256(made[-1][:-1]).hexdigest()
        made.append(canonical(record).encode() + b"\n")
    return made


def broken(lines: list[bytes], promise: Promise | None = None) -> Break:
    """Return the break of a trail that has one."""
    with pytest.raises(Break) as caught:
        check_trail(lines, promise)
    assert caught.value.reason == "export"
    return caught.value


@given(st.lists(st.binary(max_size=8), max_size=40))
def test_the_tree_of_leaves_is_the_receipt_s(lines: list[bytes]) -> None:
    """A tree that grows by hashes has the root of one that grows by lines, at every size."""
    tree, frontier = LeafTree(), Frontier()
    assert tree.root() == frontier.root()
    for line in lines:
        tree.add(sha256(b"\0" + line).digest())
        frontier.append(line)
        assert (tree.size, tree.root()) == (frontier.size, frontier.root())


def test_a_whole_trail(trail: list[bytes], promise: Promise) -> None:
    """An untouched trail is whole, with a checkpoint, with an earlier one, and with none."""
    assert check_trail(trail) == check_trail(trail, promise) == LINES
    early = LeafTree()
    early.add(bytes.fromhex(json.loads(trail[0])["action_detail"]["receipt"]["leaf"]))
    assert check_trail(trail, Promise(1, early.root())) == LINES


@pytest.mark.parametrize("gone", range(LINES))
def test_a_record_left_out(trail: list[bytes], promise: Promise, gone: int) -> None:
    """A trail without any one record is broken, where something tells how long it was."""
    short = trail[:gone] + trail[gone + 1 :]
    assert broken(short, promise).line == min(gone, LINES - 1)
    if gone < LINES - 1:
        assert broken(short).line == gone


@pytest.mark.parametrize("gone", range(1, LINES))
def test_a_record_left_out_and_the_rest_linked(
    trail: list[bytes], promise: Promise, gone: int
) -> None:
    """Linking the rest anew hides it from nobody: the count and the root are in the seal."""
    records = [json.loads(line) for n, line in enumerate(trail) if n != gone]
    lines = linked(records)
    broken(lines, promise)
    if gone < LINES - 1:
        assert broken(lines).message == "the count or the root differs from what the seal says"


def test_a_seal_made_to_fit(trail: list[bytes], promise: Promise) -> None:
    """Whoever changes the seal too is found by the signed checkpoint, and only by that."""
    records = [json.loads(line) for n, line in enumerate(trail) if n != 5]
    tree = LeafTree()
    for record in records[:-1]:
        tree.add(bytes.fromhex(record["action_detail"]["receipt"]["leaf"]))
    records[-1]["action_detail"]["seal"].update(n=tree.size, root=tree.root().hex())
    lines = linked(records)
    assert check_trail(lines) == LINES - 1
    assert broken(lines, promise).line == LINES - 1


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"[]\n",
        b"null\n",
        b"{}\n",
        b'{"action_detail":{"receipt":{}}}\n',
        b'{"action_detail":[]}\n',
        b"NaN\n",
        b"\xff\n",
        b"[" * 100_000 + b"\n",
    ],
)
def test_what_is_no_record(line: bytes) -> None:
    """Whatever else stands in the file is a break, never a fault of the reader."""
    broken([line])


def test_an_empty_trail(trail: list[bytes]) -> None:
    """Nothing is not a whole trail."""
    assert broken([]).message == "the trail has no record"


def test_nothing_follows_the_end(trail: list[bytes]) -> None:
    """A record behind the end of the session is a break, however well it is linked."""
    records = [json.loads(line) for line in [*trail, trail[3]]]
    assert broken(linked(records)).line == LINES


def test_a_record_that_says_something_twice(trail: list[bytes]) -> None:
    """A name that is given twice, or another spelling, is a break: readers differ on it."""
    twice = trail[0].replace(b'{"action_detail"', b'{"trust_level":"L4","action_detail"', 1)
    assert broken([twice]).message == "the record is not in canonical form"
