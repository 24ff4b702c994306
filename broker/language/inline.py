"""
Does a value stand in the line that a person typed?

Decided here: what counts as standing there: the very characters, as a whole word, in one of the
few spellings that the value's own shape has. An account number may be written in groups, a path
with or without ``./``, an address with or without its scheme, an e-mail in angle brackets, a
number with more zeros. Not decided here: which arguments have to stand there.

Rules a maintainer keeps: never fuzzy: no letter case, no accents, no look-alikes and no words
between are forgiven; what is attached to a word by ``.``, ``-``, ``/``, ``@`` and the like belongs
to it, so that ``doe@x.org`` does not stand in ``john.doe@x.org`` nor in ``doe@x.org.example``;
when in doubt it does not stand there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Final
from unicodedata import category

from broker.language.patterns import first_unseen
from broker.limits import MAX_VALUE_CHARS

# Joined to a word in front, these make it a part of something longer.
_JOIN_FRONT: Final = frozenset("./\\-+~%&'’:@#$^*?")
# Before a word that they only mark, these do not: `#general`, `@bob`, `to:bob`, `'bob'`, `$50`.
_MARKS: Final = frozenset("#@:'’&$*")
_JOIN_BACK: Final = frozenset("./\\-+~%&:@#?^*=")
_ACCOUNT: Final = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")
_NUMBER: Final = re.compile(
    r"(?<![\w.,:/+%-])-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?![\w:/%-]|[.,][0-9])"
)
_SITE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)+(?::[0-9]+)?(?:[/?#].*)?")


def stands_in(line: str, value: object) -> bool:
    """
    Return whether a text or a number stands in a line, as a whole word.

    >>> line = "Pay 50 to GB29 NWBK 6016 and tell Bob <bob@x.org> about ./a.txt"
    >>> stands_in(line, "bob@x.org"), stands_in(line, "a.txt"), stands_in(line, 50.0)
    (True, True, True)
    >>> stands_in(line, "ob@x.org"), stands_in(line, "BOB@x.org"), stands_in(line, True)
    (False, False, False)
    """
    if type(value) is str:
        return len(value) <= MAX_VALUE_CHARS and _text_stands(line, value)
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return _number_stands(line, value)
    return False


@lru_cache(maxsize=1_024)
def _text_stands(line: str, value: str) -> bool:
    text = value.strip(" ")
    if first_unseen(text) >= 0 or not any(map(str.isalnum, text)):
        return False
    return any(_whole(line, spelling) for spelling in _spellings(text)) or _account(line, text)


def _spellings(text: str) -> Iterator[str]:
    """Yield the ways in which a line may spell this text: itself, and its shape's own."""
    yield text
    if text[0] == "<" and text[-1] == ">" and "@" in text:
        yield text[1:-1]
    scheme, there, rest = text.partition("://")
    if there and scheme in ("http", "https"):
        yield from (rest, rest.removesuffix("/"), text.removesuffix("/"), text + "/")
    elif not there and "@" not in text and _SITE.fullmatch(text):
        bare = text.removesuffix("/")
        yield from (f"{s}{bare}{end}" for s in ("", "https://", "http://") for end in ("", "/"))
    if not there and ("/" in text or "." in text):
        plain = text.removeprefix("./")
        yield from (plain, "./" + plain)
        if plain.endswith("/"):
            yield plain.removesuffix("/")


def _whole(line: str, word: str) -> bool:
    """Return whether ``word`` stands somewhere in the line and is part of nothing longer."""
    if not word:
        return False
    at = line.find(word)
    while at >= 0:
        if _ends_before(line, at) and _ends_behind(line, at + len(word)):
            return True
        at = line.find(word, at + 1)
    return False


def _ends_before(line: str, at: int) -> bool:
    if at == 0:
        return True
    sign = line[at - 1]
    if _in_word(sign):
        return False
    if sign in _JOIN_FRONT:
        if sign not in _MARKS:
            return False
        before = line[at - 2] if at > 1 else " "
        if sign == ":":
            return not before.isdigit()
        return not _in_word(before) and before not in _JOIN_FRONT
    return True


def _ends_behind(line: str, end: int) -> bool:
    if end >= len(line):
        return True
    sign = line[end]
    if _in_word(sign):
        return False
    if sign in _JOIN_BACK:
        after = line[end + 1] if end + 1 < len(line) else " "
        return not (_in_word(after) or after in _JOIN_BACK) and sign not in "/\\"
    return True


def _in_word(sign: str) -> bool:
    return sign.isalnum() or sign == "_" or category(sign)[0] == "M" or category(sign) == "Cf"


def _account(line: str, text: str) -> bool:
    """Return whether an account number stands there, in groups or in one piece."""
    plain = text.replace(" ", "")
    if not _ACCOUNT.fullmatch(plain):
        return False
    grouped = re.compile(" ?".join(plain))
    return any(
        _ends_before(line, found.start()) and _ends_behind(line, found.end())
        for found in grouped.finditer(line)
    )


def _number_stands(line: str, value: float) -> bool:
    if type(value) is int and value.bit_length() > 128:
        return False
    wanted = Decimal(value) if type(value) is int else Decimal(repr(value))
    return any(Decimal(found.group()) == wanted for found in _NUMBER.finditer(line))
