"""
Which call of a tool a shell carries out.

Agents put their own words around a command before they hand it to a shell: they source a file,
quote it for ``eval``, ask for the folder afterwards. What a model asked for stands in there all
the same.

Decided here: when a shell's words hold the command of a call. Not decided here: which calls are
open (``broker.capture.calling``), what is done with a link. Pure.

Rule a maintainer keeps: a link is a reading of texts, and nothing is allowed or refused by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_NAMES: Final = frozenset(("command", "cmd", "commands", "script"))
_QUOTES: Final = re.compile(r"[\\'\"\s]+")
_WORD: Final = r"[\w./-]"


def commands_of(arguments: object) -> tuple[str, ...]:
    """
    Return the commands among the arguments of a call, without their quotes.

    >>> commands_of({"command": "echo 'a  b'", "description": "x"}), commands_of({"path": "a"})
    (('echo a b',), ())
    >>> commands_of({"cmd": ["bash", "-lc", "ls"]})
    ('bash -lc ls', 'ls')
    """
    if not isinstance(arguments, Mapping):
        return ()
    found: list[str] = []
    for name, value in arguments.items():
        if name not in _NAMES:
            continue
        if isinstance(value, str):
            found.append(bare_command(value))
        elif isinstance(value, list):
            words = [word for word in value if isinstance(word, str)]
            found += [bare_command(" ".join(words)), *map(bare_command, words[-1:])]
    return tuple(dict.fromkeys(filter(None, found)))


def bare_command(text: str) -> str:
    """
    Return a command without quotes, and with one blank where some were.

    >>> bare_command("eval 'echo '\\\\''hi'\\\\'''")
    'eval echo hi'
    """
    return _QUOTES.sub(" ", text).strip()


def carried(words: Iterable[str], commands: Iterable[str]) -> str:
    """
    Return the longest command that a shell's words hold, or nothing.

    Args:
        words: of the shell, its own name first.
        commands: as ``commands_of`` gives them.

    >>> carried(["bash", "-c", "source x; eval 'echo \\"hi\\"' < /dev/null"], ["echo hi", "hi"])
    'echo hi'
    >>> carried(["sh", "-c", "which false"], ["ls"])
    ''
    """
    text = bare_command(" ".join(words))
    for command in sorted(set(commands), key=len, reverse=True):
        if not command or command not in text:
            continue
        if re.search(f"(?<!{_WORD}){re.escape(command)}(?!{_WORD})", text):
            return command
    return ""
