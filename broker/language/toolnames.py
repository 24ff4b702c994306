"""
Tool patterns: reading one, matching a tool, and whether one list matches no more than another.

A *tool* is a name, with the MCP server it comes from where that is known. The tools of MCP
servers are named ``mcp__SERVER__TOOL``, and both parts may hold ``__``: the name alone does
not tell where the server's ends. Decided here: what a star may stand for. Not here: which
tool a call means (``broker.resolve``), groups such as ``@reads`` (``broker.scope``).

Rules a maintainer keeps: a star never reaches from a server's name into its tool's, nor from
the agent's own tools to those of a server, but for a lone ``*``. Inclusion is exact, and says
*no* when its steps run out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from broker.errors import LimitError, PatternError
from broker.language.patterns import MANY, first_unseen, refuse_unreadable
from broker.limits import MAX_INCLUSION_STEPS, MAX_TOOL_CHARS

if TYPE_CHECKING:
    from broker.language.inclusion import Tokens, Universe

# ── reading ──


@dataclass(frozen=True, slots=True)
class ToolPattern:
    """A tool pattern: its canonical text, and the plain pieces between its stars."""

    text: str
    pieces: tuple[str, ...]


OUTSIDE: Final = "mcp__"
"""How the names of tools of MCP servers begin: ``mcp__SERVER__TOOL``."""

_NOT_IN_TOOLS: Final = frozenset("()|[]{}\"'\\,;?@")
_NEGATIONS: Final = frozenset("!-^~")  # beside a `*`, what was to be left out would be let in


def lawful_tool(name: str) -> bool:
    """Return whether a tool's name holds only what a pattern may spell; a star is lawful."""
    if name.isascii() and name.replace("_", "").replace("-", "").isalnum():
        return True
    return (
        first_unseen(name) < 0
        and _NOT_IN_TOOLS.isdisjoint(name)
        and not any(map(str.isspace, name))
    )


def check_tool(text: str) -> str:
    """
    Return the canonical text of a tool pattern.

    Raises:
        PatternError: the text is not a tool pattern; ``offset`` says where.

    >>> check_tool("mcp__github__get_*")
    'mcp__github__get_*'
    >>> check_tool("mcp__git*")
    Traceback (most recent call last):
    ...
    broker.errors.PatternError: a star does not stand for a server's name
    """
    refuse_unreadable(text, MAX_TOOL_CHARS)
    return read_tool(text).text


@lru_cache(maxsize=4096)
def read_tool(text: str) -> ToolPattern:
    """
    Return what a tool pattern means.

    Raises:
        PatternError: as ``check_tool``.
    """
    refuse_unreadable(text, MAX_TOOL_CHARS)
    if not lawful_tool(text):
        at = next(i for i, c in enumerate(text) if c in _NOT_IN_TOOLS or c.isspace())
        if text[at].isspace():
            raise PatternError("a tool's name holds no blanks", at, "tools are parted by commas")
        raise PatternError(f"`{text[at]}` cannot stand in a tool's name", at, "only `*` is special")
    if text[0] in _NEGATIONS:
        raise PatternError("there are no negative patterns", 0, "list the tools that are allowed")
    while "**" in text:
        text = text.replace("**", "*")
    pieces = tuple(text.split("*"))
    if text.startswith(OUTSIDE):
        _refuse_outside(text, pieces)
    return ToolPattern(text, pieces)


def _refuse_outside(text: str, pieces: tuple[str, ...]) -> None:
    if len(pieces) > 1 and pieces[0].find("__", len(OUTSIDE) + 1) < 0:
        raise PatternError(
            "a star does not stand for a server's name", len(pieces[0]), "mcp__github__*"
        )
    if len(pieces) == 1 and text.endswith("__"):
        raise PatternError("no tool of the server is named", len(text), text + "*")


# ── matching ──


