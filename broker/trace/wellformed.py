"""
Whether values of a file are what a format asks for.

Decided here: how each kind of value is checked, and how the place of a fault is told. Not decided
here: which keys a format has.

Rule a maintainer keeps: every message begins with the place, and holds nothing of the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NoReturn

from broker.errors import TraceError
from broker.limits import MAX_SAFE_INT

# RFC 3339 with an offset, which the schema's `date-time` asks for.
_INSTANT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})\Z"
)


def fault(path: str, message: str) -> NoReturn:
    """Refuse what stands at a place."""
    raise TraceError(f"{path} {message}", code="trace.format", path=path)


def an_object(value: object, path: str) -> dict[str, object]:
    """Return a value that must be an object."""
    if not isinstance(value, dict):
        fault(path, "must be an object")
    return value


def a_list(value: object, path: str) -> list[object]:
    """Return a value that must be a list."""
    if not isinstance(value, list):
        fault(path, "must be a list")
    return value


def a_text(value: object, path: str) -> str:
    """Return a value that must be a text."""
    if not isinstance(value, str):
        fault(path, "must be a text")
    return value


def texts(value: object, path: str) -> tuple[str, ...]:
    """Return a value that must be a list of texts."""
    return tuple(a_text(each, f"{path}/{at}") for at, each in enumerate(a_list(value, path)))


def an_instant(value: object, path: str) -> str:
    """Return a text that must be an RFC 3339 instant with an offset."""
    text = a_text(value, path)
    if not _INSTANT.match(text):
        fault(path, "must be an RFC 3339 instant with an offset")
    return text


def a_number(value: object, path: str, least: int | None = 0) -> int:
    """
    Return a value that must be a whole number of at least ``least``; true and false are none.

    Raises:
        TraceError: it is not, or no reader would keep it exactly.

    >>> a_number(True, "/seq")
    Traceback (most recent call last):
      ...
    broker.errors.TraceError: /seq must be a whole number
    """
    if isinstance(value, bool) or not isinstance(value, int):
        fault(path, "must be a whole number")
    if least is not None and value < least:
        fault(path, f"must be at least {least}")
    if abs(value) > MAX_SAFE_INT:
        fault(path, "is a larger number than every reader keeps")
    return value


def needs(found: Mapping[str, object], keys: tuple[str, ...], path: str) -> None:
    """Refuse an object that lacks a key."""
    for key in keys:
        if key not in found:
            fault(path, f"lacks `{key}`")


def only(found: Mapping[str, object], keys: frozenset[str], path: str) -> None:
    """Refuse an object that has another key than these."""
    extra = sorted(found.keys() - keys)
    if extra:
        fault(path, f"has a key that the format does not know: `{extra[0][:64]}`")
