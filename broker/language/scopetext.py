"""
Caveats to scope text: the one way each caveat is written.

Decided here: how a value is spelled and when an item takes quotes. The law that a maintainer
keeps: ``parse_scope(render(x)) == x`` for every list of caveats. An item is quoted when in
doubt; the grammar is not asked, so that writing never loads the parser.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from broker.caveats import Caveat
from broker.instants import format_instant

# Outside quotes these would be read as something else.
_NEEDS_QUOTES: Final = re.compile(r"[\s,\"'=;|‘’“”]|\A[@>]|\Anone\Z")


def render(caveats: Sequence[Caveat]) -> tuple[str, ...]:
    """
    Return the texts that ``parse_scope`` reads as exactly these caveats.

    Raises:
        InputError: an ``until`` outside the years 0001 to 9999.

    >>> render([Caveat("paths", ("a,b", "src/**")), Caveat("hosts", ())])
    ('paths="a,b",src/**', 'hosts=none')
    """
    return tuple(f"{caveat.kind}={_value_text(caveat)}" for caveat in caveats)


def _value_text(caveat: Caveat) -> str:
    if isinstance(caveat.value, int):
        return format_instant(caveat.value) if caveat.kind == "until" else str(caveat.value)
    if not caveat.value:
        return "none"
    quote = _host_text if caveat.kind == "hosts" else _item_text
    return ",".join(quote(item) for item in caveat.value)


def _host_text(host: str) -> str:
    # Hosts take no quotes; a closing dot tells the name from the word.
    return "none." if host == "none" else host


def _item_text(item: str) -> str:
    if _NEEDS_QUOTES.search(item) is None:
        return item
    # Escape pairs are kept as they are, so that only a plain quote gets a backslash.
    escaped = re.sub(r'\\.|"', lambda m: r"\"" if m.group() == '"' else m.group(), item)
    return f'"{escaped}"'
