"""Instants and durations: what is read, what is refused and where, how one is written."""

from __future__ import annotations

import doctest
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker import instants
from broker.errors import InputError
from broker.instants import (
    DAY,
    FIRST_INSTANT,
    HOUR,
    LAST_INSTANT,
    MINUTE,
    SECOND,
    UNITS,
    WEEK,
    format_instant,
    parse_duration,
    parse_instant,
    parse_until,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
zones = st.integers(-(23 * 60 + 59), 23 * 60 + 59).map(lambda m: timezone(timedelta(minutes=m)))
moments = st.datetimes(
    min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=zones
)


def by_library(moment: datetime) -> int:
    """Nanoseconds since the epoch as the standard library counts them."""
    apart = moment - EPOCH
    return (apart.days * 86_400 + apart.seconds) * SECOND + apart.microseconds * 1_000


def test_examples_in_docstrings() -> None:
    """Every example in the module's documentation is true."""
    assert doctest.testmod(instants).failed == 0


@given(moments)
def test_reading_agrees_with_the_standard_library(moment: datetime) -> None:
    """An instant in any zone is read as the standard library reads it."""
    assert parse_instant(moment.isoformat()) == by_library(moment)


@given(moments)
def test_writing_agrees_with_the_standard_library(moment: datetime) -> None:
    """The written form names the same moment to the standard library."""
    assert datetime.fromisoformat(format_instant(by_library(moment))) == moment


@given(st.integers(FIRST_INSTANT, LAST_INSTANT))
@example(FIRST_INSTANT)
@example(LAST_INSTANT)
@example(-1)
@example(0)
def test_what_is_written_is_read_back(at: int) -> None:
    """Every instant of the years 0001 to 9999 survives writing, to the nanosecond."""
    assert parse_instant(format_instant(at)) == at


@given(st.integers(FIRST_INSTANT, LAST_INSTANT - 1))
def test_neighbouring_instants_are_written_apart(at: int) -> None:
    """Two neighbouring instants have different written forms."""
    assert format_instant(at) != format_instant(at + 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:01z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:00:00-01:00", 0),
        ("1970-01-01T00:00:00-00:00", 0),
        ("1972-02-29T00:00:00Z", 789 * 86_400),
        ("2000-02-29T00:00:00Z", 951_782_400),
        ("2038-01-19T03:14:08Z", 2**31),
    ],
)
def test_plain_instants(text: str, seconds: int) -> None:
    """Right spellings are read, lower-case letters and any offset included."""
    assert parse_instant(text) == seconds * SECOND


def test_fractions_are_exact() -> None:
    """Nine fraction digits are kept, and fewer mean tenths, hundredths and so on."""
    assert parse_instant("1970-01-01T00:00:00.000000001Z") == 1
    assert parse_instant("1970-01-01T00:00:00.1Z") == SECOND // 10
    assert format_instant(SECOND + 120_000) == "1970-01-01T00:00:01.00012Z"


@pytest.mark.parametrize(
    ("text", "offset", "hint"),
    [
        ("2026-01-01", 10, "2026-01-01T00:00:00Z"),
        ("2026-01-01T13:00:00", 19, "2026-01-01T13:00:00Z"),
        ("2026-01-01 13:00:00Z", 10, "2026-01-01T13:00:00Z"),
        ("2026-01-01T13:00Z", 16, "2026-01-01T13:00:00Z"),
        ("2026-01-01T13:00:00+01", 22, "2026-01-01T13:00:00+01:00"),
        ("2026-01-01T13:00:00+0100", 22, "2026-01-01T13:00:00+01:00"),
        ("20260101T130000Z", 4, "2026-01-01T13:00:00Z"),
        ("2026-01-01T13:00:00Z+01:00", 20, "2026-01-01T13:00:00Z"),
    ],
)
def test_near_misses_get_the_right_spelling(text: str, offset: int, hint: str) -> None:
    """A slip that is common is answered with the right spelling, which is then read."""
    with pytest.raises(InputError) as caught:
        parse_instant(text)
    assert caught.value.detail["offset"] == offset
    assert caught.value.detail["hint"] == hint
    parse_instant(hint)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("2027-02-29T00:00:00Z", 8),
        ("2100-02-29T00:00:00Z", 8),
        ("2026-04-31T00:00:00Z", 8),
        ("2026-00-10T00:00:00Z", 5),
        ("2026-13-01T00:00:00Z", 5),
        ("2026-01-01T24:00:00Z", 11),
        ("2026-01-01T12:60:00Z", 14),
        ("2016-12-31T23:59:60Z", 17),
        ("2026-01-01T13:00:00+24:00", 19),
        ("2026-01-01T13:00:00.5+01:60", 21),
        ("0000-01-01T00:00:00Z", 0),
        ("10000-01-01T00:00:00Z", 0),
        ("0001-01-01T00:00:00+00:01", 0),
        ("9999-12-31T23:59:59-00:01", 0),
        ("2026-01-01T13:00:00.1234567890Z", 29),
        ("2026-1-1T13:00:00Z", 6),
        ("+2026-01-01T13:00:00Z", 0),
        ("2026-01-01T13:00:00Z\n", 20),
        ("２026-01-01T13:00:00Z", 0),
        ("", 0),
        ("2026-01-01T13:00:00." + "1" * 5000 + "Z", 64),
    ],
)
def test_wrong_instants_name_the_place(text: str, offset: int) -> None:
    """What is no instant of the calendar is refused, at the part that is wrong."""
    with pytest.raises(InputError) as caught:
        parse_instant(text)
    assert caught.value.code == "instant"
    assert caught.value.detail["offset"] == offset


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90s", 90 * SECOND),
        ("10m", 10 * MINUTE),
        ("1h30m", HOUR + 30 * MINUTE),
        ("1h0m5s", HOUR + 5 * SECOND),
        ("2d", 2 * DAY),
        ("1w2d3h4m5s", WEEK + 2 * DAY + 3 * HOUR + 4 * MINUTE + 5 * SECOND),
        ("007m", 7 * MINUTE),
        ("100000d", 100_000 * DAY),
    ],
)
def test_plain_durations(text: str, length: int) -> None:
    """Whole numbers with units are read, any number of each."""
    assert parse_duration(text) == length


