"""The OpenAPI document: that it is one, and that it speaks of what is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from broker.service.native import KEYS
from broker.service.openapi import document
from tests.servekit import CALL, OPERATOR, Inside, inside
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


@pytest.fixture
def pdp(bench: Bench) -> Iterator[Inside]:
    """A service in this process."""
    made = inside(bench)
    yield made
    made.hosted.seal()
    made.loop.close()


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for inner in node.values():
            yield from _references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _references(inner)


def test_every_reference_leads_somewhere() -> None:
    """Each schema that is named is there, and each that is there is named."""
    made = json.loads(json.dumps(document("http://x")))
    names = {f"#/components/schemas/{name}" for name in made["components"]["schemas"]}
    assert set(_references(made)) == names


def test_it_speaks_of_what_is_there(pdp: Inside) -> None:
    """Each path of it is answered, with the method that it names, and no other path is."""
    made: Any = pdp.ask("/openapi.json").json()
    assert set(made["paths"]) | {"/metrics"} == set(pdp.app._routes)
    for path, methods in made["paths"].items():
        for method in methods:
            heard = pdp.ask(path, {} if method == "post" else None, key=OPERATOR)
            assert heard.status in {200, 400}


def test_answers_fit_it(pdp: Inside) -> None:
    """What is answered is what the document says, for each kind of request, and for errors."""
    made: Any = pdp.ask("/openapi.json").json()
    minted = pdp.ask("/v1/mint", {"line": "x", "scope": ["calls=9"]}, key=OPERATOR).json()
    ticket = minted["ticket"]
    bodies: dict[str, Any] = {
        "/access/v1/evaluation": CALL,
        "/access/v1/evaluations": {**CALL, "evaluations": [{}, {"action": 3}]},
        "/v1/mint": {"line": "x", "scope": ["calls=1"]},
        "/v1/attenuate": {"ticket": ticket, "scope": ["calls=1"]},
        "/v1/check": {"ticket": ticket, "tool": "Read", "arguments": {}},
        "/v1/describe": {"ticket": ticket},
        "/v1/result": {"ticket": ticket, "call_id": "c", "ok": True},
        "/v1/revoke": {"ticket": minted["id"], "reason": "over"},
        "/v1/end": {"sid": minted["sid"]},
    }
    for path, body in bodies.items():
        told = made["paths"][path]["post"]
        taken = told["requestBody"]["content"]["application/json"]["schema"]
        _check(made, taken, body)
        for sent in (body, [], {}):
            heard = pdp.ask(path, sent, key=OPERATOR)
            answered = told["responses"][str(heard.status)]["content"]["application/json"]
            _check(made, answered["schema"], heard.json())
    assert set(bodies) == {path for path, item in made["paths"].items() if "post" in item}
    assert set(KEYS) <= set(bodies)


def _check(made: dict[str, Any], schema: dict[str, Any], value: object) -> None:
    whole = {**schema, "components": made["components"]}
    jsonschema_rs.validate(whole, value)
