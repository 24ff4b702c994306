"""A source reads a receipt once, and what it yields is what its verdict is about."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break
from broker.export.source import Measure
from broker.receipt.merkle import Frontier
from tests.exportkit import LINES, home_at, session, source_of


def test_the_lines_are_the_file(tmp_path: Path) -> None:
    """The lines of a source, with their newlines, are the bytes of the file."""
    home = home_at(tmp_path)
    path = session(home)
    source = source_of(home)
    lines = list(source)
    assert b"".join(line.raw + b"\n" for line in lines) == path.read_bytes()
    assert [line.entry.n for line in lines] == list(range(LINES))
    assert all(sha256(line.raw).hexdigest() == line.entry.hash for line in lines)
    assert (source.verdict.state, source.verdict.lines) == ("SEALED", LINES)


def test_a_break_ends_it_without_a_verdict(tmp_path: Path) -> None:
    """What comes before a break is yielded, nothing after it is, and there is no verdict."""
    home = home_at(tmp_path)
    path = session(home)
    content = path.read_bytes().replace(b'"refuse"', b'"allow!"', 1)
    path.write_bytes(content)
    source = source_of(home)
    seen = []
    with pytest.raises(Break) as caught:
        seen.extend(source)
    assert caught.value.reason == "mac"
    with pytest.raises(AssertionError):
        _ = source.verdict


def test_it_opens_the_receipt_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Swapping the file after the first line changes nothing: it is not opened again."""
    home = home_at(tmp_path)
    path = session(home)
    wanted = path.read_bytes()
    source = source_of(home)
    lines = iter(source)
    got = [next(lines)]
    other = path.with_name("other")
    other.write_bytes(b"{}\n")
    os.replace(other, path)
    got += lines
    assert b"".join(line.raw + b"\n" for line in got) == wanted


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_a_measure_is_digest_and_tree(lines: list[bytes]) -> None:
    """A measure agrees with hashing the whole file and with the receipt's own tree."""
    measure, tree = Measure(), Frontier()
    for line in lines:
        measure.add(line)
        tree.append(line)
    whole = b"".join(line + b"\n" for line in lines)
    assert (measure.size, measure.sha256) == (len(whole), sha256(whole).hexdigest())
    assert (measure.lines, measure.root) == (len(lines), tree.root().hex())
