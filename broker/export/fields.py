"""
What the exports need of an entry, and the ids that they give to it.

Decided here: how a value is taken out of recorded data that may have any shape, and that an id
is made from a line's hash, so that exporting twice gives the same ids. Not decided here: what
the ids mean to a format.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from broker.receipt.display import escaped, shown
from broker.receipt.entry import Entry

Data = Mapping[str, object]

PRODUCT: Final = "capability-broker"

_NAMED: Final = ("path", "url", "command")


def text(data: Data, name: str) -> str:
    """Return a text of an entry's data; empty where there is none."""
    value = data.get(name)
    return value if isinstance(value, str) else ""


def texts(data: Data, name: str) -> list[str]:
    """Return the texts of a list in an entry's data."""
    value = data.get(name)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def subjects(data: Data) -> list[str]:
    """
    Return what a call touches, as texts.

    >>> subjects({"subjects": [{"access": "read", "path": "a.py"}, {"more": 3}]})
    ['a.py', '3 more']
    """
    value = data.get("subjects")
    found: list[str] = []
    for subject in value if isinstance(value, list) else ():
        if isinstance(subject, str):
            found.append(subject)
        elif isinstance(subject, dict):
            found += [text(subject, name) for name in _NAMED if name in subject]
            if "more" in subject:
                found.append(f"{subject['more']} more")
    return found


def visible(value: Any) -> Any:
    r"""
    Return JSON data with every text in it spelled so that a terminal does nothing but show it.

    >>> visible({"a": ["x\x9by", 1]})
    {'a': ['x\\u009by', 1]}
    """
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, dict):
        return {name: visible(each) for name, each in value.items()}
    return [visible(each) for each in value] if isinstance(value, list) else value


def refused(entry: Entry) -> bool:
    """Whether an entry says that something was refused."""
    return "refuse" in (entry.data.get("decision"), entry.data.get("answer"))


def wording(entry: Entry) -> str:
    """Return in words what stands in an entry of a kind without columns of its own."""
    data = entry.data
    match entry.kind:
        case "open":
            told = " in ".join(filter(None, (text(data, "agent"), text(data, "workspace"))))
        case "intent":
            told = text(data, "line")
        case "ticket" | "delegate":
            told = " ".join(texts(data, "caveats")) or "no caveat"
        case "decision":
            return ""
        case "permission":
            told = text(data, "answer")
        case "result":
            ok = data.get("ok")
            told = ("ended well" if ok else "failed") if isinstance(ok, bool) else ""
        case "note":
            told = ": ".join(filter(None, (text(data, "source"), text(data, "text"))))
        case "seal":
            told = text(data, "reason")
        case "revoke":
            told = f"ticket {text(data, 'ticket')}: {text(data, 'reason')}"
        case _:
            told = ""
    return told or shown(data)


def uuid_of(use: str, name: str) -> str:
    """
    Return a UUID (version 8, RFC 9562) that is made from a name and what it is for.

    >>> uuid_of("a", "x") == uuid_of("a", "x"), uuid_of("a", "x") == uuid_of("b", "x")
    (True, False)
    """
    made = bytearray(sha256(f"{PRODUCT} {use}\0{name}".encode()).digest()[:16])
    made[6] = made[6] & 0x0F | 0x80
    made[8] = made[8] & 0x3F | 0x80
    return str(UUID(bytes=bytes(made)))


def urn(*parts: str) -> str:
    """
    Return a URN of this product, with everything escaped that could end a part of it.

    >>> urn("agent", "my agent:1")
    'urn:capability-broker:agent:my%20agent%3A1'
    """
    return ":".join(("urn", PRODUCT, *(quote(part, safe="") for part in parts)))
