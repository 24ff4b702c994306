"""
What a scripted model says, and how it knows where in its script a conversation stands.

A script is a list of turns for each conversation. A conversation is known by a word in the last
text of its user that holds one, ``[script NAME]``, and its turn by how many answers the model
has given since. So nothing is remembered between requests, questions on the side (titles,
quotas) do not move the script along, and a subagent whose prompt holds another word has a
script of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

_NAME: Final = re.compile(r"\[script ([a-z0-9-]+)\]")


@dataclass(frozen=True, slots=True)
class Say:
    """A turn that only talks, and so ends the conversation."""

    text: str


@dataclass(frozen=True, slots=True)
class Text:
    """The argument of a tool that takes free text instead of an object."""

    text: str


@dataclass(frozen=True, slots=True)
class Use:
    """A turn that calls tools: (name, arguments) pairs."""

    calls: Sequence[tuple[str, Mapping[str, object] | Text]]


Turn = Say | Use
Script = Mapping[str, Sequence[Turn]]


@dataclass(frozen=True, slots=True)
class Told:
    """
    One thing in a conversation as a request tells it.

    ``user`` and ``result`` have a text; a result also the id of its call, where the protocol
    has one, and whether it says that the call failed.
    """

    who: Literal["user", "model", "result"]
    text: str = ""
    call: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a conversation stands: its script's name ("" for none), its turn, and its results."""

    name: str = ""
    turn: int = 0
    results: tuple[Told, ...] = field(default=())


class Wire(Protocol):
    """One protocol: how a request is read and a turn is written."""

    def read(self, body: Mapping[str, object]) -> Iterable[Told]:
        """Return the conversation of a request, oldest first."""
        ...

    def offers_tools(self, body: Mapping[str, object]) -> bool:
        """Whether the request offers any tool; a question on the side offers none."""
        ...

    def write(self, turn: Turn, name: str, model: str) -> dict[str, object]:
        """Return a turn as an answer; ``name`` makes the ids of its calls: ``NAME-0``, …"""
        ...

    def stream(self, answer: Mapping[str, object]) -> Iterable[tuple[str, object]]:
        """Return an answer as (event, data) pairs; an event without a name is ""."""
        ...


def place(said: Iterable[Told]) -> Place:
    """
    Find where in which script a conversation stands.

    >>> place([Told("user", "[script main] go"), Told("model"), Told("result", "ok")]).turn
    1
    """
    name, turn = "", 0
    results: list[Told] = []
    for each in said:
        if each.who == "model":
            turn += 1
        elif each.who == "result":
            # Where the protocol has no ids, results come in the order of the calls.
            at = sum(r.call.startswith(f"{name}-{turn - 1}-") for r in results)
            call = each.call or f"{name}-{turn - 1}-{at}"
            results.append(Told("result", each.text, call, each.failed))
        elif found := _NAME.findall(each.text):
            name, turn = found[-1], 0
    return Place(name, turn, tuple(results))


def next_turn(script: Script, where: Place) -> Turn:
    """
    Return what the model says next; past the end of a script it has nothing to add.

    >>> next_turn({"main": [Say("hello")]}, Place("main", 0)).text
    'hello'
    """
    turns = script.get(where.name, ())
    return turns[where.turn] if where.turn < len(turns) else Say("nothing to add")


# ── reading JSON of any shape ──


def rows(value: object) -> list[Mapping[str, object]]:
    """Return the objects in a list; nothing where there is no list."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def texts(value: object) -> str:
    """Return the text of a content: text itself, or the texts of its parts, one a line."""
    if isinstance(value, str):
        return value
    found = (part.get("text") or part.get("encrypted_content") for part in rows(value))
    return "\n".join(text for text in found if isinstance(text, str))
