"""
What AuthZEN has no words for: mint, attenuate, check, describe, tell a result, end, revoke.

Decided here: what these requests take and what they answer. Not decided here: who may mint, and
what becomes of sessions (``broker.service.hosted``).

Rules a maintainer keeps: a key that a request does not have is an error, since a misspelt one would
not be heeded; whatever touches a disk is done beside the loop that answers others.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from broker.errors import InputError
from broker.service.access import KeyHolder
from broker.service.authzen import Evaluation
from broker.service.deciding import decide_one
from broker.service.exchange import Rejected, Response, WebRequest, json_response
from broker.service.hosted import Hosted
from broker.service.server import decision_object
from broker.service.watching import Watch
from broker.session import Session
from broker.ticket import Ticket, describe

MINT: Final = "/v1/mint"
ATTENUATE: Final = "/v1/attenuate"
CHECK: Final = "/v1/check"
DESCRIBE: Final = "/v1/describe"
RESULT: Final = "/v1/result"
END: Final = "/v1/end"
REVOKE: Final = "/v1/revoke"

_ID: Final = re.compile(r"[0-9a-f]{16}")
Handler = Callable[[WebRequest, KeyHolder], Awaitable[Response]]
# What each takes: what it needs, and what it may have.
KEYS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    MINT: (frozenset(("scope", "line")), frozenset()),
    ATTENUATE: (frozenset(("ticket", "scope")), frozenset()),
    CHECK: (
        frozenset(("ticket", "tool", "arguments")),
        frozenset(("call_id", "server", "cwd", "actor")),
    ),
    DESCRIBE: (frozenset(("ticket",)), frozenset()),
    RESULT: (frozenset(("ticket", "call_id", "ok")), frozenset(("output",))),
    END: (frozenset(("sid",)), frozenset()),
    REVOKE: (frozenset(("ticket", "reason")), frozenset()),
}


class Native:
    """Answers these requests; see ``routes``."""

    def __init__(self, hosted: Hosted, watch: Watch) -> None:
        self._hosted = hosted
        self._watch = watch
        self.routes: dict[str, dict[str, Handler]] = {
            MINT: {"POST": self._mint},
            ATTENUATE: {"POST": self._attenuate},
            CHECK: {"POST": self._check},
            DESCRIBE: {"POST": self._describe},
            RESULT: {"POST": self._result},
            END: {"POST": self._end},
            REVOKE: {"POST": self._revoke},
        }

    async def _mint(self, exchange: WebRequest, by: KeyHolder) -> Response:
        _operator(by)
        body = await _read(exchange, MINT)
        scope, line = _texts(body, "scope"), _text(body, "line")
        session = await asyncio.to_thread(partial(self._hosted.mint, scope, line=line, by=by))
        self._watch.say("minted", by=by.name, sid=session.sid, ticket=session.ticket.id)
        warnings = list(session.warnings)
        told = {**_ticket(session, session.ticket), "warnings": warnings}
        return json_response(201, told)

    async def _attenuate(self, exchange: WebRequest, by: KeyHolder) -> Response:
        body = await _read(exchange, ATTENUATE)
        wire, scope = _wire(body), _texts(body, "scope")
        clerk = self._hosted.clerk_of(wire)
        ticket = await clerk.alone(partial(_derived, wire=wire, texts=scope, by=by.name))
        return json_response(200, _ticket(clerk.session, ticket))

    async def _check(self, exchange: WebRequest, by: KeyHolder) -> Response:
        body = await _read(exchange, CHECK)
        arguments = body["arguments"]
        if not isinstance(arguments, dict):
            raise InputError("`arguments` is an object")
        actor = _optional(body, "actor") or by.name
        asked = Evaluation(
            ("actor", actor),
            _text(body, "tool"),
            arguments,
            _wire(body),
            _optional(body, "server"),
            _optional(body, "call_id") or exchange.request_id,
            _optional(body, "cwd"),
        )
        decision = await decide_one(self._hosted, self._watch, asked)
        return json_response(200, decision_object(decision))

    async def _describe(self, exchange: WebRequest, _: KeyHolder) -> Response:
        body = await _read(exchange, DESCRIBE)
        wire = _wire(body)
        clerk = self._hosted.clerk_of(wire)
        ticket, spent = await clerk.alone(partial(_found, wire=wire))
        counts = None if spent is None else list(spent)
        return json_response(200, {**_ticket(clerk.session, ticket), "spent": counts})

    async def _result(self, exchange: WebRequest, _: KeyHolder) -> Response:
        body = await _read(exchange, RESULT)
        ok, call_id = body["ok"], _text(body, "call_id")
        if not isinstance(ok, bool):
            raise InputError("`ok` is true or false")
        wire = _wire(body)
        tell = partial(_ended, wire=wire, call_id=call_id, ok=ok, output=body.get("output"))
        await self._hosted.clerk_of(wire).alone(tell)
        return json_response(200, {})

    async def _revoke(self, inquiry: WebRequest, by: KeyHolder) -> Response:
        _operator(by)
        body = await _read(inquiry, REVOKE)
        named, reason = _text(body, "ticket"), _text(body, "reason")
        if "\n" in named:
            found, _ = await self._hosted.clerk_of(named).alone(partial(_found, wire=named))
            named = found.id
        if _ID.fullmatch(named) is None:
            raise InputError("name the ticket by its id or its wire form", code="ticket.format")
        new = await asyncio.to_thread(self._hosted.revoke, named, reason)
        self._watch.say("revoked", by=by.name, ticket=named, new=new)
        return json_response(200, {"ticket": named, "new": new})

    async def _end(self, exchange: WebRequest, by: KeyHolder) -> Response:
        _operator(by)
        body = await _read(exchange, END)
        clerk = self._hosted.taken(_text(body, "sid"))
        await clerk.alone(_sealed)
        session = clerk.session
        self._watch.say("ended", by=by.name, sid=session.sid)
        told: dict[str, object] = {"sid": session.sid, "head": session.head}
        return json_response(200, {**told, "allowed": session.allowed, "refused": session.refused})


def _derived(session: Session, *, wire: str, texts: Sequence[str], by: str) -> Ticket:
    return session.delegate(texts, parent=wire, asked_by=by)


def _found(session: Session, *, wire: str) -> tuple[Ticket, tuple[int, ...] | None]:
    ticket = session.find(wire)
    return ticket, session.spent(ticket)


def _ended(session: Session, *, wire: str, call_id: str, ok: bool, output: object) -> None:
    session.find(wire)  # who holds a ticket of the session may speak of its calls
    session.result(call_id, ok=ok, output=output)


def _sealed(session: Session) -> None:
    session.seal()


def _operator(by: KeyHolder) -> None:
    if by.role != "operator":
        raise Rejected(403, "forbidden", "this takes an operator's key: a person's, and no agent's")


def _ticket(session: Session, ticket: Ticket) -> dict[str, object]:
    return {
        "sid": session.sid,
        "id": ticket.id,
        "ticket": ticket.wire(),
        "lines": list(describe(ticket)),
    }


async def _read(exchange: WebRequest, path: str) -> dict[str, object]:
    body = await exchange.object()
    needed, possible = KEYS[path]
    missing, strange = needed - body.keys(), body.keys() - needed - possible
    if missing or strange:
        what = "needs" if missing else "does not take"
        named = ", ".join(f"`{key[:80]}`" for key in sorted(missing or strange))
        raise InputError(f"this request {what} {named}", code="input.key")
    return body


def _text(body: Mapping[str, object], name: str) -> str:
    found = _optional(body, name)
    if not found:
        raise InputError(f"`{name}` is a text that is not empty")
    return found


def _optional(body: Mapping[str, object], name: str) -> str | None:
    found = body.get(name)
    if found is not None and not isinstance(found, str):
        raise InputError(f"`{name}` is a text")
    return found


def _texts(body: Mapping[str, object], name: str) -> list[str]:
    found = body[name]
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise InputError(f"`{name}` is a list of `KEY=VALUE` texts")
    return found


def _wire(body: Mapping[str, object]) -> str:
    found = _text(body, "ticket")
    if "\n" not in found:
        raise InputError("give the ticket's wire form, as it was handed out", code="ticket.format")
    return found
