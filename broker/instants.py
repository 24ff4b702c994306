"""
Instants and durations as text.

Decided here: which spellings of an instant (RFC 3339) and of a duration (``1h30m``) are read,
and how an instant is written. Deliberately not: when *now* is; that is always an argument.

Rules a maintainer keeps: whole nanoseconds since the Unix epoch, UTC, and no floating point
anywhere; one instant has one written form; every refusal says at which character and, where
there is one, the right spelling. Sizes are checked before a number is read.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from broker.errors import InputError

SECOND: Final = 1_000_000_000  # nanoseconds
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
UNITS: Final = {"w": WEEK, "d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND}

FIRST_INSTANT: Final = -62_135_596_800 * SECOND  # 0001-01-01T00:00:00Z
LAST_INSTANT: Final = 253_402_300_800 * SECOND - 1  # the last nanosecond of the year 9999

_MAX_TEXT: Final = 64  # characters; the longest right spelling has 35
_INSTANT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_PART: Final = re.compile(r"([0-9]+)([wdhms])(?![A-Za-z])")
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

# Slips that are common enough to be answered with the right spelling.
_DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_SLIPS: Final = tuple(
    (re.compile(pattern), message, hint)
    for pattern, message, hint in (
        (rf"({_DATE})", "a date alone does not say which part of the day", r"\1T00:00:00Z"),
        (rf"({_DATE}[Tt][0-9:]{{8}}(?:\.[0-9]{{1,9}})?)", "a zone is missing", r"\1Z"),
        (rf"({_DATE}) ([0-9:]{{8}}\S*)", "the date and the time are joined by a `T`", r"\1T\2"),
        (rf"({_DATE}[Tt][0-9]{{2}}:[0-9]{{2}})([Zz]|[+-].*)", "seconds are missing", r"\1:00\2"),
        (rf"({_DATE}[Tt][0-9:.]+[+-][0-9]{{2}})", "the zone needs minutes", r"\1:00"),
        (
            rf"({_DATE}[Tt][0-9:.]+[+-][0-9]{{2}})([0-9]{{2}})",
            "the zone needs a colon",
            r"\1:\2",
        ),
        (
            r"([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})Z",
            "an instant is written with separators",
            r"\1-\2-\3T\4:\5:\6Z",
        ),
    )
)
_WORDS: Final = {
    "never": "leave `until` out to set no end",
    "now": "give a duration such as `10m`, counted from now",
    "today": "give a duration such as `8h`, or an instant with its zone",
    "tomorrow": "give a duration such as `1d`, or an instant with its zone",
    "none": "leave `until` out to set no end",
}


def _fault(message: str, offset: int = 0, hint: str | None = None) -> NoReturn:
    raise InputError(message, code="instant", offset=offset, hint=hint)


def _days_before(year: int, month: int, day: int) -> int:
    """Return the days from 1970-01-01 to a date of the Gregorian calendar."""
    # Years are counted from March, so that a leap day is the last of its year.
    late = month > 2
    shifted = year if late else year - 1
    of_year = (153 * (month - 3 if late else month + 9) + 2) // 5 + day - 1
    return shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + of_year - 719_468


def _date_of(days: int) -> tuple[int, int, int]:
    """Return the year, month and day that lie ``days`` after 1970-01-01."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return era * 400 + year + (month <= 2), month, day


def parse_instant(text: str) -> int:
    """
    Return the nanoseconds since the Unix epoch of an RFC 3339 instant with a zone.

    Seconds are required, up to nine fraction digits are read, a leap second (``:60``) is
    refused because no clock here shows it.

    Raises:
        InputError: any other spelling; ``detail`` holds ``offset`` and ``hint``.

    >>> parse_instant("1970-01-01T01:00:00.5+01:00")
    500000000
    """
    match = _INSTANT.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        _explain_instant(text)
    year, month, day, hour, minute, second = (int(part) for part in match.group(1, 2, 3, 4, 5, 6))
    if year < 1:
        _fault("the first year is 0001")
    if not 1 <= month <= 12:
        _fault(f"no such month `{month:02}`", 5)
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _DAYS[month - 1] + leap:
        _fault(f"no such day `{text[:10]}`", 8)
    if hour > 23:
        _fault(f"no such hour `{hour}`", 11, "hours run from 00 to 23")
    if minute > 59:
        _fault(f"no such minute `{minute}`", 14)
    if second > 59:
        _fault(f"no such second `{second}`", 17, "leap seconds are not counted; write the next one")
    at = _days_before(year, month, day) * DAY + hour * HOUR + minute * MINUTE + second * SECOND
    fraction, sign, zone_hours, zone_minutes = match.group(7, 8, 9, 10)
    if fraction is not None:
        at += int(fraction.ljust(9, "0"))
    if sign is not None:
        if int(zone_hours) > 23 or int(zone_minutes) > 59:
            _fault(f"no such zone `{match.group()[match.start(8) :]}`", match.start(8))
        zone = int(zone_hours) * HOUR + int(zone_minutes) * MINUTE
        at += -zone if sign == "+" else zone
    if not FIRST_INSTANT <= at <= LAST_INSTANT:
        _fault("the instant lies outside the years 0001 to 9999")
    return at


def format_instant(at: int) -> str:
    """
    Return the one written form of an instant: UTC, ``Z``, no idle fraction digits.

    Raises:
        InputError: the instant lies outside the years 0001 to 9999.

    >>> format_instant(1_500_000_000)
    '1970-01-01T00:00:01.5Z'
    """
    if not FIRST_INSTANT <= at <= LAST_INSTANT:
        _fault("the instant lies outside the years 0001 to 9999")
    days, rest = divmod(at, DAY)
    seconds, fraction = divmod(rest, SECOND)
    year, month, day = _date_of(days)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    tail = f".{fraction:09}".rstrip("0") if fraction else ""
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{tail}Z"


