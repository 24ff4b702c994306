"""A drafted catalog guesses on the side that is refused, and no server can make it do otherwise."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.catalogs.draft import MAX_TOOLS, draft
from broker.catalogs.entry import ToolEntry
from broker.catalogs.reader import read_catalog
from broker.errors import CatalogError


def tool(name: str = "t", required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """Return a tool as a server lists it."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "inputSchema": schema}


def drafted(*tools: object) -> dict[str, ToolEntry]:
    """Return the entries of a draft, by the tools' own names."""
    entries = read_catalog(draft("srv", list(tools)).encode(), "draft")
    return {entry.name.removeprefix("mcp__srv__"): entry for entry in entries}


def role(name: str, **schema: Any) -> str:
    """Return the role that is guessed for one argument."""
    found = drafted(tool(**{name: schema}))["t"]
    return found.arguments[name].role if name in found.arguments else found.effect


@pytest.mark.parametrize(
    ("name", "schema", "due"),
    [
        ("filePath", {"type": "string"}, "path-write"),
        ("target_dir", {"type": "string"}, "path-write"),
        ("url", {"type": "string"}, "url"),
        ("where", {"type": "string", "format": "uri"}, "url"),
        ("to", {"type": "string"}, "recipient"),
        ("address", {"type": "string", "format": "email"}, "recipient"),
        ("dueDate", {"type": "string"}, "date"),
        ("price", {"type": "number"}, "amount"),
        ("count", {"type": "integer"}, "amount"),
        ("issue_number", {"type": "integer"}, "identifier"),
        ("userId", {"type": "string"}, "recipient"),
        ("force", {"type": "boolean"}, "permission"),
        ("body", {"type": ["string", "null"]}, "text"),
        ("q3", {"anyOf": [{"type": "string"}, {"type": "null"}]}, "identifier"),
        ("whatever", {"type": "string"}, "identifier"),
        ("whatever", {"enum": ["a", "b"]}, "identifier"),
        ("command", {"type": "string"}, "opaque"),
        ("body", {}, "opaque"),
        ("body", {"type": "object"}, "opaque"),
        ("body", {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "opaque"),
        ("body", {"$ref": "#/nowhere"}, "opaque"),
        ("body", True, "opaque"),
    ],
)
def test_what_a_name_a_type_and_a_format_suggest(name: str, schema: Any, due: str) -> None:
    """What is not understood makes the whole tool opaque."""
    found = drafted(tool(**{name: schema}))["t"]
    assert (found.arguments[name].role if name in found.arguments else found.effect) == due


def test_no_claim_of_a_server_loosens_anything() -> None:
    """The effect is the same with every hint that a server may give, for it or against it."""
    for hints in ({}, {"readOnlyHint": True}, {"readOnlyHint": True, "openWorldHint": False}):
        one = {**tool(path={"type": "string"}), "annotations": hints, "description": "only reads"}
        assert drafted(one)["t"].effect == "write"
    assert drafted(tool())["t"].effect == "write"
    assert drafted({"name": "t"})["t"].effect == "opaque"
    assert drafted(tool(link={"type": "string", "format": "uri"}))["t"].effect == "egress"


def test_lists_objects_and_references() -> None:
    """What is inside is described field by field, and a path that may be absent is said to."""
    one = tool(
        required=("paths",),
        paths={"type": "array", "items": {"type": "string"}},
        file={"type": "string"},
        files={"type": "array", "items": {"$ref": "#/$defs/File"}},
    )
    file = {"type": "object", "properties": {"id": {"type": "string"}}}
    one["inputSchema"]["$defs"] = {"File": file}
    found = drafted(one)["t"].arguments
    assert (found["paths"].many, found["paths"].required) == (True, True)
    assert (found["file"].many, found["file"].required) == (False, False)
    assert found["files"].fields is not None
    assert found["files"].fields["id"].role == "identifier"
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(9):
        deep = {"type": "object", "properties": {"a": deep}}
    assert drafted(tool(a=deep))["t"].effect == "opaque"


def test_what_cannot_be_described_is_left_out_and_said() -> None:
    """Blanks in a name, another server's prefix, a second tool of one name, what is no tool."""
    odd = ["x y", "mcp__a__b", "n" * 300, "", None, 7]
    text = draft("srv", [tool(), tool(), "junk", *({"name": name} for name in odd)])
    assert text.count("# left out: ") == 8
    assert list(drafted(tool(), *({"name": name} for name in odd))) == ["t"]
    for nothing in ([], ["junk"], [tool(str(n)) for n in range(MAX_TOOLS + 1)]):
        with pytest.raises(CatalogError):
            draft("srv", nothing)


def test_the_same_tools_give_the_same_text() -> None:
    """In whatever order they are listed."""
    tools = [tool("b", x={"type": "string"}), tool("a", y={"type": "string"}, x={"type": "string"})]
    assert draft("srv", tools) == draft("srv", tools[::-1])


texts = st.text(max_size=30) | st.sampled_from(
    ['"\n[tools.evil]\neffect = "none"\n#', "a\x00\x7f\u2028\u202e", "\ud800", "'''", '"""', "a.b]"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | texts | st.sampled_from(["string", "object"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            texts | st.sampled_from(["type", "properties", "items", "$ref", "anyOf", "path"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
hostile = st.fixed_dictionaries(
    {"name": texts | st.just("t")},
    optional={"description": values, "annotations": values, "inputSchema": values},
)


@given(st.lists(hostile | values, max_size=4), texts)
def test_whatever_a_server_writes_the_draft_says_only_what_is_ours(
    tools: list[Any], name: str
) -> None:
    """It loads, names no tool that was not listed, and never says that one only reads."""
    known = [tool(path={"type": "string", "description": name}), *tools]
    text = draft("srv", known)
    listed = {each["name"] for each in known if isinstance(each, dict) and "name" in each}
    entries = read_catalog(text.encode(), "draft")
    for entry in entries:
        assert entry.name.removeprefix("mcp__srv__") in listed
        assert entry.effect in ("write", "egress", "opaque")
    assert all(line.isprintable() for line in text.splitlines())
    assert tomllib.loads(text)["server"] == "srv"
