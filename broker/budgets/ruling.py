"""
What becomes of one request to a store of shared counts.

Decided here: whether a call is counted, taken back, or refused, given everything that the store
knows. Not decided here: how a store keeps it and makes one step of reading, ruling and writing
(``sqlite``, ``postgres``, ``redis`` whose ``ruling.lua`` says the same in Lua), and whether the
ticket lets the call through (``broker.authorize``).

Whoever counts is a *holder*: one session, or one budget of a process. A holder asks one thing at a
time and numbers what it asks. Its *place* in the store is the last number that was granted there.
So a store needs no list of calls, and still knows of each request

- that it is the last one again, since its answer was lost: it is not counted twice;
- that it comes late, behind one that came after it: it counts nothing;
- that the one before it was granted and its holder never learned so: that one is taken back;
- that the store has forgotten what this holder knows to be counted: the tree is *lost*, and nothing
  is allowed under it by anybody any more.

Rules a maintainer keeps: nothing here reads a clock, so nothing is given back because time went by;
what is refused changes no count; ``ruling.lua`` is changed with this file, and a test holds both
against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

RUN: Final = 2**32  # how many numbers one run of a holder has; a later run's are above them all

Kind = Literal["granted", "full", "revoked", "lost", "stale"]


@dataclass(frozen=True, slots=True)
class Reservation:
    """
    A holder asks to count a call, before it is recorded and released.

    ``number`` rises with each call of the holder, ``known`` is the last one that it knows to be
    settled. ``line`` has every link that is debited, each once; ``trees`` those of them that are
    roots; ``limits`` the number of calls of each link, or None.
    """

    holder: str
    number: int
    known: int
    line: tuple[str, ...]
    trees: tuple[str, ...]
    limits: tuple[int | None, ...]
    cost: int


@dataclass(frozen=True, slots=True)
class HolderPlace:
    """
    Where a holder is: the last number that was granted to it, and what was counted for it.

    ``held`` is false where nothing is counted under that number. ``before`` are the counts that it
    was granted with.
    """

    number: int
    held: bool = False
    cost: int = 0
    line: tuple[str, ...] = ()
    before: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """
    What a store knows when it is asked; only what the request names.

    ``trees`` holds why a tree is lost, or an empty text; a tree that is not in it is not there.
    """

    trees: Mapping[str, str]
    counts: Mapping[str, int]
    revoked: Mapping[str, str]
    place: HolderPlace | None


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """
    What a holder is told.

    ``before`` are the counts without this call, one for each link. ``link`` and ``why`` say what
    was revoked, or which tree is lost.
    """

    kind: Kind
    before: tuple[int, ...] = ()
    link: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Growth:
    """What a store writes: what each count grows by, the holder's new place, the trees lost."""

    counts: Mapping[str, int] = field(default_factory=dict)
    place: HolderPlace | None = None
    lost: Mapping[str, str] = field(default_factory=dict)


Ruled = tuple[StoreAnswer, Growth]


def reserve(asked: Reservation, known: Facts) -> Ruled:
    """
    Rule on a request to count a call.

    >>> ask = Reservation("s", 2, 1, ("a",), ("a",), (5,), 1)
    >>> reserve(ask, Facts({"a": ""}, {"a": 4}, {}, HolderPlace(1)))[0].kind
    'granted'
    >>> reserve(ask, Facts({"a": ""}, {"a": 5}, {}, HolderPlace(1)))[0].kind
    'full'
    """
    lost = _lost(asked.trees, known.trees)
    if lost is not None:
        return lost, Growth()
    place = known.place
    if place is None or place.number < asked.known:
        return _forgotten(asked.holder, asked.trees)
    if place.number > asked.number:
        return StoreAnswer("stale", why="a later request of this holder was here first"), Growth()
    if place.number == asked.number:
        if place.held and place.line == asked.line:
            return StoreAnswer("granted", place.before), Growth()
        return StoreAnswer("stale", why="this request was taken back"), Growth()
    back = _unlearned(place, asked.known)
    free = None if back is None else HolderPlace(place.number)
    grown = dict(back or {})
    for link in asked.line:
        if link in known.revoked:
            return StoreAnswer("revoked", link=link, why=known.revoked[link]), Growth(grown, free)
    before = tuple([known.counts.get(link, 0) + grown.get(link, 0) for link in asked.line])
    for limit, count in zip(asked.limits, before, strict=True):
        if limit is not None and count + asked.cost > limit:
            return StoreAnswer("full", before), Growth(grown, free)
    for link in asked.line:
        grown[link] = grown.get(link, 0) + asked.cost
    taken = HolderPlace(asked.number, True, asked.cost, asked.line, before)
    return StoreAnswer("granted", before), Growth(grown, taken)


def refund(number: int, known: Facts) -> Ruled:
    """
    Rule on taking back the call of that number, whether it has arrived or not.

    >>> refund(2, Facts({}, {"a": 1}, {}, HolderPlace(2, True, 1, ("a",), (0,))))[1].counts
    {'a': -1}
    """
    place = known.place
    if place is None or place.number > number:
        return StoreAnswer("stale", why="a later request of this holder was here first"), Growth()
    if place.number < number:
        # It has not arrived and never counts now: what comes with this number comes late.
        return StoreAnswer("granted"), Growth(place=HolderPlace(number))
    return StoreAnswer("granted"), Growth(_given_back(place), HolderPlace(number))


def join(holder: str, at_least: int, trees: tuple[str, ...], known: Facts) -> tuple[Ruled, int]:
    """
    Rule on a holder that begins to ask, or goes on after its process ended.

    What it had reserved and has no record of was never released, so that is taken back.

    Args:
        holder: who asks.
        at_least: the last number that it has a record of, or 0.
        trees: the roots that it will count under.
        known: what the store knows of these.

    Returns:
        The ruling, and the number above which the holder goes on.

    >>> join("s", 0, ("a",), Facts({"a": ""}, {}, {}, None))[1] == RUN
    True
    """
    lost = _lost(trees, known.trees)
    if lost is not None:
        return (lost, Growth()), 0
    place = known.place
    if (0 if place is None else place.number) < at_least:
        return _forgotten(holder, trees), 0
    if place is None:
        return (StoreAnswer("granted"), Growth(place=HolderPlace(RUN))), RUN
    base = (place.number // RUN + 1) * RUN
    return (
        StoreAnswer("granted"),
        Growth(_unlearned(place, at_least) or {}, HolderPlace(base)),
    ), base


def _lost(trees: tuple[str, ...], known: Mapping[str, str]) -> StoreAnswer | None:
    for tree in trees:
        if tree not in known:
            return StoreAnswer("lost", link=tree, why="nothing is known of its counts")
        if known[tree]:
            return StoreAnswer("lost", link=tree, why=known[tree])
    return None


def _forgotten(holder: str, trees: tuple[str, ...]) -> Ruled:
    why = f"calls of `{holder}` that were counted are not there any more"
    return StoreAnswer("lost", link=trees[0] if trees else "", why=why), Growth(
        lost=dict.fromkeys(trees, why)
    )


def _unlearned(place: HolderPlace, settled: int) -> dict[str, int] | None:
    """Return what to take back where the last call was granted and its holder never learned so."""
    return _given_back(place) if place.held and place.number > settled else None


def _given_back(place: HolderPlace) -> dict[str, int]:
    return dict.fromkeys(place.line, -place.cost) if place.held else {}
