"""
Where the secrets of a text are.

Decided here: a secret is what follows a name that speaks of one (`NAME=value`, `"name": "value"`,
`Name: value`, `--name value`, `<name>value<`), what follows the scheme of an authorization, what
an option of a well-known program takes, and what has the form of one. Not decided here: what
stands in its place (``broker.redaction.hiding``).

The text is searched for the few words that such names are made of; only around those is it
looked at closer. So a long text without them costs a search, and time is linear.

Rules a maintainer keeps: the name stays and the value goes, and so do the quotes around it, so
that JSON within a text is JSON afterwards; a value that is a schema, a word for a type, empty, or
hidden already stays; where it is not clear where a value ends, too much is hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from heapq import merge
from typing import Final, NamedTuple

from broker.redaction.commands import given
from broker.redaction.names import MAX_NAME_CHARS, mentions_secret, secret_name
from broker.redaction.shapes import shaped


class Span(NamedTuple):
    """The place of one secret in a text, and why it counts as one."""

    start: int
    end: int
    kind: str


# Every name that `secret_name` knows holds one of these, in lower case.
_ANCHORS: Final = (
    "pass",
    "pwd",
    "secret",
    "credential",
    "cookie",
    "authorization",
    "token",
    "key",
    "bearer",
    "mnemonic",
    "dsn",
    "jwt",
    "url",
    "uri",
    "string",
    "phrase",
    "code",
    "_auth",
)
_NAME_CHARS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_RIGHT: Final = re.compile(r"[A-Za-z0-9_.-]*")

# A mark between name and value, quotes of the name before it: `"apiKey" : `, `\"a\":`, `['a'] = `.
_MARK: Final = re.compile(r"\\{0,8}[\"'`]?\]?[ \t]{0,4}(?::=|=>|={1,3}|:)[ \t]{0,4}")
_QUOTE: Final = re.compile(r"[bBfFrRuU]{0,2}(\\{0,8}[\"'`])")
_BLANK: Final = re.compile(r"[ \t]{1,16}")
_TAG: Final = re.compile(r"(?:[ \t][^<>]{0,256})?>([^<]+)")
_PLAIN: Final = re.compile(r"[^\s\"'`&;|,)}\]\\]+")
_SCHEMED: Final = re.compile(
    r"(?:bearer|basic|token|negotiate|apikey)[ \t]{1,4}[^\s\"'`;,\\]+", re.IGNORECASE
)
_TO_LINE_END: Final = re.compile(r"[^\r\n\\]+")
_TO_QUOTE: Final = re.compile(r"[^\"'`\r\n\\]+")
_SCHEME: Final = re.compile(r"(?<![A-Za-z0-9_])(?:bearer|basic) {1,4}(?=\S)", re.IGNORECASE)
_AFTER_SCHEME: Final = re.compile(r"[A-Za-z0-9._~+/=-]{4,}")
_REFERENCE: Final = re.compile(r"[A-Za-z_]{1,40}(?:\.[A-Za-z_]{1,40}){0,6}(?![A-Za-z0-9_.])")
_CAMEL: Final = re.compile(r"(?:[A-Z][a-z]{1,20}){2,6}")
# A refusal of ours: it quotes the value that came and those that are allowed, then the rule.
_REFUSED: Final = re.compile(r"argument `([^`\n]{1,160})` of `[^`\n]{1,160}`: ")
_REFUSED_OF: Final = re.compile(r"argument `[^`\n]{1,160}` of `\Z")
_RULE: Final = "; tools: "
HIDDEN: Final = re.compile(r"\[hidden(?: [a-z-]{1,24} [0-9a-f]{8})?\]")

# What follows a name in code, in schemas and in prose about them, and hides nothing.
_NO_VALUE: Final = frozenset(
    """
    str string text int integer number float bool boolean bytes object array any unknown undefined
    null nil none true false optional required
    """.split()  # noqa: SIM905 - a list of words reads better than a page of quotes
)

# Every form but those of addresses and key blocks has a run of such characters.
_RUN: Final = re.compile(r"[A-Za-z0-9_+/=-]{12}")
_NO_CREDENTIAL: Final = frozenset(
    {"auth", "authentication", "authorization", "credentials", "header", "scheme"}
    | {"token", "tokens"}
)


def secrets_in(text: str) -> list[Span]:
    """
    Return the secrets of a text, in order; they do not overlap.

    >>> text = 'curl -H "Authorization: Bearer abcd" https://me:pw@host/'
    >>> [text[s.start : s.end] for s in secrets_in(text)]
    ['Bearer abcd', 'me:pw']
    """
    found: list[Span] = []
    # Most texts are short and hold none of these marks, so no more is asked of them.
    if "=" in text or ":" in text or "--" in text or "<" in text:
        found += map(Span._make, _named(text, _lowered(text)))
    if " " in text:
        found += map(Span._make, _schemed(text, _lowered(text)))
        found += map(Span._make, given(text))
        found += map(Span._make, _refused(text))
    if _RUN.search(text) or "://" in text or "-----" in text:
        found += map(Span._make, shaped(text))
    return disjoint(text, found) if found else found


def shapes_in(text: str) -> list[Span]:
    """
    Return only the secrets that have a form of their own, in order; they do not overlap.

    What merely follows a name is left: source code is full of names, and would not run any more.

    >>> text = "token = read_token() or 'ghp_16C7e42F292c6912E7710c838347Ae178B4a'"
    >>> [each.kind for each in shapes_in(text)]
    ['forge']
    """
    return disjoint(text, [Span._make(each) for each in shaped(text)])


def disjoint(text: str, found: list[Span]) -> list[Span]:
    """
    Unite what overlaps under the kind of the first, and leave out what is hidden already.

    >>> disjoint("abcdef", [Span(2, 5, "b"), Span(0, 3, "a")])
    [Span(start=0, end=5, kind='a')]
    """
    found.sort()
    kept: list[Span] = []
    for each in found:
        if HIDDEN.fullmatch(text, each.start, each.end):
            continue
        if kept and each.start < kept[-1].end:
            last = kept[-1]
            kept[-1] = Span(last.start, max(last.end, each.end), last.kind)
        else:
            kept.append(each)
    return kept


# ── after a name ──


def _named(text: str, lower: str) -> Iterator[tuple[int, int, str]]:
    done = 0
    for at in merge(*(_places(lower, anchor) for anchor in _ANCHORS)):
        if at < done:
            continue
        start, end = _name_around(text, at)
        done = end
        name = text[start:end]
        if not secret_name(name.strip(".-")):
            continue
        value = _value(text, start, end, name)
        if value is not None:
            yield *value, "name"
            done = value[1]


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def _lowered(text: str) -> str:
    """Return the text in lower case, every character at its place."""
    # The one letter that becomes two.
    return text.lower() if text.isascii() else text.replace("\u0130", "i").lower()


def _name_around(text: str, at: int) -> tuple[int, int]:
    """Return the name that holds a place; of one without end, as much as a name may have."""
    start, least = at, max(0, at - MAX_NAME_CHARS // 2)
    while start > least and text[start - 1] in _NAME_CHARS:
        start -= 1
    after = _RIGHT.match(text, at, at + MAX_NAME_CHARS // 2)
    end = after.end() if after else at
    while end > at + 1 and text[end - 1] in ".-":  # the end of a sentence, a dash after the name
        end -= 1
    return start, max(end, at + 1)


def _value(text: str, start: int, end: int, name: str) -> tuple[int, int] | None:
    """Return where the value of a name is, if one follows."""
    if start and text[start - 1] == "<" and (tag := _TAG.match(text, end)):
        return tag.span(1)
    mark = _MARK.match(text, end)
    if mark is None and name.startswith("--"):
        mark = _BLANK.match(text, end)
        if mark and text.startswith("-", mark.end()):
            return None
    if mark is None or mark.end() == len(text) or _refused_of(text, start):
        return None
    quote = _QUOTE.match(text, mark.end())
    if quote:
        # Code that is quoted, `token=`, ends with the quote that it began with.
        closes = start and text[start - 1] == quote[1] and mark[0][0] not in "\"'`\\"
        return None if closes else _quoted(text, quote)
    if text[mark.end()] in "{[" and ":" in mark[0]:  # a structure, which may be a schema
        return None
    span = _unquoted(text, mark.end(), name)
    if span is None:
        return None
    value = text[span[0] : span[1]]
    # An empty list, or a sign of another language, is none.
    plain = value.lower() in _NO_VALUE or not any(map(str.isalnum, value))
    return None if plain or value == name.rpartition(".")[2] or _code(text, span) else span


def _code(text: str, span: tuple[int, int]) -> bool:
    """
    Whether a value only says where a secret comes from: `self.api_key`, `AccessTokenProvider`.

    A conversation about code is full of them, and a stored one should be the one that was sent.
    """
    reference = _REFERENCE.match(text, span[0])
    if reference is None or reference.end() > span[1]:
        return False
    called = text[reference.end() : reference.end() + 1] in ("(", "[")
    if not called and reference.end() < span[1]:
        return False
    if "." in reference[0]:
        return called or secret_name(reference[0])
    return _CAMEL.fullmatch(reference[0]) is not None and mentions_secret(reference[0])


def _quoted(text: str, quote: re.Match[str]) -> tuple[int, int] | None:
    """Return what stands between the quotes; where they do not close, the rest of the line."""
    mark, start = quote[1], quote.end()
    end = text.find(mark[-1], start)
    while end >= 0 and _escaped(text, start, end, len(mark) - 1):
        end = text.find(mark[-1], end + 1)
    # Only a double quote goes over lines: an apostrophe is often just one.
    line = text.find("\n", start, end if end >= 0 else len(text))
    if end < 0 or (line >= 0 and mark[-1] != '"'):
        end = line if line >= 0 else len(text)
    while end > start and text[end - 1] == "\\" and len(mark) > 1:
        end -= 1  # the slashes before the closing quote are the quote's
    value = text[start:end]
    return None if not value or value.lower() in _NO_VALUE else (start, end)


def _escaped(text: str, start: int, at: int, depth: int) -> bool:
    """
    Whether a quote belongs to the value, when the quote that opened it had `depth` slashes.

    Each document within a text doubles the slashes before a quote, and adds one.
    """
    slashes = 0
    while slashes < 64 and at - 1 - slashes >= start and text[at - 1 - slashes] == "\\":
        slashes += 1
    return slashes > depth and (slashes - depth) % (2 * depth + 2) != 0


def _unquoted(text: str, at: int, name: str) -> tuple[int, int] | None:
    if HIDDEN.match(text, at):
        return None
    lower = name.lower()
    if lower.endswith("authorization"):
        found = _SCHEMED.match(text, at) or _digest(text, at) or _PLAIN.match(text, at)
    elif lower.endswith("cookie"):
        found = _TO_QUOTE.match(text, at)
    else:
        found = _SCHEMED.match(text, at) or _PLAIN.match(text, at)
    return found.span() if found else None


def _digest(text: str, at: int) -> re.Match[str] | None:
    """Return the rest of the line after a scheme whose credentials have several parts."""
    schemes = ("digest ", "aws4-hmac-sha256 ", "oauth ", "signature ")
    several = text[at : at + 24].lower().startswith(schemes)
    return _TO_LINE_END.match(text, at) if several else None


# ── in a refusal of ours ──


def _refused(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield what a refusal says of the value of an argument whose name speaks of a secret."""
    at = text.find("argument `")
    while at >= 0:
        found = _REFUSED.match(text, at)
        at += 1
        if found and secret_name(found[1]):
            line = text.find("\n", found.end())
            end = line if line >= 0 else len(text)
            rule = text.rfind(_RULE, found.end(), end)
            at = rule if rule >= 0 else end
            yield found.end(), at, "name"
        at = text.find("argument `", at)


def _refused_of(text: str, start: int) -> bool:
    """Whether a name is that of a refused tool: then no secret of its own follows."""
    before = max(0, start - 200)
    return text.endswith("` of `", before, start) and bool(_REFUSED_OF.search(text, before, start))


# ── after a scheme ──


def _schemed(text: str, lower: str) -> Iterator[tuple[int, int, str]]:
    for scheme in ("bearer", "basic"):
        for at in _places(lower, scheme):
            found = _SCHEME.match(text, at)
            value = _AFTER_SCHEME.match(text, found.end()) if found else None
            if value and _credential(scheme, value[0]):
                yield *value.span(), "scheme"


def _credential(scheme: str, value: str) -> bool:
    """Whether what follows a scheme may be one: `basic understanding` is none."""
    if scheme == "basic" and value.isalpha() and value.islower():
        return False
    return value.strip(".,").lower() not in _NO_CREDENTIAL
