"""
An intent opens from a line that a person typed, and from nothing else.

Decided here: what counts as a typed line, and that it was typed at depth 0, where the person
is. Not decided here: what the intent may do; that is the ticket, and it binds to the intent by
the digest of its line.

Rules a maintainer keeps: ``TypedLine`` is made only where a person types (the command line, the
terminal, a request with an operator's key), never from a hook's payload, a session's socket, a
tool's result or a model's text; there is no way to open an intent over the session's socket; a
subagent's prompt is a model's text.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from broker.calls import TypedText
from broker.errors import InputError
from broker.limits import MAX_INTENT_CHARS

Channel = Literal["argument", "terminal", "operator"]


@dataclass(frozen=True, slots=True)
class TypedLine:
    """
    Text that a person typed, and where. ``depth`` 0 is the person's own agent.

    ``argument`` is a command line that a person started, ``terminal`` a line read from one,
    ``operator`` a line that came with the key of an operator, whom ADR-0041 takes for a person.
    """

    text: str
    channel: Channel
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Intent:
    """Why a session runs: the typed line, and the digest that its ticket carries."""

    line: str
    digest: str
    opened_at: int


class Intents:
    """
    Opens one intent; every further ticket that a person mints has one of its own.

    >>> opened = Intents().open(TypedLine("fix the failing test", "argument"), 0)
    >>> opened.digest[:8]
    '75804d69'
    """

    __slots__ = ("current",)

    def __init__(self) -> None:
        self.current: Intent | None = None

    def open(self, line: TypedLine, at: int) -> Intent:
        """
        Open the intent that a person typed.

        Raises:
            InputError: not a typed line, not at depth 0, empty, too long, not well-formed
                text, or an intent is open already (`intent.…` codes).
        """
        if type(line) is not TypedLine:
            raise InputError("an intent opens from a typed line only", code="intent.source")
        if line.depth != 0:
            raise InputError(
                "an intent opens where the person is, not inside a subagent", code="intent.depth"
            )
        if self.current is not None:
            raise InputError("this ticket has its intent already", code="intent.open")
        text = line.text.strip()
        if not text:
            raise InputError("the intent is empty: say in a line what is to be done")
        if len(text) > MAX_INTENT_CHARS:
            raise InputError(f"the intent has more than {MAX_INTENT_CHARS} characters")
        self.current = Intent(text, digest(text), at)
        return self.current


def typed_text(line: str) -> TypedText:
    """
    Return a typed line with its own digest, as ``authorize`` takes it.

    Raises:
        InputError: the line is not well-formed Unicode.
    """
    return TypedText(line, digest(line))


def digest(line: str) -> str:
    """
    Return the hex SHA-256 of a typed line, which the ticket carries.

    Raises:
        InputError: the line is not well-formed Unicode.
    """
    try:
        return sha256(line.encode()).hexdigest()
    except UnicodeEncodeError:
        raise InputError("the intent is not well-formed text") from None
