"""
Walls by bubblewrap: a file system of its own, and no other process, network or key ring in sight.

Decided here: the options of ``bwrap`` for a run, in their order. Not decided here: what is shown
and hidden (``walled``), what runs inside (``inside``). Pure but for asking what kind a place is.

Rules a maintainer keeps: options come in the order in which they win; a mount that fails ends the
start, so nothing is bound with ``-try`` but what a program can do without; nothing is given to
the new user namespace that would let it undo a mount.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from broker.sandbox.system import KERNEL
from broker.sandbox.walled import Walled

NAME: Final = "bwrap"
NULL: Final = "/dev/null"
_UNSHARED: Final = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--disable-userns", "--cap-drop", "ALL", "--die-with-parent", "--as-pid-1"),
)


def options(walled: Walled, *, info: int | None = None, networked: bool = False) -> list[str]:
    """
    Return the options of ``bwrap``, without the program's name and without the command.

    Args:
        walled: the run.
        info: the descriptor that ``bwrap`` tells the first process's number on.
        networked: it is started in a network of the run's own already.
    """
    found = [*_UNSHARED]
    if not walled.plan.free and not networked:
        found.append("--unshare-net")
    if info is not None:
        found += ["--info-fd", str(info)]
    found += _system(walled)
    found += _workspace(walled)
    hidden = _hidden(walled)
    for place, folder in hidden:
        found += ["--perms", "0700", "--tmpfs", place] if folder else ["--ro-bind", NULL, place]
    for place in walled.handed:
        found += ["--ro-bind", place, place]
    for place in walled.lent:
        found += ["--bind", place, place]
    for place in walled.kept:
        found += ["--ro-bind", place, place]
    for place in walled.sockets:
        found += ["--bind", place, place]
    for place, folder in hidden:
        found += ["--remount-ro", place] if folder else []
    if walled.plan.reads is not None:
        found += ["--remount-ro", "/"]
    return found


def _system(walled: Walled) -> Iterator[str]:
    plan = walled.plan
    if plan.reads is None:
        yield from ("--bind" if plan.writes is None else "--ro-bind", "/", "/")
    else:
        for place in _outer(walled.system):
            yield from _shown(place)
        yield from ("--tmpfs", walled.home)
    yield from ("--proc", "/proc", "--dev", "/dev")
    for place in KERNEL:
        if os.path.exists(place) and (plan.reads is None or place.startswith("/proc/")):
            yield from ("--ro-bind", place, place)
    yield from ("--bind", os.path.join(walled.scratch, "tmp"), "/tmp")  # noqa: S108 - inside
    yield from ("--tmpfs", "/run")
    if plan.reads is None and os.path.isdir("/var/tmp"):  # noqa: S108 - only looked at
        yield from ("--bind", os.path.join(walled.scratch, "var"), "/var/tmp")  # noqa: S108
    if os.path.isdir("/run/systemd/resolve"):
        yield from ("--ro-bind", "/run/systemd/resolve", "/run/systemd/resolve")
    for place in _outer(walled.system):
        if _again(place, walled):
            yield from _shown(place)
    for place in walled.needs.private:
        yield from ("--tmpfs", place)
    for place in walled.needs.reads:
        if os.path.exists(place):
            yield from ("--ro-bind", place, place)
    for place in walled.needs.writes:
        if os.path.exists(place):
            yield from ("--bind", place, place)


def _again(place: str, walled: Walled) -> bool:
    """Whether a tool's place was covered by a mount that came after it."""
    covers = ["/tmp", "/run", "/var/tmp"]  # noqa: S108 - names to compare with
    if walled.plan.reads is not None:
        covers.append(walled.home)
    within = any(place.startswith(f"{c.rstrip('/')}/") for c in covers)
    return within and os.path.exists(place) and not place.startswith("/run/systemd/")


def _workspace(walled: Walled) -> Iterator[str]:
    """Yield the mounts of the workspace: what is readable, then what is writable, then the cuts."""
    plan, root = walled.plan, walled.root
    if plan.reads is not None:
        whole = any(spot.place == "" for spot in plan.reads.spots)
        if not whole:
            yield from ("--tmpfs", root)
        for path, spot in walled.spots(plan.reads):
            if spot.kind == "link":
                yield from ("--symlink", os.readlink(path), path)
            else:
                yield from ("--ro-bind", path, path)
    elif _covered(root):
        # The private folder for temporary files hides the one that the workspace lies in.
        yield from ("--bind" if plan.writes is None else "--ro-bind", root, root)
    if plan.writes is not None:
        for path, _ in walled.spots(plan.writes):
            yield from ("--bind", path, path)
        for path in walled.cuts(plan.writes):
            yield from ("--ro-bind", path, path)
    else:
        settings = os.path.join(root, ".broker")
        if os.path.lexists(settings):
            yield from ("--ro-bind", settings, settings)
    if plan.reads is not None and not any(spot.place == "" for spot in plan.reads.spots):
        yield from ("--remount-ro", root)


def _covered(root: str) -> bool:
    return root.startswith(("/tmp/", "/run/", "/var/tmp/"))  # noqa: S108 - a name


def _hidden(walled: Walled) -> list[tuple[str, bool]]:
    """Return what must be covered, and whether it is a folder: all that would be seen else."""
    seen: tuple[str, ...] = ("/",)
    if walled.plan.reads is not None:
        seen = (walled.root, *walled.system, *walled.needs.reads, *walled.needs.writes)
    found: list[tuple[str, bool]] = []
    for place in _outer([os.path.realpath(place) for place in walled.hidden]):
        if f"{place}/".startswith(tuple(f"{s.rstrip('/')}/" for s in seen)):
            found.append((place, os.path.isdir(place)))
    return found


def _shown(place: str) -> Iterator[str]:
    """Yield how a place of the system is shown: a link as a link, since others lead through it."""
    if os.path.islink(place):
        yield from ("--symlink", os.readlink(place), place)
    elif os.path.exists(place):
        yield from ("--ro-bind", place, place)


def _outer(places: Sequence[str]) -> list[str]:
    """
    Return places without those that lie in another one.

    >>> _outer(["/b/c", "/a", "/b", "/b-c"])
    ['/a', '/b', '/b-c']
    """
    found: list[str] = []
    for place in sorted(dict.fromkeys(places), key=lambda p: p.split("/")):
        if not found or not f"{place}/".startswith(f"{found[-1].rstrip('/')}/"):
            found.append(place)
    return found
