"""
Reads one catalog file.

A catalog is TOML. Tools stand under ``[tools.NAME]``; ``server`` at the top says that they
belong to the MCP server of that name::

    about = "what the file describes"
    server = "filesystem"

    [tools.read_file]
    effect = "read"
    arguments = { path = "path-read", head = "text" }

An argument is a role, a table ``{ role, default, optional, many }``, or ``{ fields = { … } }`` for
an object whose own arguments have roles; ``many = true`` says that it is a list. Every error
names the file and the line; nothing that is not understood is passed over.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NoReturn, cast

from broker.catalogs.entry import EFFECTS, ROLES, Argument, Effect, ToolEntry
from broker.errors import CatalogError
from broker.limits import MAX_CATALOG_BYTES, MAX_TOOL_CHARS
from broker.resolution.realpaths import shown

_TOP: Final = ("about", "server", "tools")
_TOOL: Final = ("effect", "arguments", "others", "about")
_ARGUMENT: Final = ("role", "default", "optional", "fields", "many")
_OTHERS: Final = ("judge", "text")
_WITH_DEFAULT: Final = ("path-read", "path-write", "path-list", "path-tree", "cwd")
_MAX_KEYS: Final = 16  # keys from the top of the file to an argument
_SERVER: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_KEY: Final = r'(?:[A-Za-z0-9_-]+|"[^"]*"|\'[^\']*\')'
_HEAD: Final = re.compile(rf"\s*\[({_KEY}(?:\s*\.\s*{_KEY})*)\]")
_PAIR: Final = re.compile(rf"\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*=")
_PART: Final = re.compile(_KEY)

Where = tuple[str, ...]


def read_catalog(data: bytes, source: str, *, vouched: bool = True) -> tuple[ToolEntry, ...]:
    """
    Return the entries of one catalog file.

    Args:
        data: the file's bytes.
        source: the file's name, for messages.
        vouched: whether the person or the package stands behind the file.

    Raises:
        CatalogError: it is not understood; the message begins with the file and the line.

    >>> read_catalog(b'tools.look = { effect = "raed" }', "x.toml")
    Traceback (most recent call last):
    broker.errors.CatalogError: x.toml:1: no such effect `raed`: did you mean `read`?
    """
    return _Reader(data, source, vouched).entries()


class _Reader:
    """One file being read; kept together so that every error can name its line."""

    def __init__(self, data: bytes, source: str, vouched: bool) -> None:
        self._source = source
        self._vouched = vouched
        self._text = ""
        self._lines: dict[str, int] = {}
        if len(data) > MAX_CATALOG_BYTES:
            self._fail((), f"the file has more than {MAX_CATALOG_BYTES} bytes")
        try:
            self._text = data.decode()
            self._data = tomllib.loads(self._text)
        except UnicodeDecodeError:
            self._fail((), "the file is not UTF-8 text")
        except ValueError as error:  # the parser's own, or a number that Python will not read
            reason, _, at = str(error).partition(" (at ")
            found = re.match(r"line (\d+)", at)
            line = int(found[1]) if found else self._text.count("\n") + 1
            raise CatalogError(f"{source}:{line}: {shown(reason.lower())}") from None
        except RecursionError:
            self._fail((), "the file is nested too deeply")

    def entries(self) -> tuple[ToolEntry, ...]:
        data = self._data
        self._keys((), data, _TOP)
        self._texts((), data, ("about", "server"))
        server = data.get("server")
        if server is not None and not (_SERVER.fullmatch(server) and "__" not in f"{server}_"):
            self._fail(("server",), f"`{server}` is no name of an MCP server")
        tools = self._table(("tools",), data.get("tools", {}))
        if not tools:
            self._fail((), "the file describes no tool: write `[tools.NAME]`")
        for line, here in _keys_written(self._text):
            if len(here) > 1:
                self._lines.setdefault(here[1], line)
        return tuple(self._tool(server, name, body) for name, body in tools.items())

    def _tool(self, server: str | None, name: str, body: object) -> ToolEntry:
        where = ("tools", name)
        full = name if server is None else f"mcp__{server}__{name}"
        if not name or len(full) > MAX_TOOL_CHARS or not full.isprintable() or " " in full:
            self._fail(where, f"`{name}` is no name of a tool")
        if name.startswith("mcp__"):
            self._fail(where, "give the MCP server as `server` at the top, and the tool's own name")
        table = self._table(where, body)
        self._keys(where, table, _TOOL)
        self._texts(where, table, ("about",))
        if "effect" not in table:
            self._fail(where, f"`{name}` has no effect; one of {', '.join(EFFECTS)}")
        effect = self._word((*where, "effect"), table["effect"], EFFECTS, "effect")
        others = self._word((*where, "others"), table.get("others", "judge"), _OTHERS, "others")
        arguments = self._arguments((*where, "arguments"), table.get("arguments", {}))
        if effect in ("read", "none", "delegate"):
            for key, argument in arguments.items():
                if argument.role in (
                    "path-write",
                    "path-put",
                    "path-delete",
                    "path-nofollow",
                    "patch",
                    "url",
                    "address",
                ):
                    reason = f"effect `{effect}` and role `{argument.role}` do not go together"
                    self._fail((*where, "arguments", key), reason)
        return ToolEntry(
            full,
            server,
            cast(Effect, effect),
            arguments,
            "text" if others == "text" else "judge",
            self._vouched,
            self._source,
            self._lines.get(name, 1),
        )

    def _arguments(self, where: Where, value: object) -> Mapping[str, Argument]:
        if len(where) > _MAX_KEYS:
            self._fail(where, "arguments are nested too deeply")
        table = self._table(where, value)
        arguments = {key: self._argument((*where, key), body) for key, body in table.items()}
        return MappingProxyType(arguments)

    def _argument(self, where: Where, value: object) -> Argument:
        if isinstance(value, str):
            return Argument(self._word(where, value, ROLES, "role"))
        table = self._table(where, value)
        self._keys(where, table, _ARGUMENT)
        optional, many = table.get("optional", False), table.get("many", False)
        if not isinstance(optional, bool):
            self._fail((*where, "optional"), "`optional` is true or false")
        if not isinstance(many, bool):
            self._fail((*where, "many"), "`many` is true or false")
        if "fields" in table:
            if "role" in table or "default" in table:
                self._fail(where, "an argument has a role or fields, not both")
            fields = self._arguments((*where, "fields"), table["fields"])
            return Argument("fields", None, optional, fields, many)
        if "role" not in table:
            self._fail(where, f"`{where[-1]}` has no role")
        role = self._word((*where, "role"), table["role"], ROLES, "role")
        default = table.get("default")
        if default is None:
            return Argument(role, None, optional, None, many)
        if not isinstance(default, str) or not default or role not in _WITH_DEFAULT:
            self._fail((*where, "default"), f"role `{role}` takes no default `{default}`")
        return Argument(role, default, optional, None, many)

    # ── what is wrong, and where ──

    def _table(self, where: Where, value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            self._fail(where, f"`{'.'.join(where)}` is no table")
        return value

    def _keys(self, where: Where, table: Mapping[str, object], known: Iterable[str]) -> None:
        for key in table:
            if key not in known:
                self._fail((*where, key), f"no such key `{key}`{_near(key, known)}")

    def _texts(self, where: Where, table: Mapping[str, object], keys: Iterable[str]) -> None:
        for key in keys:
            if not isinstance(table.get(key, ""), str):
                self._fail((*where, key), f"`{key}` is no text")

    def _word(self, where: Where, value: object, known: Iterable[str], what: str) -> str:
        if not isinstance(value, str) or value not in known:
            self._fail(where, f"no such {what} `{value}`{_near(str(value), known)}")
        return value

    def _fail(self, where: Where, reason: str) -> NoReturn:
        line = _line_of(self._text, where)
        raise CatalogError(f"{self._source}:{line}: {shown(reason, 400)}")


def _near(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only when something is wrong

    near = get_close_matches(word, list(known), n=1)
    return f": did you mean `{near[0]}`?" if near else f"; one of {', '.join(known)}"


def _keys_written(text: str) -> Iterator[tuple[int, Where]]:
    """Yield every table and key of a TOML text with its line, well enough for messages."""
    table: Where = ()
    for number, line in enumerate(text.split("\n"), 1):
        head = _HEAD.match(line)
        pair = None if head else _PAIR.match(line)
        if head:
            table = _parts(head[1])
            yield number, table
        elif pair:
            yield number, (*table, *_parts(pair[1]))


def _line_of(text: str, where: Where) -> int:
    """Return the line on which a key, or the nearest table around it, is written."""
    best, depth = 1, 0
    for number, here in _keys_written(text):
        if depth < len(here) and here == where[: len(here)]:
            best, depth = number, len(here)
    return best


def _parts(dotted: str) -> Where:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))
