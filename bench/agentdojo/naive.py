"""
The same limits, decided naively: without scope text, tickets, or a line of the broker.

It is what a reader of docs/scopes.md would write in an hour, and it is here so that the figures do
not stand on one program: `run.py --check` and the tests hold that both say the same of every call.
"""

from __future__ import annotations

import math
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.agentdojo.limits import Limit, Limits, ToolLimits
from bench.agentdojo.tasks import Asked

LOOSE = ("text", "amount", "date", "permission")


def roles(path: Path) -> dict[str, dict]:
    """Return a catalog's tools, as the file has them."""
    return tomllib.loads(path.read_text(encoding="utf-8"))["tools"]


def allowed(limits: Limits, call: Asked, line: str, spent: int, tools: Mapping[str, dict]) -> bool:
    """Whether a call is within the limits."""
    if limits.calls is not None and spent >= limits.calls:
        return False
    entry = tools.get(call.tool, {})
    if not readable(call, entry):
        return False
    if call.tool in limits.names:
        return True
    if limits.reads and entry.get("effect") in ("read", "none"):
        return True
    if limits.everything and fits(ToolLimits(call.tool, {}, True), call, line, entry):
        return True
    return any(
        fits(limited, call, line, entry) for limited in limits.tools if limited.tool == call.tool
    )


def fits(limited: ToolLimits, call: Asked, line: str, entry: Mapping[str, dict]) -> bool:
    """Whether a call's arguments are what one tool's limits say."""
    known = entry.get("arguments", {})
    for name in {*call.arguments, *(way.split(".")[0] for way in limited.arguments)}:
        value = call.arguments.get(name)
        mine = {w: x for w, x in limited.arguments.items() if w.split(".")[0] == name}
        role = known.get(name)
        if nothing(value):
            if any(not limit.optional for limit in mine.values()):
                return False
        elif mine:
            if not value_fits(name, value, mine, as_table(role), line):
                return False
        elif not open_anyway(role, value, line, limited.rest):
            return False
    return True


def readable(call: Asked, entry: Mapping[str, dict]) -> bool:
    """Whether what a catalog says to be an object, or a list of objects, is one."""
    for name, role in entry.get("arguments", {}).items():
        value = call.arguments.get(name)
        if "fields" in as_table(role) and not nothing(value):
            items = value if isinstance(value, list) else [value]
            if not all(isinstance(item, dict) for item in items):
                return False
    return True


def as_table(role: object) -> dict[str, Any]:
    """Return what a catalog says of an argument, which may be one word."""
    return role if isinstance(role, dict) else {"role": role}


def address_forms(address: str) -> Iterator[str]:
    """Yield the ways to write an address that a limit names: with a scheme, and a last slash."""
    schemes = ("",) if "://" in address else ("", "https://", "http://")
    for full in (scheme + address for scheme in schemes):
        yield full
        if not re.search(r"[/?#]", full.partition("://")[2] or full):
            yield full + "/"


def nothing(value: object) -> bool:
    """Whether an argument is left out."""
    return value is None or value in ("", [], {})


def open_anyway(role: object, value: object, line: str, rest: bool) -> bool:
    """Whether an argument that no limit names may be given."""
    if isinstance(role, dict) and "fields" in role and rest:
        items = value if isinstance(value, list) else [value]
        return all(
            isinstance(item, dict)
            and all(nothing(v) or open_anyway(role["fields"].get(k), v, line, rest)
                    for k, v in item.items())
            for item in items
        )  # fmt: skip
    word = role.get("role") if isinstance(role, dict) else role
    if word == "text" or (rest and word in LOOSE):
        return True
    return rest and all(stands(line, said) for said in scalars(value))


def value_fits(
    name: str, value: object, mine: Mapping[str, Limit], role: Mapping[str, Any], line: str
) -> bool:
    """Whether one argument is what the limits on it, or on what is in it, say."""
    here = mine.get(name)
    if here is not None and here.kind in ("any", "absent"):
        return here.kind == "any"
    if role.get("many", False):
        one = {**role, "many": False}
        return isinstance(value, list) and all(
            not nothing(item) and value_fits(name, item, mine, one, line) for item in value
        )
    if here is not None:
        if isinstance(value, list | dict):
            return False
        if role.get("role") == "address" and here.kind == "among":
            return value in {form for v in here.values for form in address_forms(str(v))}
        return meets(here, value, line)
    if not isinstance(value, dict):
        return False
    for key in {*value, *(way.split(".")[1] for way in mine)}:
        limit, said = mine.get(f"{name}.{key}"), value.get(key)
        if nothing(said):
            if limit is not None and limit.kind not in ("any", "absent"):
                return False
        elif limit is None:
            if role.get("fields", {}).get(key) != "text":
                return False
        elif not (limit.kind == "any" or meets(limit, said, line)):
            return False
    return True


