"""
Where a tool's search pattern starts, and whether it could leave that place.

A search tool reads below the fixed beginning of its pattern. That beginning is judged like any
path; what follows the first wildcard must not be able to spell a step up or an absolute path,
whichever of the usual dialects (braces, classes, alternatives, escapes) the tool reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from broker.realpaths import PathError

_SPECIAL: Final = re.compile(r"[*?\[{(\\]")
_PIECES: Final = re.compile(r"[\\{}\[\](),|/]+")
_ROOTED: Final = re.compile(r"[{,(|]\s*[/~]")


def fixed_start(pattern: str) -> str:
    """
    Return the part of a pattern before its first wildcard; empty when it begins with one.

    Raises:
        PathError: what follows could climb or start at the disk's root.

    >>> fixed_start("src/**/*.py"), fixed_start("*.py"), fixed_start("src/a.py")
    ('src', '', 'src/a.py')
    >>> fixed_start("src/*/../../x")
    Traceback (most recent call last):
    broker.realpaths.PathError: the pattern may climb after its first wildcard
    """
    if pattern.startswith("!"):
        return _checked("", pattern[1:])
    found = _SPECIAL.search(pattern)
    if found is None:
        return pattern
    cut = pattern.rfind("/", 0, found.start())
    if cut < 0:
        return _checked("", pattern)
    return _checked(pattern[:cut] or "/", pattern[cut + 1 :])


def _checked(start: str, rest: str) -> str:
    if rest.startswith(("/", "~")) or _ROOTED.search(rest):
        raise PathError("the pattern may start at the disk's root or a home folder")
    for part in _parts(rest):
        # Only texts that are dots and nothing else can add up to a step up.
        dots = sum(len(p) for p in _PIECES.split(part) if p and not p.strip("."))
        if dots > 1:
            raise PathError("the pattern may climb after its first wildcard")
    return start


def _parts(text: str) -> Iterator[str]:
    """Split at the slashes that stand in no brace or parenthesis."""
    depth = begin = 0
    for n, char in enumerate(text):
        if char in "{(":
            depth += 1
        elif char in "})":
            depth = max(0, depth - 1)
        elif char == "/" and depth == 0:
            yield text[begin:n]
            begin = n + 1
    yield text[begin:]
