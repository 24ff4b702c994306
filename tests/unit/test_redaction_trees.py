"""Secrets in JSON values, and schemas that only speak of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.redaction.hiding import MARK, Hider
from broker.redaction.trees import hide_tree, readable


def paths(value: object) -> list[str]:
    """Return the paths of what is hidden in a value."""
    return hide_tree(value, Hider())[1]


def test_shared_vectors(shared: Path) -> None:
    """Each key and each shape of the vectors is hidden exactly where a correct writer does it."""
    vectors = json.loads((shared / "traces/redaction-vectors.json").read_text())
    for case in vectors["keys"]:
        assert bool(paths({case["key"]: "s"})) == case["should_redact"], case["key"]
    for case in vectors["shapes"]:
        assert paths(case["input"]) == case["should_redact"], case


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        ({"password": "x"}, ["password"]),
        ({"password": 12345}, ["password"]),
        ({"password": None, "token": "", "secret": True}, []),
        ({"passwords": ["x", "y"]}, ["passwords[0]", "passwords[1]"]),
        ({"credentials": {"user": "a", "it": "b"}}, ["credentials.user", "credentials.it"]),
        ([{"key": "API_KEY", "value": "x"}], ["[0].value"]),
        ({"env": [{"name": "HOME", "value": "/x"}]}, []),
        ({"a b": {"password": "x"}}, ['["a b"].password']),
        ({"arguments": '{"password": "x", "n": 1}'}, ["arguments (substring)"]),
        ({"arguments": '{"credentials": {"it": "x"}}'}, ["arguments (substring)"]),
        ({"ghp_0123456789abcdef0123": 1}, ["[hidden] (key)"]),
        ({"logprobs": [{"token": "the", "logprob": -0.5}]}, []),
        ({"usage": {"input_tokens": 5, "max_tokens": 7}}, []),
        ({"credentials": {"ghp_0123456789abcdef0123": True}}, ["[hidden] (key)"]),
        ({"properties": {"ghp_0123456789abcdef0123": {}}}, ["[hidden] (key)"]),
        ({"properties": {"vm": {"adminPassword": "x"}}}, ["properties.vm.adminPassword"]),
        (
            {"properties": {"v": {"name": "API_KEY", "value": "x"}}},
            ["properties.v.value"],
        ),
        (
            {"properties": {"login": {"default": {"password": "x"}}}},
            ["properties.login.default.password"],
        ),
        (
            {"properties": {"password": {"anyOf": [{"default": "x"}, {"type": "null"}]}}},
            ["properties.password.anyOf[0].default"],
        ),
        ({"password": {"value": "x"}}, ["password.value"]),
        ({"password": {"type": "string", "value": "x"}}, ["password.type", "password.value"]),
    ],
)
def test_what_is_hidden(value: object, hidden: list[str]) -> None:
    """A value under such a name goes, at any depth, and the path says where."""
    assert paths(value) == hidden


SCHEMAS = [
    {"input_schema": {"type": "object", "properties": {"password": {"type": "string"}}}},
    {"parameters": {"type": "OBJECT", "properties": {"token": {"type": "STRING"}}}},
    {"properties": {"credentials": {"type": "object", "properties": {"secret": {}}}}},
    {"properties": {"apiKey": {"description": "the key", "enum": ["a"], "minLength": 3}}},
    {"$defs": {"Secret": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
    {"properties": {"password": True, "token": {"$ref": "#/$defs/t"}}, "required": ["password"]},
    {"fields": {"password": {"type": ["string", "null"], "title": "Password"}}},
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_schema_stays(schema: object) -> None:
    """What only names a secret is not touched, so that the stored body can be sent again."""
    fresh, found = hide_tree(schema, Hider())
    assert found == []
    assert fresh is schema


@pytest.mark.parametrize("word", ["default", "const", "example", "examples", "x-vault"])
def test_a_value_in_the_schema_of_a_secret_goes(word: str) -> None:
    """A schema may say a value, and that one is a secret; of another property it is not."""
    schema = {"properties": {n: {"type": "string", word: "hunter2"} for n in ("password", "city")}}
    assert paths(schema) == [f"properties.password.{word}"]


def test_a_secret_by_its_form_goes_from_a_schema_too() -> None:
    """Descriptions are searched like any text."""
    schema = {"properties": {"x": {"description": "such as ghp_0123456789abcdef0123"}}}
    assert paths(schema) == ["properties.x.description (substring)"]


def test_a_path_has_a_limit() -> None:
    """A long key, or many, cost each secret below them no more than that."""
    value: object = ["PASSWORD=x"]
    for _ in range(100):
        value = {"K" * 10_000: value}
    (path,) = paths(value)
    assert len(path) < 1_200


def test_what_is_kept_keeps_its_form() -> None:
    """Keys, their order and every other value stay as they were."""
    value = {"b": [1, {"token": "x", "a": None}], "a": 1.5}
    fresh, _ = hide_tree(value, Hider())
    assert json.dumps(fresh) == '{"b": [1, {"token": "[hidden]", "a": null}], "a": 1.5}'
    assert value["b"] == [1, {"token": "x", "a": None}]


@pytest.mark.parametrize("text", ['{"a":1,"a":2}', "[NaN]", "[1e999]", "{", "[" * 100_000])
def test_what_readers_read_differently_is_not_read(text: str) -> None:
    """A key twice, a number that is none, and nesting without end are not taken for JSON."""
    with pytest.raises((ValueError, RecursionError)):
        readable(text)


def test_placeholders_are_not_hidden_again() -> None:
    """A value that is hidden already is left, under a salt too."""
    for hider in (Hider(), Hider(b"s" * 32)):
        once, found = hide_tree({"password": "x", "t": "TOKEN=y"}, hider)
        assert len(found) == 2
        assert hide_tree(once, Hider(b"t" * 32)) == (once, [])
    assert MARK
