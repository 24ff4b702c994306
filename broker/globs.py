"""
Path and tool patterns: does a list match, and does one list match no more than another?

Decided here: what path patterns mean. A *place* is a path relative to the workspace root,
its components joined by ``/`` with a closing slash (``src/a.py/``); the root is the empty
string. Not decided here: how a text becomes a pattern (``broker.language.patterns``), which
place an argument means (``broker.resolve``), what a list restricts (``broker.caveats``). What
tool patterns mean is decided in ``broker.language.toolnames``; this is the door to both.

Rules a maintainer keeps: a list matches what any of its patterns matches; the empty list
matches nothing. Matching never backtracks from one star into another (atomic groups), so no
pattern makes it slow. Inclusion is exact, and says *no* when its steps run out. ``re`` and
``broker.language.inclusion`` are imported only when a list needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from broker.errors import LimitError
from broker.language.patterns import (
    DEEP,
    MANY,
    Atom,
    Chars,
    Part,
    PathPattern,
    check_path,
    read_path,
)
from broker.language.toolnames import (
    ToolMatcher,
    check_tool,
    tool_example,
    tool_matcher,
    tool_witness,
    tools_cover,
)
from broker.limits import MAX_INCLUSION_STEPS

if TYPE_CHECKING:
    from broker.language.inclusion import Onward, Tokens, Universe

__all__ = [
    "PathMatcher",
    "ToolMatcher",
    "check_path",
    "check_tool",
    "path_example",
    "path_matcher",
    "path_witness",
    "paths_cover",
    "place_example",
    "tool_example",
    "tool_matcher",
    "tool_witness",
    "tools_cover",
]

# ── paths: matching ──


@dataclass(frozen=True, slots=True)
class PathMatcher:
    """
    A list of path patterns, ready to match.

    A place that starts with one of ``prefixes`` is matched; so is one that ``rest`` matches
    in full. With ``folded`` letter case does not count. ``git`` matches what the patterns
    that name a ``.git`` folder outright match; it is None when no pattern does. ``patterns``
    are the list's own texts.
    """

    prefixes: tuple[str, ...]
    rest: Callable[[str], object] | None
    folded: bool
    git: PathMatcher | None
    patterns: tuple[str, ...]

    def match(self, place: str) -> bool:
        """Return whether a pattern of the list matches ``place``."""
        if self.folded:
            place = place.lower()
        return place.startswith(self.prefixes) or (
            self.rest is not None and self.rest(place) is not None
        )

    def covers(self, place: str) -> bool:
        """
        Return whether the list matches ``place`` and everything below it, however deep.

        A pattern without a wildcard covers what is below whatever it matches, and so does one
        that ends in ``**``. Other patterns may do so together; whether they do is searched for
        exactly where letter case counts, and otherwise denied.
        """
        if self.folded:
            place = place.lower()
        if place.startswith(self.prefixes):
            return True
        if self.rest is None or self.rest(place) is None:
            return False
        deep, onward = _below(self.patterns, self.folded)
        return deep.match(place) or (onward is not None and onward.covers(place))


@lru_cache(maxsize=1024)
def path_matcher(patterns: tuple[str, ...], folded: bool = False) -> PathMatcher:
    """
    Return the matcher of a list of path patterns.

    Raises:
        PatternError: one of them is no path pattern; canonical ones always are.

    >>> matcher = path_matcher(("src/**", "*.md"))
    >>> matcher.match("src/pkg/a.py/"), matcher.match("docs/a.md/")
    (True, False)
    """
    read = [read_path(p) for p in patterns]
    naming = [p for p in read if p.names_git()]
    return _matcher(read, folded, _matcher(naming, folded, None) if naming else None)


@lru_cache(maxsize=256)
def _below(patterns: tuple[str, ...], folded: bool) -> tuple[PathMatcher, Onward | None]:
    """Return the matcher of the patterns that reach any depth, and what they cover together."""
    from broker.language.inclusion import Onward  # noqa: PLC0415 (rarely needed)

    read = [read_path(p) for p in patterns]
    deep = _matcher([p for p in read if p.plain or p.parts[-1] == DEEP], folded, None)
    if folded:
        return deep, None
    try:
        return deep, Onward([_tokens(p) for p in read], _places(), MAX_INCLUSION_STEPS)
    except LimitError:
        return deep, None


def _matcher(patterns: Sequence[PathPattern], folded: bool, git: PathMatcher | None) -> PathMatcher:
    prefixes = tuple(dict.fromkeys(p.head for p in patterns if _is_prefix(p)))
    others = [_expression(p.parts, folded) for p in patterns if not _is_prefix(p)]
    if folded:
        prefixes = tuple(p.lower() for p in prefixes)
    texts = tuple([p.text for p in patterns])
    if not others:
        return PathMatcher(prefixes, None, folded, git, texts)
    import re  # noqa: PLC0415 (most lists do not need it)

    compiled = re.compile("|".join(others), re.IGNORECASE if folded else 0)
    return PathMatcher(prefixes, compiled.fullmatch, folded, git, texts)


def _is_prefix(pattern: PathPattern) -> bool:
    """Return whether the pattern matches exactly the places that start with its head."""
    return pattern.plain or (
        len(pattern.parts) == len(pattern.names) + 1 and pattern.parts[-1] == DEEP
    )


def _expression(parts: tuple[Part, ...], folded: bool) -> str:
    """
    Return the regular expression of a pattern.

    What stands between two ``**`` is looked for leftmost, and never again further right: the
    second ``**`` takes any rest, so a later find could match nothing more. The same holds
    between two stars of one part. Hence the atomic groups, and linear time.
    """
    pieces = [""]
    for part in parts:
        if part == DEEP:
            pieces.append("")
        else:
            pieces[-1] += _part_expression(part, folded)
    between = "".join(f"(?>(?:[^/]+/)*?{piece})" for piece in pieces[1:-1])
    last = f"(?:[^/]+/)*{pieces[-1]}" if len(pieces) > 1 else ""
    return pieces[0] + between + last


def _part_expression(part: Part, folded: bool) -> str:
    if part == (MANY,):
        return "[^/]+/"
    pieces = [""]
    for atom in part:
        if isinstance(atom, Chars) and atom.many:
            pieces.append("")
        else:
            pieces[-1] += _atom_expression(atom, folded)
    between = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1])
    last = f"[^/]*{pieces[-1]}" if len(pieces) > 1 else ""
    return pieces[0] + between + last + "/"


def _atom_expression(atom: Atom, folded: bool) -> str:
    if isinstance(atom, str):
        from re import escape  # noqa: PLC0415 (as above)

        return escape(atom.lower() if folded else atom)
    ranges = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in atom.ranges)
    return f"[^/{ranges}]" if atom.negated else f"[{ranges}]"


def place_example(pattern: str) -> str:
    """
    Return a place that a path pattern matches.

    >>> place_example("src/**/test_*.py")
    'src/test_x.py/'
    """
    parts = read_path(pattern).parts
    return "".join("".join(map(_example, part)) + "/" for part in parts if part != DEEP)


def _example(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    if atom.admits("x"):
        return "x"
    for first, last in atom.ranges if not atom.negated else ():
        if chr(first) != "." or last > first:
            return chr(first) if chr(first) != "." else chr(first + 1)
    if not atom.negated:
        return "."
    return next(c for c in map(chr, range(0x21, 0x110000)) if c not in "./" and atom.admits(c))


# ── paths: inclusion ──


@lru_cache(maxsize=1024)
def paths_cover(wide: tuple[str, ...], narrow: tuple[str, ...], git: bool = False) -> str | None:
    """
    Return the first pattern of ``narrow`` that matches a place which ``wide`` does not.

    With ``git`` the patterns that name ``.git`` outright are also compared among themselves,
    because a write inside a ``.git`` folder counts only under those. Letter case counts.

    Returns:
        None when ``wide`` matches every place that ``narrow`` matches.

    >>> paths_cover(("src/**", "docs/**"), ("src/a/*.py", "docs"))
    >>> paths_cover(("src/*/a.py",), ("src/**/a.py",))
    'src/**/a.py'
    """
    found = path_witness(wide, narrow)
    if found is None and git:
        found = path_witness(_naming_git(wide), _naming_git(narrow))
    return None if found is None else found[0]


def _naming_git(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(p for p in patterns if read_path(p).names_git())


def path_witness(
    wide: tuple[str, ...], narrow: tuple[str, ...], steps: int = MAX_INCLUSION_STEPS
) -> tuple[str, str | None] | None:
    """
    Return the first uncovered pattern, and a place that proves it.

    The place is None when the steps ran out before an answer was found.
    """
    held = set(wide)
    left = [p for p in narrow if p not in held]
    if not left:
        return None
    read = [read_path(p) for p in wide]
    prefixes = tuple(p.head for p in read if _is_prefix(p))
    hard = [p for p in map(read_path, left) if not p.head.startswith(prefixes)]
    if not hard:
        return None
    from broker.language.inclusion import StepBudget, witness  # noqa: PLC0415 (rarely needed)

    budget = StepBudget(steps)
    for pattern in hard:
        near = [p for p in read if _may_meet(p.head, pattern.head)]
        try:
            place = witness(_tokens(pattern), [_tokens(p) for p in near], _places(), budget)
        except LimitError:
            return pattern.text, None
        if place is not None:
            return pattern.text, place
    return None


def _may_meet(head: str, other: str) -> bool:
    return head.startswith(other) or other.startswith(head)


def _tokens(pattern: PathPattern) -> Tokens:
    from broker.language.inclusion import FOLDERS, Token  # noqa: PLC0415 (as above)

    tokens: list[Token] = []
    for part in pattern.parts:
        if part == DEEP:
            tokens.append(FOLDERS)
            continue
        for atom in part:
            tokens += [atom] if isinstance(atom, Chars) else list(atom)
        tokens.append("/")
    if pattern.plain:
        tokens.append(FOLDERS)
    return tuple(tokens)


def path_example(
    inside: Sequence[tuple[str, ...]],
    outside: tuple[str, ...] = (),
    *,
    git: bool | None = None,
    steps: int = MAX_INCLUSION_STEPS,
) -> str | None:
    """
    Return a place that each list within matches and the one without does not.

    Args:
        inside: lists of patterns; of each, one must match. None at all: any place.
        outside: patterns, none of which may match.
        git: for a write: whether the place lies in a ``.git`` folder, where only patterns count
            that name one.
        steps: what the search may cost.

    Raises:
        LimitError: the steps are spent.

    >>> path_example([("src/**",), ("**/*.py",)], ("src/x.py",))
    'src/.py/'
    """
    from broker.language.inclusion import StepBudget, shortest  # noqa: PLC0415 (rarely needed)

    lists = [_naming_git(each) if git else each for each in (*inside, outside)]
    if git:
        lists.insert(0, ("**/.git/**",))
    *mine, theirs = [[_tokens(read_path(p)) for p in each] for each in lists]
    universe = _no_git_places() if git is False else _places()
    return shortest(mine, theirs, universe, StepBudget(steps))


_AT_START, _ONE_DOT, _TWO_DOTS, _IN_NAME = range(4)


def _place_step(state: int, char: str) -> int:
    if char == "/":
        return _AT_START if state == _IN_NAME else -1
    if char == "." and state in (_AT_START, _ONE_DOT):
        return state + 1
    return _IN_NAME


_GIT = ".git"


def _no_git_step(state: int, char: str) -> int:
    """Step as ``_place_step`` does, but never through a ``.git`` folder, whatever the case."""
    spelled, inner = divmod(state, 4)  # how much of the name a component has, from its start
    following = _place_step(inner, char)
    if following < 0 or (char == "/" and spelled == len(_GIT)):
        return -1
    begins = spelled > 0 or inner == _AT_START
    if begins and spelled < len(_GIT) and char.lower() == _GIT[spelled]:
        return 4 * (spelled + 1) + following
    return following


@lru_cache(maxsize=1)
def _no_git_places() -> Universe:
    """Return the universe of places that lie in no ``.git`` folder."""
    from broker.language.inclusion import Universe  # noqa: PLC0415 (as above)

    return Universe("/", ".gitGIT", _no_git_step, lambda state: state == _AT_START)


@lru_cache(maxsize=1)
def _places() -> Universe:
    """Return the universe of places: closed components, none of them empty, ``.`` or ``..``."""
    from broker.language.inclusion import Universe  # noqa: PLC0415 (as above)

    return Universe("/", ".", _place_step, lambda state: state == _AT_START)
