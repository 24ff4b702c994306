"""
A scope in plain words, for whoever is about to put a name under it.

Decided here: only the words. What they describe is decided in ``broker.caveats`` and
``broker.authorize``; a test compares some of these sentences with what is decided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from broker.caveats import Caveat, patterns, rules
from broker.cli.ruleswords import rule_words
from broker.instants import format_instant

if TYPE_CHECKING:
    from broker.catalogs import Catalogs
    from broker.rules import Rule
    from broker.ticket import Ticket

_VERBS: Final = {"paths": "reads or writes", "reads": "reads", "writes": "writes"}
_WILD: Final = re.compile(r"(?<!\\)[*?\[]")
_WIDTH: Final = 92  # columns of a sentence
_UNITS: Final = (("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def explain(caveat: Caveat, at: int) -> list[str]:
    """
    Return what a caveat says, in one or more sentences; ``at`` is now.

    >>> from broker.caveats import calls, hosts, paths
    >>> explain(paths("src/**"), 0)
    ['every path that a call reads or writes is:', '- src and everything below it']
    >>> explain(hosts(), 0), explain(calls(0), 0)
    (['no host at all'], ['no call at all'])
    """
    if isinstance(caveat.value, int):
        return [_calls(caveat.value) if caveat.kind == "calls" else _until(caveat.value, at)]
    items = patterns(caveat.value)
    if caveat.kind == "tools":
        return _tools(items, rules(caveat.value))
    if caveat.kind == "hosts":
        return _listed(items, "no host at all", "every URL leads to:", _host)
    verb = _VERBS[caveat.kind]
    return _listed(
        items,
        f"no call that {verb} a path",
        f"every path that a call {verb} is:",
        _path,
    )


def outlook(ticket: Ticket, catalogs: Catalogs) -> list[str]:
    """Return what follows from the scope as a whole: what is open, closed and unseen."""
    kinds = {c.kind for c in ticket.caveats}
    bounds = ticket.bounds
    lines = []
    if not kinds:
        lines.append("nothing is limited: every call is allowed")
    if kinds and "tools" not in kinds:
        lines.append("tools are not limited")
    if not kinds & {"paths", "reads", "writes"} and kinds:
        lines.append("paths are not limited")
    elif kinds and not kinds & {"paths", "reads"}:
        lines.append("reading is not limited")
    elif kinds and not kinds & {"paths", "writes"}:
        lines.append("writing is not limited")
    if bounds.no_network:
        lines.append("no URL is reached: paths are limited and no hosts are named")
    elif kinds and "hosts" not in kinds:
        lines.append("hosts are not limited")
    if bounds.seen:
        usable = (n for n in bounds.named if all(b.admits_some(n, n, None) for b in bounds.tools))
        lines.append(_unseen(sorted(usable), catalogs))
    if bounds.reads_line:
        lines.append("it looks into the line that you type: give it as --intent")
    if "calls" not in kinds and kinds:
        lines.append("the number of calls is not limited")
    if "until" not in kinds and kinds:
        lines.append("it does not end by itself")
    return lines


def _unseen(named: Sequence[str], catalogs: Catalogs) -> str:
    opaque = [n for n in named if (e := catalogs.lookup(n, None)) is None or e.effect == "opaque"]
    if not opaque:
        return "a shell, and any tool whose effects cannot be seen, is refused"
    return (
        f"{', '.join(opaque)}: named outright, so allowed, though what it touches cannot be seen "
        "(enforcement: none)"
    )


def _tools(names: Sequence[str], conditional: Sequence[Rule]) -> list[str]:
    if "*" in names:
        return ["any tool"]
    if not names and not conditional:
        return ["no tool at all"]
    stars = [n for n in names if "*" in n]
    plain = [n for n in names if "*" not in n]
    lines = []
    if plain:
        # Every name is shown: what is left out of sight is permitted all the same.
        text = f"only the tool{'s' if len(plain) > 1 else ''} {', '.join(plain)}"
        lines = wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    lines += [f"{'and ' if lines else 'only '}tools called like {n}" for n in stars]
    for rule in conditional:
        first, *more = rule_words(rule)
        lines += [f"{'and ' if lines else 'only '}{first}", *more]
    return lines


def _listed(
    items: Sequence[str], nothing: str, head: str, words: Callable[[str], str]
) -> list[str]:
    return [head, *(f"- {words(item)}" for item in items)] if items else [nothing]


def _path(pattern: str) -> str:
    if pattern in {"**", "."}:
        return "anything in the workspace"
    literal, _, tail = pattern.rpartition("/")
    if tail == "**" and literal and not _WILD.search(literal):
        return f"{literal} and everything below it"
    if not _WILD.search(pattern):
        return f"{pattern}, or below it"
    return f"like {pattern}"


def _host(pattern: str) -> str:
    bare = re.sub(r":\d+\Z", "", pattern) if not pattern.endswith("]") else pattern
    port = pattern[len(bare) + 1 :]
    where = f"on port {port}" if port else "on the scheme's usual port"
    if bare == "*":
        return f"any name, but no bare address, {where}"
    if bare.startswith("*."):
        return f"any name below {bare[2:]}, not {bare[2:]} itself, {where}"
    return f"{bare} {where}"


def _calls(number: int) -> str:
    if number == 0:
        return "no call at all"
    calls = "1 call" if number == 1 else f"{number} calls"
    return f"{calls} in all, by this ticket and everything delegated from it"


def _until(until: int, at: int) -> str:
    left_s = (until - at) // 10**9
    when = f"in {span(left_s)}" if left_s > 0 else "now" if left_s == 0 else "over already"
    return f"until {format_instant(until)} ({when}); that instant is too late"


def span(seconds: int) -> str:
    """
    Return a length of time in its two largest units.

    >>> span(5400), span(59), span(8 * 86_400 + 5)
    ('1h30m', '59s', '1w1d')
    """
    left = max(seconds, 0)
    parts: list[str] = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return "".join(parts) or "0s"
