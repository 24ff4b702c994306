"""
Many dry runs at once: one JSON line in, one JSON line out, in order.

Decided here: what a row may hold and what each absence means. A row that is not understood is
answered with an error and the next one is read; nothing in a row ends the batch.

A key that means nothing here is handed back as ``ignored``, since a row may carry what its sender
knows of it. One that looks like a slip for a key, or asks what a key asks, is an error.

Absences: without ``at`` the clock is read, and ``"at": null`` says that no clock can be read;
without ``minted_at``, or with null, the ticket is minted at ``at``, and an ``until`` that is over
already is then no mistake; without ``spent`` nothing was spent, and ``"spent": null`` says that
the count cannot be read. Whatever cannot be read refuses under the caveat that needs it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final

from broker.boundary import contained
from broker.cli.dry import DryRun
from broker.cli.jsontext import read_json
from broker.cli.output import error_document
from broker.cli.typed import folder
from broker.errors import BrokerError, InputError, LimitError, ScopeError
from broker.instants import parse_instant
from broker.limits import MAX_REQUEST_BYTES

if TYPE_CHECKING:
    from broker.catalogs import Catalogs
    from broker.home import Home

KEYS: Final = frozenset(
    ("id", "scope", "tool", "arguments", "workspace", "at", "minted_at", "spent", "server",
     "cwd", "subject", "intent")
)  # fmt: skip
# What others call what a row asks: to pass over one of these would answer another question.
_MEANT: Final = {
    "args": "arguments",
    "input": "arguments",
    "kwargs": "arguments",
    "parameters": "arguments",
    "params": "arguments",
    "call": "tool",
    "tool_name": "tool",
    "budget": "spent",
    "calls_used": "spent",
    "used": "spent",
    "clock": "at",
    "now": "at",
    "time": "at",
    "state": "at",
    "steps": "tool",
    "mcp_server": "server",
    "caveats": "scope",
    "root": "workspace",
}
_NEAR: Final = 0.8
_SHOWN: Final = 20  # ignored keys that an answer names
_WORLDS: Final = 256  # workspaces held at once
_BLANK: Final = b" \t\r\n"

Answer = dict[str, object]


@dataclass(frozen=True, slots=True)
class Row:
    """One question, understood."""

    scope: list[str]
    tool: object
    arguments: object
    workspace: str
    at: int | None
    minted_at: int
    past_ok: bool
    spent: int | None
    server: str | None
    cwd: str | None
    intent: str


class Batch:
    """Answers rows; what they share (catalogs, read scopes) is kept between them."""

    def __init__(self, home: Home, workspace: str) -> None:
        self.home = home
        self.workspace = workspace
        self.rows = 0
        self.errors = 0
        self._worlds: dict[tuple[str, int, int], DryRun] = {}
        self._common: Catalogs | None = None

    def answers(self, lines: Iterable[bytes | None]) -> Iterator[Answer]:
        """
        Yield one answer for every row; ``None`` stands for a row that was too large to read.

        Lines of nothing but blanks are no rows.
        """
        for line in lines:
            if line is not None and not line.strip(_BLANK):
                continue
            answer = self._answer(line)
            self.rows += 1
            self.errors += answer["decision"] == "error"
            yield answer

    def _answer(self, line: bytes | None) -> Answer:
        if line is None:
            return error_document(LimitError(f"a row has at most {MAX_REQUEST_BYTES} bytes"))
        try:
            document = _document(line)
        except InputError as error:
            return error_document(error)
        return contained(partial(self._judged, document), _failure) | _named(document)

    def _judged(self, document: object) -> Answer:
        try:
            return self._decided(read_row(document, self.workspace))
        except BrokerError as error:
            return error_document(error)

    def _catalogs(self, workspace: str) -> Catalogs | None:
        """Return the catalogs of every workspace that has none of its own."""
        if os.path.lexists(os.path.join(workspace, ".broker", "catalogs")):
            return None
        if self._common is None:
            from broker.catalogs import load_catalogs

            self._common = load_catalogs(None, self.home.config)
        return self._common

    def _world(self, workspace: str) -> DryRun:
        """Return what answers for a workspace, anew when another folder has taken its place."""
        try:
            found = os.stat(workspace)
            key = (workspace, found.st_dev, found.st_ino)
        except (OSError, ValueError):
            key = (workspace, 0, 0)
        world = self._worlds.get(key)
        if world is None:
            if len(self._worlds) >= _WORLDS:
                self._worlds.clear()
            catalogs = self._catalogs(workspace)
            world = self._worlds[key] = DryRun(workspace, self.home, catalogs=catalogs)
        return world

    def _decided(self, row: Row) -> Answer:
        world = self._world(row.workspace)
        ticket = world.ticket(row.scope, row.minted_at, past_ok=row.past_ok, intent=row.intent)
        decision = world.decide(
            ticket,
            row.tool,
            row.arguments,
            at=row.at,
            spent=row.spent,
            server=row.server,
            cwd=row.cwd,
            intent=row.intent,
        )
        refusal = decision.refusal
        if refusal is None:
            return {"decision": "allow", "caveat": None, "reason": None}
        return {"decision": "refuse", "caveat": refusal.caveat, "reason": refusal.reason}


def lines_of(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield the lines of a stream; None for one that is larger than a row may be."""
    while line := stream.readline(MAX_REQUEST_BYTES + 1):
        if len(line) <= MAX_REQUEST_BYTES or line.endswith(b"\n"):
            yield line
            continue
        while rest := stream.readline(2**20):
            if rest.endswith(b"\n"):
                break
        yield None


