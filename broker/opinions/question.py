"""
What another is asked about a call: who, which tool, on what.

Decided here: which questions a call makes, and what each of them says. Not decided here: how an
opinion is asked (``broker.opinions.authzen``, ``broker.opinions.cedar``), what its answers come to
(``broker.opinions.counsel``).

There is one question for each path, URL and command that a call touches, those of the calls inside
it included, so that a policy about paths meets every path, be there one or many. A call that
touches none, or whose effects cannot be told from its arguments, is asked about by its tool.

Rules a maintainer keeps: what is said of a place is what was resolved, never what the model
spelled; nothing is cut short, for a policy that sees half of a path judges another one; what may
hold a secret (the path and query of a URL, the arguments) is not handed on unless the person said
so, and a command only without the secrets in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from broker.calls import Call, PathSubject, UrlSubject
from broker.errors import LimitError
from broker.limits import MAX_OPINION_CHARS, MAX_OPINION_QUESTIONS
from broker.redaction.hiding import Hider

Kind = Literal["path", "url", "command", "tool"]

Fields = Mapping[str, str | bool | int]


@dataclass(frozen=True, slots=True)
class Question:
    """
    May ``actor`` use ``tool`` on this?

    ``kind`` and ``name`` are what it is used on; ``more`` says more of that. ``server`` is the MCP
    server of the tool, where it has one.
    """

    tool: str
    kind: Kind
    name: str
    more: Fields = field(default_factory=dict)
    server: str = ""


@dataclass(frozen=True, slots=True)
class Consultation:
    """
    All that is asked about one call.

    ``actor`` is which agent calls, ``ticket`` the id of the ticket that allowed it, ``nonce`` 32
    hex digits that no two inquiries share. ``arguments`` are for an opinion that is shown them.
    """

    questions: tuple[Question, ...]
    actor: str
    session: str
    ticket: str
    nonce: str
    digest: str
    arguments: Mapping[str, object] = field(default_factory=dict)


def questions(call: Call) -> tuple[Question, ...]:
    """
    Return what is asked about a call; at least one question.

    Raises:
        LimitError: it touches more than MAX_OPINION_QUESTIONS, or one name is too long.

    >>> [(q.kind, q.name) for q in questions(Call("read", paths=(PathSubject(
    ...     "path", "a", "read", ("src/a.py/",)),)))]
    [('path', 'src/a.py')]
    >>> questions(Call("think"))[0].kind
    'tool'
    """
    found: list[Question] = []
    for question in _questions(call):
        if len(found) == MAX_OPINION_QUESTIONS:
            raise LimitError(
                f"it touches more than {MAX_OPINION_QUESTIONS} things: split it into several calls"
            )
        if len(question.name) > MAX_OPINION_CHARS:
            raise LimitError(f"a name in it has more than {MAX_OPINION_CHARS} characters")
        found.append(question)
    return tuple(found)


def _questions(call: Call) -> Iterator[Question]:
    server = call.server or ""
    for path in call.paths:
        for place in _places(path):
            yield Question(call.tool, "path", place, _of_path(path), server)
    for url in call.urls:
        yield Question(call.tool, "url", _address(url), _of_url(url), server)
    if call.command is not None:
        yield Question(call.tool, "command", Hider().text(call.command), {}, server)
    if call.opaque or not (call.paths or call.urls or call.command is not None or call.nested):
        yield Question(call.tool, "tool", call.tool, {"opaque": call.opaque}, server)
    for inner in call.nested:
        yield from _questions(inner)


def _places(path: PathSubject) -> Iterator[str]:
    """Yield where a path leads: relative to the workspace, or absolute outside of it."""
    if not path.places:
        yield path.resolved or path.spelled
    for place in dict.fromkeys(path.places):
        yield place.rstrip("/") or "."


def _of_path(path: PathSubject) -> Fields:
    return {"access": path.access, "below": path.below, "outside": not path.places}


def _address(url: UrlSubject) -> str:
    return f"{url.scheme}://{url.host}" + (f":{url.port}" if url.port else "")


def _of_url(url: UrlSubject) -> Fields:
    return {"scheme": url.scheme, "host": url.host, "port": url.port}
