"""What may stand in a line, its one spelling, and how strictly it is read."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Break, InputError, RecordError
from broker.limits import MAX_RECORD_DEPTH, MAX_SAFE_INT, MAX_SID_CHARS
from broker.receipt.entry import (
    check_sid,
    encode_data,
    format_at,
    parse_at,
    strict_data,
    strict_object,
)


def nested(depth: int) -> dict[str, object]:
    """Return an object whose brackets nest that deep."""
    value: object = "x"
    for _ in range(depth - 1):
        value = [value]
    return {"a": value}


class Colour(enum.StrEnum):
    """A text with a type of its own."""

    RED = "red"


# ── session names ──


@pytest.mark.parametrize("sid", ["a", "0", "k3v", "a-b-c", "9-", "x" * MAX_SID_CHARS])
def test_session_names(sid: str) -> None:
    """Small letters, digits and inner dashes name a session, up to the limit."""
    assert check_sid(sid) == sid


@pytest.mark.parametrize(
    "sid",
    ["", "-a", "A", "a.b", "a/b", "..", "a b", "a\n", "ａ", "٣", "x" * (MAX_SID_CHARS + 1), 5],
)
def test_other_names(sid: str) -> None:
    """Nothing that could mean something to a file system names a session."""
    with pytest.raises(InputError, match="names no session"):
        check_sid(sid)


# ── instants ──


@given(st.integers(-62_135_596_800, 253_402_300_799), st.integers(0, 999))
def test_instants_round_trip(second: int, milli: int) -> None:
    """Every instant of the years 1 to 9999 is read as it was written, to the millisecond."""
    at = second * 10**9 + milli * 10**6
    text = format_at(at + 999_999)
    assert (len(text), parse_at(text)) == (24, at)
    moment = datetime.fromisoformat(text)
    assert moment.tzinfo == UTC
    assert moment.microsecond == milli * 1_000


@pytest.mark.parametrize("second", [-62_135_596_801, 253_402_300_800, 10**30])
def test_instants_out_of_range(second: int) -> None:
    """An instant that has no such spelling cannot be recorded."""
    with pytest.raises(RecordError, match="years 1 to 9999"):
        format_at(second * 10**9)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-30T08:00:00Z",
        "2026-11-30T08:00:00.00Z",
        "2026-11-30T08:00:00.0000Z",
        "2026-11-30 08:00:00.000Z",
        "2026-11-30T08:00:00.000z",
        "2026-11-30T08:00:00,000Z",
        "2026-11-30T08:00:00.000+",
        "2026-11-30T08:00:60.000Z",
        "2026-11-30T24:00:00.000Z",
        "2026-02-29T08:00:00.000Z",
        "2026-13-01T08:00:00.000Z",
        "0000-01-01T00:00:00.000Z",
        "2026-11-30T08:00:00.00\u0663Z",
        "202\u0666-11-30T08:00:00.000Z",
        "2026-11-30T08:00:00.-10Z",
        "2026-11-30T08:00:00. 10Z",
    ],
)
def test_other_spellings_of_instants(text: str) -> None:
    """One instant has one spelling; every other is refused."""
    with pytest.raises(ValueError, match=r"spelled|day|month|hour|year|second"):
        parse_at(text)


# ── writing ──


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({}, "{}"),
        ({"b": 1, "a": None}, '{"a":null,"b":1}'),
        ({"a": [True, False, -5, "é\u2028\x7f"]}, '{"a":[true,false,-5,"é\u2028\x7f"]}'),
        ({"a": '"\\/\b\f\n\r\t\x00\x1f'}, '{"a":"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f"}'),
        ({"a": (1, 2), "c": Colour.RED}, '{"a":[1,2],"c":"red"}'),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        ({"a": MAX_SAFE_INT, "b": -MAX_SAFE_INT}, f'{{"a":{MAX_SAFE_INT},"b":{-MAX_SAFE_INT}}}'),
        ({"x": {"b": 1, "a": 2}}, '{"x":{"a":2,"b":1}}'),
        ({"": ""}, '{"":""}'),
    ],
)
def test_data_has_one_spelling(data: Mapping[str, object], text: str) -> None:
    """Data is spelled as RFC 8785 says: sorted, without blanks, with the fewest escapes."""
    assert encode_data(data) == text
    assert encode_data(data) == text
    strict_data(text)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": 1.0}, "data.a: a float"),
        ({"a": float("nan")}, "data.a: a float"),
        ({"a": [0, {"b": float("inf")}]}, r"data.a\[1\].b: a float"),
        ({"a": MAX_SAFE_INT + 1}, "data.a: the integer"),
        ({"a": -MAX_SAFE_INT - 1}, "data.a: the integer"),
        ({"a": "\ud800"}, "data.a: a lone surrogate"),
        ({"é": 1}, "data: the key `'\\\\xe9'`"),
        ({"a": {"é": 1}}, "data.a: the key"),
        ({"\ud800": 1}, "data: the key"),
        ({1: 2}, "data: the key `1`"),
        ({"a": {1: 2}}, "data.a: the key `1`"),
        ({"a": {None: 2}}, "data.a: the key `None`"),
        ({"a": {True: 2}}, "data.a: the key `True`"),
        ({"a": {"b": 1, 2: 3}}, "data.a: the key `2`"),
        ({"a": b"x"}, "data.a: a `bytes`"),
        ({"a": {1, 2}}, "data.a: a `set`"),
        ({"a": object()}, "data.a: a `object`"),
        ({"a": MappingProxyType({})}, "data.a: a `mappingproxy`"),
        (nested(MAX_RECORD_DEPTH + 1), "nested deeper than 32"),
        (nested(5_000), "nested deeper than 32"),
    ],
)
def test_other_data_is_refused_with_its_place(data: dict[str, object], message: str) -> None:
    """What lies outside the data model is refused, and the message says where it is."""
    for _ in range(2):
        with pytest.raises(RecordError, match=message):
            encode_data(data)


def test_data_that_holds_itself_is_refused() -> None:
    """A value that contains itself has no spelling, and does not exhaust the machine."""
    data: dict[str, object] = {}
    data["a"] = [data]
    with pytest.raises(RecordError, match="nested deeper"):
        encode_data(data)


def test_depth_at_its_limit() -> None:
    """Data may nest exactly as deep as the limit."""
    assert encode_data(nested(MAX_RECORD_DEPTH)).count("[") == MAX_RECORD_DEPTH - 1


def test_a_known_shape_does_not_let_other_types_in() -> None:
    """After a text was recorded under a key, a float, a byte string or an odd key still is not."""
    for good in ({"a": "x", "b": {"c": "y"}}, {"a": "x", "b": {"1": "y"}}, {"1": "x"}):
        encode_data(good)
    bad: list[dict[object, object]] = [
        {"a": 1.5, "b": {"c": "y"}},
        {"a": b"x", "b": {"c": "y"}},
        {"a": "\udfff", "b": {"c": "y"}},
        {"a": "x", "b": {1: "y"}},
        {"a": "x", 1: {"c": "y"}},
        {1: "x"},
    ]
    for data in bad:
        with pytest.raises(RecordError):
            encode_data(data)  # type: ignore[arg-type]  # on purpose


# ── reading ──


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "json"),
        ("{", "json"),
        ('{"a":1}x', "json"),
        ('{"a":1}\x00', "json"),
        ('{"a":01}', "json"),
        ('{"a":+1}', "json"),
        ('{"a":"\t"}', "json"),
        ("{'a':1}", "json"),
        ('{"a":1,}', "json"),
        ('{"a":tru}', "json"),
        ("[]", "schema"),
        ('"a"', "schema"),
        ("1", "schema"),
        ('{"é":1}', "schema"),
        ('{"a":1,"a":1}', "dupkey"),
        ('{"a":{"b":1,"b":2}}', "dupkey"),
        ('{"a":1,"\\u0061":2}', "dupkey"),
        ('{"a":1.0}', "number"),
        ('{"a":1e0}', "number"),
        ('{"a":NaN}', "number"),
        ('{"a":-Infinity}', "number"),
        ('{"a":9007199254740992}', "number"),
        ('{"a":-9007199254740992}', "number"),
        ('{"a":' + "9" * 5_000 + "}", "number"),
        ('{"a": 1}', "canon"),
        (' {"a":1}', "canon"),
        ('{"a":1}\n', "canon"),
        ('{"b":1,"a":1}', "canon"),
        ('{"a":-0}', "canon"),
        ('{"a":"\\u00e9"}', "canon"),
        ('{"a":"\\/"}', "canon"),
        ('{"a":"\\u000A"}', "canon"),
        ('{"a":"\\u001F"}', "canon"),
        ('{"a":"\\ud800"}', "canon"),
        ('{"a":' + "[" * 32 + "]" * 32 + "}", "depth"),
        ('{"a":' + "[" * 100_000, "depth"),
    ],
)
def test_other_texts_are_refused(text: str, reason: str) -> None:
    """Whatever two readers could read unlike is refused, with its reason."""
    with pytest.raises(Break) as caught:
        strict_object(text)
    assert caught.value.reason == reason
    with pytest.raises(Break):
        strict_data(text)


def test_brackets_in_texts_do_not_nest() -> None:
    """Brackets inside strings, also behind escaped quotes, are no depth."""
    text = encode_data({"a": '"' + "[{" * 100, "b": "[" * 100})
    assert strict_object(text)["b"] == "[" * 100
