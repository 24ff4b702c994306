"""
Recognising canonical data by its shape, without parsing it.

Decided here: which texts are canonical for certain. Not decided here: what is canonical at all
(``entry.strict_object``), and what becomes of a text that is not recognised: it is parsed.

A shape is a regular expression made from data that was parsed and found canonical. It has the
same keys in the same order, and in the place of each value what such a value may be. A receipt
has a dozen shapes, and trying one costs a tenth of parsing.

Rule a maintainer keeps: a shape may only match what ``strict_object`` accepts. So every part
below is either the one spelling of something, or a choice among such spellings:

- a text: bytes from 0x20 up without quote and backslash, and the escapes that RFC 8785 has,
  each in its one spelling;
- an integer: no sign before 0, no leading 0, at most 15 digits, which is below 2**53;
- ``true``, ``false``, ``null``; a list of any number of texts; an object or another list with
  parts of these kinds.

Whether the bytes are UTF-8 is for the caller to see.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

Fits = Callable[[bytes, int, int], object]

_PLAIN: Final = r'[^"\\\x00-\x1f]*+'
_TEXT: Final = rf'"{_PLAIN}(?:\\(?:["\\bfnrt]|u00(?:0[0-7bef]|1[0-9a-f])){_PLAIN})*+"'
_TEXTS: Final = rf"\[(?:{_TEXT}(?:,{_TEXT})*+)?+\]"
_INTEGER: Final = r"(?:0|-?[1-9][0-9]{0,14}+)"
_TRUTH: Final = "(?:true|false)"
_KEY: Final = re.compile(r'[^"\\\x00-\x1f]*', re.ASCII)
_LONGEST: Final = 16_384  # characters of a shape; what is longer is parsed
_LIVE: Final = 24  # shapes that are tried


class _Unshaped(Exception):
    """A value that no shape is made for."""


def shape(value: object) -> str:
    """
    Return the regular expression for values that look like this one.

    >>> shape({"n": 5, "ok": True})
    '\\\\{"n":(?:0|-?[1-9][0-9]{0,14}+),"ok":(?:true|false)\\\\}'
    """
    kind = type(value)
    if kind is str:
        return _TEXT
    if kind is int:
        return _INTEGER
    if kind is bool:
        return _TRUTH
    if value is None:
        return "null"
    if isinstance(value, list):
        if all(type(item) is str for item in value):
            return _TEXTS
        return rf"\[{','.join(map(shape, value))}\]"
    if isinstance(value, dict):
        return rf"\{{{','.join(f'{_key(key)}:{shape(value[key])}' for key in sorted(value))}\}}"
    raise _Unshaped


def _key(key: str) -> str:
    if not key.isascii() or _KEY.fullmatch(key) is None:
        raise _Unshaped
    return f'"{re.escape(key)}"'


class Shapes:
    """
    The shapes of what was found canonical so far, within limits.

    Args:
        before: a regular expression for what stands before the data.
        after: the same for what stands after it.
        room: how many shapes are made at most. Making one takes as long as parsing a hundred
            lines, so a receipt where no two lines are alike must not make one for each.
    """

    __slots__ = ("_after", "_before", "_known", "_room")

    def __init__(self, before: str = "", after: str = "", *, room: int = 256) -> None:
        self._before = before
        self._after = after
        self._known: list[Fits] = []
        self._room = room

    def find(self, text: bytes, start: int, stop: int) -> Fits | None:
        """Return what matches ``text[start:stop]``, which is canonical then; else None."""
        known = self._known
        for i, fits in enumerate(known):
            if fits(text, start, stop):
                if i:  # what is met often comes to be tried first
                    self._known = [*known[: i - 1], fits, known[i - 1], *known[i + 1 :]]
                return fits
        return None

    def learn(self, data: str, text: bytes, start: int, stop: int) -> None:
        """
        Remember the shape of data that has just been found canonical.

        ``text[start:stop]`` is where it stands; the shape is kept when it matches there.
        """
        if self._room <= 0:
            return
        self._room -= 1
        try:
            made = shape(json.loads(data))
        except _Unshaped:
            return
        if len(made) <= _LONGEST:
            fits = re.compile(f"{self._before}{made}{self._after}".encode()).fullmatch
            if fits(text, start, stop):
                self._known = [*self._known[: _LIVE - 1], fits]
