"""What each kind of condition admits of one value."""

from __future__ import annotations

import json

import pytest

from broker.admitting import admitting
from broker.calls import Call, Look, PathSubject, UrlSubject
from broker.conditions import (
    Free,
    InIntent,
    LinksTyped,
    admits_value,
    between,
    day_of,
    host_in,
    links,
    on,
    under,
    values,
)
from broker.errors import InputError

NOWHERE = Look(Call("t", arguments={}))


def passes(test, value, look: Look = NOWHERE) -> bool:
    return admitting(test)(value, "a", look)


@pytest.mark.parametrize("value", ["A", " A ", "A  "])
def test_a_text_is_its_characters_and_blanks_around_do_not_count(value: str) -> None:
    """A value equals itself, with or without blanks around it."""
    assert passes(values("A"), value)


@pytest.mark.parametrize(
    "value",
    ["a", "AA", "A\n", "\tA", "A\u200d", "\u00a0A", "Α", "Ａ", ["A"], {"A": 1}, None, "", 1, True],
)
def test_nothing_else_is_that_text(value: object) -> None:
    """No other case, look-alike, invisible character, list, object or null passes for a text."""
    assert not passes(values("A"), value)


@pytest.mark.parametrize("value", [True, "5", 5.5, [5], float("nan"), float("inf"), None, 10**400])
def test_a_number_is_no_flag_text_or_infinity(value: object) -> None:
    """`True` is not 1, `"5"` is not 5, and what is not finite is no number."""
    assert not passes(values(5, 1), value)
    assert not passes(between(0, 9), value) or value == 5.5


def test_a_number_is_its_value() -> None:
    """5 and 5.0 are one number; minus zero is zero; a flag equals a flag only."""
    assert passes(values(5), 5.0)
    assert passes(between(0, 0), -0.0)
    assert passes(values(True), True)
    assert not passes(values(True), 1)
    assert not passes(values(1), True)


@pytest.mark.parametrize("text", ["1e400", "-1e400", "NaN", "Infinity"])
def test_json_s_way_to_write_infinity_passes_no_range(text: str) -> None:
    """A number that overflows is refused, also where there is no upper end."""
    assert not passes(between(0, None), json.loads(text))


def test_a_range_has_both_ends() -> None:
    """Both ends belong to a range; huge whole numbers are compared exactly."""
    assert [passes(between(1, 3), n) for n in (0.999, 1, 3, 3.001, -1)] == [0, 1, 1, 0, 0]
    assert passes(between(0, None), 10**300)
    assert not passes(between(0, 2**53 - 1), 2**53)


@pytest.mark.parametrize(
    ("value", "due"),
    [
        ("2024-05-19", True),
        ("2024-05-19 10:30", True),
        ("2024-05-19T23:59:59.123Z", True),
        ("2024-05-19T10:00+02:00", True),
        ("2024-05-18T23:00:00-10:00", False),  # as spelled, whatever the zone makes of it
        ("2024-05-19T24:00", False),
        ("2024-05-19x", False),
        ("2024-05-190", False),
        ("2024-5-19", False),
        ("x2024-05-19", False),
        ("2024-05-19\n", False),
        ("２０２４-05-19", False),
        (20240519, False),
        (["2024-05-19"], False),
    ],
)
def test_a_day_is_read_strictly_from_the_beginning(value: object, due: bool) -> None:
    """A day stands first, in digits, alone or with a time of day; nothing else follows."""
    day = day_of("2024-05-19")
    assert day is not None
    assert passes(on((day, day)), value) == due


def url(label: str = "a", spelled: str = "https://x.test/") -> UrlSubject:
    return UrlSubject(label, spelled, "https", "x.test", 443, ("x.test", "x.test:443"))


