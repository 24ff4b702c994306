"""
The subjects whose tickets a service keeps, as a person wrote them down.

Decided here: what the file may say. Not decided here: what the tickets permit (``broker.scope``),
who is believed to speak for a subject (``broker.service.access``).

A caller that enforces decisions for known users or agents need not carry tickets about. It names
a subject, and the service holds that subject's ticket:

    scope = ["tools=@reads,can_*"]            # the root ticket; `--scope` adds to it

    [[ticket]]
    for = ["user:alice", "agent:reviewer"]    # TYPE:ID, as requests name them
    scope = ["tools=@reads", "paths=src/**"]

Each ``[[ticket]]`` is one ticket, derived from the root; its subjects spend from one budget.

Rules a maintainer keeps: whoever is not named has no ticket, and is refused; a subject stands in
one ticket only; a word that is not known is an error.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import Any, Final

from broker.errors import ConfigError
from broker.limits import MAX_NAME_CHARS, MAX_TICKETS

_KEYS: Final = frozenset(("scope", "ticket"))
_TICKET_KEYS: Final = frozenset(("for", "scope"))


@dataclass(frozen=True, slots=True)
class SubjectTicket:
    """One ``[[ticket]]``: its subjects as ``TYPE:ID``, and the caveats that it adds."""

    subjects: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subjects:
    """
    What the file says: the root's scope, and the tickets below it.

    >>> Subjects.read('[[ticket]]\\nfor = ["user:a"]\\nscope = ["tools=Read"]').tickets
    (SubjectTicket(subjects=('user:a',), texts=('tools=Read',)),)
    """

    texts: tuple[str, ...] = ()
    tickets: tuple[SubjectTicket, ...] = ()

    @classmethod
    def read(cls, text: str, where: str = "the file of subjects") -> Subjects:
        """
        Read a file's text.

        Args:
            text: TOML.
            where: names the file in messages.

        Raises:
            ConfigError: it says something that is not understood.
        """
        try:
            found = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigError(f"{where} is not TOML: {error}") from None
        _known(found, _KEYS, where)
        tables = found.get("ticket", [])
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            raise ConfigError(f"{where}: write each ticket as a table, `[[ticket]]`")
        if len(tables) >= MAX_TICKETS:
            raise ConfigError(f"{where} has more than {MAX_TICKETS - 1} tickets")
        tickets = tuple(_ticket(table, f"{where}, ticket {n}") for n, table in enumerate(tables, 1))
        seen: set[str] = set()
        for subject in (name for ticket in tickets for name in ticket.subjects):
            if subject in seen:
                raise ConfigError(f"{where}: `{subject}` stands in two tickets, or twice in one")
            seen.add(subject)
        return cls(_texts(found, "scope", where), tickets)


def _ticket(table: dict[str, Any], where: str) -> SubjectTicket:
    _known(table, _TICKET_KEYS, where)
    subjects, texts = _texts(table, "for", where), _texts(table, "scope", where)
    if not subjects or not texts:
        raise ConfigError(f"{where}: `for` and `scope` are lists that are not empty")
    for name in subjects:
        kind, colon, ident = name.partition(":")
        if not kind or not colon or not ident or len(name) > MAX_NAME_CHARS:
            raise ConfigError(f"{where}: `{name[:80]}` is not `TYPE:ID`")
    return SubjectTicket(subjects, texts)


def _texts(table: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ConfigError(f"{where}: `{key}` is a list of texts")
    return tuple(found)


def _known(table: dict[str, Any], keys: frozenset[str], where: str) -> None:
    strange = sorted(table.keys() - keys)
    if strange:
        known = ", ".join(sorted(keys))
        raise ConfigError(f"{where} does not know `{strange[0]}`: it has {known}")