def read_row(document: object, workspace: str) -> Row:
    """
    Return the question that a row asks; ``workspace`` stands in for one that it lacks.

    Raises:
        InputError: it is not understood; names the key.

    >>> read_row({"scope": [], "tool": "read_file", "at": "1970-01-01T00:00:01Z"}, "/ws").at
    1000000000
    """
    if not isinstance(document, dict):
        raise InputError("a row is one JSON object")
    for name in _unknown(document):
        meant = _MEANT.get(name) or _near(name)
        if meant is not None:
            raise InputError(
                f"no such key in a row: `{name}`; did you mean `{meant}`? it may hold {_all_keys()}"
            )
    if "scope" not in document:
        raise InputError("the row has no `scope`; an empty list permits everything")
    if not isinstance(document.get("id"), str | int | None):
        raise InputError("`id` is text or a whole number")
    scope = document["scope"]
    if not isinstance(scope, list):
        raise InputError("`scope` is a list of texts such as `paths=src/**`")
    at = _at(document)
    when = document.get("minted_at")
    minted = None if when is None else _instant(when, "minted_at")
    where = _text(document, "workspace")
    return Row(
        scope=_texts(scope),
        tool=document.get("tool"),
        arguments=document.get("arguments", {}),
        workspace=workspace if where is None else folder(where),
        at=at,
        minted_at=next(i for i in (minted, at, time.time_ns()) if i is not None),
        past_ok=minted is None,
        spent=_spent(document),
        server=_server(document),
        cwd=_text(document, "cwd"),
        intent=_text(document, "intent") or "",
    )


def _document(line: bytes) -> object:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"the row is not UTF-8 at byte {error.start}") from None
    return read_json(text)


def _unknown(document: Mapping[str, object]) -> list[str]:
    return [name for name in document if name not in KEYS]


def _near(name: str) -> str | None:
    """Return the key that a name is surely a slip for."""
    from difflib import get_close_matches

    plain = name[:64].strip().lower()
    near = get_close_matches(plain, sorted(KEYS), n=1, cutoff=_NEAR) if len(plain) > 3 else []
    return near[0] if near else (plain if plain in KEYS else None)


def _all_keys() -> str:
    return ", ".join(sorted(KEYS))


def _texts(scope: list[object]) -> list[str]:
    texts = [text for text in scope if isinstance(text, str)]
    if len(texts) != len(scope):
        raise ScopeError("a scope text is text such as `paths=src/**`")
    return texts


def _at(document: Mapping[str, object]) -> int | None:
    if "at" not in document:
        return time.time_ns()
    return None if document["at"] is None else _instant(document["at"], "at")


def _instant(value: object, name: str) -> int:
    if not isinstance(value, str):
        raise InputError(f"`{name}` is an instant such as `2026-01-31T12:00:00Z`")
    try:
        return parse_instant(value)
    except InputError as error:
        raise InputError(f"`{name}`: {error}") from None


def _spent(document: Mapping[str, object]) -> int | None:
    value = document.get("spent", 0)
    if value is None:
        return None
    # True is an int for Python, and no count for anybody.
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError("`spent` is a whole number of calls, or null")
    return value


def _server(document: Mapping[str, object]) -> str | None:
    """Return the MCP server, from ``server`` or from the facts that the caller observed."""
    said = _text(document, "server")
    subject = document.get("subject")
    if subject is None:
        return said
    if not isinstance(subject, dict):
        raise InputError('`subject` is an object such as {"mcp_server": "github"}')
    seen = _text(subject, "mcp_server")
    if said is not None and seen is not None and said != seen:
        raise InputError("`server` and `mcp_server` of `subject` name two servers")
    return seen if said is None else said


def _text(document: Mapping[str, object], name: str) -> str | None:
    value = document.get(name)
    if value is None or isinstance(value, str):
        return value
    raise InputError(f"`{name}` is text")


# ── answers ──


def _failure(error: Exception) -> Answer:
    """Answer for what nobody foresaw."""
    return error_document(
        BrokerError(f"the broker could not decide: {type(error).__name__}: {error}")
    )


def _named(document: object) -> Answer:
    """Return the row's name, if it has one that can be said again, and what was passed over."""
    if not isinstance(document, dict):
        return {}
    said: Answer = {}
    if "id" in document and isinstance(document["id"], str | int | None):
        said["id"] = document["id"]
    ignored = _unknown(document)
    if ignored:
        said["ignored"] = ignored[:_SHOWN]
    return said