@dataclass(frozen=True, slots=True)
class ToolMatcher:
    """
    A list of tool patterns, ready to match.

    ``exact`` are the names spelled out; ``every`` says that a lone ``*`` is listed; ``own``
    and ``outside`` are the pieces of the other patterns with a star, by whether they begin
    with ``mcp__``.
    """

    exact: frozenset[str]
    every: bool
    own: tuple[tuple[str, ...], ...]
    outside: tuple[tuple[str, ...], ...]

    def names(self, tool: str) -> bool:
        """Return whether a pattern names ``tool`` outright."""
        return tool in self.exact

    def match(self, tool: str, server: str | None) -> bool:
        """
        Return whether a pattern of the list matches a tool of ``server`` (None: not known).

        A star stands for a piece of the tool's own name and never for one of its server's.
        Where the server is not known, the longest that the name could mean is assumed,
        because there a star reaches the least.
        """
        if server is not None:
            tool, prefix = _of_server(tool, server)
        elif tool.startswith(OUTSIDE):
            prefix = tool[: tool.rfind("__", len(OUTSIDE) + 1, -1) + 2]
        else:
            prefix = ""
        if tool in self.exact:
            return True
        if self.every:
            return bool(tool)
        if not prefix:
            return any(_stars(p, tool) for p in self.own) and lawful_tool(tool)
        if len(OUTSIDE) < len(prefix) < len(tool):
            for pieces in self.outside:
                if pieces[0].startswith(prefix) and _stars(pieces, tool):
                    return lawful_tool(tool)
        return False


def full_name(tool: str, server: str) -> str:
    """
    Return the whole name of a server's tool, however its agent names it.

    >>> full_name("get_issue", "github"), full_name("mcp__github__get_issue", "github")
    ('mcp__github__get_issue', 'mcp__github__get_issue')
    """
    return _of_server(tool, server)[0]


def _of_server(tool: str, server: str) -> tuple[str, str]:
    """Return the full name of a server's tool, and the part of it that names the server."""
    prefix = f"{OUTSIDE}{server}__"
    if tool.startswith(prefix):
        return tool, prefix
    # Agents spell a server's name with underscores for whatever is no ASCII letter or digit.
    plain = "".join(c if (c.isascii() and c.isalnum()) or c in "_-" else "_" for c in server)
    tidied = f"{OUTSIDE}{plain}__"
    return (tool, tidied) if tool.startswith(tidied) else (prefix + tool, prefix)


