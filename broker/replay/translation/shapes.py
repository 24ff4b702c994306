"""
JSON of any shape, read by the protocols; and events of a stream, written by them.

Decided here: what stands for a value of another type, which is nothing. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def rows(value: object) -> list[dict[str, Any]]:
    """
    Return the objects in a list; nothing where there is no list.

    >>> rows([{"a": 1}, 2]), rows("x")
    ([{'a': 1}], [])
    """
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def table(value: object) -> Mapping[str, Any]:
    """Return an object, or an empty one."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    """Return a text, or an empty one."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """
    Return a count, or 0.

    >>> count(3), count(True), count(-1)
    (3, 0, 0)
    """
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def some(value: object) -> int | None:
    """Return a count, or None."""
    return count(value) or None


def event(body: Mapping[str, object], name: str = "") -> bytes:
    """
    Return an event of a stream.

    >>> event({"a": 1}, "b")
    b'event: b\\ndata: {"a": 1}\\n\\n'
    """
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(body)}\n\n".encode()


def words(*values: object) -> Iterator[str]:
    """Yield the texts among values that are one, or lists of some."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, str))
