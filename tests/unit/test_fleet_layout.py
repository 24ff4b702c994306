"""The objects of a mirror: their names say which lines they hold, so a gap is seen in a listing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break
from broker.fleet.layout import Stretch, mirrored, note_name

CUTS = st.lists(st.integers(1, 99), min_size=1, max_size=6)


def _objects(lengths: list[int], noted: int | None = None) -> dict[str, int]:
    found, at = {}, 0
    for length in lengths:
        found[Stretch(at, at + length, 10 * length).name] = 10 * length
        at += length
        found[note_name(at)] = 300
    return found if noted is None else {n: s for n, s in found.items() if "check" not in n}


@given(CUTS)
def test_whole_objects_are_a_whole(lengths: list[int]) -> None:
    """However a chain was cut into objects, together they are all its lines, in order."""
    found = mirrored(_objects(lengths))
    assert (found.lines, found.noted) == (sum(lengths), sum(lengths))
    assert found.size_bytes == 10 * sum(lengths)
    assert [each.end - each.first for each in found.stretches] == lengths


@given(CUTS, st.data())
def test_any_object_that_is_gone_is_seen(lengths: list[int], data: st.DataObject) -> None:
    """Without any one object of lines it is a break; a checkpoint before the last may go."""
    objects = _objects(lengths)
    gone = data.draw(st.sampled_from([name for name in objects if name.endswith(".jsonl")]))
    del objects[gone]
    with pytest.raises(Break) as caught:
        mirrored(objects)
    assert caught.value.reason in ("missing", "truncated")


@pytest.mark.parametrize(
    "twice", [Stretch(0, 5, 9), Stretch(2, 4, 9), Stretch(4, 4, 9), Stretch(3, 2, 9)]
)
def test_two_objects_with_one_line(twice: Stretch) -> None:
    """Lines that are there twice are two receipts, and nobody chooses."""
    with pytest.raises(Break) as caught:
        mirrored({**_objects([3, 3]), twice.name: 9})
    assert caught.value.reason == "fork"


def test_strangers_are_named() -> None:
    """An object that is none of ours is told, and is in nobody's way."""
    found = mirrored({**_objects([2]), ".put-x": 1, "0-2.jsonl": 1, "x.checkpoint": 1})
    assert found.strange == (".put-x", "0-2.jsonl", "x.checkpoint")
    assert found.lines == 2
    assert mirrored({}).lines == 0