def _stars(pieces: tuple[str, ...], name: str) -> bool:
    """Return whether ``name`` is the pieces with anything between them."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 2 and not last:
        return name.startswith(first)
    end = len(name) - len(last)
    at = len(first)
    if end < at or not name.startswith(first) or not name.endswith(last):
        return False
    for piece in pieces[1:-1]:
        at = name.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True


@lru_cache(maxsize=1024)
def tool_matcher(patterns: tuple[str, ...]) -> ToolMatcher:
    """
    Return the matcher of a list of tool patterns.

    Raises:
        PatternError: one of them is no tool pattern; canonical ones always are.

    >>> matcher = tool_matcher(("read_file", "mcp__github__get_*"))
    >>> matcher.match("mcp__github__get_issue", "github")
    True
    >>> matcher.match("mcp__github__get_issue", "github__get_issue")
    False
    """
    read = [read_tool(p) for p in patterns]
    stars = [p.pieces for p in read if len(p.pieces) > 1 and p.text != "*"]
    return ToolMatcher(
        exact=frozenset(p.text for p in read if len(p.pieces) == 1),
        every=any(p.text == "*" for p in read),
        own=tuple(p for p in stars if not p[0].startswith(OUTSIDE)),
        outside=tuple(p for p in stars if p[0].startswith(OUTSIDE)),
    )


# ── inclusion ──


@lru_cache(maxsize=1024)
def tools_cover(wide: tuple[str, ...], narrow: tuple[str, ...]) -> str | None:
    """
    Return the first pattern of ``narrow`` that matches a tool which ``wide`` does not.

    Returns:
        None when ``wide`` matches every tool that ``narrow`` matches, from whatever server.

    >>> tools_cover(("mcp__github__*", "read_file"), ("mcp__github__get_issue",))
    >>> tools_cover(("mcp__github__get_*",), ("mcp__github__*",))
    'mcp__github__*'
    """
    found = tool_witness(wide, narrow)
    return None if found is None else found[0]


def tool_witness(
    wide: tuple[str, ...], narrow: tuple[str, ...], steps: int = MAX_INCLUSION_STEPS
) -> tuple[str, tuple[str, str | None] | None] | None:
    """
    Return the first uncovered pattern, and a tool with its server that proves it.

    The proof is None when the steps ran out before an answer was found.
    """
    held = set(wide)
    left = [p for p in narrow if p not in held]
    if not left or "*" in held:
        return None
    matcher = tool_matcher(wide)
    from broker.language.inclusion import StepBudget, witness  # noqa: PLC0415 (rarely needed)

    budget = StepBudget(steps)
    read = [read_tool(p) for p in wide]
    for pattern in map(read_tool, left):
        head = pattern.pieces[0]
        if len(pattern.pieces) == 1:
            if not matcher.match(pattern.text, None):
                return pattern.text, (pattern.text, None)
            continue
        if pattern.text == "*":
            return pattern.text, None
        near = [p for p in read if p.pieces[0].startswith(head) or head.startswith(p.pieces[0])]
        try:
            for prefix, server in _origins(head):
                tails = [_tail(p, prefix) for p in near if _fits(p, prefix)]
                rest = witness(_tail(pattern, prefix), tails, _names(bool(prefix)), budget)
                if rest is not None:
                    return pattern.text, (prefix + rest, server)
        except LimitError:
            return pattern.text, None
    return None


def tool_example(
    inside: Sequence[tuple[str, ...]],
    outside: tuple[str, ...] = (),
    steps: int = MAX_INCLUSION_STEPS,
) -> tuple[str, str | None] | None:
    """
    Return a tool that each list within matches and the one without does not, with its server.

    Args:
        inside: lists of patterns; of each, one must match. None at all: any tool.
        outside: patterns, none of which may match.
        steps: what the search may cost.

    Raises:
        LimitError: the steps are spent.

    >>> tool_example([("mcp__git__*", "read"), ("*",)], ("read", "mcp__git__x"))
    ('mcp__git__y', 'git')
    """
    from broker.language.inclusion import StepBudget, shortest  # noqa: PLC0415 (rarely needed)

    lists = [[read_tool(p) for p in each] for each in (*inside, outside)]
    for each in lists[:-1]:
        if all(len(p.pieces) == 1 for p in each):  # so these names are all that there are
            return _named_example([p.text for p in each], inside, outside)
    heads = dict.fromkeys(p.pieces[0] for each in lists for p in each)
    origins: dict[str, str | None] = {
        "": None,
        **dict(o for head in heads for o in _origins(head) if o[0]),
    }
    fresh = next(n for n in map("other{}".format, range(len(heads) + 1)) if n not in heads)
    origins[f"{OUTSIDE}{fresh}__"] = fresh
    budget = StepBudget(steps)
    for prefix, server in origins.items():
        *mine, theirs = [
            [_rest(p, prefix) for p in each if p.text == "*" or _fits(p, prefix)] for each in lists
        ]
        name = shortest(mine, theirs, _names(bool(prefix)), budget)
        if name is not None:
            return prefix + name, server
    return None


def _named_example(
    names: Sequence[str], inside: Sequence[tuple[str, ...]], outside: tuple[str, ...]
) -> tuple[str, str | None] | None:
    taken = tool_matcher(outside)
    matchers = [tool_matcher(each) for each in inside]
    for name in names:
        for _, server in _origins(name):
            fits = all(matcher.match(name, server) for matcher in matchers)
            if fits and not taken.match(name, server):
                return name, server
    return None


def _rest(pattern: ToolPattern, prefix: str) -> Tokens:
    return (MANY,) if pattern.text == "*" else _tail(pattern, prefix)


def _origins(head: str) -> Iterator[tuple[str, str | None]]:
    """Yield each way to read a server in a pattern's head: the prefix, and the server."""
    if not head.startswith(OUTSIDE):
        yield "", None
        return
    at = head.find("__", len(OUTSIDE) + 1)
    while at >= 0:
        yield head[: at + 2], head[len(OUTSIDE) : at]
        at = head.find("__", at + 1)


def _fits(pattern: ToolPattern, prefix: str) -> bool:
    """Return whether the pattern can match tools of that server (none: the agent's own)."""
    head = pattern.pieces[0]
    return head.startswith(prefix) if prefix else not head.startswith(OUTSIDE)


def _tail(pattern: ToolPattern, prefix: str) -> Tokens:
    """Return the tokens behind a server's prefix."""
    return tuple(MANY if c == "*" else c for c in pattern.text[len(prefix) :])


def _own_step(state: int, char: str) -> int:
    """Step through a name of the agent's own: one that does not begin with ``mcp__``."""
    if state >= len(OUTSIDE) or char != OUTSIDE[state]:
        return len(OUTSIDE)
    return state + 1 if state + 1 < len(OUTSIDE) else -1


@lru_cache(maxsize=2)
def _names(of_server: bool) -> Universe:
    """Return the universe of names: any but the empty one, or any of the agent's own."""
    from broker.language.inclusion import Universe  # noqa: PLC0415 (as above)

    if of_server:
        return Universe("", "", lambda _state, _char: 1, lambda state: state == 1)
    return Universe("", OUTSIDE, _own_step, lambda state: state > 0)
