"""
Secrets that follow an option of a well-known program.

Decided here: `curl -u NAME:SECRET`, `mysql -pSECRET`, `sshpass -p SECRET`, `redis-cli -a SECRET`.
Long options whose name speaks of a secret (`--password X`) are read by ``broker.redaction.texts``.

A rule a maintainer keeps: an option counts only within its own program's command, which ends at
the next `;`, `|`, `&` or line; the same letter means something else everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_MAX_COMMAND_CHARS: Final = 4_096  # characters of one command that are looked at
_END: Final = re.compile(r"[;|&\n]")
_VALUE: Final = r"(?:\"([^\"]+)\"|'([^']+)'|([^\s\"']+))"
_OPTIONS: Final = (
    ("curl", re.compile(r"(?<=\s)(?:-u|--user)[\s=]{0,4}[\"']?[^\s:\"']{0,128}:()()([^\s\"']+)")),
    ("mysql", re.compile(rf"(?<=\s)-p{_VALUE}")),
    ("sshpass", re.compile(rf"(?<=\s)-p\s{{0,4}}{_VALUE}")),
    ("redis-cli", re.compile(rf"(?<=\s)-a\s{{0,4}}{_VALUE}")),
)


def given(text: str) -> Iterator[tuple[int, int, str]]:
    """
    Yield (start, end, kind) of each secret that is given to a program by a short option.

    >>> list(given("curl -u me:pw https://host/"))
    [(11, 13, 'option')]
    """
    for program, option in _OPTIONS:
        at = text.find(program)
        while at >= 0:
            end = _END.search(text, at, at + _MAX_COMMAND_CHARS)
            stop = end.start() if end else min(len(text), at + _MAX_COMMAND_CHARS)
            for found in option.finditer(text, at, stop):
                group = found.lastindex or 0
                if found.end(group) > found.start(group):
                    yield found.start(group), found.end(group), "option"
            at = text.find(program, max(stop, at + 1))
