"""
The OpenAPI document of the service, as `/openapi.json` serves it.

Decided here: how requests and answers are described, for people and for programs that make clients
and tests from it. Not decided here: what they mean. A test holds each request against this
document, and a longer one tries what the document allows and what it does not.

Rule a maintainer keeps: the keys of our own requests are those that ``broker.service.native``
takes.
"""

from __future__ import annotations

from typing import Any, Final

from broker.limits import MAX_EVALUATIONS, MAX_INTENT_CHARS, MAX_SCOPE_TEXTS
from broker.service.authzen import EVALUATION, EVALUATIONS, METADATA
from broker.service.native import ATTENUATE, CHECK, DESCRIBE, END, KEYS, MINT, RESULT, REVOKE

DOCUMENT: Final = "/openapi.json"
_TEXT: Final = {"type": "string"}
_NAME: Final = {"type": "string", "minLength": 1}
_ANY: Final = {"type": "object"}
_WIRE: Final = {"type": "string", "minLength": 1, "description": "A ticket's wire form."}
_SCOPE: Final = {"type": "array", "items": _TEXT, "maxItems": MAX_SCOPE_TEXTS}

# What each key of our own requests holds.
_TYPES: Final[dict[str, dict[str, Any]]] = {
    "actor": _TEXT,
    "arguments": _ANY,
    "call_id": _TEXT,
    "cwd": _TEXT,
    "line": {"type": "string", "minLength": 1, "maxLength": MAX_INTENT_CHARS},
    "ok": {"type": "boolean"},
    "output": {},
    "reason": _NAME,
    "scope": _SCOPE,
    "server": _NAME,
    "sid": _NAME,
    "ticket": _WIRE,
    "tool": _NAME,
}


def document(base: str) -> dict[str, object]:
    """
    Return the document of a service at an address.

    >>> document("http://127.0.0.1:8181")["openapi"]
    '3.1.0'
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Capability broker",
            "version": "1",
            "description": "Decides tool calls under tickets, and records each decision: the "
            "AuthZEN Authorization API 1.0, and what it has no words for.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base}],
        "security": [{"key": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def _paths() -> dict[str, object]:
    own = {
        MINT: ("Mint a ticket from the line that a person typed.", "Minted", 201),
        ATTENUATE: ("Derive a narrower ticket.", "Ticket", 200),
        CHECK: ("Decide one call under a ticket.", "Decision", 200),
        DESCRIBE: ("Say what a ticket permits, and what was spent.", "Described", 200),
        RESULT: ("Tell how an allowed call ended.", "Nothing", 200),
        REVOKE: ("Take a ticket back, with all narrowed from it.", "Revoked", 200),
        END: ("Seal a minted session; its tickets permit nothing any more.", "Ended", 200),
    }
    paths: dict[str, object] = {
        EVALUATION: _post("Evaluate one request (AuthZEN).", "Evaluation", "Evaluated"),
        EVALUATIONS: _post("Evaluate several (AuthZEN).", "Evaluations", "EvaluatedAll"),
        METADATA: _get("What clients learn first (AuthZEN).", "Metadata"),
        DOCUMENT: _get("This document.", "Any"),
        "/healthz": _get("Whether the process answers.", "Any", key=False),
        "/readyz": _get("Whether it decides.", "Any", key=False),
    }
    for path, (summary, answer, status) in own.items():
        name = path.rpartition("/")[2].capitalize()
        paths[path] = _post(summary, name, answer, status=status)
    return paths


def _schemas() -> dict[str, object]:
    entity = _object({"type": _NAME, "id": _NAME, "properties": _ANY}, ("type", "id"), more=True)
    parts = {
        "subject": entity,
        "action": _object({"name": _NAME, "properties": _ANY}, ("name",), more=True),
        "resource": entity,
        "context": _ANY,
    }
    semantic = {"enum": ["execute_all", "deny_on_first_deny", "permit_on_first_permit"]}
    several = {
        "options": _object({"evaluations_semantic": semantic}, more=True),
        "evaluations": {"type": "array", "items": _ANY, "maxItems": MAX_EVALUATIONS},
    }
    evaluated = _object({"decision": {"type": "boolean"}, "context": _ANY}, ("decision",))
    ticket = {"sid": _NAME, "id": _NAME, "ticket": _WIRE, "lines": {"type": "array"}}
    schemas: dict[str, object] = {
        "Any": _ANY,
        "Nothing": _object({}),
        "Error": _error(),
        "Evaluation": _object(parts, ("subject", "action", "resource"), more=True),
        "Evaluations": _object({**dict.fromkeys(parts, _ANY), **several}, more=True),
        "Evaluated": evaluated,
        "EvaluatedAll": {
            "oneOf": [
                _object({"evaluations": {"type": "array", "items": evaluated}}, ("evaluations",)),
                evaluated,
            ]
        },
        "Metadata": _object(
            {"policy_decision_point": _TEXT}, ("policy_decision_point",), more=True
        ),
        "Ticket": _object(ticket, tuple(ticket)),
        "Minted": _object({**ticket, "warnings": {"type": "array"}}, tuple(ticket)),
        "Described": _object({**ticket, "spent": {"type": ["array", "null"]}}, tuple(ticket)),
        "Decision": _object({"decision": {"enum": ["allow", "refuse"]}}, ("decision",), more=True),
        "Revoked": _object({"ticket": _NAME, "new": {"type": "boolean"}}, ("ticket", "new")),
        "Ended": _object({"sid": _NAME, "head": _TEXT}, ("sid", "head"), more=True),
    }
    for path, (needed, possible) in KEYS.items():
        found = {name: _TYPES[name] for name in sorted(needed | possible)}
        schemas[path.rpartition("/")[2].capitalize()] = _object(found, tuple(sorted(needed)))
    return schemas


def _error() -> dict[str, object]:
    told = {"code": _NAME, "message": _TEXT, "kind": _TEXT}
    return _object({"error": _object(told, ("code", "message"))}, ("error",))


def _object(
    properties: dict[str, Any], required: tuple[str, ...] = (), *, more: bool = False
) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": more,
    }


def _content(name: str) -> dict[str, object]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _answers(name: str, status: int, faults: tuple[int, ...]) -> dict[str, object]:
    found: dict[str, object] = {str(status): {"description": "Done.", "content": _content(name)}}
    for fault in faults:
        found[str(fault)] = {"description": _FAULTS[fault], "content": _content("Error")}
    return found


_FAULTS: Final = {
    400: "The request is malformed.",
    401: "No key, or one that is not known.",
    403: "The key's role, or the ticket, does not permit it.",
    404: "No such session is held here.",
    405: "The path takes other methods.",
    408: "The request came too slowly.",
    413: "The body is too long.",
    415: "The body is not JSON.",
    503: "Nothing can be decided: the session is over, or the service is full or ending.",
}


def _post(summary: str, body: str, answer: str, *, status: int = 200) -> dict[str, object]:
    return {
        "post": {
            "summary": summary,
            "operationId": body.lower(),
            "requestBody": {"required": True, "content": _content(body)},
            "responses": _answers(answer, status, tuple(_FAULTS)),
        }
    }


def _get(summary: str, answer: str, *, key: bool = True) -> dict[str, object]:
    found: dict[str, object] = {
        "summary": summary,
        "responses": _answers(answer, 200, (401, 405, 503)),
    }
    return {"get": found if key else {**found, "security": []}}
