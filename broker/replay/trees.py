"""
The smallest readable list of patterns that reaches what a run touched.

Decided here: when several places become one pattern. Entries of one folder become ``FOLDER/*`` when
the run touched two of them or more; when a list is longer than a person takes in at a glance, the
deepest folder that holds two patterns or more becomes ``FOLDER/**``, until it is short enough. A
folder is thus only ever opened when several entries of it were touched. Pure.

Rules a maintainer keeps: what is returned matches every place that was given; the workspace as a
whole is only opened where ``root`` says that it may be; a name is spelled so that it means itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from broker.language.patterns import EMOJI_JOINERS, first_unseen

AT_A_GLANCE: Final = 8  # patterns of one list
_SPECIAL: Final = re.compile(r"[*?\[{}\\]")
_START: Final = re.compile(r"(?=[!~])")
_DRIVE: Final = re.compile(r"([A-Za-z]):(?=/|\Z)")
_NAMED: Final = 3  # entries that a reason names

EVERYTHING: Final = "**"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern, and in words why it stands there."""

    text: str
    why: str


def literal(place: str) -> str:
    r"""
    Return the pattern of a place, and of all below it, by its own name.

    A character that cannot be typed becomes ``?``, which stands for any one character.

    >>> literal("src/a.py/"), literal("a[1]/x/"), literal("")
    ('src/a.py', 'a\\[1]/x', '**')
    """
    if not place:
        return EVERYTHING
    text = _SPECIAL.sub(r"\\\g<0>", place.rstrip("/"))
    text = _DRIVE.sub(r"\1\\:", _START.sub(r"\\", text, count=1), count=1)
    while (at := first_unseen(text, EMOJI_JOINERS)) >= 0:
        text = f"{text[:at]}?{text[at + 1 :]}"
    return text


def readable(
    touched: Mapping[str, bool], *, root: bool = True, most: int = AT_A_GLANCE
) -> tuple[Pattern, ...]:
    """
    Return patterns that match all places, sorted.

    Args:
        touched: each place, and whether all below it was touched with it.
        root: whether a long list may become the whole workspace.
        most: how many patterns are few enough.

    >>> [p.text for p in readable({"src/a.py/": False, "src/b.py/": False, "x/y.md/": False})]
    ['src/*', 'x/y.md']
    >>> readable({"src/a.py/": False, "src/b.py/": False})[0].why
    '2 entries of `src`: a.py, b.py'
    """
    deep = {place for place, below in touched.items() if below}
    found = {
        place: Pattern(literal(place), _tree(place))
        for place in deep
        if not any(above in deep for above in _above(place))
    }
    single = [place for place in touched if not any(place.startswith(tree) for tree in found)]
    if "" in single:
        return (Pattern(EVERYTHING, "the workspace's own folder was touched"),)
    folders: dict[str, list[str]] = {}
    for place in single:
        folder, name = _split(place)
        folders.setdefault(folder, []).append(name)
    for folder, names in folders.items():
        if len(names) == 1:
            place = f"{folder}{names[0]}/"
            found[place] = Pattern(literal(place), f"`{place.rstrip('/')}` was touched")
        else:
            found[f"{folder}*/"] = Pattern(_in(folder, "*"), _entries(folder, names))
    while len(found) > most:
        merged = _merged(found, root)
        if merged is None:
            break
        found = merged
    return tuple(sorted(found.values(), key=lambda pattern: pattern.text))


def _merged(found: Mapping[str, Pattern], root: bool) -> dict[str, Pattern] | None:
    """Return the patterns with those of the deepest shared folder as one; None for no folder."""
    held: dict[str, int] = {}
    for place in found:
        for folder in _above(place):
            held[folder] = held.get(folder, 0) + 1
    shared = [f for f, count in held.items() if count > 1 and (f or root)]
    if not shared:
        return None
    folder = max(shared, key=lambda f: (f.count("/"), f))
    kept = {place: p for place, p in found.items() if not place.startswith(folder)}
    where = f"`{folder.rstrip('/')}`" if folder else "the workspace"
    why = f"{held[folder]} parts of {where} were touched, more than are read at a glance"
    # As a place of its own it stands for the folder, so that it is merged further up in its turn.
    return {**kept, folder or "**/": Pattern(_in(folder, EVERYTHING), why)}


def _above(place: str) -> Iterable[str]:
    """Yield the folders above a place, the root last."""
    folder = place
    while folder:
        folder, _ = _split(folder)
        yield folder


def _split(place: str) -> tuple[str, str]:
    """Return the folder of a place, and the name in it."""
    at = place.rstrip("/").rfind("/") + 1
    return place[:at], place[at:].rstrip("/")


def _in(folder: str, ending: str) -> str:
    return f"{literal(folder)}/{ending}" if folder else ending


def _tree(place: str) -> str:
    where = f"`{place.rstrip('/')}`" if place else "the workspace"
    return f"{where} was touched with all below it"


def _entries(folder: str, names: Iterable[str]) -> str:
    listed = sorted(names)
    more = len(listed) - _NAMED
    shown = ", ".join(listed[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    where = f"`{folder.rstrip('/')}`" if folder else "the workspace's own folder"
    return f"{len(listed)} entries of {where}: {shown}"
