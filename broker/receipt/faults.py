"""
Why an authentic line is not the next one of its chain.

Decided here: the one reason that is given, in the order of the format's page, when several could
be. Not decided here: whether a line is refused (``chain``); this is asked only after that.
"""

from __future__ import annotations

from typing import Final

from broker.errors import Break
from broker.limits import MAX_RECORD_DEPTH
from broker.receipt.entry import parse_at, strict_object

_TYPES: Final = {"at": str, "data": dict, "kid": str, "kind": str, "n": int, "prev": str,
                 "sid": str, "sig": str}  # fmt: skip
_REASONS: Final = {"n": "seq"}  # the others are named like their key


def fault_of(line: bytes, wanted: tuple[tuple[str, object], ...]) -> tuple[str, str]:
    """
    Return the reason, as a word, and a message.

    Args:
        line: what was refused, without its newline.
        wanted: the keys that continue the lines before, and their values, in the order in which
            they are compared.
    """
    try:
        found = strict_object(str(line, "utf-8"), MAX_RECORD_DEPTH + 1)
    except UnicodeDecodeError:
        return "encoding", "the line is not UTF-8"
    except Break as flaw:
        return flaw.reason, flaw.message
    if {key: type(value) for key, value in found.items()} != _TYPES:
        return "schema", "the line does not have the eight keys and their types"
    try:
        parse_at(found["at"])
    except ValueError as error:
        return "schema", str(error)
    for key, value in wanted:
        if found[key] != value:
            return _REASONS.get(key, key), f"`{key}` does not continue the lines before"
    return "kind", "the line is of no kind this version knows"
