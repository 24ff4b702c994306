"""Trust: of one workspace, and of what it says now."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.capabilities.memory import MemoryFiles
from broker.errors import StoreError
from broker.harness.trust import Executables, Trust

ONE = Executables("/ws", {".broker/hooks.toml": "aa", "scripts/check": "bb"})
FILES = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["00", "11"]))
FOUND = st.builds(Executables, st.sampled_from(["/ws", "/other"]), FILES)


@given(st.lists(FOUND, max_size=4), FOUND)
def test_only_what_was_accepted_last_is_trusted(
    accepted: list[Executables], now: Executables
) -> None:
    """A workspace is trusted for exactly what a person saw last, and for nothing before or else."""
    trust = Trust(MemoryFiles().below("/state/trusted"))
    for found in accepted:
        trust.accept(found)
    last = {found.root: found for found in accepted}.get(now.root)
    assert trust.holds(now) == (last == now)


def test_trust_is_kept_privately_and_by_path() -> None:
    """The record lies in a private folder, and the same content elsewhere is not trusted."""
    files = MemoryFiles()
    Trust(files.below("/state/trusted")).accept(ONE)
    assert Trust(files.below("/state/trusted")).holds(ONE)
    assert not Trust(files.below("/state/trusted")).holds(Executables("/moved", ONE.files))
    (name,) = files.below("/state/trusted").names()
    assert Executables("/moved", ONE.files).digest != ONE.digest
    for place, mode in ((".", 0o700), (name, 0o600)):
        status = files.below("/state/trusted").status(place)
        assert status is not None
        assert status.mode == mode


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"digest": 1}', b"\xff", b"[" * 10_000])
def test_a_record_that_cannot_be_read_is_no_trust(content: bytes) -> None:
    """A broken or foreign record means that the person is asked again."""
    files = MemoryFiles()
    trust = Trust(files.below("/state/trusted"))
    trust.accept(ONE)
    (name,) = files.below("/state/trusted").names()
    files.below("/state/trusted").replace(name, content)
    assert not trust.holds(ONE)


@pytest.mark.parametrize("write", [1, 2, 3])
def test_a_yes_that_cannot_be_kept_is_an_error(write: int) -> None:
    """On a full disk nothing is trusted."""
    files = MemoryFiles()
    files.fail_write(write, errno.ENOSPC)
    trust = Trust(files.below("/state/trusted"))
    with pytest.raises(StoreError, match="no space left"):
        trust.accept(ONE)
    assert not trust.holds(ONE)
