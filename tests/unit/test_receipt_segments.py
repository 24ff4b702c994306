"""Sharing a file among processes: where it is cut, and when a segment is believed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.receipt import scan, segments
from broker.receipt.chain import Chain
from tests.receiptkit import KEY, Scene, fill, new_receipts

ALONE = segments._alone


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """A receipt of 61 lines, open, and its size; segments of some lines each."""
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 4_000)
    monkeypatch.setattr(segments, "_LAST_BYTES", 1_000)
    monkeypatch.setattr(segments, "_alone", lambda: True)  # whatever other tests have left
    scene = Scene(new_receipts(tmp_path))
    fill(scene.receipts, "s1", 60).close()
    fd = os.open(scene.path("s1"), os.O_RDONLY)
    yield fd, os.fstat(fd).st_size
    os.close(fd)


def shared(opened: tuple[int, int], chain: Chain) -> Chain:
    """Move a chain as far as other processes do."""
    segments.in_segments(*opened, scan.Scan(chain, quick=False, stops={}), 2)
    return chain


def test_all_but_the_end_is_given_away(opened: tuple[int, int]) -> None:
    """Other processes verify whole segments; the end of the file is left for the caller."""
    chain = shared(opened, Chain("s1", KEY))
    assert 1_000 <= opened[1] - chain.size <= 5_600
    reference = Chain("s1", KEY)
    walk = iter(scan.Walk(*opened, reference, None))
    while reference.n < chain.n:
        next(walk)
    assert chain.state() == reference.state()


def test_small_files_and_threads_are_left_alone(
    opened: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is forked beside another thread, or for a file of one segment."""
    monkeypatch.setattr(segments, "_alone", ALONE)
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert shared(opened, Chain("s1", KEY)).n == 0
    done.set()
    thread.join()
    monkeypatch.setattr(segments, "_alone", lambda: True)
    monkeypatch.setattr(segments, "SEGMENT_BYTES", opened[1])
    assert shared(opened, Chain("s1", KEY)).n == 0


@pytest.mark.parametrize("field", ["n", "size", "last", "at"])
def test_a_segment_that_assumed_otherwise_is_not_believed(
    opened: tuple[int, int], field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment counts only if it began exactly where the chain stands."""
    honest = segments._assume

    def assume(fd: int, start: int) -> object:
        state = honest(fd, start)
        assert state is not None
        value = getattr(state, field)
        return replace(state, **{field: value + 1 if isinstance(value, int) else "x" + value[1:]})

    monkeypatch.setattr(segments, "_assume", assume)
    chain = shared(opened, Chain("s1", KEY))
    assert 0 < chain.size < 5_600
    assert scan.scan(*opened, chain, None) == b""
    assert chain.n == 61


def test_a_finding_is_taken_in_only_where_it_began(opened: tuple[int, int]) -> None:
    """A finding that assumed another number, size, hash or instant leaves the chain alone."""
    fd, size = opened
    whole = scan.Scan(Chain("s1", KEY), quick=False, stops={})
    cuts = segments._cuts(fd, 0, size - 1_000)
    own = scan.Scan(Chain("s1", KEY), quick=False, stops={})
    first = segments._verify(fd, cuts[0], cuts[1], own, whole.chain.state())
    assert first is not None
    for other in ({"n": 1}, {"size": 1}, {"last": "0" * 64}, {"at": "x"}):
        assert not segments._join(whole, replace(first, assumed=replace(first.assumed, **other)))
        assert whole.chain.n == 0
    assert segments._join(whole, first)
    assert whole.chain.size == cuts[1]


def test_the_line_before_is_read_as_it_stands(opened: tuple[int, int]) -> None:
    """What a segment assumes comes from the line before it; where there is none, nothing."""
    fd, _ = opened
    assert segments._assume(fd, 1) is None
    assert segments._assume(fd, 40) is None
