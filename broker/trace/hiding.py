"""
Attributes and payloads as they may be written: plain JSON, and without secrets.

Decided here: what becomes of values that JSON does not have, and how each kind of payload is
searched. Not decided here: what a secret is (``broker.redaction``).

Rules a maintainer keeps: everything that is written passes here; what the search does not look
into (a tuple, a mapping of another type) is made plain first, so that nothing escapes it by its
type; content that cannot be written is left out and named, and never breaks the run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Final

from broker.errors import InputError
from broker.redaction.bodies import hide_body
from broker.redaction.hiding import Hider
from broker.redaction.trees import hide_object, hide_tree
from broker.trace.format import INLINE_BYTES

_SHORT_CHARS: Final = 64  # characters of a text that is remembered to be clean
_MOST_CLEAN: Final = 4_096  # such texts
MAX_PATHS: Final = 64  # paths of hidden places that one event names; the counts count them all
JSON: Final = "application/json"
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_ASCII: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_TOO_DEEP: Final = "nested deeper than is written"
# What some readers take for the end of a line.
_ENDS: Final = ("\x85", "\u2028", "\u2029")


class _Absent:
    """Stands for no payload, since None is a value of JSON."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


@dataclass(slots=True)
class Hidden:
    """What may be written of an event: attributes, and a payload that is inline or a blob."""

    attrs: dict[str, object]
    inline: object = ABSENT
    blob: bytes | None = None
    media_type: str = JSON
    paths: tuple[str, ...] = ()


class _Quick(Hider):
    """Does not search a short text again in which nothing was found: most are names that recur."""

    def __init__(self, salt: bytes, clean: set[str]) -> None:
        super().__init__(salt)
        self._clean = clean

    def text(self, text: str) -> str:
        """Return a text with its secrets hidden."""
        if text in self._clean:
            return text
        kept = super().text(text)
        if len(text) <= _SHORT_CHARS and kept == text:
            if len(self._clean) >= _MOST_CLEAN:
                self._clean.clear()
            self._clean.add(text)
        return kept


class Hiding:
    """
    Hides the secrets of one run. Safe among threads.

    >>> hiding = Hiding()
    >>> found, counts = hiding.event({"argv": ["x", "--password", "p"]}, {"token": "t"})
    >>> found.attrs, found.inline
    ({'argv': ['x', '--password', '[hidden]']}, {'token': '[hidden]'})
    >>> found.paths, dict(counts)
    (('attrs.argv[2]', 'payload.token'), {'option': 1, 'name': 1})
    """

    def __init__(self, salt: bytes = b"") -> None:
        self.salt = salt
        self._clean: set[str] = set()

    def event(
        self, attrs: Mapping[str, object], payload: object = ABSENT, media_type: str = JSON
    ) -> tuple[Hidden, Counter[str]]:
        """
        Return what may be written of an event, and how many secrets of each kind were hidden.

        Args:
            attrs: its attributes.
            payload: a JSON value; or a text or bytes, which ``media_type`` says the kind of; or
                ``ABSENT``.
            media_type: of the payload.

        Raises:
            InputError: a value is of a type that JSON does not have.
        """
        hider = _Quick(self.salt, self._clean)
        paths: list[str] = []
        found = Hidden(_attrs(attrs, hider, paths))
        if isinstance(payload, bytes) or (isinstance(payload, str) and "json" not in media_type):
            self._content(found, payload, media_type, hider, paths)
        elif payload is not ABSENT:
            _value(found, payload, hider, paths)
        found.paths = tuple(paths[:MAX_PATHS])
        return found, hider.counts

    def object(
        self, value: Mapping[str, object]
    ) -> tuple[dict[str, object], list[str], Counter[str]]:
        """
        Return a JSON object without its secrets, the paths of what was hidden, and how many.

        Raises:
            InputError: a value is of a type that JSON does not have.
            RecursionError: it is nested too deeply.
        """
        hider = _Quick(self.salt, self._clean)
        fresh, paths = hide_object({str(key): plain(each) for key, each in value.items()}, hider)
        return fresh, paths, hider.counts

    def _content(
        self, found: Hidden, payload: str | bytes, media_type: str, hider: Hider, paths: list[str]
    ) -> None:
        content = _encoded(payload) if isinstance(payload, str) else payload
        body = hide_body(content, self.salt)
        hider.counts.update(body.counts)
        paths += [below(path) for path in body.paths]
        found.media_type = media_type
        value = _short(body.content, media_type)
        if value is not ABSENT and inline(value, spelled(value)):
            found.inline = value
        else:
            found.blob = body.content


def spelled(value: object) -> str:
    """
    Return the JSON text of a value on one line, for every reader of lines.

    Raises:
        ValueError, RecursionError: it cannot be written.

    >>> spelled({"a": "ü"}), spelled("\\u2028"), spelled("\\ud800")
    ('{"a":"ü"}', '"\\\\u2028"', '"\\\\ud800"')
    """
    text = _ENCODER.encode(value)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ASCII.encode(value)
    return _ASCII.encode(value) if any(end in text for end in _ENDS) else text


def inline(value: object, text: str) -> bool:
    """Whether a payload stands in its line: one that looks like a reference never does."""
    if isinstance(value, dict) and "$blob" in value:
        return False
    return len(text) <= INLINE_BYTES and len(text.encode("utf-8", "replace")) <= INLINE_BYTES


def _attrs(attrs: Mapping[str, object], hider: Hider, paths: list[str]) -> dict[str, object]:
    try:
        kept = {str(key): plain(value) for key, value in attrs.items()}
        kept, found = hide_object(kept, hider)
    except RecursionError:
        return {"left_out": f"the attributes: {_TOO_DEEP}"}
    paths += [f"attrs.{path}" for path in found]
    return kept


def _value(found: Hidden, payload: object, hider: Hider, paths: list[str]) -> None:
    try:
        kept, hidden = hide_tree(plain(payload), hider)
        text = spelled(kept)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        found.attrs["left_out"] = f"the payload: {_TOO_DEEP}"
        return
    paths += [below(path) for path in hidden]
    if inline(kept, text):
        found.inline = kept
    else:
        found.blob = text.encode()


def _short(content: bytes, media_type: str) -> object:
    """Return a short content as the value that stands in a line, if it is the same there."""
    if len(content) > INLINE_BYTES:
        return ABSENT
    try:
        text = content.decode()
        return plain(json.loads(text)) if "json" in media_type else text
    except (ValueError, RecursionError):
        return ABSENT


def _encoded(text: str) -> bytes:
    """Return the bytes of a text, with those back that were no UTF-8 and came as surrogates."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def below(path: str) -> str:
    """Return the path of a place in a payload, from the path within it."""
    if not path or path.startswith(("(", " (")):
        return f"payload {path.strip()}".strip()
    return f"payload{path}" if path.startswith("[") else f"payload.{path}"


def plain(value: object) -> object:
    """
    Return a value of nothing but JSON's own types; the same object where it is one already.

    Raises:
        InputError: it holds a value of another type.
        RecursionError: it is nested too deeply.

    >>> plain({"a": (1, float("inf"))})
    {'a': [1, 'inf']}
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    raise InputError(f"a recording takes values of JSON, and no {type(value).__name__}")
