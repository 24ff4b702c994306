"""Walking the lines of a file: where it stops, what it tells, and what it leaves to ``accept``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import Break
from broker.receipt import scan
from broker.receipt.chain import Chain, OneKey, State
from broker.receipt.entry import encode_data, format_at
from broker.receipt.form import RECEIPT
from broker.receipt.head import HeadForm
from broker.receipt.keys import Key
from broker.receipt.merkle import Frontier
from tests.receiptkit import AT, KEY, Scene, fill, outcome


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three fresh sessions."""
    return Scene.at(tmp_path)


@pytest.fixture
def opened(scene: Scene) -> Iterator[tuple[int, int]]:
    """The receipt of `s1`, open, and its size."""
    fd = os.open(scene.path("s1"), os.O_RDONLY)
    yield fd, os.fstat(fd).st_size
    os.close(fd)


@pytest.mark.parametrize("chunk", [1, 7, 300, 4_096])
def test_the_size_of_a_chunk_changes_nothing(
    scene: Scene, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the file is cut into reads, the verdict is the same."""
    whole = scene.verify("s1")
    monkeypatch.setattr(scan, "CHUNK_BYTES", chunk)
    assert scene.verify("s1") == whole


def test_lines_are_passed_without_being_parsed(
    opened: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the open line, the first of a shape and the seal go to ``accept``."""
    accepted: list[str] = []

    class Told(Chain):
        def accept(self, line: bytes) -> None:
            super().accept(line)
            accepted.append(self.kind)

    chain = Told("s1", KEY)
    assert scan.scan(*opened, chain, None) == b""
    assert (chain.n, chain.closing) == (12, "complete")
    assert accepted == ["open", "decision", "seal"]


def test_stops_are_met_in_order(scene: Scene, opened: tuple[int, int]) -> None:
    """A stop sees the chain as it was after its line, and where that line begins."""
    seen: list[tuple[int, int, str]] = []
    chain = Chain("s1", KEY)
    lines = scene.lines("s1")

    def met(start: int) -> None:
        assert chain.tree is not None
        seen.append((chain.n, start, chain.tree.root().hex()))

    scan.scan(*opened, chain, None, stops=dict.fromkeys((1, 4, 5, 12, 13), met))
    tree, offset, wanted = Frontier(), 0, []
    for n, line in enumerate(lines, 1):
        tree.append(line)
        if n in (1, 4, 5, 12):
            wanted.append((n, offset, tree.root().hex()))
        offset += len(line) + 1
    assert seen == wanted


def test_the_head_is_looked_at_before_another_stop(scene: Scene, opened: tuple[int, int]) -> None:
    """Where head and stop fall on one line, the head is compared first."""
    other = fill(scene.receipts, "s4", 11)
    other.close()
    slots = HeadForm("s4", KEY).read(scene.head("s4").read_bytes())
    met: list[int] = []
    with pytest.raises(Break) as caught:
        scan.scan(*opened, Chain("s1", KEY), slots, stops={12: met.append})
    assert (caught.value.reason, caught.value.line, met) == ("fork", 11, [])


def test_progress_is_told(opened: tuple[int, int]) -> None:
    """Progress ends at the size of the file."""
    told: list[int] = []
    scan.scan(*opened, Chain("s1", KEY), None, progress=told.append)
    assert told[-1] == opened[1]


def test_the_quick_level_does_not_read_lines(scene: Scene) -> None:
    """What only a holder of the key can write wrongly is not seen there: data that is no JSON."""
    path = scene.path("s9")
    path.parent.mkdir()
    chain = Chain("s9", KEY)
    texts = ['{"format":"receipt/1"}', "{}", "no JSON", "{}"]
    with open(path, "wb") as file:
        for text, kind in zip(texts, ("open", "note", "note", "note"), strict=True):
            line = chain.compose(kind, text, format_at(AT))
            chain.push(kind, format_at(AT), line)
            file.write(line + b"\n")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size

        def read(quick: bool) -> int:
            chain = Chain("s9", KEY, tree=False)
            scan.scan(file.fileno(), size, chain, None, quick=quick)
            return chain.n

        assert outcome(lambda: read(quick=True)) == "4"
        assert outcome(lambda: read(quick=False)) == "json"


def test_the_quick_level_sees_every_swap(scene: Scene) -> None:
    """Number and link of each line are compared at the quick level too."""
    lines = scene.lines("s1")
    for n in range(len(lines) - 1):
        swapped = [*lines[:n], lines[n + 1], lines[n], *lines[n + 2 :]]
        scene.put("s1", swapped)
        with open(scene.path("s1"), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            with pytest.raises(Break):
                scan.scan(file.fileno(), size, Chain("s1", KEY), None, quick=True)


def test_going_on_from_a_state(scene: Scene, opened: tuple[int, int]) -> None:
    """A chain resumed at any line comes to the same end, also by way of a state's bytes."""
    whole = Chain("s1", KEY)
    scan.scan(*opened, whole, None)
    part = Chain("s1", KEY)
    for line in scene.lines("s1"):
        state = State.read(part.state().spelled())
        assert state == part.state()
        resumed = Chain.resumed(state, "s1", KEY)
        scan.scan(*opened, resumed, None)
        assert resumed.state() == whole.state()
        part.accept(line)


@pytest.mark.parametrize("content", [b"{}", b"[]", b"5", b"", b'{"edge":null}', b"\xff"])
def test_what_is_no_state(content: bytes) -> None:
    """Other bytes are not taken for a state."""
    with pytest.raises(ValueError, match="not the state"):
        State.read(content)


def test_long_lines_are_left_to_accept(scene: Scene) -> None:
    """A line longer than a chunk is taken, and does not keep the lines behind it waiting."""
    with fill(scene.receipts, "s5", 1) as receipt:
        receipt.append("note", {"text": "x" * 700_000}, at=AT)
        receipt.append("note", {"text": "é\n"}, at=AT)
    assert scene.verify("s5").lines == 4
    assert encode_data({"text": "é\n"}).encode() in scene.content("s5")


@pytest.mark.parametrize("stale", [False, True])
def test_a_stop_may_turn_the_key(tmp_path: Path, stale: bool) -> None:
    """From a stop on another key signs, and a line that still names the old one is refused."""
    other = Key.of(bytes(range(1, 33)))
    tags = OneKey(KEY.kid if stale else other.kid, other.mac(RECEIPT.line_label, "s1"))
    writer = Chain("s1", KEY)
    path = tmp_path / "turned"
    with open(path, "wb") as file:
        for n in range(12):
            if n == 5:
                writer.turn(tags)
            text, kind = ("{}", "note") if n else ('{"format":"receipt/1"}', "open")
            line = writer.compose(kind, text, format_at(AT))
            writer.push(kind, format_at(AT), line)
            file.write(line + b"\n")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        chain = Chain("s1", KEY)

        def act() -> int:
            stops = {5: lambda _start: chain.turn(other)}
            scan.scan(file.fileno(), size, chain, None, stops=stops)
            return chain.n

        assert outcome(act) == ("kid" if stale else "12")
