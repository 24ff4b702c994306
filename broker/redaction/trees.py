"""
Secrets in JSON values, the paths of what was hidden, and the schemas that only speak of them.

Decided here: a text or a number under a name that speaks of a secret is hidden, and so is every
one below an object or a list under such a name; so is the ``value`` beside such a ``name``. A
text anywhere is searched like any text, and one that holds a JSON document is read as one. A list
of texts under `argv` or the like is the words of a command, which are searched together.

A JSON Schema with a property named `password` holds no password. So what is a schema is kept,
but for what a schema may say of a value: its default, its constant, its examples.

Rules a maintainer keeps: keys, their order and the kinds of containers stay, so that what is kept
can still be sent; a path is written as a person writes it, `a.b[0]`, and a part of a text is
marked `(substring)`; an unknown keyword in the schema of a secret hides what it says, and one whose
name speaks of a secret is none: whatever is called `properties` need not be a schema; a path has a
limit, since each of a thousand secrets may have a key of a megabyte above it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from math import isinf
from typing import Final, TypeGuard

from broker.redaction.hiding import Hider
from broker.redaction.names import secret_name
from broker.redaction.texts import HIDDEN
from broker.redaction.words import hide_words, words_under

PART: Final = " (substring)"

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*\Z")
_NAME_KEYS: Final = ("name", "key", "header")
_MAPS: Final = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
_TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
# What a schema says about a value without saying one.
_KEYWORDS: Final = frozenset(
    """
    $anchor $comment $defs $id $ref $schema additionalItems additionalProperties allOf anyOf
    contains contentEncoding contentMediaType definitions dependentRequired dependentSchemas
    deprecated description discriminator else enum exclusiveMaximum exclusiveMinimum format if
    items maxItems maxLength maxProperties maximum minItems minLength minProperties minimum
    multipleOf not nullable oneOf pattern patternProperties prefixItems properties propertyNames
    propertyOrdering readOnly required strict then title type unevaluatedItems
    unevaluatedProperties uniqueItems writeOnly
    """.split()  # noqa: SIM905 - a list of words reads better than a page of quotes
)
_VALUES: Final = frozenset({"const", "default", "example", "examples"})


def hide_tree(value: object, hider: Hider) -> tuple[object, list[str]]:
    """
    Return a JSON value with its secrets hidden, and the paths of what was.

    What is unchanged is not copied.

    >>> hide_tree({"headers": [{"name": "authorization", "value": "Bearer s4"}]}, Hider())
    ({'headers': [{'name': 'authorization', 'value': '[hidden]'}]}, ['headers[0].value'])
    >>> hide_tree({"properties": {"password": {"type": "string"}}}, Hider())[1]
    []
    """
    walk = _Walk(hider)
    return walk.plain(value, ""), walk.paths


def hide_object(value: dict[str, object], hider: Hider) -> tuple[dict[str, object], list[str]]:
    """
    Return a JSON object with its secrets hidden, and the paths of what was.

    >>> hide_object({"a": {"token": "x"}}, Hider())
    ({'a': {'token': '[hidden]'}}, ['a.token'])
    """
    walk = _Walk(hider)
    return walk.members(value, ""), walk.paths


class _Walk:
    """One walk over one value: what is found is counted and its path is kept."""

    def __init__(self, hider: Hider) -> None:
        self.hider = hider
        self.paths: list[str] = []

    # ── a value whose name says nothing ──

    def plain(self, value: object, path: str) -> object:
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, dict):
            return self.members(value, path)
        if isinstance(value, list):
            return _same(value, [self.plain(v, indexed(path, i)) for i, v in enumerate(value)])
        return value

    def members(self, value: dict[str, object], path: str) -> dict[str, object]:
        named = self._named_value(value)
        fresh: dict[str, object] = {}
        for key, inner in value.items():
            if key in _MAPS and _is_map(inner):
                there = joined(path, key)
                fresh[key] = self._schemas(inner, there)
                continue
            kept = self._key(key)
            there = joined(path, kept)
            if key in named or (secret_name(key) and not _of_a_vocabulary(key, value)):
                fresh[kept] = self._secret(inner, there)
            elif (words := words_under(key, inner)) is not None:
                fresh[kept] = self._words(words, there)
            else:
                fresh[kept] = self.plain(inner, there)
        return fresh if _same(value, fresh) is fresh else value

    def _words(self, words: list[object], path: str) -> object:
        """Hide what belongs to an option of a command, and search every other word by itself."""
        fresh: list[object] = []
        said = hide_words([str(word) for word in words], self.hider)
        for at, (word, kept) in enumerate(zip(words, said, strict=True)):
            there = indexed(path, at)
            if kept != word:
                self.paths.append(there)
            fresh.append(self.plain(word, there) if kept == word else kept)
        return _same(words, fresh)

    def _key(self, key: str) -> str:
        """Return a key without a secret in it; one that merely names a secret stays."""
        kept = self.hider.text(key) if len(key) >= _LEAST else key
        if kept != key:
            self.paths.append(f"{kept} (key)")
        return kept

    def _named_value(self, value: dict[str, object]) -> tuple[str, ...]:
        """Return which keys hold the value of a pair, if its name speaks of a secret."""
        for key in _NAME_KEYS:
            name = value.get(key)
            if isinstance(name, str) and "value" in value and secret_name(name):
                return ("value",)
        return ()

    def _text(self, value: str, path: str) -> str:
        if len(value) < _LEAST:
            return value
        document = _document(value)
        if document is not None:
            before = len(self.paths)
            fresh = self.plain(document, "")
            if fresh is not document:
                del self.paths[before:]
                self.paths.append(path + PART)
                return json.dumps(fresh, ensure_ascii=False, separators=_style(value))
            return value
        fresh_text = self.hider.text(value)
        if fresh_text != value:
            self.paths.append(path + PART)
        return fresh_text

    # ── a value whose name speaks of a secret ──

    def _secret(self, value: object, path: str) -> object:
        if isinstance(value, dict):
            if _is_schema(value):
                return self._schema(value, path, secret=True)
            kept = ((self._key(key), inner) for key, inner in value.items())
            return _same(value, {key: self._secret(v, joined(path, key)) for key, v in kept})
        if isinstance(value, list):
            return _same(value, [self._secret(v, indexed(path, i)) for i, v in enumerate(value)])
        if value is None or isinstance(value, bool) or value == "":
            return value
        said = value if isinstance(value, str) else json.dumps(value)
        if HIDDEN.fullmatch(said):
            return value
        self.paths.append(path)
        return self.hider.placeholder(said, "name")

    # ── schemas ──

    def _schemas(self, value: Mapping[str, object], path: str) -> object:
        """Go through the properties of a schema: their names are names, not credentials."""
        fresh: dict[str, object] = {}
        for key, inner in value.items():
            kept = self._key(key)
            fresh[kept] = self._schema(inner, joined(path, kept), secret=secret_name(key))
        return _same(value, fresh)

    def _schema(self, value: object, path: str, *, secret: bool) -> object:
        if isinstance(value, list):
            places = ((indexed(path, i), inner) for i, inner in enumerate(value))
            return _same(value, [self._schema(v, there, secret=secret) for there, v in places])
        if not isinstance(value, dict):
            return self.plain(value, path)
        named = self._named_value(value)
        fresh: dict[str, object] = {}
        for key, inner in value.items():
            kept = self._key(key)
            there = joined(path, kept)
            said = key in _VALUES or key not in _KEYWORDS
            if key in _MAPS and _is_map(inner):
                fresh[kept] = self._schemas(inner, there)
            elif said and (secret or key in named or secret_name(key)):
                fresh[kept] = self._secret(inner, there)
            elif said and not isinstance(inner, dict):
                fresh[kept] = self.plain(inner, there)
            else:
                fresh[kept] = self._schema(inner, there, secret=secret)
        return _same(value, fresh)


_LEAST: Final = 6  # characters of the shortest text that can hold a secret: `pwd=ab`
_MAX_PATH_CHARS: Final = 512  # characters after which a path goes no deeper


def joined(path: str, key: str) -> str:
    """
    Return the path of a key below a path.

    >>> joined("a.b", "c"), joined("a", "x y")
    ('a.b.c', 'a["x y"]')
    """
    if len(path) > _MAX_PATH_CHARS:
        return path
    if len(key) > _MAX_PATH_CHARS:
        key = key[:_MAX_PATH_CHARS] + "…"
    if not _PLAIN_KEY.match(key):
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


def indexed(path: str, index: int) -> str:
    """
    Return the path of an element below a path.

    >>> indexed("a", 0)
    'a[0]'
    """
    return path if len(path) > _MAX_PATH_CHARS else f"{path}[{index}]"


def _same(value: object, fresh: object) -> object:
    """Return the value itself where nothing in it changed."""
    if isinstance(value, dict) and isinstance(fresh, dict):
        pairs = zip(value.items(), fresh.items(), strict=False)
        unchanged = len(value) == len(fresh) and all(
            a == b and value[a] is fresh[b] for (a, _), (b, _) in pairs
        )
        return value if unchanged else fresh
    if isinstance(value, list) and isinstance(fresh, list):
        return value if all(a is b for a, b in zip(value, fresh, strict=True)) else fresh
    return fresh


def _is_map(value: object) -> TypeGuard[Mapping[str, object]]:
    """Whether a value may be the properties of a schema: schemas by name."""
    return isinstance(value, dict) and all(isinstance(v, dict | bool) for v in value.values())


def _is_schema(value: Mapping[str, object]) -> bool:
    """Whether an object outside of properties is a schema: it has a type, and only keywords."""
    kind = value.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    typed = all(isinstance(k, str) and k.lower() in _TYPES for k in kinds)
    referred = bool({"$ref", "anyOf", "oneOf", "allOf"} & value.keys())
    known = all(key in _KEYWORDS or key in _VALUES for key in value)
    return bool(value) and known and (typed or (kind is None and referred))


def _of_a_vocabulary(key: str, value: Mapping[str, object]) -> bool:
    """Whether a token is one of a model's, with its probability beside it."""
    return key == "token" and "logprob" in value


