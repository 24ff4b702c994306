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
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

Fits = Callable[[bytes, int, int], object]

_PLAIN: Final = r'[^"\\\x00-\x1f]*+'
_TEXT: Final = rf'"{_PLAIN}(?:\\(?:["\\bfnrt]|u00(?:0[0-7bef]|1[0-9a-f])){_PLAIN})*+"'
_BARE: Final = r'"[^"]*+"'  # a text, where no byte below 0x20 and no backslash is
_ODD: Final = bytes(range(10)) + bytes(range(11, 32)) + b"\\"  # 0x0A parts the texts
_INTEGER: Final = r"(?:0|-?[1-9][0-9]{0,14}+)"
_TRUTH: Final = "(?:true|false)"
_KEY: Final = re.compile(r'[^"\\\x00-\x1f]*', re.ASCII)
_LONGEST: Final = 16_384  # characters of a shape; what is longer is parsed
_LIVE: Final = 24  # shapes that are tried
_TOGETHER: Final = 8  # of them, those that many lines are held to at once
_COMPILED: Final = 64  # how often that is made anew
_MANY: Final = 32  # texts that it is made for


class _Unshaped(Exception):
    """A value that no shape is made for."""


def shape(value: object, text: str = _TEXT) -> str:
    """
    Return the regular expression for values that look like this one.

    Args:
        value: what was parsed.
        text: the expression for a text.

    >>> shape({"n": 5, "ok": True})
    '\\\\{"n":(?:0|-?[1-9][0-9]{0,14}+),"ok":(?:true|false)\\\\}'
    """
    kind = type(value)
    if kind is str:
        return text
    if kind is int:
        return _INTEGER
    if kind is bool:
        return _TRUTH
    if value is None:
        return "null"
    if isinstance(value, list):
        if all(type(item) is str for item in value):
            return rf"\[(?:{text}(?:,{text})*+)?+\]"
        return rf"\[{','.join(shape(item, text) for item in value)}\]"
    if isinstance(value, dict):
        fields = (f"{_key(key)}:{shape(value[key], text)}" for key in sorted(value))
        return rf"\{{{','.join(fields)}\}}"
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

    __slots__ = ("_after", "_before", "_compiled", "_joint", "_known", "_made", "_room")

    def __init__(self, before: str = "", after: str = "", *, room: int = 256) -> None:
        self._before = before
        self._after = after
        self._known: list[Fits] = []
        self._room = room
        self._made: list[tuple[str, str]] = []  # for bare texts, and for any
        self._joint: list[re.Pattern[bytes] | None] = [None, None]  # the same, compiled
        self._compiled = 0

    def find(self, text: bytes, start: int, stop: int) -> Fits | None:
        """Return what matches ``text[start:stop]``, which is canonical then; else None."""
        known = self._known
        for i, fits in enumerate(known):
            if fits(text, start, stop):
                if i:  # what is met often comes to be tried first
                    self._known = [*known[: i - 1], fits, known[i - 1], *known[i + 1 :]]
                return fits
        return None

    def all_fit(self, texts: Sequence[bytes]) -> bool:
        """
        Whether each text, none with a 0x0A in it, is canonical for certain; all at one go.

        Each match takes one 0x0A at least. So where there are as many matches as texts, and
        nothing is left, each has taken one text.
        """
        joined = b"\n".join(texts) + b"\n"
        odd = len(joined.translate(None, _ODD)) != len(joined)
        fits = self._joint[odd] or self._join(odd, len(texts))
        if fits is None:
            return False
        rest, count = fits.subn(b"", joined)
        return not rest and count == len(texts)

    def _join(self, odd: bool, count: int) -> re.Pattern[bytes] | None:
        """Compile the latest shapes into one; not for a few texts, and not for ever."""
        if not self._made or count < _MANY or self._compiled >= _COMPILED:
            return None
        self._compiled += 1
        forms = [form[odd] for form in self._made]
        sizes = accumulate(map(len, forms))  # it takes no longer to compile than one shape may
        either = "|".join(form for form, size in zip(forms, sizes, strict=True) if size <= _LONGEST)
        made = re.compile(f"{self._before}(?:{either}){self._after}\n".encode())
        self._joint[odd] = made
        return made

    def learn(self, data: str, text: bytes, start: int, stop: int) -> None:
        """
        Remember the shape of data that has just been found canonical.

        ``text[start:stop]`` is where it stands; the shape is kept when it matches there.
        """
        if self._room <= 0:
            return
        self._room -= 1
        try:
            value = json.loads(data)
            made, bare = shape(value), shape(value, _BARE)
        except _Unshaped:
            return
        if len(made) <= _LONGEST:
            fits = re.compile(f"{self._before}{made}{self._after}".encode()).fullmatch
            if fits(text, start, stop):
                self._known = [*self._known[: _LIVE - 1], fits]
                self._made = [(bare, made), *self._made[: _TOGETHER - 1]]
                self._joint = [None, None]
