"""
The runs of an installation: which there are, and which one a person means.

Decided here: that a folder with a run's name is a run, whatever is in it, that the latest is the
one that began last, and that the beginning of a name is enough where only one run has it. Not
decided here: what is in a run.

Rules a maintainer keeps: a folder that is not ours to read is passed over, never followed; a run
that cannot be read is listed with the reason, since a list that leaves it out would hide it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from broker.errors import InputError, TraceError
from broker.trace.format import RUN_ID
from broker.trace.manifest import Manifest
from broker.trace.reader import RunReader


@dataclass(frozen=True, slots=True)
class ListedRun:
    """One run as a list shows it: its manifest, or why that cannot be read."""

    folder: Path
    changed_at_ns: int  # when its manifest was last written; the folder's time where there is none
    manifest: Manifest | None
    problem: str = ""

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self.folder.name


def names(runs: Path) -> list[str]:
    """
    Return the names of all runs, in no order.

    >>> names(Path("/nowhere/at/all"))
    []
    """
    try:
        with os.scandir(runs) as found:
            return [
                each.name
                for each in found
                if RUN_ID.match(each.name) and each.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TraceError(f"`{runs}` cannot be read: {error.strerror}") from None


def every(runs: Path) -> list[ListedRun]:
    """
    Return all runs, the one that began last first.

    Raises:
        TraceError: the folder of runs cannot be read.
    """
    found = [_listed(runs / name) for name in names(runs)]
    return sorted(found, key=lambda each: (began_ns(each), each.run_id), reverse=True)


def find(runs: Path, prefix: str | None = None) -> Path:
    """
    Return the folder of the run that a person means.

    Args:
        runs: the folder of all runs.
        prefix: the beginning of its name, with or without ``run_``; or the path of a run's folder,
            which has a slash in it; None for the latest.

    Raises:
        InputError: there is no such run, or several begin like that.
        TraceError: the folder of runs cannot be read.
    """
    if prefix is not None and ("/" in prefix or os.sep in prefix):
        folder = Path(prefix)
        if not folder.is_dir():
            raise InputError(f"there is no folder `{prefix}`", code="trace.run")
        return folder
    if prefix is None:
        latest = every(runs)
        if not latest:
            raise InputError("there is no recorded run yet", code="trace.run")
        return latest[0].folder
    begin = prefix if prefix.startswith("run_") else f"run_{prefix}"
    found = sorted(name for name in names(runs) if name.startswith(begin))
    if not prefix or not found:
        raise InputError(
            f"no recorded run begins with `{prefix}`: see `broker runs`", code="trace.run"
        )
    if len(found) > 1 and begin not in found:
        raise InputError(
            f"`{prefix}` may be `{found[0]}` or `{found[1]}`: give more of the name",
            code="trace.run",
        )
    return runs / (begin if begin in found else found[0])


def _listed(folder: Path) -> ListedRun:
    try:
        manifest = RunReader.open(folder).manifest
    except TraceError as error:
        return ListedRun(folder, _changed(folder), None, error.message)
    return ListedRun(folder, _changed(folder / "manifest.json"), manifest)


def _changed(path: Path) -> int:
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return 0


def began_ns(listed: ListedRun) -> int:
    """Return when a run began, in nanoseconds since 1970; when it was written, if none can tell."""
    from broker.instants import parse_instant  # noqa: PLC0415  for lists only

    if listed.manifest is not None:
        try:
            return parse_instant(listed.manifest.created_at)
        except InputError:
            pass
    return listed.changed_at_ns
