"""
Which runs may go, and taking them away.

Decided here: that a run goes only if it is older than was said and none of the latest that are
kept, and never while it is written. A run from which a kept one was forked stays, since the fork
tells only what came after. Not decided here: what is old.

Rule a maintainer keeps: a run is taken out of the list in one step, and then removed; what a killed
sweep left is removed by the next; nothing outside the folder of runs is touched.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.errors import TraceError
from broker.trace.rest import at_rest
from broker.trace.runs import ListedRun, began_ns

_GONE: Final = re.compile(r"\.run_[0-9a-f]{6,32}\.gone\Z")


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run that could go by its age, and why it stays."""

    run_id: str
    why: str


def choose(
    runs: Iterable[ListedRun], *, before_ns: int | None, keep: int
) -> tuple[list[ListedRun], list[KeptRun]]:
    """
    Return the runs that may go, the oldest first, and those that stay for another reason than age.

    Args:
        runs: all runs.
        before_ns: only runs that began before this instant; None for any age.
        keep: so many of the latest stay.

    >>> choose([], before_ns=None, keep=3)
    ([], [])
    """
    ordered = sorted(runs, key=lambda each: (began_ns(each), each.run_id), reverse=True)
    old = {
        each.run_id for each in ordered[keep:] if before_ns is None or began_ns(each) < before_ns
    }
    by_id = {each.run_id: each for each in ordered}
    why: dict[str, str] = {}
    waiting = [each.run_id for each in ordered if each.run_id not in old]
    while waiting:
        child = waiting.pop()
        manifest = by_id[child].manifest
        parent = manifest.parent_run if manifest is not None else ""
        if parent in old and parent not in why:
            why[parent] = f"{child} was forked from it"
            waiting.append(parent)
    going = [each for each in reversed(ordered) if each.run_id in old and each.run_id not in why]
    return going, [KeptRun(run_id, reason) for run_id, reason in sorted(why.items())]


def remove(folder: Path) -> None:
    """
    Take a run away.

    Raises:
        InputError: it is being written.
        TraceError: it cannot be removed; it is out of the list, or as it was.
    """
    gone = folder.with_name(f".{folder.name}.gone")
    try:
        try:
            with at_rest(folder):
                os.rename(folder, gone)
        except TraceError as error:
            if error.code != "trace.missing":
                raise
            os.rename(folder, gone)  # a run without events: nobody writes it
        shutil.rmtree(gone)
    except OSError as error:
        raise TraceError(f"`{folder.name}` cannot be removed: {error.strerror}") from None


def clear(runs: Path) -> int:
    """
    Remove what a killed sweep left, and return of how many runs.

    Raises:
        TraceError: it cannot be removed.
    """
    count = 0
    try:
        for each in runs.iterdir():
            if _GONE.match(each.name) and not each.is_symlink():
                shutil.rmtree(each)
                count += 1
    except FileNotFoundError:
        return count
    except OSError as error:
        raise TraceError(f"what is left of a run cannot be removed: {error.strerror}") from None
    return count
