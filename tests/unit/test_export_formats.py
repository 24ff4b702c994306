"""Every format is made as its receipt is read."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from broker.errors import Break, InputError
from broker.export import agent_receipts, formats
from broker.export.source import Line
from broker.receipt.entry import Entry, canonical
from broker.receipt.keys import load_or_create_key
from broker.receipt.store import Receipts
from tests.exportkit import SIGNER, home_at, session, source_of
from tests.receiptkit import AT

STREAMED = [name for name in formats.FORMATS if name != formats.IN_TOTO]


@pytest.mark.parametrize("name", formats.FORMATS)
def test_a_break_ends_an_export(tmp_path: Path, name: str) -> None:
    """Nothing is made of a line that does not verify."""
    home = home_at(tmp_path)
    path = session(home)
    path.write_bytes(path.read_bytes().replace(b"shell", b"Shell", 1))
    made: list[bytes] = []
    with pytest.raises(Break):
        made.extend(formats.pieces(name, source_of(home), signer=SIGNER, at=AT))
    assert b"Shell" not in b"".join(made)


class Made:
    """A source of as many lines as are asked for, none of which is kept anywhere."""

    def __init__(self, count: int) -> None:
        self.sid = "made"
        self._count = count

    def __iter__(self) -> Iterator[Line]:
        for n in range(self._count):
            data = {"call": f"c{n}", "decision": "allow", "tool": "x", "reason": "y" * 400}
            entry = Entry(n, sha256(str(n).encode()).hexdigest(), "decision", AT, data)
            yield Line(entry, b"z" * 400)


@pytest.mark.parametrize("name", STREAMED)
def test_memory_does_not_grow_with_the_receipt(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export of ten times as many lines takes no more memory."""
    monkeypatch.setattr(agent_receipts, "MAX_CALLS_KEPT", 50)
    monkeypatch.setattr(agent_receipts, "signed", lambda receipt, signer: canonical(receipt))
    peak(name, 2_000)  # what is loaded and compiled at the first use stays
    short, long = peak(name, 200), peak(name, 2_000)
    assert long < short + 50_000


def peak(name: str, lines: int) -> int:
    """Return the most memory that an export takes at one time, in bytes."""
    tracemalloc.start()
    try:
        for _ in formats.pieces(name, Made(lines), signer=SIGNER, at=AT):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_session_without_a_call(tmp_path: Path) -> None:
    """Agent Receipts are of actions: a session without one has nothing to say, and says that."""
    home = home_at(tmp_path)
    key = load_or_create_key(home.keys / "receipt.key")
    Receipts(home, key).create("quiet", opening={}, at=AT).close()
    source = source_of(home, "quiet")
    with pytest.raises(InputError):
        list(formats.pieces("agent-receipts", source, signer=SIGNER, at=AT))
