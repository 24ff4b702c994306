"""
The three records of a harness and their canonical form: one line of JSON each.

Decided here: which facts a record has. Not decided here: where it is kept
(``broker.records.store``) and what a body is made of (``broker.records.pieces``).

Rules a maintainer keeps: ``sha256`` and ``size_bytes`` of a record describe the bytes that were on
the wire, whatever is kept of them; a record without a body still has both; a new field needs a
new version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from broker.instants import format_instant, parse_instant

FailureKind = Literal[
    "auth",
    "rate_limit",
    "overloaded",
    "context_overflow",
    "network",
    "aborted",
    "provider",
    "unknown",
]
AuditOutcome = Literal["ran", "blocked", "invalid_arguments"]
# A text of its own, or a reference to pieces or to a file; see ``broker.records.pieces``.
Part = str | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Body:
    """
    What is kept of the bytes on the wire: their parts, without their secrets.

    ``sha256`` and ``size_bytes`` are those of what is kept, for whoever joins the parts again.
    ``encoding`` is ``utf-8`` or ``base64``; ``spilled`` says that it was larger than what a line
    holds, so that its large parts are files; ``redacted`` has the paths of what was hidden.
    """

    parts: tuple[Part, ...]
    sha256: str
    size_bytes: int
    encoding: Literal["utf-8", "base64"] = "utf-8"
    spilled: bool = False
    redacted: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    def data(self) -> dict[str, object]:
        """Return the body as JSON values."""
        return {
            "parts": list(self.parts),
            "sha256": self.sha256,
            "size_bytes": self.size_bytes,
            "encoding": self.encoding,
            "spilled": self.spilled,
            "redacted": list(self.redacted),
            "counts": dict(self.counts),
        }


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call failed, in the words of ``broker.records.failures``; the message is told."""

    kind: FailureKind
    message: str

    def data(self) -> dict[str, object]:
        """Return the failure as JSON values."""
        return {"kind": self.kind, "message": self.message}


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """
    One request at the last point before it leaves.

    ``turn`` and ``attempt`` are None for a request that asks no model (a list, a count of
    tokens); ``branch`` names the conversation that it belongs to.
    """

    type: ClassVar[str] = "provider.request.v1"
    id: str
    at: int
    turn: int | None
    attempt: int | None
    branch: str
    provider: str
    model: str
    api: str
    sha256: str
    size_bytes: int
    body: Body | None

    def data(self) -> dict[str, object]:
        """Return the record as JSON values."""
        return _data(self)


@dataclass(frozen=True, slots=True)
class ProviderResponse:
    """
    What came of the request with the same ``id``.

    ``failure`` is None exactly when the answer came whole and says that it is one. ``usage``
    counts tokens, as far as the provider tells.
    """

    type: ClassVar[str] = "provider.response.v1"
    id: str
    at: int
    status: int | None
    finish: str | None
    usage: Mapping[str, int]
    duration_ns: int
    failure: Failure | None
    sha256: str
    size_bytes: int
    body: Body | None

    def data(self) -> dict[str, object]:
        """Return the record as JSON values."""
        return _data(self)


@dataclass(frozen=True, slots=True)
class ToolAudit:
    """
    A call whose arguments a hook changed, or that was stopped before the ticket was asked.

    ``arguments`` are those that ran, or would have run, without their secrets, and ``sha256`` is
    that of their JSON text with them. ``changed`` are the places that hooks changed, as JSON
    pointers, ``ignored`` those that somebody changed later, without effect.
    """

    type: ClassVar[str] = "tool.audit.v1"
    call: str
    at: int
    tool: str
    outcome: AuditOutcome
    reason: str
    changed: tuple[str, ...]
    ignored: tuple[str, ...]
    sha256: str
    arguments: object
    redacted: tuple[str, ...] = ()

    def data(self) -> dict[str, object]:
        """Return the record as JSON values."""
        return _data(self)


Record = ProviderRequest | ProviderResponse | ToolAudit


def _data(record: Record) -> dict[str, object]:
    found: dict[str, object] = {"type": record.type}
    for name in record.__slots__:
        value = getattr(record, name)
        if isinstance(value, Body | Failure):
            value = value.data()
        elif name == "at":
            value = format_instant(value)
        elif isinstance(value, tuple):
            value = list(value)
        found[name] = dict(value) if name == "usage" else value
    return found


def line(data: Mapping[str, object]) -> bytes:
    """
    Return the one line that says some data: sorted keys, no blanks, UTF-8.

    >>> line({"b": 1, "a": "ü"})
    b'{"a":"\\xc3\\xbc","b":1}\\n'
    """
    said = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return said.encode("utf-8", "backslashreplace") + b"\n"


_KINDS: Final[Mapping[str, Callable[..., Record]]] = {
    kind.type: kind for kind in (ProviderRequest, ProviderResponse, ToolAudit)
}


def record_of(data: Mapping[str, object]) -> Record:
    """
    Return the record that a line holds.

    Raises:
        ValueError, KeyError, TypeError: it holds none.

    >>> audit = ToolAudit("c1", 0, "read", "blocked", "no", (), (), "", {"path": "a"})
    >>> record_of(audit.data()) == audit
    True
    """
    given = {name: value for name, value in data.items() if name != "type"}
    given["at"] = parse_instant(_text(given["at"]))
    for name in ("changed", "ignored", "redacted"):
        if name in given:
            given[name] = tuple(_list(given[name]))
    for name, kind in (("body", _body), ("failure", _failure)):
        if given.get(name) is not None:
            given[name] = kind(given[name])
    kind_of = _KINDS[_text(data["type"])]
    return kind_of(**given)


def _body(value: object) -> Body:
    data = dict(_object(value))
    data["parts"] = tuple(_list(data["parts"]))
    data["redacted"] = tuple(_list(data["redacted"]))
    return Body(**data)  # type: ignore[arg-type]  # a wrong name is a TypeError, as told


def _failure(value: object) -> Failure:
    return Failure(**_object(value))  # type: ignore[arg-type]  # as above


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value
