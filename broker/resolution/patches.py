"""
Which files a patch touches.

Two shapes are read: the sectioned one that coding agents use (``*** Update File: NAME``) and
unified diffs, plain or from git, where the customary ``a/`` and ``b/`` are dropped. Every line
that a reader could take for a file's header counts, so a patch may be held to more names than
it changes; a header that cannot be read fails the whole patch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_SECTION: Final = re.compile(
    r"[ \t]*\*\*\* (?:Add File|Update File|Delete File|Move to):[ \t]*(.*)"
)
# Beginnings of the lines that say something outside of a hunk, and what a hunk's own begin with.
_OPENS: Final = frozenset(["--- ", "+++ ", "@@ -", "diff", "rena", "copy", "new ", "inde"])
_COUNTED: Final = frozenset(["+", "-", " ", ""])
_GIT: Final = re.compile(r"(?:rename|copy) (?:from|to) (.*)")
# A link's content is the place that it leads to, and no text.
_LINK: Final = re.compile(r"(?:new file mode|new mode|index [0-9a-f]+\.\.[0-9a-f]+) +120000")
_RANGE: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS: Final = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f",
                   b"r": b"\r"}  # fmt: skip


class PatchError(ValueError):
    """A patch's files cannot be told."""


def patched(text: str) -> tuple[str, ...]:
    """
    Return the names of the files that a patch reads or changes, in order, each once.

    Raises:
        PatchError: no file is named, or a name cannot be read.

    >>> patched("--- a/src/x.py\\n+++ b/src/x.py\\n@@ -1 +1 @@\\n-a\\n+b\\n")
    ('src/x.py',)
    >>> patched("*** Begin Patch\\n*** Delete File: notes.md\\n*** End Patch\\n")
    ('notes.md',)
    """
    names = dict.fromkeys(_names(text))
    if not names:
        raise PatchError("the patch names no file")
    return tuple(names)


def _names(text: str) -> Iterator[str]:
    lines = text.split("\n")
    old = new = 0  # lines still due in the hunk being read
    for n, raw in enumerate(lines):
        # Most lines are plain: what they change, or what nothing below would look at.
        if raw[:4] not in _OPENS and "*** " not in raw:
            if old <= 0 and new <= 0:
                continue
            first = raw[:1]
            if first in _COUNTED:
                old -= first != "+"
                new -= first != "-"
                continue
        line = raw.removesuffix("\r")
        section = _SECTION.fullmatch(line) if "*** " in line else None
        if section:
            name = section[1].strip()
            if not name:
                raise PatchError("a section of the patch names no file")
            yield name
            continue
        following = lines[n + 1] if n + 1 < len(lines) else ""
        pair = line.startswith("--- ") and following.startswith("+++ ")
        if (old > 0 or new > 0) and not pair:
            old -= line[:1] in ("-", " ", "")
            new -= line[:1] in ("+", " ", "")
            continue
        found = _RANGE.match(line)
        if found:
            old, new = int(found[1] or 1), int(found[2] or 1)
        elif pair or line.startswith(("--- ", "+++ ")):
            old = new = 0
            yield from _side(line[4:])
        elif line.startswith("diff --git "):
            yield from _both(line[11:])
        elif _LINK.match(line):
            raise PatchError("the patch makes a link, and where that leads is not told here")
        elif moved := _GIT.fullmatch(line):
            yield _unquoted(moved[1])


def _side(text: str) -> Iterator[str]:
    """Read the name after `---` or `+++`; a time may stand after a tab."""
    name = _unquoted(text if text.startswith('"') else text.partition("\t")[0].rstrip())
    if name != "/dev/null":
        yield name[2:] if name.startswith(("a/", "b/")) else name


def _both(text: str) -> Iterator[str]:
    """Read the two names of `diff --git a/X b/Y`, which are equal unless a file moves."""
    half = len(text) // 2
    if text.startswith('"'):
        left, mark, right = text.partition('" "')
        names = [_unquoted(left + '"'), _unquoted('"' + right)]
    elif text[half : half + 1] == " " and text[2:half] == text[half + 3 :]:
        mark, names = " ", [text[:half], text[half + 1 :]]
    else:
        left, mark, right = text.partition(" b/")
        names = [left, "b/" + right]
    if not mark or names[0][:2] != "a/" or names[1][:2] != "b/":
        raise PatchError("a `diff --git` line of the patch cannot be read")
    yield from (name[2:] for name in names)


def _unquoted(text: str) -> str:
    """Read a name that git has put in quotes, as in C."""
    if not text.startswith('"'):
        return text
    if len(text) < 3 or not text.endswith('"'):
        raise PatchError("a quoted name in the patch does not end")

    def plain(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8) & 255]) if len(code) == 3 else _LETTERS.get(code, code)

    try:
        return _ESCAPE.sub(plain, text[1:-1].encode()).decode()
    except UnicodeError:
        raise PatchError("a quoted name in the patch is not text") from None
