"""
pi's calls, as the broker's extension tells them.

Decided here: what pi makes of a path before it opens it, so that what is judged is what is
opened. Not decided here: what is answered (``broker.agents.hooks``), and how the extension gets
into a run (``broker.agents.pi.launch``).

pi drops an ``@`` in front of a path, and where there is no file of a name, its ``read`` tries the
same name with other apostrophes, other spaces, or its letters taken apart. A workspace could put
a link there, so each of these names is judged too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final
from unicodedata import normalize

from broker.agents.hooks import HookCall
from broker.agents.plugin import read_spoken, refused
from broker.errors import InputError
from broker.service.protocol import HookRefusal

NAME: Final = "pi"

_WITH_PATH: Final = frozenset(("read", "write", "edit", "grep", "find", "ls"))
_SPACES: Final = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")  # a plain one is read
_HOUR: Final = re.compile(r" (AM|PM)\.", re.IGNORECASE)


class PiDialect:
    """
    How pi spells what it asks.

    >>> PiDialect().read(b'{"event":"start"}').event
    'start'
    """

    def read(self, payload: bytes) -> HookCall:
        """
        Read what the extension wrote.

        Raises:
            InputError: a field is missing, or a path is not opened as it is spelled.
        """
        call = read_spoken(payload).call
        if call.tool not in _WITH_PATH or not isinstance(call.arguments, dict):
            return call
        path = call.arguments.get("path")
        if not isinstance(path, str) or not path:
            return call
        names = list(dict.fromkeys(_opened(path, reads=call.tool == "read")))
        spelled: object = names[0] if len(names) == 1 else names
        return replace(call, arguments={**call.arguments, "path": spelled})

    def deny(self, event: str, reason: str) -> HookRefusal:
        """Return a refusal; pi shows the model its reason alone."""
        return refused(reason)


def _opened(path: str, *, reads: bool) -> Iterator[str]:
    """Yield the names that pi may open for a path."""
    if _SPACES.search(path):
        raise InputError("pi reads this path with plain spaces: write them plain")
    path = path.removeprefix("@")
    if not path:
        raise InputError("`@` is no path")
    yield path
    if reads:
        apart = normalize("NFD", path)
        yield _HOUR.sub("\u202f\\1.", path)
        yield apart
        yield path.replace("'", "\u2019")
        yield apart.replace("'", "\u2019")
