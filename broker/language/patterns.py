r"""
Reading one path pattern: what its text means, or where it is wrong.

Decided here: which texts are path patterns, and the one canonical spelling of each; and
which characters a person cannot see. Not here: matching and inclusion (``broker.globs``),
tool patterns (``broker.language.toolnames``), lists, commas and quotes (``broker.scope``).

Rules a maintainer keeps: reading is total (a pattern or a ``PatternError``), linear in the
text, and the canonical text of a canonical text is itself. What could be read in two ways is
an error with a hint, never a guess.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from broker.errors import PatternError
from broker.limits import MAX_PATTERN_CHARS, MAX_PATTERN_PARTS

# ── characters that a person cannot see ──

# First and last code point of each run: controls, joiners, fillers, direction marks, line
# separators, surrogates, variation selectors and tags. Spelled out, so that the answer does
# not change with the Unicode tables of a Python release.
_UNSEEN: Final = (
    (0x0000, 0x001F), (0x007F, 0x009F), (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C),
    (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E),
    (0x2060, 0x206F), (0x3164, 0x3164), (0xD800, 0xDFFF), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)  # fmt: skip
_UNSEEN_STARTS: Final = tuple(first for first, _ in _UNSEEN)

EMOJI_JOINERS: Final = frozenset("\u200d\ufe0e\ufe0f")
"""Unseen characters that file names with emoji hold: lawful in paths, nowhere else."""


def first_unseen(text: str, allowed: frozenset[str] = frozenset()) -> int:
    r"""
    Return the offset of the first control or invisible character, or -1.

    >>> first_unseen("src/a.py"), first_unseen("a\u200bb")
    (-1, 1)
    """
    if text.isascii() and text.isprintable():
        return -1
    for offset, char in enumerate(text):
        code = ord(char)
        if 0x20 <= code < 0x7F or char in allowed:
            continue
        run = bisect_right(_UNSEEN_STARTS, code) - 1
        if run >= 0 and code <= _UNSEEN[run][1]:
            return offset
    return -1


# ── the parts of a path pattern ──


@dataclass(frozen=True, slots=True)
class Chars:
    """
    A set of characters: one of them, or with ``many`` any number of them.

    ``?`` and ``*`` are the complement of no ranges. The slash is no member in a path, which
    whoever matches sees to.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    negated: bool = True
    many: bool = False
    spelled: str = field(default="?", compare=False)

    def admits(self, char: str) -> bool:
        """Return whether ``char`` is a member."""
        code = ord(char)
        at = bisect_right(self.ranges, (code, 0x10FFFF)) - 1
        return (at >= 0 and code <= self.ranges[at][1]) != self.negated


ONE: Final = Chars()
MANY: Final = Chars(many=True, spelled="*")

Atom = str | Chars
Part = tuple[Atom, ...]

DEEP: Final[Part] = ()
"""The part ``**``: zero or more components. Every other part has an atom."""


@dataclass(frozen=True, slots=True)
class PathPattern:
    """
    A path pattern: its canonical text and its parts.

    ``names`` are the parts before the first one with a wildcard; ``head`` begins every place
    that the pattern matches; ``plain`` says that there is no wildcard at all.
    """

    text: str
    parts: tuple[Part, ...]
    names: tuple[str, ...]
    head: str
    plain: bool

    def names_git(self) -> bool:
        """Return whether a part is ``.git`` outright, in whatever letter case."""
        return any(len(p) == 1 and isinstance(p[0], str) and p[0].lower() == ".git"
                   for p in self.parts)  # fmt: skip


def check_path(text: str) -> str:
    r"""
    Return the canonical text of a path pattern.

    Raises:
        PatternError: the text is not a path pattern; ``offset`` says where.

    >>> check_path("./src//**/**/test_*.py")
    'src/**/test_*.py'
    >>> check_path("../etc")
    Traceback (most recent call last):
    ...
    broker.errors.PatternError: a pattern takes no `..` steps
    """
    refuse_unreadable(text, MAX_PATTERN_CHARS, EMOJI_JOINERS)
    return read_path(text).text