def _document(text: str) -> object | None:
    """Return the object or list that a text spells, if it spells one."""
    if text[0] not in "{[" or text[-1] not in "}]":
        return None
    try:
        return readable(text)
    except (ValueError, RecursionError):
        return None


def readable(text: str) -> object:
    """
    Return the JSON value that a text spells, if it is the same for every reader.

    Raises:
        ValueError: it is no JSON, or has a key twice, or a number that no reader keeps.

    >>> readable('{"a":1,"a":2}')
    Traceback (most recent call last):
      ...
    ValueError: the key `a` stands there twice
    """
    return json.loads(
        text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_kept_number
    )


def spelled(value: object) -> str:
    """
    Return the text of a JSON value, compact; in ASCII where it holds what no encoding takes.

    >>> spelled({"a": "ü"}), spelled({"a": "\\ud800"})
    ('{"a":"ü"}', '{"a":"\\\\ud800"}')
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"the key `{twice}` stands there twice")
    return found


def _no_number(text: str) -> object:
    raise ValueError(f"`{text}` is no number of JSON")


def _kept_number(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"`{text}` is larger than any number that is kept")
    return value


def _style(text: str) -> tuple[str, str]:
    """Return the separators that a document uses, from its first ones."""
    return (", ", ": ") if re.search(r'": |", |\d, ', text[:200]) else (",", ":")
