"""
What to say about a malformed scope text.

Decided here: the message, the place of the caret and the nearest right spelling, once the
grammar has refused a text. Deliberately not: whether a text is malformed; nothing here can
accept one.

Rules a maintainer keeps: every function that explains returns a ``ScopeError`` whatever it is
given; a hint is either the right spelling itself (then it holds no blank) or a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final

from broker.caveats import KINDS
from broker.errors import InputError, PatternError, ScopeError
from broker.globs import check_path, check_tool
from broker.hosts import check_host
from broker.instants import parse_until
from broker.language.patterns import EMOJI_JOINERS, first_unseen
from broker.language.rulehelp import EXAMPLE, explain_rule, open_rule

# What people write instead of a key.
_ALIASES: Final = {
    "expires": "until",
    "expiry": "until",
    "exp": "until",
    "ttl": "until",
    "time": "until",
    "timeout": "until",
    "deadline": "until",
    "for": "until",
    "budget": "calls",
    "count": "calls",
    "limit": "calls",
    "max": "calls",
    "max_calls": "calls",
    "url": "hosts",
    "urls": "hosts",
    "domain": "hosts",
    "domains": "hosts",
    "net": "hosts",
    "network": "hosts",
    "allow": "tools",
    "commands": "tools",
    "file": "paths",
    "files": "paths",
    "dir": "paths",
    "dirs": "paths",
    "folder": "paths",
    "folders": "paths",
    "workspace": "paths",
    "edit": "writes",
    "edits": "writes",
}
_EXAMPLES: Final = {
    "tools": "tools=read_file,grep",
    "paths": "paths=src/**,tests/**",
    "reads": "reads=src/**",
    "writes": "writes=src/**",
    "hosts": "hosts=example.com,*.example.org",
    "calls": "calls=60",
    "until": "until=45m",
}
_KEYS: Final = "the keys are " + ", ".join(f"`{kind}`" for kind in KINDS)
_QUOTES: Final = "'‘’“”"

# What a person calls the characters that slip in most often.
_NAMES: Final = {
    "\n": "a line break",
    "\r": "a carriage return",
    "\t": "a tab",
    "\0": "a NUL",
    "\ufeff": "a byte order mark",
}


def unseen(text: str) -> tuple[str, int] | None:
    """
    Return the message and the place of the first character that no scope text may hold.

    >>> unseen("paths=src\\t")
    ('a tab cannot stand in a scope', 9)
    """
    offset = first_unseen(text, EMOJI_JOINERS)
    if offset < 0:
        return None
    code = ord(text[offset])
    what = "half a character" if 0xD800 <= code <= 0xDFFF else "an invisible character"
    name = _NAMES.get(text[offset], f"{what} (U+{code:04X})")
    return f"{name} cannot stand in a scope", offset


def nearest(name: str, known: Iterable[str]) -> str | None:
    """
    Return the known name that ``name`` was most likely meant to be.

    >>> nearest("revew", ["review", "docs"])
    'review'
    """
    close = get_close_matches(name[:64].lower(), sorted(known), n=1, cutoff=0.6)
    return close[0] if close else None


def split_hint(item: str, check: Callable[[str], str], *, quoted: bool = False) -> str | None:
    """
    Return a hint when an item that is no pattern is several right ones.

    >>> from broker.globs import check_path
    >>> split_hint("src/** docs/**", check_path)
    'items are split by commas: src/**,docs/**'
    """
    if len(item) > 1024:
        return None
    for sign in (",",) if quoted else (" ", ";", "|", "&"):
        parts = [part.strip(" ") for part in item.split(sign)]
        parts = [part for part in parts if part]
        if len(parts) > 1 and all(_passes(part, check) for part in parts):
            how = "quotes make it one item; a list is" if quoted else "items are split by commas:"
            return f"{how} {','.join(parts)}"
    return None


def _passes(part: str, check: Callable[[str], str]) -> bool:
    try:
        check(part)
    except PatternError:
        return False
    return "=" not in part


def explain_scope(text: str, offset: int) -> ScopeError:
    """Return what is wrong with a text that is no scope text, by the place it stopped at."""
    key, equals, value = text.partition("=")
    start = len(key) + 1
    key = key.strip(" ")
    if text.lstrip(" ").startswith("@"):
        return _explain_policy(text, offset)
    if not equals or key not in KINDS:
        return _explain_key(text, key, bool(equals))
    if not value.strip(" "):
        example = f"`{_EXAMPLES[key]}`"
        hint = f"such as {example}; `{key}=none` allows nothing"
        if key in ("calls", "until"):
            hint = f"such as {example}; leave `{key}` out to set no limit"
        return _error(text, f"`{key}` has no value", len(text), hint)
    lead = len(value) - len(value.lstrip(" "))
    if key == "calls":
        return _explain_count(text, value.strip(" "), start + lead)
    if key == "until":
        return _explain_until(text, value.strip(" "), start + lead, offset)
    return _explain_item(text, key, start, offset)


def explain_expect(text: str, offset: int) -> ScopeError:
    """Return what is wrong with an ``expect`` line."""
    shape = 'such as `expect refuse edit_file(path="a.py")`'
    if re.match(r" *expect +(?:allow|refuse)(?: |\Z)", text) is None:
        return _error(
            text, "an expectation begins with `expect allow` or `expect refuse`", 0, shape
        )
    shown = f"unexpected `{text[offset]}`" if offset < len(text) else "the line ends too early"
    return _error(text, f"{shown} in an expectation", offset, shape)


def _error(text: str, message: str, offset: int, hint: str | None = None) -> ScopeError:
    return ScopeError(message, text=text, offset=offset, hint=hint)


# ── keys ──


def _explain_key(text: str, key: str, equals: bool) -> ScopeError:
    offset = len(text) - len(text.lstrip(" "))
    if not text.strip(" "):
        return _error(text, "an empty text; a scope is KEY=VALUE", 0, "such as `paths=src/**`")
    if not equals:
        return _explain_no_equals(text, key, offset)
    if not key:
        return _error(text, "a key is missing before the `=`", offset, _KEYS)
    bare = key.strip("-+:!<>? ")
    name = _nearest_key(bare)
    if bare in KINDS:
        sign = next(sign for sign in key if sign not in bare)
        offset = text.index(key) + (key.index(sign))
        return _error(text, f"unexpected `{sign}` at the key", offset, f"{bare}=")
    if len(key) > 40:
        key = key[:40] + "…"
    return _error(text, f"no such key `{key}`", offset, name or _KEYS)


def _explain_no_equals(text: str, key: str, offset: int) -> ScopeError:
    word = re.match(r"[A-Za-z_]*", key)
    name = _nearest_key(word.group()) if word else None
    message = "no `=` in it; a scope is KEY=VALUE"
    if name is not None and word is not None:
        rest = key[word.end() :].lstrip(":> ")
        hint = f"{name}={rest}" if rest else f"such as `{_EXAMPLES[name]}`"
        return _error(text, message, offset + word.end(), hint)
    hint = f"paths={key}" if re.fullmatch(r"[\w./*?-]{1,80}", key) else _KEYS
    return _error(text, message, len(text), hint)


def _nearest_key(name: str) -> str | None:
    plain = name[:64].lower()
    if plain in KINDS:
        return plain
    return _ALIASES.get(plain) or nearest(plain, KINDS)


def _explain_policy(text: str, offset: int) -> ScopeError:
    at = text.index("@")
    name = re.match(r"@ *([A-Za-z0-9][A-Za-z0-9_-]*)", text[at:])
    if name is None:
        message = "a policy is `@` and its name, or `@./` and a path"
        return _error(text, message, at + 1, "such as `@fix-tests` or `@./team.scope`")
    if offset <= at:
        offset = at + name.end()
    return _error(
        text,
        "a policy stands alone in its text",
        offset,
        f"give `@{name.group(1)}` and the rest as separate texts",
    )


# ── values ──


def _explain_count(text: str, value: str, start: int) -> ScopeError:
    message = "`calls` is a whole number in plain digits"
    if re.fullmatch(r"[0-9]+", value):
        if value[0] == "0":
            plain = value.lstrip("0")[:10] or "0"
            return _error(text, "a number has no leading zeros", start, f"calls={plain}")
        return _error(text, "`calls` is at most 2147483647", start)
    bad = re.search(r"[^0-9]", value)
    offset = start + (bad.start() if bad else 0)
    grouped = re.fullmatch(r"([0-9]{1,3})(?:[,_' ]([0-9]{3}))+", value)
    if grouped is not None and len(value) < 14:
        return _error(text, message, offset, "calls=" + re.sub(r"[^0-9]", "", value))
    power = re.fullmatch(r"([1-9])[eE]\+?([0-9])", value)
    if power is not None:
        return _error(text, message, offset, f"calls={power.group(1)}{'0' * int(power.group(2))}")
    if value.isdecimal() and len(value) <= 10:
        return _error(text, message, offset, f"calls={int(value)}")
    if value.lower() in ("none", "unlimited", "inf", "all"):
        hint = "leave `calls` out to set no limit; `calls=0` allows no call"
        return _error(text, message, offset, hint)
    if "/" in value:
        return _error(text, "`calls` is a count, not a rate", offset, "such as `calls=60`")
    return _error(text, message, offset, "such as `calls=60`")


def _explain_until(text: str, value: str, start: int, offset: int) -> ScopeError:
    try:
        parse_until(value, 0)
    except InputError as error:
        within, hint = error.detail.get("offset"), error.detail.get("hint")
        place = start + within if isinstance(within, int) else offset
        return _error(text, error.message, place, hint if isinstance(hint, str) else None)
    # Only where the reader of instants takes what the grammar refuses, which tests rule out.
    return _error(text, "neither a duration nor an instant", offset)


def _explain_item(text: str, key: str, start: int, offset: int) -> ScopeError:
    opened = open_rule(text, start, offset) if key == "tools" else -1
    if opened >= 0:
        return explain_rule(text, opened, offset)
    begins = text[start:offset].rstrip(" ")[-1:] in ("", ",")
    if begins:
        offset += len(text[offset:]) - len(text[offset:].lstrip(" "))
    sign = text[offset : offset + 1]
    end = text.find(",", offset)
    item = text[offset : None if end < 0 else end].rstrip(" ")
    if begins and sign in ("", ","):
        return _error(text, f"an empty item in `{key}`", offset, "remove the comma, or name it")
    if begins and item == "none":
        message = f"`none` stands alone: it means that `{key}` allows nothing"
        named = "none." if key == "hosts" else '"none"'
        return _error(text, message, offset, f"a thing of that name is written `{named}`")
    if sign == '"':
        return _explain_quote(text, key, offset, begins, item)
    if sign and sign in _QUOTES and (begins or key == "tools"):
        plain = item.strip(_QUOTES)
        quoted = plain if key in ("tools", "hosts") else f'"{plain}"'
        message = f"`{sign}` does not quote here; the shell takes its own quotes off"
        return _error(text, message, offset, quoted)
    word = re.search(r"[a-z]*\Z", text[:offset]) if sign == "=" else None
    place = word.start() if word else offset
    pair = re.match(r"([a-z]+) *=", text[place:])
    if pair is not None and pair.group(1) in KINDS:
        offset = place
        message = f"`{pair.group(1)}=` in the middle of `{key}`: two caveats in one text"
        hint = "give each its own text; put quotes around an item to mean a name like that"
        return _error(text, message, offset, hint)
    if key == "hosts":
        return _explain_host(text, start, offset)
    if not begins and text[offset - 1] in ' "':
        return _missing_comma(text, key, start, offset)
    if key == "tools" and sign == "@":
        message = "a group of tools is `@` and its name"
        return _error(text, message, offset, "such as `@reads`")
    if key == "tools" and sign and sign in "|)(":
        where = f"`{sign}` stands between rules only, and around conditions"
        return _error(text, where, offset, EXAMPLE)
    return _error(text, f"unexpected `{sign}` in `{key}`", offset, f"such as `{_EXAMPLES[key]}`")


def _explain_quote(text: str, key: str, offset: int, begins: bool, item: str) -> ScopeError:
    if key == "hosts":
        return _error(text, "a host needs no quotes", offset, item.strip('"') or None)
    if begins:
        return _error(text, "the quote is not closed", offset)
    before = text.rfind(",", 0, offset) + 1 or text.index("=") + 1
    if text[offset - 1] == '"' or text[before:offset].lstrip(" ").startswith('"'):
        return _missing_comma(text, key, before, offset)
    hint = r'such as `"a,b"`; a quote inside is written `\"`'
    return _error(text, "a quote stands around a whole item", offset, hint)


def _missing_comma(text: str, key: str, start: int, offset: int) -> ScopeError:
    begin = max(text.rfind(",", start, offset) + 1, start)
    end = text.find(",", offset)
    item = text[begin : None if end < 0 else end].strip(" ")
    hint = split_hint(item, check_tool if key == "tools" else check_path)
    return _error(
        text, "a comma is missing between two items", offset, hint or f"such as `{_EXAMPLES[key]}`"
    )


def _explain_host(text: str, start: int, offset: int) -> ScopeError:
    begin = max(text.rfind(",", start, offset) + 1, start)
    end = text.find(",", begin)
    item = text[begin : len(text) if end < 0 else end]
    lead = len(item) - len(item.lstrip(" "))
    try:
        check_host(item.strip(" "))
    except PatternError as error:
        hint = split_hint(item.strip(" "), check_host) or error.hint
        return _error(text, error.message, begin + lead + error.offset, hint)
    return _error(text, "unexpected text in `hosts`", offset, f"such as `{_EXAMPLES['hosts']}`")