def meets(limit: Limit, value: object, line: str) -> bool:
    """Whether one value is what its limit says."""
    number = type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]  # then
    if limit.kind == "among":
        said = value.strip(" ") if isinstance(value, str) else value
        return any(
            said == v and (type(said) is type(v) or (number and type(v) in (int, float)))
            for v in limit.values
        )
    if limit.kind == "most":
        return number and 0 <= value <= limit.values[0]  # type: ignore[operator]  # numbers
    if limit.kind == "days":
        return isinstance(value, str) and value[:10] in limit.values
    if limit.kind == "line":
        return stands(line, value)
    if limit.kind == "links":
        return isinstance(value, str) and all(
            bare(said) in {bare(str(v)) for v in limit.values} for said in links(value)
        )
    if limit.kind == "line links":
        return isinstance(value, str) and all(stands(line, said) for said in links(value))
    raise ValueError(limit.kind)


def scalars(value: object) -> Iterator[object]:
    """Yield every value in lists and objects, and the objects' names."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from scalars(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from scalars(inner)
    elif value is not None:
        yield value


# ── the line ──

JOINS = r"\w./\\\-+~%&@:#?^*="


def stands(line: str, value: object) -> bool:
    """Whether a value stands in the line, as a whole word."""
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        found = re.findall(r"(?<![\w.,:/+%-])-?\d+(?:\.\d+)?(?![\w:/%-]|[.,]\d)", line)
        return any(float(text) == value for text in found)
    text = str(value).strip(" ")
    return any(char.isalnum() for char in text) and any(
        whole(line, word) for word in spellings(text)
    )


def spellings(text: str) -> Iterable[str]:
    """Yield the ways to write a text: an address without its scheme, a path with ``./``."""
    yield text
    site = re.sub(r"^https?://", "", text)
    if site != text:
        yield from (site, site.rstrip("/"), text.rstrip("/"), text + "/")
    elif re.fullmatch(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+(:\d+)?([/?#].*)?", text):
        ends = (site.removesuffix("/"), site.removesuffix("/") + "/")
        yield from (scheme + end for scheme in ("", "https://", "http://") for end in ends)
    if "/" in text or "." in text:
        yield from (text.removeprefix("./"), "./" + text.removeprefix("./"))
        yield text.removeprefix("./").removesuffix("/")


def whole(line: str, word: str) -> bool:
    """Whether a word stands in the line and is no part of a longer one."""
    for found in re.finditer(re.escape(word), line):
        before, behind = line[: found.start()], line[found.end() :]
        marked = re.sub(r"[#@:'’&$*]\Z", "", before)
        begins = not re.search(r"[\w./\\\-+~%&'’:@#$^*?]\Z", marked)
        if before.endswith(":") and marked[-1:].isdigit():
            begins = False
        elif before.endswith(":"):
            begins = True
        if begins and not re.match(rf"\w|[/\\]|[{JOINS}][{JOINS}]", behind):
            return True
    return False


# ── addresses in texts ──


def links(text: str) -> Sequence[str]:
    """Return the addresses and accounts that a text names."""
    plain = unicodedata.normalize("NFKC", text).translate({0x3002: "."})
    plain = "".join(char for char in plain if unicodedata.category(char) != "Cf")
    found = [
        re.sub(" ", "", account)
        for account in re.findall(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){8,30}\b", plain)
    ]
    for token in re.split(r"[\s<>\"]+", plain):
        if "://" in token:
            found.append(re.sub(r"^.*?([A-Za-z][A-Za-z0-9+.-]*://)", r"\1", token, count=1))
            continue
        for piece in re.split(r"[^\w./:?#%&=+~@-]+", token):
            dotted = re.search(r"\w\.(?:[^\W\d_][\w-]+)(?![\w.-]*\.\w)", piece)
            numbers = re.search(r"(?<!\d)\d{1,3}(\.\d{1,3}){3}(?!\d)", piece)
            if re.search(r"\w@\w", piece) or dotted or numbers:
                found.append(piece)
    return [re.sub(r"^[\W_]+|[^\w/]+$", "", one) for one in found]


def bare(link: str) -> str:
    """Return an address without its scheme and its last slash."""
    return re.sub(r"^(https?://|mailto:)", "", link).removesuffix("/")
