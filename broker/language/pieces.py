"""
What the parser of scope texts hands on: a tree of pieces, each with its place in the text.

Rule a maintainer keeps: nothing of the parser's own types leaves ``broker.scope``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from broker.errors import InputError, ScopeError


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a parsed text: a terminal, or a rule with parts of its own."""

    name: str
    text: str
    start: int
    parts: tuple[Piece, ...] = ()


def fault(text: str, message: str, offset: int, hint: str | None = None) -> ScopeError:
    """Return an error about one place of a text."""
    return ScopeError(message, text=text, offset=offset, hint=hint)


def moved(text: str, error: InputError, start: int) -> ScopeError:
    """Return an error about a part of the text as one about the whole."""
    offset, hint = error.detail.get("offset"), error.detail.get("hint")
    within = offset if isinstance(offset, int) else 0
    return fault(text, error.message, start + within, hint if isinstance(hint, str) else None)


def json_value(text: str, piece: Piece) -> object:
    """
    Return the value that a piece spells as JSON.

    Raises:
        ScopeError: it is no JSON.
    """
    try:
        return json.loads(piece.text)
    except ValueError:
        raise fault(text, f"not a JSON value: `{piece.text}`", piece.start) from None


def unquote(quoted: str) -> tuple[str, Sequence[int]]:
    r"""Return what stands between the quotes, ``\"`` as a quote, and each character's place."""
    inner: list[str] = []
    places: list[int] = []
    place, end = 1, len(quoted) - 1
    while place < end:
        width = 2 if quoted[place] == "\\" else 1
        unit = quoted[place : place + width]
        kept = '"' if unit == '\\"' else unit
        places += range(place + width - len(kept), place + width)
        inner.append(kept)
        place += width
    return "".join(inner), [*places, end]