def test_a_host_is_what_the_resolver_read_at_that_argument() -> None:
    """The address must have been read there, from that very text, and every reading must fit."""
    here = Look(Call("t", urls=(url(),), arguments={}))
    assert passes(host_in("x.test"), "https://x.test/", here)
    assert not passes(host_in("y.test"), "https://x.test/", here)
    assert not passes(host_in("x.test"), "https://y.test/", here)
    assert not passes(host_in("x.test"), "https://x.test/", NOWHERE)
    elsewhere = Look(Call("t", urls=(url("b"),), arguments={}))
    assert not passes(host_in("x.test"), "https://x.test/", elsewhere)


def test_a_folder_is_where_the_path_leads() -> None:
    """Every place of the path lies below the folder; a write inside .git needs .git named."""

    def look(*places: str, git: bool = False) -> Look:
        path = PathSubject("a", "p", "write", places, inner_git=git)
        return Look(Call("t", paths=(path,), arguments={}))

    assert passes(under("src"), "p", look("src/a/"))
    assert passes(under("src"), "p", look("src/"))
    assert passes(under("."), "p", look("src/"))
    assert not passes(under("src"), "p", look("src/a/", "etc/"))
    assert not passes(under("src"), "p", look("srcs/a/"))
    assert not passes(under("src"), "p", look())
    assert not passes(under("src"), ["p"], look("src/a/"))
    assert not passes(under("src"), "p", look("src/.git/hooks/", git=True))
    assert passes(under("src/.git"), "p", look("src/.git/hooks/", git=True))


def test_the_same_text_twice_is_read_once() -> None:
    """The second like element of a list is judged as the first; another argument's is not."""
    path = PathSubject("p[0].f[2]", "src/a", "write", ("src/a/",))
    url = UrlSubject("u[0]", "https://a.test", "https", "a.test", 443, ("a.test",))
    look = Look(Call("t", paths=(path,), urls=(url,), arguments={}))
    below, reaches = admitting(under("src")), admitting(host_in("a.test"))
    assert below("src/a", "p[1].f[0]", look)
    assert not below("src/b", "p[1].f[0]", look)
    assert not below("src/a", "q[1].f[0]", look)
    assert not below("src/a", "p[1].g[0]", look)
    assert reaches("https://a.test", "u[7]", look)
    assert reaches("a.test", "u[7]", look)
    assert not reaches("b.test", "u[7]", look)
    assert not reaches("https://a.test", "v[0]", look)


def test_without_the_line_nothing_stands_in_it() -> None:
    """`in intent` refuses where the typed line is not here."""
    assert not passes(InIntent(), "A")
    assert passes(InIntent(), "A", Look(Call("t"), "to A"))


def test_a_text_names_no_other_addresses() -> None:
    """Only what is named may be named, in another spelling too; what is no text passes never."""
    some = links("www.a.test", "bob@b.test")
    assert passes(some, "nothing to see")
    assert passes(some, "see https://www.a.test/ or ask bob@b.test.")
    assert not passes(some, "see https://www.a.test/x")
    assert not passes(links(), "see www.a.test")
    assert not any(passes(some, value) for value in (5, True, ["www.a.test"], {"a": "b"}))


def test_a_text_names_what_the_line_names() -> None:
    """Each address stands in the line; where the line is not here, a text may name none."""
    look = Look(Call("t"), "Tell bob@b.test about www.a.test")
    assert passes(LinksTyped(), "Hello bob@b.test, https://www.a.test is up", look)
    assert not passes(LinksTyped(), "Hello bob@b.test, www.c.test is up", look)
    assert passes(LinksTyped(), "Hello")
    assert not passes(LinksTyped(), "Hello bob@b.test")
    assert not passes(LinksTyped(), 5, look)


def test_a_condition_without_a_value_is_not_made_ready() -> None:
    """Free and absent arguments are not asked for a test."""
    with pytest.raises(InputError):
        admitting(Free())


def test_values_alone_decide_a_value() -> None:
    """What looks at the value only agrees with the prepared test."""
    for test in (values("a", 1, True), between(0, 1), on((1, 2))):
        for value in ("a", 1, True, "0001-01-02", "b", 2.5, [1]):
            assert admits_value(test, value) == passes(test, value)
