"""
What may stand in one line of a receipt, and its one spelling.

Decided here: the data model, the canonical text of data, the instant's form and the
session name's form. Not decided here: the kinds (``form``), order, links and tags (``chain``).

The data model is small enough that the standard library's JSON writer *is* RFC 8785 for it:
ASCII keys, no floats, integers up to 2**53 - 1, well-formed Unicode, limited depth.

Rules a maintainer keeps:

- The writer signs only what ``strict_data`` accepts, so an honest line never fails to verify.
- Reading is strict in the order of the format's page: bytes, then JSON, then spelling.
- ``Shapes`` may only match a text that ``strict_object`` would accept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, NoReturn

from broker.errors import Break, InputError, RecordError
from broker.limits import MAX_RECORD_DEPTH, MAX_SAFE_INT, MAX_SID_CHARS
from broker.receipt.shapes import Shapes

SEAL_REASONS: Final = ("complete", "interrupted", "disk-full", "abandoned")
HEX64: Final = re.compile(r"[0-9a-f]{64}")

_SID = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{MAX_SID_CHARS - 1}}}")
_SECOND = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)", re.ASCII)
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_encoder = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,
    sort_keys=True,
    separators=(",", ":"),
)


def _chunks() -> Callable[[object, int], Iterable[str]] | None:
    """Return the encoder's inner function, made once; ``encode`` makes it anew each time."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return None
    made: Callable[[object, int], Iterable[str]] = make(
        None, _encoder.default, json.encoder.encode_basestring, None, ":", ",", True, False, False
    )
    return made


_inner = _chunks()


def canonical(value: object) -> str:
    """
    Return the canonical text of a JSON value: RFC 8785 within the restricted data model.

    Raises:
        TypeError, ValueError, RecursionError: not JSON, or nested too deep.
    """
    if _inner is None:
        return _encoder.encode(value)
    return "".join(_inner(value, 0))


class Entry(NamedTuple):
    """One line of a receipt: its number, the hash of its bytes, its kind, instant and data."""

    n: int
    hash: str
    kind: str
    at: int
    data: Mapping[str, object]


def check_sid(sid: str) -> str:
    """
    Return ``sid`` when it can name a session and its files.

    Raises:
        InputError: it has other characters than ``a-z 0-9 -``, or too many (``receipt.sid``).

    >>> check_sid("k3v-1")
    'k3v-1'
    """
    if not isinstance(sid, str) or _SID.fullmatch(sid) is None:
        raise InputError(
            f"`{sid!a}` names no session: use 1 to {MAX_SID_CHARS} of a-z, 0-9 and -",
            code="receipt.sid",
        )
    return sid


# ── instants ──


def format_at(at: int) -> str:
    """
    Return an instant as the line spells it: UTC, milliseconds, 24 characters.

    Raises:
        RecordError: it lies outside the years 1 to 9999.

    >>> format_at(1_796_025_600_000_000_000)
    '2026-11-30T08:00:00.000Z'
    """
    second, rest = divmod(at, 1_000_000_000)
    return f"{_second_text(second)}.{rest // 1_000_000:03d}Z"