@given(st.dictionaries(st.sampled_from("wdhms"), st.integers(0, 5_000), min_size=1))
def test_a_duration_is_the_sum_of_its_parts(parts: dict[str, int]) -> None:
    """Units in their order, each at most once, add up."""
    text = "".join(f"{parts[unit]}{unit}" for unit in "wdhms" if unit in parts)
    total = sum(count * UNITS[unit] for unit, count in parts.items())
    if total:
        assert parse_duration(text) == total
    else:
        with pytest.raises(InputError, match="over at once"):
            parse_duration(text)


@pytest.mark.parametrize(
    ("text", "offset", "hint"),
    [
        ("10min", 2, "10m"),
        ("2D", 1, "2d"),
        ("1h30mins", 4, "1h30m"),
        ("2hours", 1, "2h"),
        ("+5m", 0, "5m"),
        ("1h_30m", 2, "1h30m"),
        ("1h 30m", 2, "1h30m"),
        ("1_000s", 1, "1000s"),
        ("90", 2, "90s"),
    ],
)
def test_near_durations_get_the_right_spelling(text: str, offset: int, hint: str) -> None:
    """A slip that is common is answered with the right spelling, which is then read."""
    with pytest.raises(InputError) as caught:
        parse_duration(text)
    assert (caught.value.detail["offset"], caught.value.detail["hint"]) == (offset, hint)
    parse_duration(hint)


@pytest.mark.parametrize(
    "text",
    [
        *("", "m", "m10", "-5m", "--5m", "5m-", "1M", "1y", "1.5h", "0m", "0h0m", "30m1h", "1m1m"),
        *("1000ms", "10м", "١٠m", "1e3s", "0x10m", "1767272400000", "PT1H", "10m\n", "10m\0"),
        *("99999999999d", "9" * 40 + "w", "9" * 5000 + "s", "1s" * 5000),
    ],
)
def test_what_is_no_duration_is_refused_quickly(text: str) -> None:
    """Any other text is refused with a place inside it, however long it is."""
    begun = time.perf_counter()
    with pytest.raises(InputError) as caught:
        parse_duration(text)
    assert time.perf_counter() - begun < 0.1
    offset = caught.value.detail["offset"]
    assert isinstance(offset, int)
    assert 0 <= offset <= len(text)


def test_until_counts_durations_from_the_given_instant() -> None:
    """A duration counts from ``at``; an instant stands for itself."""
    assert parse_until("10m", 5) == 5 + 10 * MINUTE
    assert parse_until("1970-01-01T00:00:09Z", 5) == 9 * SECOND


def test_until_ends_with_the_calendar() -> None:
    """A duration that ends beyond the year 9999 is refused, the last nanosecond is not."""
    assert parse_until("1s", LAST_INSTANT - SECOND) == LAST_INSTANT
    with pytest.raises(InputError, match="beyond the year 9999"):
        parse_until("1s", LAST_INSTANT - SECOND + 1)


@pytest.mark.parametrize("text", ["never", "now", "Tomorrow", "today", "none"])
def test_words_are_answered_with_what_to_write(text: str) -> None:
    """Words for times are refused with a sentence that says what to write."""
    with pytest.raises(InputError) as caught:
        parse_until(text, 0)
    assert " " in str(caught.value.detail["hint"])


@pytest.mark.parametrize("at", [FIRST_INSTANT - 1, LAST_INSTANT + 1])
def test_instants_outside_the_calendar_are_not_written(at: int) -> None:
    """There is no written form outside the years 0001 to 9999."""
    with pytest.raises(InputError, match="0001 to 9999"):
        format_instant(at)


@given(st.text(max_size=80) | st.text("0123456789-:.TtZz+wdhms ", max_size=40))
def test_reading_is_total(text: str) -> None:
    """Whatever is read, the answer is a number or an ``InputError`` that names a place in it."""
    for read in (parse_instant, parse_duration, lambda t: parse_until(t, 0)):
        try:
            answer: object = read(text)
        except InputError as error:
            answer = error.detail["offset"]
            limit = len(text)
        else:
            limit = LAST_INSTANT
        assert isinstance(answer, int)
        assert answer <= limit
