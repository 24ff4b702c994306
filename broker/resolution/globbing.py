"""
Where a tool's search pattern starts, and whether it could leave that place.

A search tool reads below the fixed beginning of its pattern. That beginning is judged like any
path; what follows the first wildcard must not be able to spell a step up, the disk's root or a
home folder, whichever of the usual dialects (braces, classes, alternatives, escapes) is read.

A pattern *recurses* when it may look into folders that it does not name: what is read then is
everything below its beginning, as far as anybody can tell.

All spellings of a pattern are followed at once, as a set of what may stand before the next
character: five states are enough, so the time is linear, whatever the nesting.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from broker.resolution.realpaths import PathError

_SPECIAL: Final = re.compile(r"[*?\[{(\\]")
_CLASS: Final = re.compile(r"\[[!^]?\]?[^\]/]*\]")
_PLAIN_CLASS: Final = re.compile(r"\[(?:[A-Za-z0-9_](?:-[A-Za-z0-9_])?)+\]")

# What a component may hold so far: nothing in the whole pattern, nothing since the last slash,
# one dot, two dots, anything else.
_START, _EMPTY, _DOT, _DOTS, _OTHER = 1, 2, 4, 8, 16
_AFTER_DOT: Final = {_START: _DOT, _EMPTY: _DOT, _DOT: _DOTS, _DOTS: _OTHER, _OTHER: _OTHER}


def fixed_start(pattern: str) -> str:
    """
    Return the part of a pattern before its first wildcard; empty when it begins with one.

    Raises:
        PathError: what follows could climb, or start at the disk's root or a home folder.

    >>> fixed_start("src/**/*.py"), fixed_start("*.py"), fixed_start("src/a.py")
    ('src', '', 'src/a.py')
    >>> fixed_start("src/*/../../x")
    Traceback (most recent call last):
    broker.resolution.realpaths.PathError: the pattern may climb after its first wildcard
    """
    if pattern.startswith("!"):
        _check(pattern[1:], _START)
        return ""
    found = _SPECIAL.search(pattern)
    if found is None:
        return pattern
    cut = pattern.rfind("/", 0, found.start())
    _check(pattern[cut + 1 :], _EMPTY if cut >= 0 else _START)
    return (pattern[:cut] or "/") if cut >= 0 else ""


def on_windows(pattern: str) -> str:
    r"""
    Return a pattern with the separators of Windows as slashes.

    Raises:
        PathError: it begins with a variable, or may name another drive after a wildcard.

    >>> on_windows("src\\*.py")
    'src/*.py'
    """
    plain = pattern.replace("\\", "/")
    if plain.startswith("%"):
        raise PathError("a leading `%` is a shell's word: spell the pattern out")
    found = _SPECIAL.search(plain)
    # A colon belongs to no name there: it makes a drive of what stands before it, or a stream.
    if found is not None and ":" in plain[plain.rfind("/", 0, found.start()) + 1 :]:
        raise PathError("the pattern may name another drive")
    return plain


def recurses(pattern: str) -> bool:
    """
    Whether a pattern looks further than into the one folder that it begins with.

    >>> recurses("src/*.py"), recurses("src/**"), recurses("src/*/a.py")
    (False, True, True)
    """
    found = _SPECIAL.search(pattern)
    if found is None:
        return pattern.startswith("!")
    rest = pattern[pattern.rfind("/", 0, found.start()) + 1 :]
    return pattern.startswith("!") or any(mark in rest for mark in ("**", "/", "\\"))


def _check(text: str, now: int) -> None:
    """Follow every spelling of what comes after the fixed beginning."""
    groups: list[tuple[int, int, bool]] = []  # before the group, after its ends so far, repeated
    repeats = 0  # open groups whose content may stand several times
    n = 0
    while n < len(text):
        char = text[n]
        n += 1
        if char in "?*+@!" and text[n : n + 1] == "(":
            repeated = char in "*+!"
            skipped = now if char != "@" else 0
            if repeated:
                repeats += 1
                now |= _EMPTY | _OTHER
            groups.append((now, skipped, repeated))
            n += 1
        elif char in "{(":
            groups.append((now, 0, False))
        elif char in ",|" and groups:
            before, after, repeated = groups[-1]
            groups[-1] = (before, after | now, repeated)
            now = before
        elif char in "})" and groups:
            _, after, repeated = groups.pop()
            repeats -= repeated
            now |= after
        elif char == "\\":
            # Either the next character as it is, or a slash of Windows before it.
            if now & _START and text[n : n + 1].isalnum():
                _fail_root()
            now |= _after(now & ~_START, "/")
        elif char == "[" and (found := _CLASS.match(text, n - 1)):
            n = found.end()
            other = _after(now, "x")
            now = other if _PLAIN_CLASS.fullmatch(found[0]) else other | _after(now, ".")
        else:
            now = _after(now, char)
            if char == "." and repeats:
                now |= _after(now, ".")
    for before, after, _ in groups:
        now |= before | after
    if now & _DOTS:
        _fail_climb()


def _after(now: int, char: str) -> int:
    """Return what may stand before the next character, once this one is read."""
    if char == "/":
        if now & _START:
            _fail_root()
        if now & _DOTS:
            _fail_climb()
        return _EMPTY if now else 0
    if char == ".":
        return sum({then: then for was, then in _AFTER_DOT.items() if now & was})
    if now & _START:
        if char == "~":
            _fail_root()
        if char.isspace():
            return _OTHER | _START
    return _OTHER if now else 0


def _fail_root() -> NoReturn:
    raise PathError("the pattern may start at the disk's root or a home folder")


def _fail_climb() -> NoReturn:
    raise PathError("the pattern may climb after its first wildcard")
