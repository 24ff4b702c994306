"""
The calls of a receipt, as far as it tells them, to be decided once more under another scope.

Decided here: what a recorded decision still says of its call. A receipt keeps what a call touched
and a digest of its arguments, and not the arguments. Not decided here: what becomes of the calls
(``broker policy test``).

Rules a maintainer keeps: what cannot be told is said and never guessed, so a call that was cut
short, holds other calls or needs its arguments looked into is none; a refusal that no scope could
have lifted is left out. A write is judged by the place that it led to, since the other spelling of
it is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.calls import Call, PathSubject, UrlSubject
from broker.catalogs import Catalogs
from broker.caveats import KINDS
from broker.redaction.hiding import MARK
from broker.resolution.realpaths import in_git
from broker.ticket import Ticket

_CUT: Final = "…"
_BY_SUBJECT: Final = frozenset(("paths", "reads", "writes", "hosts"))
_PORTS: Final = {"https": 443, "wss": 443, "http": 80, "ws": 80}


@dataclass(frozen=True, slots=True)
class Recalled:
    """A recorded decision: its call, and whether it was allowed; ``call`` None: ``why``."""

    n: int
    tool: str
    told: str
    allowed: bool
    caveat: str = ""
    call: Call | None = None
    why: str = ""


def recalled(n: int, data: Mapping[str, object], catalogs: Catalogs) -> Recalled | None:
    """
    Return what a ``decision`` entry says of its call, or None where no scope decided it.

    Args:
        n: the entry's number.
        data: of a verified entry.
        catalogs: what is known of tools now.

    >>> from broker.catalogs import load_catalogs
    >>> data = {"tool": "Read", "decision": "allow", "subjects": [{"path": "a", "access": "read"}]}
    >>> recalled(3, data, load_catalogs()).call.paths[0].places
    ('a/',)
    """
    tool, caveat = _text(data, "tool"), _text(data, "caveat")
    allowed = data.get("decision") == "allow"
    if not allowed and caveat not in KINDS:
        return None
    listed = data.get("subjects")
    subjects = [s for s in listed if isinstance(s, dict)] if isinstance(listed, list) else []
    told = f"{tool} {' '.join(filter(None, map(_shown, subjects)))}".strip()
    try:
        call = _call(tool, data, subjects, catalogs)
    except _Untold as error:
        return Recalled(n, tool, told, allowed, caveat, why=str(error))
    return Recalled(n, tool, told, allowed, caveat, call)


def looks_into(ticket: Ticket, call: Call) -> bool:
    """Whether a ticket holds a rule for a call's tool, so that its arguments would be looked at."""
    name = call.tool
    for bound in ticket.bounds.tools:
        plain = name in bound.match.exact or bound.match.match(name, call.server)
        if not plain and bound.book is not None and bound.book.of(name, name, call.server):
            return True
    return False


class _Untold(Exception):
    """What the receipt does not tell."""


def _call(
    tool: str, data: Mapping[str, object], subjects: list[dict[str, object]], catalogs: Catalogs
) -> Call:
    if type(data.get("cost", 1)) is not int or data.get("cost", 1) != 1:
        raise _Untold("it held other calls")
    if tool.endswith(_CUT):
        raise _Untold("its name is longer than the receipt keeps")
    if not subjects and _text(data, "caveat") in _BY_SUBJECT:
        raise _Untold("it was refused for what it did not name")
    if "subjects" not in data:
        raise _Untold("what it touched is concealed")
    server = data.get("server")
    name = server if isinstance(server, str) else None
    paths, urls, command = [], [], None
    for subject in subjects:
        if "more" in subject or "inside" in subject:
            raise _Untold("it touched more than the receipt names")
        texts = [value for value in subject.values() if isinstance(value, str)]
        judged = [] if "command" in subject else texts
        if any(text.endswith(_CUT) or MARK in text for text in judged):
            raise _Untold("the receipt has it cut short, or without a secret")
        if isinstance(subject.get("path"), str):
            paths.append(_path(subject))
        elif isinstance(subject.get("url"), str):
            urls.append(_url(str(subject["url"])))
        else:
            command = _text(subject, "command")
    entry = catalogs.lookup(tool, name)
    opaque = command is not None or entry is None or entry.effect == "opaque"
    return Call(tool, name, tuple(paths), tuple(urls), opaque, command=command)


def _path(subject: Mapping[str, object]) -> PathSubject:
    place = _text(subject, "path")
    access = "write" if subject.get("access") == "write" else "read"
    places = () if subject.get("outside") else ("" if place == "." else f"{place}/",)
    inner = access == "write" and any(map(in_git, places))
    below = subject.get("below") is True
    if access == "write":
        return PathSubject("path", place, "write", places, inner_git=inner, below=below)
    return PathSubject("path", place, "read", places, below=below)


def _url(text: str) -> UrlSubject:
    scheme, _, rest = text.partition("://")
    host, colon, digits = rest.rpartition(":")
    if not (colon and digits.isdecimal()):
        host, digits = rest, ""
    port = int(digits or 0)
    keys: tuple[str, ...] = ()
    if scheme in _PORTS:
        port = port or _PORTS[scheme]
        keys = (*([host] if port == _PORTS[scheme] else []), f"{host}:{port}")
    return UrlSubject("url", text, scheme, host, port, keys)


def _shown(subject: Mapping[str, object]) -> str:
    named = (_text(subject, key) for key in ("path", "url", "command"))
    return next((text for text in named if text), "")


def _text(data: Mapping[str, object], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""
