"""
What to say about a malformed condition in a scope text.

Decided here: the message, the place of the caret and the nearest right spelling, once the grammar
has refused a text inside ``TOOL( … )``. Deliberately not: whether a text is malformed.

Rule a maintainer keeps: every function returns a ``ScopeError`` whatever it is given, and nothing
here can accept a text.
"""

from __future__ import annotations

import re
from typing import Final

from broker.errors import ScopeError
from broker.language.pieces import fault

EXAMPLE: Final = 'such as `send_money(recipient="A", amount<=50)`'
_AFTER_NAME: Final = (
    'a condition is `="A"`, `in {"A", "B"}`, `<=50`, `>=1`, `in intent`, `on 2026-05`, '
    '`host in {example.com}`, `under "src/"`, '
    "`links in intent` or `absent`"
)
# What people write instead, and what is meant.
_INSTEAD: Final = {
    "==": "one `=` is enough",
    ":": "write `=`",
    "<": "write `<=`",
    ">": "write `>=`",
    "!": "there are no negative conditions: name what is allowed",
    "~": "there are no patterns and no regular expressions: name the values",
    "not": "there are no negative conditions: name what is allowed",
    "like": "there are no patterns and no regular expressions: name the values",
    "matches": "there are no patterns and no regular expressions: name the values",
    "is": "write `=`",
    "eq": "write `=`",
    "contains": "a list's condition is asked of every element: `to[] in {…}`",
    "from": "a span of days is `on 2026-05-01..2026-05-31`",
    "between": "a range is two conditions: `amount>=1, amount<=5`",
    "and": "conditions are parted by commas",
    "or": 'alternatives are whole rules: `pay(to="A")|pay(to="B")`',
    "|": 'alternatives are whole rules: `pay(to="A")|pay(to="B")`; values are `in {…}`',
    "[": "a set is written `in {…}`",
    "(": "a set is written `in {…}`",
}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*|==|.", re.DOTALL)


def open_rule(text: str, start: int, offset: int) -> int:
    """
    Return where the rule begins to be typed that ``offset`` stands in: its ``(``, or -1.

    >>> open_rule('tools=a(b="(", c', 6, 15), open_rule("tools=a(b),c", 6, 11)
    (7, -1)
    """
    opened = -1
    quoted = False
    at = start
    while at < min(offset, len(text)):
        sign = text[at]
        if quoted and sign == "\\":
            at += 1
        elif sign == '"':
            quoted = not quoted
        elif not quoted and sign == "(" and opened < 0:
            opened = at
        elif not quoted and sign == ")":
            opened = -1
        at += 1
    return opened


def explain_rule(text: str, opened: int, offset: int) -> ScopeError:
    """Return what is wrong inside ``TOOL( … )``, by the place the grammar stopped at."""
    rest = text[offset:].lstrip(" ")
    offset += len(text[offset:]) - len(rest)
    before = text[opened:offset].rstrip(" ")
    if not rest:
        return fault(text, "the rule is not closed: a `)` is missing", len(text), EXAMPLE)
    found = _NAME.match(rest)
    word = found.group() if found else rest[0]
    if before[-1] in "(,":
        return _no_name(text, word, offset)
    if before[-1] in "={" or before.endswith(("<=", ">=")):
        return _no_value(text, word, before, offset)
    if re.search(r"\bin\Z", before):
        hint = f"write `in {{…}}` or `in intent`; {_AFTER_NAME}"
        return fault(text, "a set stands in braces", offset, hint)
    if re.search(r"\b(on|under|host|links)\Z", before):
        return fault(text, f"unexpected `{word}` in a condition", offset, _AFTER_NAME)
    if word == '"' or (before[-1] in '"}0123456789' and word[0] not in "<>=!~|"):
        return fault(text, "a comma is missing between two conditions", offset, EXAMPLE)
    hint = _INSTEAD.get(word, _AFTER_NAME)
    if word not in _INSTEAD and re.fullmatch(r"[A-Za-z_][\w-]*", word):
        named = re.search(r"[^ ,=]*\Z", text[:opened])
        tool = named.group() if named else ""
        said = before[opened - len(text) :].rpartition("(")[2].strip() + f" {word}"
        hint = f'a condition names its argument first, such as `{tool}(command="{said}")`'
    return fault(text, f"unexpected `{word}` in a condition", offset, hint)


def _no_name(text: str, word: str, offset: int) -> ScopeError:
    if word in ",)":
        return fault(text, "an argument's name is missing", offset, EXAMPLE)
    if word == "*":
        hint = "the name alone lets an argument be anything; `... in intent` binds the others"
        return fault(text, "an argument is named, not starred", offset, hint)
    message = f"unexpected `{word}` where an argument's name is due"
    return fault(text, message, offset, f'{EXAMPLE}; odd names take quotes: `"the name"`')


def _no_value(text: str, word: str, before: str, offset: int) -> ScopeError:
    if before.endswith(("<=", ">=")):
        return fault(text, "a number is due here", offset, "such as `amount<=50`")
    if word == "}":
        links = before.endswith("links in {")
        hint = "`links absent` is for a text without any" if links else None
        hint = hint or "`absent` keeps an argument out"
        return fault(text, "an empty set admits nothing", offset, hint)
    if word == "=":
        return fault(text, "`==` in a condition", offset, _INSTEAD["=="])
    if word in ("'", "‘", "’", "“", "”"):
        return fault(text, "texts stand in double quotes", offset, 'such as `to="A"`')
    if word == '"':
        return fault(text, "the quote is not closed", offset)
    if re.match(r"[0-9-]", word):
        hint = "plain digits, such as `5`, `-5` or `0.25`; everything else takes quotes"
        return fault(text, "a number is not spelled so", offset, hint)
    if re.fullmatch(r"[A-Za-z_][\w-]*", word):
        return fault(text, "a text takes double quotes", offset, f'"{word}"')
    return fault(text, f"unexpected `{word}` where a value is due", offset, 'such as `to="A"`')
