"""Long results: kept for the agent that asked, and for no other."""

from __future__ import annotations

import errno

import pytest

from broker.capabilities.memory import MemoryFiles
from broker.errors import CapabilityError
from broker.harness.spill import Spill
from broker.limits import MAX_RESULT_CHARS, MAX_SPILL_BYTES

LONG = "".join(f"{n:010}" for n in range(MAX_RESULT_CHARS // 5))


def spill() -> tuple[Spill, MemoryFiles]:
    """A place for long results, and the files below it."""
    files = MemoryFiles()
    return Spill(files.below("/state/results/s")), files


def test_a_short_result_is_left_alone() -> None:
    """What a model sees whole is not written anywhere."""
    place, files = spill()
    text = "x" * MAX_RESULT_CHARS
    assert place.shortened("main", "c1", text) == (text, None)
    assert files.writes == 0


def test_a_long_one_is_shown_at_both_ends_and_kept_whole() -> None:
    """The model reads beginning and end; position by position it gets all of it back."""
    place, files = spill()
    shown, name = place.shortened("main", "c1", LONG)
    assert shown.startswith(LONG[:1000])
    assert shown.endswith(LONG[-1000:])
    assert f"{len(LONG) - MAX_RESULT_CHARS} more characters" in shown
    assert name is not None
    folder = files.below("/state/results/s")
    assert folder.read(name, limit_bytes=MAX_SPILL_BYTES).decode() == LONG
    status = folder.status(".")
    assert status is not None
    assert status.mode == 0o700
    back = ""
    while len(back) < len(LONG):
        part, _, said = place.recall("main", "c1", len(back)).rpartition("\n")
        assert f"of {len(LONG)}" in said
        back += part
    assert back == LONG


@pytest.mark.parametrize(
    ("actor", "reference"),
    [("helper-1", "c1"), ("main", "c2"), ("main", "../c1"), ("mai", "n:c1"), ("", "")],
)
def test_a_reference_is_its_agent_s_own(actor: str, reference: str) -> None:
    """Another agent, another call, or a path in disguise finds nothing."""
    place, _ = spill()
    place.shortened("main", "c1", LONG)
    with pytest.raises(CapabilityError) as caught:
        place.recall(actor, reference, 0)
    assert caught.value.code == "capability.result"


@pytest.mark.parametrize("position", [-5, 10**9])
def test_odd_positions_are_no_error(position: int) -> None:
    """Before the beginning is the beginning, and behind the end is nothing."""
    place, _ = spill()
    place.shortened("main", "c1", LONG)
    part = place.recall("main", "c1", position)
    assert part.startswith(LONG[:10] if position < 0 else "\n(0 characters")


@pytest.mark.parametrize("write", [1, 2])
def test_what_cannot_be_kept_is_said_to_be_lost(write: int) -> None:
    """A full disk does not fail the call that has run."""
    place, files = spill()
    files.fail_write(write, errno.ENOSPC)
    shown, name = place.shortened("main", "c1", LONG)
    assert name is None
    assert "could not be kept: no space left on device" in shown


def test_half_a_character_is_kept_as_it_is() -> None:
    """A text that is not well-formed comes back the same."""
    place, _ = spill()
    place.shortened("main", "c1", "\ud800" + LONG)
    assert place.recall("main", "c1", 0).startswith("\ud800" + LONG[:10])


def test_names_do_not_run_into_each_other() -> None:
    """An agent whose name and reference read like another's has none of its results."""
    place, _ = spill()
    place.shortened("a", "b:c", LONG)
    with pytest.raises(CapabilityError):
        place.recall("a:b", "c", 0)