@lru_cache(maxsize=64)
def _second_text(second: int) -> str:
    try:
        moment = datetime.fromtimestamp(second, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise RecordError(f"the instant `{second}` lies outside the years 1 to 9999") from error
    return moment.replace(tzinfo=None).isoformat(timespec="seconds")


def parse_at(text: str) -> int:
    """
    Return the nanoseconds of an instant in the line's one spelling.

    Raises:
        ValueError: any other spelling.

    >>> parse_at("2026-11-30T08:00:00.250Z") % 1_000_000_000
    250000000
    """
    milli = text[20:23]
    if (
        len(text) != 24
        or text[19] != "."
        or text[23] != "Z"
        or not (milli.isascii() and milli.isdigit())
    ):
        raise ValueError("an instant is spelled 2026-11-30T08:00:00.000Z")
    return _second_value(text[:19]) * 1_000_000_000 + int(milli) * 1_000_000


@lru_cache(maxsize=64)
def _second_value(text: str) -> int:
    match = _SECOND.fullmatch(text)
    if match is None:
        raise ValueError("an instant is spelled 2026-11-30T08:00:00.000Z")
    year, month, day, hour, minute, second = map(int, match.groups())
    moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    passed = moment - _EPOCH
    return passed.days * 86_400 + passed.seconds


# ── reading ──


def _refuse_number(text: str) -> NoReturn:
    raise Break("number", f"`{text[:40]}` is not an integer that every reader reads alike")


def _read_int(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > MAX_SAFE_INT:
        _refuse_number(text)
    return int(text)


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Break("dupkey", "an object has the same key twice")
    if not "".join(found).isascii():
        raise Break("schema", "a key is not ASCII")
    return found


_decoder = json.JSONDecoder(
    object_pairs_hook=_read_object,
    parse_float=_refuse_number,
    parse_constant=_refuse_number,
    parse_int=_read_int,
)


def _depth(text: str) -> int:
    """Return how deep brackets nest outside strings; cheap when there are few of them."""
    if text.count("[") + text.count("{") <= MAX_RECORD_DEPTH:
        return 0
    deepest = depth = 0
    for match in _BRACKET.finditer(text):
        mark = match.group()
        if mark in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in "]}":
            depth -= 1
    return deepest


def strict_object(text: str, depth: int = MAX_RECORD_DEPTH) -> dict[str, Any]:
    """
    Parse one canonical JSON object; refuse everything that two readers could read unlike.

    Raises:
        Break: ``depth``, ``dupkey``, ``number``, ``json``, ``schema`` or ``canon``; its place
            in the file is for the caller to add.

    >>> strict_object('{"a":[1,"x"]}')
    {'a': [1, 'x']}
    """
    if _depth(text) > depth:
        raise Break("depth", f"brackets nest deeper than {depth}")
    try:
        value = _decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise Break("json", "not JSON") from error
    if type(value) is not dict:
        raise Break("schema", "not a JSON object")
    if canonical(value) != text:
        raise Break("canon", "not in canonical form")
    return value


_shapes: Final = Shapes()


def strict_data(text: str) -> None:
    """
    Check that ``text`` is one canonical JSON object of the data model.

    Raises:
        Break: as ``strict_object``.
    """
    content = text.encode("utf-8", "surrogatepass")
    if _shapes.find(content, 0, len(content)) is None:
        strict_object(text)
        _shapes.learn(text, content, 0, len(content))


def describes_fragment(data: dict[str, Any]) -> bool:
    """Whether data is that of a ``recover`` line: size, hash and name of what was cut off."""
    return (
        set(data) == {"bytes", "kept", "sha256"}
        and type(data["bytes"]) is int
        and data["bytes"] > 0
        and type(data["kept"]) is str
        and type(data["sha256"]) is str
        and HEX64.fullmatch(data["sha256"]) is not None
    )


# ── writing ──

_spell: Final[Callable[[str], str]] = getattr(
    json.encoder, "c_encode_basestring", json.encoder.encode_basestring
)
# The spelling of an object with these keys, with room for its values, and the values in order.
_Template = tuple[str, Callable[[dict[str, Any]], tuple[Any, ...]]]
_templates: dict[tuple[str, ...], _Template] = {}
_TEXTS: Final = frozenset((str,))
_TEMPLATES: Final = 256  # sets of keys to remember; a writer has a dozen


def encode_data(data: Mapping[str, object]) -> str:
    """
    Return the canonical text of a line's data.

    Raises:
        RecordError: a value lies outside the data model; the message says where.

    >>> encode_data({"tool": "Read", "n": 1})
    '{"n":1,"tool":"Read"}'
    """
    plain = data if isinstance(data, dict) else dict(data)
    text = _flat(plain)
    if text is not None and text.isascii():
        return text
    try:
        text = canonical(plain)
    except (TypeError, ValueError, RecursionError) as error:
        _check(plain, "data", 1)
        raise RecordError("data cannot be written as JSON") from error
    _check(plain, "data", 1)
    try:
        strict_data(text)
    except Break as error:
        raise RecordError(f"data cannot be recorded: {error.message}") from error
    return text


def _flat(data: dict[str, Any]) -> str | None:
    """
    Return the text of data that holds texts, integers, truths and lists of texts: almost all is.

    The keys of such an entry are sorted and spelled once. The text is canonical as soon as it
    is ASCII, since nothing else of the data model can be in it.
    """
    keys = tuple(data)
    template = _templates.get(keys) or _learn_keys(keys)
    if template is None:
        return None
    form, ordered = template
    spelled = []
    for value in ordered(data):
        kind = type(value)
        if kind is str:
            spelled.append(_spell(value))
        elif kind is int and -MAX_SAFE_INT <= value <= MAX_SAFE_INT:
            spelled.append(str(value))
        elif kind is bool:
            spelled.append("true" if value else "false")
        elif kind is list and _TEXTS.issuperset(map(type, value)):
            spelled.append(f"[{','.join(map(_spell, value))}]")
        else:
            return None
    return form % tuple(spelled)


def _learn_keys(keys: tuple[str, ...]) -> _Template | None:
    if not all(type(key) is str for key in keys) or len(keys) < 2:
        return None  # an itemgetter of one key returns no tuple
    if len(_templates) >= _TEMPLATES:
        _templates.clear()
    order = sorted(keys)
    form = ",".join(_spell(key).replace("%", "%%") + ":%s" for key in order)
    template = _templates[keys] = (f"{{{form}}}", itemgetter(*order))
    return template


def _check(value: object, where: str, depth: int) -> None:
    """Find the first value outside the data model, and say where it is."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise RecordError(f"{where}: a lone surrogate is not text") from None
    elif isinstance(value, int):
        if abs(value) > MAX_SAFE_INT:
            raise RecordError(f"{where}: the integer is beyond 2**53 - 1; record it as text")
    elif isinstance(value, float):
        raise RecordError(f"{where}: a float is spelled in many ways; record it as text")
    elif isinstance(value, dict | list | tuple):
        if depth > MAX_RECORD_DEPTH:
            raise RecordError(f"{where}: nested deeper than {MAX_RECORD_DEPTH}")
        if isinstance(value, dict):
            for key, inner in value.items():
                if not isinstance(key, str) or not key.isascii():
                    raise RecordError(f"{where}: the key `{key!a}` is not ASCII text")
                _check(inner, f"{where}.{key}", depth + 1)
        else:
            for i, inner in enumerate(value):
                _check(inner, f"{where}[{i}]", depth + 1)
    elif value is not None:
        raise RecordError(f"{where}: a `{type(value).__name__}` cannot be recorded")
