"""A catalog file is understood whole, or refused with the file, the line and the near word."""

from __future__ import annotations

import pytest

from broker.catalogs.entry import Argument
from broker.catalogs.reader import read_catalog
from broker.errors import CatalogError
from broker.limits import MAX_CATALOG_BYTES

GOOD = b"""
about = "an example"
server = "files"

[tools.take]
effect = "egress"
others = "text"
about = "takes a thing"
[tools.take.arguments]
path = { role = "path-read", optional = true }
where = { role = "path-list", default = "." }
request.fields = { url = "url", body = "text" }
"""


def test_a_catalog_is_read() -> None:
    """Every key of the language has its place in the entry."""
    [entry] = read_catalog(GOOD, "x.toml")
    assert (entry.name, entry.server, entry.effect) == ("mcp__files__take", "files", "egress")
    assert (entry.others, entry.vouched, entry.source, entry.line) == ("text", True, "x.toml", 5)
    assert entry.arguments["path"] == Argument("path-read", None, True)
    assert entry.arguments["where"] == Argument("path-list", ".", False)
    fields = entry.arguments["request"].fields
    assert fields == {"url": Argument("url"), "body": Argument("text")}


def test_who_vouches_is_kept() -> None:
    """Entries of a file that nobody vouches for say so."""
    [entry] = read_catalog(b'tools.a = { effect = "none" }', "x", vouched=False)
    assert not entry.vouched


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tools.a.effect = 'raed'", "x.toml:1: no such effect `raed`: did you mean `read`?"),
        ("\n[tools.a]\neffect = 1", "x.toml:3: no such effect `1`; one of read, "),
        (
            '[tools.a]\neffect = "read"\n[tools.a.arguments]\nb = "text"\npath = "path-raed"',
            "x.toml:5: no such role `path-raed`: did you mean `path-read`?",
        ),
        (
            '[tools.a]\neffect = "read"\narguments = { path = "pth-read" }',
            "x.toml:3: no such role `pth-read`: did you mean `path-read`?",
        ),
        ("[tools.a]\nefect = 'read'", "x.toml:2: no such key `efect`: did you mean `effect`?"),
        ("abuot = 'x'", "x.toml:1: no such key `abuot`: did you mean `about`?"),
        ("tool.a.effect = 'read'", "x.toml:1: no such key `tool`: did you mean `tools`?"),
        ("about = 1\ntools.a.effect = 'none'", "x.toml:1: `about` is no text"),
        ("\nserver = 5", "x.toml:2: `server` is no text"),
        ("server = 'a__b'\ntools.a.effect = 'none'", "x.toml:1: `a__b` is no name of an MCP"),
        ("server = 'a_'\ntools.a.effect = 'none'", "x.toml:1: `a_` is no name of an MCP"),
        ("server = ''\ntools.a.effect = 'none'", "x.toml:1: `` is no name of an MCP"),
        ("about = 'x'", "x.toml:1: the file describes no tool"),
        ("", "x.toml:1: the file describes no tool"),
        ("tools = 5", "x.toml:1: `tools` is no table"),
        ("\ntools.a = 5", "x.toml:2: `tools.a` is no table"),
        ("[tools.a]", "x.toml:1: `a` has no effect; one of read, "),
        ('[tools."a b"]\neffect = "none"', "x.toml:1: `a b` is no name of a tool"),
        ('[tools.""]\neffect = "none"', "x.toml:1: `` is no name of a tool"),
        ("[tools.mcp__a__b]\neffect = 'none'", "x.toml:1: give the MCP server as `server`"),
        ("[tools.a]\neffect = 'none'\nothers = 'txt'", "x.toml:3: no such others `txt`: did you"),
        ("[tools.a]\neffect = 'none'\narguments = 1", "x.toml:3: `tools.a.arguments` is no table"),
        (
            "[tools.a]\neffect = 'none'\n[tools.a.arguments]\nb = { rol = 'text' }",
            "x.toml:4: no such key `rol`: did you mean `role`?",
        ),
        (
            "[tools.a]\neffect = 'none'\n[tools.a.arguments.b]\noptional = true",
            "x.toml:3: `b` has no role",
        ),
        (
            "[tools.a]\neffect = 'none'\n[tools.a.arguments.b]\nrole = 'text'\noptional = 1",
            "x.toml:5: `optional` is true or false",
        ),
        (
            "[tools.a]\neffect = 'none'\n[tools.a.arguments.b]\nrole = 'text'\nfields = {}",
            "x.toml:3: an argument has a role or fields, not both",
        ),
        (
            "[tools.a]\neffect = 'read'\n[tools.a.arguments.b]\nrole = 'text'\ndefault = '.'",
            "x.toml:5: role `text` takes no default `.`",
        ),
        (
            "[tools.a]\neffect = 'read'\n[tools.a.arguments.b]\nrole = 'path-read'\ndefault = 3",
            "x.toml:5: role `path-read` takes no default `3`",
        ),
        (
            "[tools.a]\neffect = 'read'\n[tools.a.arguments]\nb = 'path-write'",
            "x.toml:4: effect `read` and role `path-write` do not go together",
        ),
        ("a = 1\nb = ", "x.toml:2: invalid value"),
        ("a = 1\na = 2", "x.toml:2: cannot overwrite a value"),
        ("a = " + "1" * 9_000, "x.toml:1: "),
        ("'a\\nb' = 1", "x.toml:1: no such key"),
        ("[tools.a" + ".b" * 20 + "]\nx = 1", "x.toml:1: "),
    ],
)
def test_what_is_not_understood(text: str, message: str) -> None:
    """The message names the file, the line, what is wrong and what is near it."""
    with pytest.raises(CatalogError) as caught:
        read_catalog(text.encode(), "x.toml")
    assert caught.value.message.startswith(message)
    assert "\n" not in caught.value.message


def test_fields_have_an_end() -> None:
    """Arguments nested without end are an error and no exhausted stack."""
    deep = ".a.fields" * 5_000
    text = f"[tools.t]\neffect = 'read'\n[tools.t.arguments{deep}]\nx = 'text'\n"
    with pytest.raises(CatalogError, match="nested too deeply"):
        read_catalog(text.encode(), "x.toml")
    inline = "[tools.t]\neffect = 'read'\narguments = " + "{ a = " * 5_000
    with pytest.raises(CatalogError, match=r"x\.toml:\d+: "):
        read_catalog(inline.encode(), "x.toml")


def test_the_size_is_bounded() -> None:
    """A file at the limit is read, and one byte more is not."""
    text = b"tools.a.effect = 'none'\n"
    padded = text + b"#" * (MAX_CATALOG_BYTES - len(text))
    assert len(read_catalog(padded, "x.toml")) == 1
    with pytest.raises(CatalogError, match=r"x\.toml:1: the file has more than"):
        read_catalog(padded + b"#", "x.toml")


def test_bytes_that_are_no_text() -> None:
    """A file that is not UTF-8 is an error."""
    with pytest.raises(CatalogError, match=r"x\.toml:1: the file is not UTF-8"):
        read_catalog(b"about = '\xff'", "x.toml")
