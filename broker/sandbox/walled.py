"""
A run's walls in the terms that both engines share: absolute places, and what they are for.

Decided here: how a plan, the system's folders, an agent's needs and what is hidden come together,
and which of them wins. Not decided here: the plan (``plan``), the lists (``system``), how an
engine puts it up (``bubblewrap``, ``landlock``).

The order is the rule: the system, then the agent's needs, then the workspace, then what is
hidden, then what the broker itself hands in (its socket, its hook). What comes later wins.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from broker.hosts import check_host
from broker.sandbox.plan import Plan, Spot, Walls, around, uncut
from broker.sandbox.system import KERNEL
from broker.sandbox.tree import listing


@dataclass(frozen=True, slots=True)
class Needs:
    """
    What an agent itself needs beyond its ticket, as its adapter says.

    ``private`` are folders of its own that it finds empty but for ``reads`` and ``writes``, so
    that what else it makes there is gone with the run; ``files`` are put there, with their text.
    ``hosts`` are patterns, as in a scope. ``environ`` is added to the environment. ``lent`` are
    folders that an adapter made for the run, by their names in the session's folder, which the
    agent writes to; the files named in ``kept`` it does not.
    """

    private: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    lent: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Walled:
    """Everything an engine needs to know of one run; see the module for what wins."""

    root: str
    plan: Plan
    home: str
    scratch: str
    system: tuple[str, ...]
    needs: Needs
    hidden: tuple[str, ...]
    handed: tuple[str, ...]  # read-only
    sockets: tuple[str, ...]
    lent: tuple[str, ...] = ()  # folders in what is handed in, to be written
    kept: tuple[str, ...] = ()  # files in what is lent, read-only again

    def absolute(self, place: str) -> str:
        """Return a place of the workspace as a path."""
        return os.path.join(self.root, place[:-1]) if place else self.root

    def spots(self, walls: Walls) -> list[tuple[str, Spot]]:
        """Return the spots of an access with their paths, outer ones first."""
        return sorted((self.absolute(spot.place), spot) for spot in walls.spots)

    def cuts(self, walls: Walls) -> list[str]:
        """Return the paths that are cut out again, outer ones first."""
        return sorted(map(self.absolute, walls.cuts))


def granted(walled: Walled, devices: Sequence[str]) -> tuple[list[str] | None, list[str] | None]:
    """
    Return the trees to read and to write for an engine that can only grant, never cut.

    What is hidden is left out by granting everything beside it, one folder down each time; a new
    entry beside a hidden one is then not granted either.
    """
    closed = _real(walled.hidden)
    shared = [walled.scratch, *devices]
    reads = writes = None
    # Without a limit the whole disk is granted but for what is hidden: that is a limit too.
    disk = Walls(around(_places(closed), listing("/")))
    everything = [f"/{spot.place[:-1]}" for spot in disk.spots]
    if walled.plan.reads is None:
        reads = [*everything, *walled.handed, *walled.sockets, *shared]
    else:
        held = uncut(_open(walled, walled.plan.reads, closed), listing(walled.root))
        reads = [walled.absolute(s.place) for s in held.spots if s.kind != "link"]
        reads += [*walled.system, *walled.needs.reads, *walled.needs.writes, *shared]
        reads += [*walled.handed, *walled.sockets, "/proc"]
    if walled.plan.writes is None:
        settings = Walls((Spot("", "folder"),), (".broker/",))
        shut = [
            *closed,
            *KERNEL,
            *([walled.absolute(".broker/")] if _there(walled, settings) else []),
        ]
        writes = [f"/{s.place[:-1]}" for s in around(_places(shut), listing("/"))]
        writes += shared
    else:
        held = uncut(_open(walled, walled.plan.writes, closed), listing(walled.root))
        writes = [walled.absolute(s.place) for s in held.spots if s.kind != "link"]
        writes += [*walled.needs.writes, *shared]
    return reads, writes


def _there(walled: Walled, walls: Walls) -> bool:
    return any(os.path.lexists(path) for path in walled.cuts(walls))


def _open(walled: Walled, walls: Walls, closed: Sequence[str]) -> Walls:
    """Return walls with what is hidden in the workspace cut out."""
    start = walled.root.rstrip("/") + "/"
    if any(walled.root == c or walled.root.startswith(f"{c}/") for c in closed):
        return Walls(())
    inside = [f"{c[len(start) :]}/" for c in closed if c.startswith(start)]
    kept = tuple(s for s in walls.spots if not any(s.place.startswith(i) for i in inside))
    fresh = Walls(kept)
    return Walls(kept, (*walls.cuts, *(i for i in inside if fresh.admits(i))))


def _real(places: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(os.path.realpath(place) for place in places))


def _places(paths: Sequence[str]) -> list[str]:
    return [f"{path.strip('/')}/" for path in paths if path.strip("/")]


def loopback(hosts: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """
    Return the addresses on the person's own machine that host patterns name.

    Inside of the network walls ``127.0.0.1`` is another machine, so such an address is carried
    there by name: by the one that is in the pattern, since the other may not be admitted. Without
    a port it means those of plain and of encrypted HTTP, as in the gate.

    >>> loopback(["127.0.0.1:8080", "example.com", "localhost"])
    (('127.0.0.1', 8080), ('localhost', 80), ('localhost', 443))
    """
    found: dict[int, str] = {}
    for pattern in map(check_host, hosts):
        host, colon, port = pattern.partition(":")
        if host in ("127.0.0.1", "localhost"):
            for each in (int(port),) if colon else (80, 443):
                found.setdefault(each, host)
    return tuple((host, port) for port, host in found.items())


def handed_over(folder: Path, before: Sequence[str]) -> tuple[str, ...]:
    """Return the files that an adapter put into a session's folder: all that are new there."""
    return tuple(str(folder / name) for name in sorted(os.listdir(folder)) if name not in before)
