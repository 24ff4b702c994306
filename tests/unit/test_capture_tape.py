"""A body as it passes is kept whole or not at all, and its digest is of everything."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from broker.capture.tape import Tape


@given(st.lists(st.binary(max_size=30)), st.integers(0, 60), st.integers(0, 120))
def test_what_passes_is_what_is_kept(parts: list[bytes], memory: int, kept: int) -> None:
    """In memory or in a file the copy is what passed, and none is kept above the limit."""
    tape = Tape(Path("/tmp"), memory, kept)
    for part in parts:
        tape.take(memoryview(part))
    whole = b"".join(parts)
    assert tape.sha256() == hashlib.sha256(whole).hexdigest()
    assert tape.size_bytes == len(whole)
    assert tape.content() == (whole if len(whole) <= kept else None)
    assert bool(tape.lost) == (len(whole) > kept)
    tape.close()


def test_a_long_body_waits_in_a_file_without_a_name(tmp_path: Path) -> None:
    """Above its share of memory a body lies in a file that nobody can open by a name."""
    tape = Tape(tmp_path, memory_bytes=10)
    tape.take(memoryview(b"a" * 100))
    tape.take(memoryview(b"b" * 100))
    assert not os.listdir(tmp_path)
    assert tape.content() == b"a" * 100 + b"b" * 100
    tape.close()
    assert tape.content() == b""


def test_a_disk_that_fails_costs_the_copy_alone(tmp_path: Path) -> None:
    """Where a body cannot be kept, it is said, and the digest goes on."""
    tape = Tape(tmp_path / "missing", memory_bytes=1)
    tape.take(memoryview(b"ab"))
    tape.take(memoryview(b"cd"))
    assert "cannot be kept" in tape.lost
    assert tape.content() is None
    assert tape.sha256() == hashlib.sha256(b"abcd").hexdigest()
