"""
What a shell offers for the next word: scopes and policies, agents, sessions.

Decided here: what is offered, and how words that bash took apart are put together again. Not
decided here: the scripts for each shell, and what options there are (typer's).

bash breaks words at `@`, `=` and `:`, and replaces only the last piece, and an `@` before it. So
`--scope @rev` comes as three words; they are joined before the question is answered, and what bash
has already is taken off the answers.

Rules a maintainer keeps: completion changes nothing and never fails; what cannot be read is not
offered.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.boundary import contained

if TYPE_CHECKING:
    from broker.home import Home

VARIABLE: Final = "_BROKER_COMPLETE"
SHORT_CHARS: Final = 8  # of a session's name, where they tell it from all others

_BREAKS: Final = ("@", "=", ":")
_KEYS: Final = ("tools=", "paths=", "reads=", "writes=", "hosts=", "calls=", "until=")


# ── what is offered ──


def scope_texts(incomplete: str) -> list[str]:
    """Return the scope texts that may be meant: a key, a policy, or a tool behind `tools=`."""
    key, equals, value = incomplete.partition("=")
    if not equals:
        return _fitting((*_KEYS, *(f"@{name}" for name in _policy_names())), incomplete)
    if key != "tools":
        return []
    before, comma, last = value.rpartition(",")
    return [f"tools={before}{comma}{name}" for name in _fitting(_tool_names(), last)]


def policies(incomplete: str) -> list[str]:
    """Return the names of policies that may be meant."""
    return _fitting(_policy_names(), incomplete)


def programs(incomplete: str) -> list[str]:
    """Return the agents that may be meant, by the names of their programs."""
    from broker.agents.adapter import PROGRAMS

    return _fitting((name for name in PROGRAMS if not name.endswith(".exe")), incomplete)


def first_program(ctx: Any, incomplete: str) -> list[str]:
    """Return the agents for the first word of a command; the words behind it are the agent's."""
    return [] if ctx.params.get("command") else programs(incomplete)


def session_ids(incomplete: str) -> list[str]:
    """Return the sessions that may be meant, the latest first, each as short as it can be."""
    found = contained(_session_names, lambda _: [])
    short = [name[:SHORT_CHARS] for name in found]
    told = [s if short.count(s) == 1 and incomplete == incomplete[:SHORT_CHARS] else name
            for s, name in zip(short, found, strict=True)]  # fmt: skip
    return _fitting(told, incomplete)


def run_ids(incomplete: str) -> list[str]:
    """Return the recorded runs that may be meant."""

    def names() -> list[str]:
        from broker.trace.runs import names

        return sorted(names(_home().runs))

    return _fitting(contained(names, lambda _: []), incomplete)


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _policy_names() -> list[str]:
    def names() -> list[str]:
        from broker.cli.project import policy_folders
        from broker.policy import policy_names

        return list(policy_names(policy_folders(_home())))

    return contained(names, lambda _: [])


def _tool_names() -> list[str]:
    def names() -> list[str]:
        from broker.catalogs import load_catalogs

        catalogs = load_catalogs(Path.cwd(), _home().config)
        groups = [f"@{name}" for name in catalogs.groups()]
        return [*groups, *(entry.name for entry in catalogs.tools())]

    return contained(names, lambda _: [])


def _session_names() -> list[str]:
    folder = _home().sessions
    entries = [(entry.stat().st_mtime_ns, entry.name) for entry in os.scandir(folder)]
    return [name for _, name in sorted(entries, reverse=True)]


def _home() -> Home:
    from broker.home import Home

    return Home.find(os.environ)


# ── bash ──


def complete(answer: Callable[[], object], environ: MutableMapping[str, str]) -> str:
    """
    Answer a shell that asks for completions, and return what it is to read.

    Args:
        answer: prints the completions for what the environment says, and exits.
        environ: this process's environment, in which the words are put together.
    """
    had = ""
    if environ.get(VARIABLE) == "complete_bash" and "\n" in environ.get("COMP_WORDS", ""):
        words, at, had = joined(environ)
        environ["COMP_WORDS"], environ["COMP_CWORD"] = "\n".join(words), str(at)
    told = io.StringIO()
    try:
        with redirect_stdout(told):
            answer()
    except SystemExit:
        pass  # it is done
    lines = told.getvalue().splitlines()
    return "".join(f"{line.removeprefix(had)}\n" for line in lines)


def joined(environ: Mapping[str, str]) -> tuple[list[str], int, str]:
    """
    Return the words of a command line, which of them is meant, and what of it bash has already.

    >>> joined({"COMP_WORDS": "broker\\nrun\\n--scope\\n@\\nrev", "COMP_CWORD": "4"})
    (['broker', 'run', '--scope', '@rev'], 3, '')
    """
    pieces = environ.get("COMP_WORDS", "").split("\n")
    number = environ.get("COMP_CWORD", "")
    meant = int(number) if number.isdecimal() else len(pieces) - 1
    words: list[str] = []
    had = ""
    glue = False
    for piece in pieces[: meant + 1]:
        breaks = piece != "" and all(char in _BREAKS for char in piece)
        if words and (glue or (breaks and piece != "@")):
            had = words[-1]
            words[-1] += piece
        else:
            had = ""
            words.append(piece)
        glue = breaks
        if breaks:
            had = words[-1]  # the piece that comes next begins behind it
    return words, len(words) - 1, had.removesuffix("@")