def parse_duration(text: str) -> int:
    """
    Return the nanoseconds of a duration: whole numbers with ``w d h m s``, largest unit first.

    Raises:
        InputError: any other spelling, zero, or more than 9999 years; ``detail`` holds
            ``offset`` and ``hint``.

    >>> parse_duration("1h30m") // 1_000_000_000
    5400
    """
    if len(text) > _MAX_TEXT:
        _fault("a duration of that length is none", _MAX_TEXT)
    total = place = 0
    units = "wdhms"
    while place < len(text):
        part = _PART.match(text, place)
        if part is None:
            _explain_duration(text, place)
        number, unit = part.groups()
        if unit not in units:
            _fault(
                f"`{unit}` comes too late or twice: each unit once, the largest first",
                part.start(2),
                "such as `1d12h`",
            )
        units = units[units.index(unit) + 1 :]
        total += int(number) * UNITS[unit]
        place = part.end()
    if not text:
        _fault("a duration is missing", 0, "such as `45m`")
    if total == 0:
        _fault("a duration of zero is over at once", 0, "such as `45m`")
    if total > LAST_INSTANT - FIRST_INSTANT:
        _fault("the duration ends beyond the year 9999")
    return total


def parse_until(text: str, at: int) -> int:
    """
    Return the instant that a duration from ``at``, or an RFC 3339 instant, names.

    Raises:
        InputError: as ``parse_instant`` and ``parse_duration``, or beyond the year 9999.

    >>> format_instant(parse_until("1d", parse_instant("2026-02-28T10:00:00Z")))
    '2026-03-01T10:00:00Z'
    """
    word = _WORDS.get(text.lower())
    if word is not None:
        _fault(f"`{text}` is neither a duration nor an instant", 0, word)
    if _looks_like_instant(text):
        return parse_instant(text)
    end = at + parse_duration(text)
    if end > LAST_INSTANT:
        _fault("the duration ends beyond the year 9999")
    return end


def _looks_like_instant(text: str) -> bool:
    """Say which of the two a text was meant to be, so that its fault is named well."""
    head = text[:_MAX_TEXT]
    return re.match(r"[+-]?[0-9]+[-/\N{EN DASH}.][0-9]|[0-9]{8}[Tt]", head) is not None


def _explain_instant(text: str) -> NoReturn:
    example = "such as `2026-01-31T18:00:00Z`"
    if len(text) > _MAX_TEXT:
        _fault("an instant of that length is none", _MAX_TEXT, "at most nine fraction digits")
    for pattern, message, hint in _SLIPS:
        slip = pattern.fullmatch(text)
        if slip is not None:
            _fault(message, slip.end(1), slip.expand(hint))
    partial = _INSTANT.match(text)
    if partial is not None:
        _fault("unexpected text after the instant", partial.end(), partial.group())
    if re.match(r"[0-9]{5,}-", text):
        _fault("the last year is 9999")
    fraction = re.match(rf"{_DATE}[Tt][0-9:]{{8}}\.[0-9]{{10}}", text)
    if fraction is not None:
        _fault("at most nine fraction digits", fraction.end() - 1)
    # The longest beginning that a right spelling shares shows where it goes wrong.
    shape = "0000-00-00T00:00:00"
    place = 0
    for want, have in zip(shape, text, strict=False):
        fits = have in "0123456789" if want == "0" else have.upper() == want
        if not fits:
            break
        place += 1
    _fault("an instant is written as RFC 3339 has it", place, example)


def _explain_duration(text: str, place: int) -> NoReturn:
    example = "such as `90s`, `10m`, `1h30m`, `2d`, `1w`"
    rest = text[place:]
    if place == 0 and rest[0] in "+-":
        plain = rest[1:]
        right = re.fullmatch(r"(?:[0-9]+[wdhms])+", plain)
        _fault("a duration has no sign", 0, plain if right and rest[0] == "+" else example)
    number = re.match(r"[0-9]*", rest)
    digits = number.group() if number else ""
    end = place + len(digits)
    if not digits:
        tidy = re.sub(r"[ _,]", "", text)
        right = re.fullmatch(r"(?:[0-9]+[wdhms])+", tidy)
        _fault(f"`{rest[0]}` where a number is due", place, tidy if right else example)
    if end == len(text):
        if place == 0 and len(digits) >= 9:
            _fault("a bare number is neither a duration nor an instant", end, example)
        _fault("a unit is missing", end, f"{text}s")
    word = re.match(r"[a-z]+", text[end:], re.IGNORECASE)
    unit = word.group() if word else text[end]
    tidy = re.sub(r"[ _,]", "", text)
    if unit in " _," and re.fullmatch(r"(?:[0-9]+[wdhms])+", tidy):
        _fault(f"`{unit}` where a unit is due", end, tidy)
    _fault(f"no such unit `{unit}`", end, _unit_hint(text, digits, unit, end) or example)


def _unit_hint(text: str, digits: str, unit: str, end: int) -> str | None:
    """Return the right spelling of a number with a unit that is none, when it is plain."""
    if unit in ("M", "mo", "month", "months", "y", "Y", "year", "years"):
        return "months and years have no fixed length; use days, such as `30d`"
    if unit.lower() in ("ms", "us", "ns"):
        return "seconds are the smallest unit"
    first = unit[0].lower()
    known = {"min", "mins", "sec", "secs", "hr", "hrs"}
    known |= {
        word for one in ("week", "day", "hour", "minute", "second") for word in (one, one + "s")
    }
    if first in UNITS and (len(unit) == 1 or unit.lower() in known):
        return text[: end - len(digits)] + digits + first + text[end + len(unit) :]
    return None
