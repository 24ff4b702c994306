"""Schemas: what does not fit is said, and nothing outside is looked at."""

from __future__ import annotations

import builtins
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import InputError
from broker.harness.schemas import Schema

READ = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "marks": {"type": "array", "default": []},
    },
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "required"),
        ({"path": 1}, "`path`"),
        ({"path": "a", "limit": "x"}, "`limit`"),
        ({"path": "a", "more": 1}, "more"),
        ([], "object"),
        ({"path": "a", "limit": 10**400}, ""),
        ({"path": object()}, "validated"),
    ],
)
def test_what_does_not_fit_is_said(arguments: object, said: str) -> None:
    """The fault names the argument; what cannot be validated does not fit."""
    fault = Schema(READ, "read").fault(arguments)
    if said or fault is not None:
        assert said in (fault or "")
        assert fault


def test_what_fits_is_filled() -> None:
    """Defaults stand where nothing was given, each call with a copy of its own."""
    schema = Schema(READ, "read")
    one: dict[str, object] = {"path": "a", "limit": 3}
    two: dict[str, object] = {"path": "a"}
    assert schema.fault(one) is None
    schema.fill(one)
    schema.fill(two)
    assert (one, two["limit"]) == ({"path": "a", "limit": 3, "marks": []}, 10)
    assert one["marks"] is not two["marks"]


def test_a_fault_is_short() -> None:
    """A model that sends much does not get it all back."""
    fault = Schema(READ, "read").fault({"path": ["x" * 10_000]})
    assert fault is not None
    assert len(fault) < 400


@pytest.mark.parametrize(
    "schema",
    [{"type": "objekt"}, {"$ref": "#/nowhere"}, {"pattern": "("}, {"type": 1}, {"properties": []}],
)
def test_what_is_no_schema_is_an_error(schema: dict[str, object]) -> None:
    """A schema that means nothing is not registered."""
    with pytest.raises(InputError, match=r"schema of `odd` cannot be used"):
        Schema(schema, "odd")


def test_a_schema_points_nowhere_outside() -> None:
    """Neither the network nor a file is asked for the rest of a schema."""
    asked: list[str] = []

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)

    server = HTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    for place in (f"http://127.0.0.1:{server.server_port}/s.json", "file:///etc/hostname"):
        with pytest.raises(InputError):
            Schema({"$ref": place}, "odd")
    server.shutdown()
    server.server_close()
    assert asked == []


def test_without_the_extra_the_answer_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library is not installed, the person reads what to install."""
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "jsonschema_rs":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"capability-broker\[harness\]"):
        Schema(READ, "read")


@given(st.recursive(st.none() | st.text(max_size=3) | st.floats(), st.lists))
def test_any_value_gets_an_answer(value: object) -> None:
    """No value makes validation break."""
    assert Schema(READ, "read").fault(value)
