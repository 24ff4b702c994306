"""
From a ticket to walls: which trees of a workspace can be read and written, and which hosts reached.

A wall holds a tree, not a pattern. So a pattern is held by the trees and files that it covers
whole, and never by more: what a wall cannot express is left out, and said in words.

Decided here: which places are granted, which places below them are cut out again, and what is
said of the difference. Not decided here: how a wall is built (``bubblewrap``, ``landlock``), what
a program needs of the system (``system``), how a folder is listed (``tree``). Pure: a listing is
an argument.

Rules a maintainer keeps: nothing that a ticket does not admit is ever granted; a new entry is
granted only below a tree that the ticket covers however deep; what cannot be told is left out.
One thing a wall cannot do is stop a name: below a writable tree a new ``.git`` or ``.broker`` can
be made, which the gate would refuse. ``guarded`` names these, and a run says at its end when one
was made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from broker.bounds import Bounds, PathBound
from broker.errors import LimitError
from broker.globs import PathMatcher, path_matcher
from broker.language.patterns import DEEP, PathPattern, read_path
from broker.limits import MAX_WALL_ENTRIES, MAX_WALL_PLACES
from broker.resolution.places import in_settings
from broker.resolution.realpaths import in_git

_GUARDED: Final = frozenset((".git", ".broker"))
_MAX_TOLD: Final = 4  # places named in one note
_MANY_CUTS: Final = 32  # cuts in one folder, from which on the folder is cut as a whole

Kind = Literal["folder", "file", "link", "other"]


class Item(NamedTuple):
    """One entry of a folder; ``second`` says that a file has a second name somewhere."""

    name: str
    kind: Kind
    second: bool = False


class Spot(NamedTuple):
    """A granted place: a tree with all that is and will be in it, or one file or link."""

    place: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Walls:
    """
    One access to the workspace: the granted spots, and the places cut out below them.

    Places are spelled as patterns see them (``src/a.py/``, the root is empty). No spot lies
    within another; each cut lies below a spot.
    """

    spots: tuple[Spot, ...]
    cuts: tuple[str, ...] = ()

    def admits(self, place: str) -> bool:
        """
        Return whether a place, there or not, is granted.

        >>> Walls((Spot("src/", "folder"),), ("src/.git/",)).admits("src/new.py/")
        True
        """
        return not any(place.startswith(cut) for cut in self.cuts) and any(
            place.startswith(spot.place) if spot.kind == "folder" else place == spot.place
            for spot in self.spots
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """
    What a ticket comes to in one workspace.

    ``reads`` and ``writes`` are None where the ticket does not limit them. ``hosts`` are lists
    that must all admit; ``network`` is false where none is reached whatever they say. ``notes``
    say in words where the walls are narrower than the ticket.
    """

    reads: Walls | None
    writes: Walls | None
    hosts: tuple[tuple[str, ...], ...]
    network: bool
    notes: tuple[str, ...]

    @property
    def free(self) -> bool:
        """Whether the network is as the ticket found it: not limited at all."""
        return self.network and not self.hosts


Listing = Callable[[str], Sequence[Item]]


def make_plan(bounds: Bounds, listing: Listing, *, folded: bool = False) -> Plan:
    """
    Return what a ticket's lists come to in one workspace.

    Args:
        bounds: the lists of the ticket.
        listing: returns the entries of a place, none for one that cannot be listed.
        folded: whether letter case does not count in this workspace.

    Raises:
        LimitError: the workspace is too large to be walked, or needs too many walls.

    >>> from broker.bounds import root_bounds
    >>> from broker.caveats import paths
    >>> tree = {"": [Item("src", "folder"), Item("key", "file")]}
    >>> plan = make_plan(root_bounds((paths("src/**"),)), lambda place: tree.get(place, []))
    >>> plan.writes.spots, plan.network
    ((Spot(place='src/', kind='folder'),), False)
    """
    walk = _Walk(listing, folded)
    reads = walk.walls(bounds.reads, writing=False)
    writes = walk.walls(bounds.writes, writing=True)
    notes = [*walk.notes]
    if reads is not None and writes is not None:
        kept, lost = _readable(writes, reads)
        writes = kept
        notes += [f"`{_shown(p)}` is not written, since it is not readable too" for p in lost]
    return Plan(
        reads,
        writes,
        tuple(bound.patterns for bound in bounds.hosts),
        not bounds.no_network,
        tuple(dict.fromkeys(notes)),
    )


def guarded(place: str) -> bool:
    """
    Return whether a place lies where no wildcard may write: in ``.git``, or in our settings.

    >>> guarded("src/.git/hooks/x/"), guarded(".broker/"), guarded("src/a.py/")
    (True, True, False)
    """
    return in_git(place) or in_settings(place, folded=True)


def around(hidden: Sequence[str], listing: Listing) -> tuple[Spot, ...]:
    """
    Return spots that grant everything but some places: for walls that cannot cut.

    New entries beside a hidden place are not granted.

    >>> tree = {"": [Item("a", "folder"), Item("k", "folder")], "k/": [Item("b", "file")]}
    >>> around(["k/s/"], lambda place: tree.get(place, []))
    (Spot(place='a/', kind='folder'), Spot(place='k/b/', kind='file'))
    """
    if not hidden:
        return (Spot("", "folder"),)
    above = {end for h in hidden for end in accumulate(f"{part}/" for part in h[:-1].split("/"))}
    found: list[Spot] = []
    waiting = [""]
    while waiting:
        place = waiting.pop()
        for entry in listing(place):
            here = f"{place}{entry.name}/"
            if here not in above:
                found.append(Spot(here, entry.kind))
            elif here not in hidden and entry.kind == "folder":
                waiting.append(here)
    return tuple(found)


def uncut(walls: Walls, listing: Listing) -> Walls:
    """Return walls without cuts that grant no more: for walls that cannot cut."""
    spots: list[Spot] = []
    for spot in walls.spots:
        start = len(spot.place)
        below = [cut[start:] for cut in walls.cuts if cut.startswith(spot.place)]
        if not below:
            spots.append(spot)
            continue
        if "" in below:
            continue
        inner = around(below, _within(spot.place, listing))
        spots += [Spot(spot.place + s.place, s.kind) for s in inner]
    return Walls(tuple(spots))


def _within(base: str, listing: Listing) -> Listing:
    return lambda place: listing(base + place)


@dataclass(slots=True)
class _Walk:
    """One look at a workspace, with a ceiling on what it lists."""

    listing: Listing
    folded: bool
    notes: list[str] = field(default_factory=list)
    _left: int = MAX_WALL_ENTRIES

    def walls(self, bounds: Sequence[PathBound], *, writing: bool) -> Walls | None:
        """Return the walls of one access; None where no list limits it."""
        if not bounds:
            return None
        spots: list[Spot] = []
        cuts: list[str] = []
        access = _Access(bounds, writing, self.folded)
        self._visit("", access, spots, cuts)
        if len(spots) + len(cuts) > MAX_WALL_PLACES:
            verb = "writing" if writing else "reading"
            raise LimitError(
                f"{verb} takes more than {MAX_WALL_PLACES} walls: name folders in the scope, such "
                "as `src/**`, rather than single files"
            )
        self._tell(access, spots)
        if cuts:
            shown = ", ".join(f"`{_shown(cut)}`" for cut in cuts[:_MAX_TOLD])
            more = f" and {len(cuts) - _MAX_TOLD} more" if len(cuts) > _MAX_TOLD else ""
            self.notes.append(f"kept from being written, as by the gate: {shown}{more}")
        return Walls(tuple(sorted(spots)), tuple(sorted(cuts)))

    def _listed(self, place: str) -> Sequence[Item]:
        entries = self.listing(place)
        self._left -= len(entries)
        if self._left < 0:
            raise LimitError(
                f"the workspace has more than {MAX_WALL_ENTRIES} entries below what the scope "
                "names: name fewer folders"
            )
        return entries

    def _visit(self, place: str, access: _Access, spots: list[Spot], cuts: list[str]) -> None:
        if access.covers(place):
            spots.append(Spot(place, "folder"))
            if access.writing:
                self._cut(place, access, spots, cuts)
            return
        if not access.may_reach(place):
            return
        for entry in self._listed(place):
            here = f"{place}{entry.name}/"
            if entry.kind == "folder":
                self._visit(here, access, spots, cuts)
            elif entry.kind != "other" and access.admits(here, entry):
                spots.append(Spot(here, entry.kind))

    def _cut(self, top: str, access: _Access, spots: list[Spot], cuts: list[str]) -> None:
        """Find what must not be written below a writable tree."""
        waiting = [top]
        while waiting:
            place = waiting.pop()
            found: list[str] = []
            inside = guarded(place)
            for entry in self._listed(place):
                folder = entry.kind == "folder"
                here = f"{place}{entry.name}/"
                if inside or entry.second or not _ordinary(entry.name):
                    if folder and (not guarded(here) or access.covers(here)):
                        waiting.append(here)
                    elif folder or not access.admits(here, entry):
                        found.append(here)
                elif folder:
                    waiting.append(here)
            if len(found) > _MANY_CUTS and place != top:
                waiting = [p for p in waiting if not p.startswith(place)]
                found = [place]
            cuts += found

    def _tell(self, access: _Access, spots: Sequence[Spot]) -> None:
        """Say of each pattern where its walls are narrower."""
        verb = "written" if access.writing else "read"
        for bound in access.bounds:
            for pattern in map(read_path, bound.patterns):
                where = f"`{pattern.text}` in {bound.kind}"
                if not _is_tree(pattern):
                    self.notes.append(
                        f"{where}: only what it matches now is {verb}; nothing new below"
                    )
                elif pattern.head and not self._there(pattern.head):
                    self.notes.append(f"{where} is not there yet, so nothing of it is {verb}")
                elif access.writing and Spot(pattern.head, "file") in spots:
                    self.notes.append(f"{where} is written in place, not replaced by renaming")

    def _there(self, place: str) -> bool:
        above, _, name = place[:-1].rpartition("/")
        entries = self.listing(f"{above}/" if above else "")
        return any(entry.name == name for entry in entries)


class _Access:
    """The lists of one access: which places they admit, and which with all that is below."""

    def __init__(self, bounds: Sequence[PathBound], writing: bool, folded: bool) -> None:
        self.bounds = bounds
        self.writing = writing
        self._plain = [path_matcher(bound.patterns, folded) for bound in bounds]
        self._heads = [[read_path(p).head for p in bound.patterns] for bound in bounds]
        if folded:
            self._heads = [[head.lower() for head in heads] for heads in self._heads]
        self._folded = folded

    def _matchers(self, place: str) -> Sequence[PathMatcher] | None:
        """Return what a place must fit: under ``.git``, only patterns that name it."""
        if not self.writing or not guarded(place):
            return self._plain
        if in_settings(place, folded=True):
            return None
        found = [m.git for m in self._plain if m.git is not None]
        return found if len(found) == len(self._plain) else None

    def covers(self, place: str) -> bool:
        """Whether a folder is admitted with all that may ever be in it."""
        matchers = self._matchers(place)
        return matchers is not None and all(m.covers(place) for m in matchers)

    def admits(self, place: str, entry: Item) -> bool:
        """Whether one entry is admitted; a file with a second name is never written."""
        if self.writing and (entry.second or entry.kind != "file"):
            return False
        matchers = self._matchers(place)
        return matchers is not None and all(m.match(place) for m in matchers)

    def may_reach(self, place: str) -> bool:
        """Whether each list has a pattern that could match something below a folder."""
        if self._folded:
            place = place.lower()
        return all(
            any(head.startswith(place) or place.startswith(head) for head in heads)
            for heads in self._heads
        )


def _is_tree(pattern: PathPattern) -> bool:
    """Whether a pattern is one place with all that is below it."""
    return pattern.plain or (
        len(pattern.parts) == len(pattern.names) + 1 and pattern.parts[-1] == DEEP
    )


def _readable(writes: Walls, reads: Walls) -> tuple[Walls, list[str]]:
    """Return the writable walls within the readable ones, and what is lost by that."""
    kept: dict[Spot, None] = {}
    for spot in writes.spots:
        if reads.admits(spot.place):
            kept[spot] = None
        elif spot.kind == "folder":
            for other in reads.spots:
                if other.place.startswith(spot.place):
                    kept[other] = None
    lost = [s.place for s in writes.spots if s not in kept]
    spots = tuple(kept)
    walls = Walls(spots)
    cuts = tuple(cut for cut in writes.cuts if walls.admits(cut))
    return Walls(spots, cuts), lost


def _ordinary(name: str) -> bool:
    """Whether a name can be none that is guarded; whoever looks closer costs more."""
    return name.isascii() and name.lower() not in _GUARDED


def _shown(place: str) -> str:
    return place[:-1] or "."
