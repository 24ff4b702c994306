"""
Secrets in the words of a command: what follows an option, or is assigned by one.

Decided here: how words that belong together are searched together, and which lists are words. Not
decided here: which options and programs take a secret (``broker.redaction.commands``).

Rule a maintainer keeps: the words stay as many as they were, so that a command can be told from
what is left of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from broker.redaction.hiding import Hider
from broker.redaction.names import secret_name

# Under which names agents and servers keep the words of a command.
WORD_KEYS: Final = frozenset(("args", "argv", "cmd", "command"))

_ASSIGNED: Final = re.compile(r"(-{0,2}([A-Za-z][A-Za-z0-9_.-]{0,80})=)(.+)\Z", re.DOTALL)


def words_under(key: str, value: object) -> list[object] | None:
    """
    Return the words of a command, if a value under a key is such.

    >>> words_under("argv", ["ls", "-l"]), words_under("names", ["ls"])
    (['ls', '-l'], None)
    """
    if key not in WORD_KEYS or not isinstance(value, list):
        return None
    return value if value and all(isinstance(word, str) for word in value) else None


def hide_words(words: Sequence[str], hider: Hider) -> list[str]:
    """
    Return the words of a command with their secrets hidden.

    What follows an option goes whole, blanks and all; options of known programs are known.

    >>> hide_words(["login", "--password", "my dog", "--user", "me"], Hider())
    ['login', '--password', '[hidden]', '--user', 'me']
    """
    found = hider.find(" ".join(words))
    kept: list[str] = []
    begin, option = 0, ""
    for word in words:
        end = begin + len(word)
        inside = [
            each._replace(start=max(each.start, begin) - begin, end=min(each.end, end) - begin)
            for each in found
            if each.start < end and each.end > begin
        ]
        assigned = _ASSIGNED.match(word)
        if option.startswith("--") and "=" not in option and secret_name(option.lstrip("-")):
            kept.append(word if word.startswith("-") else hider.placeholder(word, "option"))
        elif assigned and secret_name(assigned[2]):
            kept.append(assigned[1] + hider.placeholder(assigned[3], "option"))
        else:
            kept.append(hider.replaced(word, inside))
        begin, option = end + 1, word
    return kept
