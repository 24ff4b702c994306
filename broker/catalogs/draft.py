"""
A catalog of an MCP server's tools, drafted for a person to review.

Decided here: which role a name, a type or a format of JSON Schema suggests, and that every guess is
marked as one. Not decided here: how a server is asked (``broker.mcp.listing``), what a role means
(``broker.resolve``).

What a server says of itself never loosens anything: it may say that a tool only reads, and that is
kept as a comment beside ``effect = "write"``. What is not recognised gets the role that is checked
most: a path counts as written, a text as an identifier, a shape that is not understood as opaque.

Rules a maintainer keeps: the same tools give the same bytes; a draft always loads with the reader;
whatever a server wrote stands in quotes, escaped, or in a comment, on one line and cut short.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from broker.catalogs.reader import read_catalog
from broker.errors import CatalogError
from broker.limits import MAX_TOOL_CHARS

MAX_TOOLS: Final = 1_000
_MAX_ARGUMENTS: Final = 64  # of one tool; a tool with more is opaque
_MAX_DEPTH: Final = 4  # of objects in arguments; what is deeper is opaque
_MOST: Final = 100  # characters of a description
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_WORDS: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")

# The first line that has one of a name's words decides.
_BY_WORD: Final = (
    ("opaque", "command cmd script code shell exec program sql expression eval"),
    ("url", "url urls uri uris href link links endpoint webhook website domain host hostname"),
    ("path-write", "path paths file files filename filepath dir directory folder cwd"),
    ("recipient", "to cc bcc recipient recipients email emails mail phone iban account channel"),
    ("recipient", "user users username assignee assignees member members participants attendees"),
    ("permission", "permission permissions role roles scope scopes visibility access acl force"),
    ("permission", "public private share shared admin mode privileged sudo"),
    ("date", "date day since until deadline due start end time timestamp"),
    ("amount", "amount price total sum cost quantity balance"),
    ("search-regex", "query queries search pattern regex keyword keywords filter"),
    ("text", "body content contents message text title description comment subject note summary"),
    ("text", "prompt caption"),
)
_WORD_ROLE: Final = {
    word: role for role, words in reversed(_BY_WORD) for word in reversed(words.split())
}
_BY_FORMAT: Final = {
    **dict.fromkeys(("uri", "url", "iri", "uri-reference", "hostname"), "url"),
    **dict.fromkeys(("date", "date-time", "time"), "date"),
    **dict.fromkeys(("email", "idn-email"), "recipient"),
    "uuid": "identifier",
}
_PLACED: Final = frozenset(("url", "path-write"))  # roles that must say when they may be left out


def draft(server: str, tools: list[object]) -> str:
    """
    Return the text of a catalog for a server's tools.

    Args:
        server: the server's name, as scopes spell it.
        tools: what the server lists, of any form.

    Raises:
        CatalogError: there is no tool that a catalog could describe, or there are too many.

    >>> look = {"name": "look", "inputSchema": {"properties": {"path": {"type": "string"}}}}
    >>> print(draft("notes", [look]).splitlines()[-1])
    path = { role = "path-write", optional = true }  # guessed by its name
    """
    if len(tools) > MAX_TOOLS:
        raise CatalogError(f"the server lists more than {MAX_TOOLS} tools")
    lines = [
        f"about = {_quoted(f'Tools of the MCP server {server}: a draft, to be reviewed.')}",
        f"server = {_quoted(server)}",
        "",
        "# Every role here is a guess, and errs on the side that is refused. Read each tool's own",
        "# documentation, and then say what it does: `read` where it changes nothing, `path-read`",
        "# where a path is only read. What the server says of itself stands in comments and binds",
        "# nobody. See broker catalog check.",
    ]
    named: dict[str, Mapping[str, object]] = {}
    for number, tool in enumerate(tools, 1):
        name = tool.get("name") if isinstance(tool, dict) else None
        why = _unfit(server, name) or ("is listed twice" if name in named else "")
        if why or not isinstance(tool, dict):
            lines.append(f"# left out: tool {number}, {_comment(repr(name))}: {why}")
        else:
            named[str(name)] = tool
    if not named:
        raise CatalogError("the server lists no tool that a catalog could describe")
    for name in sorted(named):
        lines += ["", *_tool(name, named[name])]
    text = "\n".join(lines) + "\n"
    read_catalog(text.encode(), "draft")
    return text


def _unfit(server: str, name: object) -> str:
    if not isinstance(name, str) or not name:
        return "has no name"
    full = f"mcp__{server}__{name}"
    if len(full) > MAX_TOOL_CHARS or not full.isprintable() or " " in full:
        return "its name is too long, or holds what a name may not"
    return "its name begins as those of servers do" if name.startswith("mcp__") else ""


def _tool(name: str, tool: Mapping[str, object]) -> Iterator[str]:
    schema = _resolved(tool.get("inputSchema"), tool.get("inputSchema"))
    given = schema.get("properties")
    properties = given if isinstance(given, dict) else {}
    required = schema.get("required")
    needed = {n for n in required if isinstance(n, str)} if isinstance(required, list) else set()
    whole = schema
    arguments = [
        _argument(key, properties[key], key not in needed, whole)
        for key in sorted(properties)
        if isinstance(key, str) and key
    ]
    effect, why = _effect(arguments, given)
    head = f"[tools.{_key(name)}]"
    said = tool.get("description")
    if isinstance(said, str) and said.strip():
        yield f"# The server says: {_comment(said)}"
    yield from _claims(tool.get("annotations"))
    yield head
    yield f'effect = "{effect}"  # {why}'
    if arguments and effect != "opaque":
        yield f"[tools.{_key(name)}.arguments]"
        yield from (f"{_key(key)} = {value}  # {guess}" for key, value, guess, _ in arguments)


def _claims(annotations: object) -> Iterator[str]:
    """Yield what a server claims of a tool, as comments that say what it is worth."""
    if not isinstance(annotations, dict):
        return
    for hint in ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"):
        if isinstance(annotations.get(hint), bool):
            yield f"# It claims {hint} = {str(annotations[hint]).lower()}, which is not proof."


Drafted = tuple[str, str, str, frozenset[str]]  # name, value, why, every role in it


def _effect(arguments: list[Drafted], given: object) -> tuple[str, str]:
    roles = frozenset[str]().union(*[found for *_, found in arguments])
    if not isinstance(given, dict):
        return "opaque", "its arguments are not described"
    if len(given) > _MAX_ARGUMENTS:
        return "opaque", "it has too many arguments to tell what it touches"
    if "opaque" in roles:
        return "opaque", "an argument may be a program, or is not described"
    if "url" in roles:
        return "egress", "guessed: an argument is an address"
    return "write", "what is not known to only read is taken to change something"


def _argument(name: str, given: object, optional: bool, whole: object, depth: int = 0) -> Drafted:
    schema = _resolved(given, whole)
    many = schema.get("type") == "array"
    inner = _resolved(schema.get("items"), whole) if many else schema
    fields = inner.get("properties")
    parts: list[str] = []
    if isinstance(fields, dict) and fields and depth < _MAX_DEPTH:
        found = [
            _argument(key, fields[key], True, whole, depth + 1)
            for key in sorted(fields)
            if isinstance(key, str) and key
        ]
        inside = ", ".join(f"{_key(key)} = {value}" for key, value, _, _ in found)
        roles = frozenset[str]().union(*[each for *_, each in found])
        parts.append(f"fields = {{ {inside} }}")
        why = "guessed, field by field"
    else:
        role, why = _role(name, inner)
        roles = frozenset((role,))
        parts.append(f"role = {_quoted(role)}")
        if optional and role in _PLACED:
            parts.append("optional = true")
    if many:
        parts.append("many = true")
    said = schema.get("description")
    if isinstance(said, str) and said.strip():
        why += f"; the server says: {_comment(said)}"
    return name, f"{{ {', '.join(parts)} }}", why, roles


def _role(name: str, schema: Mapping[str, object]) -> tuple[str, str]:
    kind, form = schema.get("type"), schema.get("format")
    if kind in ("object", "array") or (kind is None and "enum" not in schema and form is None):
        return "opaque", "its shape is not described"
    if isinstance(form, str) and form in _BY_FORMAT:
        return _BY_FORMAT[form], f"guessed by its format {form}"
    words = [word.lower() for word in _WORDS.findall(name)]
    role = next((_WORD_ROLE[word] for word in reversed(words) if word in _WORD_ROLE), "")
    if kind == "boolean":
        return "permission", "guessed: a switch"
    if kind in ("integer", "number") and role not in ("date", "recipient"):
        named = {"id", "number", "index"} & set(words)
        return ("identifier", "guessed by its name") if named else ("amount", "guessed: a number")
    if role:
        return role, "guessed by its name"
    return "identifier", "not recognised, so taken for what is acted on"


def _resolved(given: object, whole: object) -> Mapping[str, object]:
    """Return a schema behind its references and choices; empty where it is not understood."""
    for _ in range(8):
        if not isinstance(given, dict):
            return {}
        ref = given.get("$ref")
        choices = given.get("anyOf") or given.get("oneOf")
        if isinstance(ref, str) and ref.startswith("#/"):
            given = _pointed(whole, ref)
        elif isinstance(choices, list):
            real = [c for c in choices if isinstance(c, dict) and c.get("type") != "null"]
            if len(real) != 1:
                return {}
            given = real[0]
        else:
            kind = given.get("type")
            if isinstance(kind, list):
                kinds = [each for each in kind if each != "null"]
                return {**given, "type": kinds[0] if len(kinds) == 1 else None}
            return given
    return {}


def _pointed(whole: object, ref: str) -> object:
    found = whole
    for step in ref[2:].split("/"):
        found = found.get(step) if isinstance(found, dict) else None
    return found


# ── what a server wrote, made harmless ──


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    return '"' + "".join(map(_spelled, text)) + '"'


def _spelled(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    if char.isprintable():
        return char
    code = ord(char)
    if 0xD800 <= code <= 0xDFFF:
        return "\\uFFFD"  # half a character is none, and TOML has no way to write it
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def _comment(text: str) -> str:
    """Return a text on one line, for a comment."""
    short = " ".join(text[: 4 * _MOST].split(" "))
    shown = "".join(c if c.isprintable() else _spelled(c) for c in short.strip())
    return shown if len(shown) <= _MOST else f"{shown[:_MOST]}…"