@lru_cache(maxsize=4096)
def read_path(text: str) -> PathPattern:
    """
    Return what a path pattern means.

    Raises:
        PatternError: as ``check_path``.
    """
    refuse_unreadable(text, MAX_PATTERN_CHARS, EMOJI_JOINERS)
    _refuse_start(text)
    parts: list[Part] = []
    start = 0
    while start <= len(text):
        end = text.find("/", start)
        end = len(text) if end < 0 else end
        part = _part(text, start, end) if end > start else (".",)
        if part != (".",) and not (part == DEEP and parts and parts[-1] == DEEP):
            parts.append(part)
        if len(parts) > MAX_PATTERN_PARTS:
            raise PatternError(f"a pattern has at most {MAX_PATTERN_PARTS} parts", start)
        start = end + 1
    return _pattern(tuple(parts))


def _pattern(parts: tuple[Part, ...]) -> PathPattern:
    names: list[str] = []
    for part in parts:
        if len(part) != 1 or not isinstance(part[0], str):
            break
        names.append(part[0])
    plain = len(names) == len(parts)
    head = "".join(name + "/" for name in names)
    if not plain:
        following = parts[len(names)]
        head += following[0] if following and isinstance(following[0], str) else ""
    text = "/".join(map(_spell, parts)) or "."
    drive = len(text) > 1 and text[1] == ":" and _refused_start(text) is not None
    if drive:
        text = text[0] + "\\" + text[1:]
    elif text[0] in "!~":
        text = "\\" + text
    return PathPattern(text, parts, tuple(names), head, plain)


def _spell(part: Part) -> str:
    if part == DEEP:
        return "**"
    spelled = []
    for atom in part:
        if isinstance(atom, Chars):
            spelled.append(atom.spelled)
        else:
            spelled.append("".join("\\" + c if c in _SPECIAL else c for c in atom))
    return "".join(spelled)


_SPECIAL: Final = "*?[{}\\"


# ── reading ──


def refuse_unreadable(text: object, most: int, allowed: frozenset[str] = frozenset()) -> None:
    """
    Refuse what cannot be a pattern of any kind.

    Raises:
        PatternError: no text, empty, longer than ``most``, or with an unseen character that
            is not ``allowed``.
    """
    if not isinstance(text, str):
        raise PatternError("a pattern must be text")
    if not text:
        raise PatternError("a pattern is empty", 0, "write `none` to allow nothing")
    if len(text) > most:
        raise PatternError(f"a pattern has at most {most} characters", most)
    if text.isspace() and not text.isascii():
        raise PatternError("a pattern of nothing but blanks", 0, "write `none` to allow nothing")
    unseen = first_unseen(text, allowed)
    if unseen >= 0:
        shown = f"U+{ord(text[unseen]):04X}"
        raise PatternError(f"a control or invisible character ({shown}) in a pattern", unseen)


def _refused_start(text: str) -> tuple[str, str] | None:
    if text[0] == "/":
        return ("paths start at the workspace root, not at `/`", text.strip("/") or ".")
    if text[0] == "~":
        return ("paths start at the workspace root, not at `~`", "a name that begins so is `\\~`")
    if text[0] == "!":
        return ("there are no negative patterns", "list what is allowed; a name is spelled `\\!`")
    if (
        text[1:2] == ":"
        and text[0].isascii()
        and text[0].isalpha()
        and text[2:3] in ("", "/", "\\")
    ):
        return ("paths start at the workspace root, not at a drive", "folders are separated by `/`")
    return None


def _refuse_start(text: str) -> None:
    fault = _refused_start(text)
    if fault is not None:
        raise PatternError(fault[0], 0, fault[1])


