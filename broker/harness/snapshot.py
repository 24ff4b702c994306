"""
Arguments that are frozen: the one text that the ticket, the person and the tool all see.

Decided here: how arguments are frozen and hashed, and how a later change is told. Not decided
here: when they are (``broker.harness.pipeline``).

Rules a maintainer keeps: whoever needs the arguments thaws a copy of their own; the hash is the
one that the receipt keeps as the call's ``args``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from broker.errors import InputError
from broker.resolve import canonical_digest


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    Frozen arguments: their JSON text, and the hex SHA-256 of their canonical form.

    >>> frozen = freeze({"path": "a"})
    >>> frozen.thaw() == frozen.thaw(), frozen.thaw() is frozen.thaw()
    (True, False)
    """

    text: str
    digest: str

    def thaw(self) -> dict[str, object]:
        """Return a copy of the arguments."""
        thawed: dict[str, object] = json.loads(self.text)
        return thawed


def freeze(arguments: object, *, plain: str | None = None) -> Snapshot:
    """
    Freeze arguments.

    Args:
        arguments: an object of JSON values.
        plain: their JSON text, where they are known to be as they came from it; else every value
            is looked at.

    Raises:
        InputError: they are no JSON object, or are being changed meanwhile.

    >>> freeze({"a": {1: "x"}})
    Traceback (most recent call last):
    broker.errors.InputError: the arguments are not JSON: a name is no text
    """
    if plain is not None:
        return Snapshot(plain, canonical_digest(arguments))
    text = spelled(arguments)
    return Snapshot(text, canonical_digest(json.loads(text)))


def spelled(arguments: object) -> str:
    """
    Return arguments as JSON text.

    Raises:
        InputError: they are no JSON object, or are being changed meanwhile.
    """
    if not isinstance(arguments, dict):
        raise InputError("the arguments are no JSON object")
    try:
        _check(arguments)
        return json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError, RecursionError, RuntimeError) as error:
        why = error.message if isinstance(error, InputError) else str(error)[:200]
        raise InputError(f"the arguments are not JSON: {why}") from error


def _check(value: object) -> None:
    """A value that JSON would quietly turn into another is none."""
    if isinstance(value, dict):
        for name, item in value.items():
            if type(name) is not str:
                raise InputError("a name is no text")
            _check(item)
    elif isinstance(value, list):
        for item in value:
            _check(item)
    elif value is not None and type(value) not in (str, int, float, bool):
        raise InputError(f"`{type(value).__name__}` is no JSON value")


def changed_paths(before: object, after: object) -> tuple[str, ...]:
    """
    Return where two JSON values differ, as JSON pointers (RFC 6901), sorted.

    >>> changed_paths({"a": 1, "b": [1, 2]}, {"b": [1, 3], "c": 0})
    ('/a', '/b/1', '/c')
    """
    return tuple(sorted(_differences(before, after, "")))


def _differences(before: object, after: object, at: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before.keys() | after.keys():
            spelled = str(name).replace("~", "~0").replace("/", "~1")
            if name not in before or name not in after:
                yield f"{at}/{spelled}"
            else:
                yield from _differences(before[name], after[name], f"{at}/{spelled}")
    elif isinstance(before, list) and isinstance(after, list):
        for n in range(max(len(before), len(after))):
            if n >= len(before) or n >= len(after):
                yield f"{at}/{n}"
            else:
                yield from _differences(before[n], after[n], f"{at}/{n}")
    elif type(before) is not type(after) or before != after:
        yield at
