"""
Caveats to scope text: the one way each caveat is written.

Decided here: how a value is spelled and when an item takes quotes. The law that a maintainer
keeps: ``parse_scope(render(x)) == x`` for every list of caveats. An item is quoted when in
doubt; the grammar is not asked, so that writing never loads the parser. A message shows a long
list in part (``brief``), which is no scope text any more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.caveats import Caveat
from broker.instants import format_instant

if TYPE_CHECKING:
    from broker.rules import Rule

# Outside quotes these would be read as something else.
_NEEDS_QUOTES: Final = re.compile(r"[\s,\"'=;|‘’“”]|\A[@>]|\Anone\Z")

_SHOWN: Final = 6  # items of a list in a message


def render(caveats: Sequence[Caveat]) -> tuple[str, ...]:
    """
    Return the texts that ``parse_scope`` reads as exactly these caveats.

    Raises:
        InputError: an ``until`` outside the years 0001 to 9999.

    >>> render([Caveat("paths", ("a,b", "src/**")), Caveat("hosts", ())])
    ('paths="a,b",src/**', 'hosts=none')
    """
    return tuple(f"{caveat.kind}={_value_text(caveat)}" for caveat in caveats)


def spell(kind: str, item: str | Rule) -> str:
    """
    Return one item of a list caveat as it is typed.

    >>> spell("paths", "a b"), spell("hosts", "none")
    ('"a b"', 'none.')
    """
    if not isinstance(item, str):
        return str(item)
    return _host_text(item) if kind == "hosts" else _item_text(item)


def brief(kind: str, spelled: Sequence[str]) -> str:
    """
    Return a list caveat for a message, from its spelled items: six of them, and how many more.

    >>> brief("tools", ["@reads", "Bash"]), brief("paths", "abcdefgh")
    ('tools=@reads,Bash', 'paths=a,b,c,d,e,f and 2 more')
    """
    more = len(spelled) - _SHOWN
    return f"{kind}={','.join(spelled[:_SHOWN])}" + (f" and {more} more" if more > 0 else "")


def _value_text(caveat: Caveat) -> str:
    if isinstance(caveat.value, int):
        return format_instant(caveat.value) if caveat.kind == "until" else str(caveat.value)
    if not caveat.value:
        return "none"
    return ",".join(spell(caveat.kind, item) for item in caveat.value)


def _host_text(host: str) -> str:
    # Hosts take no quotes; a closing dot tells the name from the word.
    return "none." if host == "none" else host


def _item_text(item: str) -> str:
    if _NEEDS_QUOTES.search(item) is None:
        return item
    # Escape pairs are kept as they are, so that only a plain quote gets a backslash.
    escaped = re.sub(r'\\.|"', lambda m: r"\"" if m.group() == '"' else m.group(), item)
    return f'"{escaped}"'