def _part(text: str, start: int, end: int) -> Part:
    raw = text[start:end]
    if raw == "**":
        return DEEP
    stars = raw.find("**")
    if stars >= 0:
        hint = (
            "a `\\` escapes; folders are separated by `/`"
            if "\\" in raw
            else "`src/**/x*` is any depth below `src`"
        )
        raise PatternError("`**` stands only as a whole part", start + stars, hint)
    atoms: list[Atom] = []
    run = ""
    at = start
    while at < end:
        char = text[at]
        if char in "*?[":
            if run:
                atoms.append(run)
                run = ""
            found, at = _wildcard(text, at, end)
            atoms.append(found)
            continue
        if char in "{}":
            raise PatternError("braces are kept back", at, "write each pattern out, or `\\{`")
        member, at = _char(text, at, end)
        run += member
    if run:
        atoms.append(run)
    return _refuse_dots(tuple(atoms), raw, start)


def _refuse_dots(part: Part, raw: str, start: int) -> Part:
    """Refuse a part that could only match a step (`.` or `..`), however it is spelled."""
    dot = ((ord("."), ord(".")),)
    only_dots = all(a in (".", "..") or (isinstance(a, Chars) and a.ranges == dot
                    and not a.negated) for a in part)  # fmt: skip
    if part == ("..",):
        raise PatternError("a pattern takes no `..` steps", start)
    if only_dots and part != (".",) and sum(len(a) if isinstance(a, str) else 1 for a in part) < 3:
        raise PatternError(f"`{raw}` matches no name", start)
    return part


def _wildcard(text: str, at: int, end: int) -> tuple[Chars, int]:
    if text[at] == "*":
        return MANY, at + 1
    if text[at] == "?":
        return ONE, at + 1
    return _class(text, at, end)


def _class(text: str, opened: int, end: int) -> tuple[Chars, int]:
    at = opened + 1
    if text[at:at + 1] == "^":  # fmt: skip
        raise PatternError("a negated class begins with `[!`", opened, "[!" + text[at + 1 : end])
    negated = text[at : at + 1] == "!"
    at += negated
    ranges: list[tuple[int, int]] = []
    while at < end and not (text[at] == "]" and ranges):
        if text[at] == "[" and text[at + 1 : at + 2] in (":", ".", "="):
            raise PatternError("named classes are not part of patterns", at, "[a-z]")
        first, following = _char(text, at, end)
        last = first
        if text[following : following + 1] == "-" and text[following + 1 : following + 2] not in (
            "",
            "/",
            "]",
        ):
            last, following = _char(text, following + 1, end)
        if last < first:
            raise PatternError(f"the range `{first}-{last}` is reversed", at, f"{last}-{first}")
        ranges.append((ord(first), ord(last)))
        at = following
    if at >= end:
        raise PatternError("a class is not closed", opened, "a plain bracket is written `\\[`")
    # A `\\"` in a class is a plain quote, which would not survive being quoted itself.
    spelled = _without_escaped_quotes(text[opened : at + 1])
    return Chars(_merged(ranges), negated, spelled=spelled), at + 1


def _without_escaped_quotes(spelled: str) -> str:
    if '\\"' not in spelled:
        return spelled
    kept = ""
    at = 0
    while at < len(spelled):
        pair = spelled[at : at + 2] if spelled[at] == "\\" else spelled[at]
        kept += '"' if pair == '\\"' else pair
        at += len(pair)
    return kept


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Sort and join ranges, and take the slash out."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    cut: list[tuple[int, int]] = []
    for first, last in merged:
        if first <= ord("/") <= last:
            cut += [(first, ord("/") - 1), (ord("/") + 1, last)]
        else:
            cut.append((first, last))
    return tuple((first, last) for first, last in cut if first <= last)


def _char(text: str, at: int, end: int) -> tuple[str, int]:
    """Return one plain or escaped character, and the offset behind it."""
    if text[at] != "\\":
        return text[at], at + 1
    if at + 1 >= end:
        raise PatternError("nothing follows the `\\`", at, "folders are separated by `/`")
    char = text[at + 1]
    if char.isalnum() or char in "_.":
        hint = "folders are separated by `/`, also on Windows"
        raise PatternError(f"`{char}` needs no `\\`", at, hint)
    return char, at + 2
