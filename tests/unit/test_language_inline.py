"""What stands in a typed line, word for word, and what only looks as if."""

from __future__ import annotations

import pytest

from broker.language.inline import stands_in

LINE = (
    "Pay 1200.50 to GB29 NWBK 6016 1331 9268 19 and 50 to Bob's friend <anna.lee@x.org>, then "
    "read ./notes/plan.txt, /etc/hosts and www.site.com/a; tell #general @carl 'dora' (id=7)."
)


@pytest.mark.parametrize(
    "value",
    [
        "GB29NWBK60161331926819",
        "GB29 NWBK 6016 1331 9268 19",
        "anna.lee@x.org",
        " anna.lee@x.org ",
        "<anna.lee@x.org>",
        "notes/plan.txt",
        "./notes/plan.txt",
        "/etc/hosts",
        "www.site.com/a",
        "https://www.site.com/a",
        "general",
        "#general",
        "carl",
        "dora",
        "Bob",
        "Bob's friend",
        "7",
        1200.5,
        50,
        50.0,
    ],
)
def test_it_stands_there(value: object) -> None:
    """A value in one of the spellings that its own shape has is found."""
    assert stands_in(LINE, value)


@pytest.mark.parametrize(
    "value",
    [
        "lee@x.org",
        "anna.lee@x.org.evil.com",
        "anna.lee@x",
        "x.org",
        "ANNA.LEE@x.org",
        "anna.lee@x.оrg",
        "anna.lee@x.org\nbcc:evil@y.org",
        "anna.lee@x.org <evil@y.org>",
        "anna\u200d.lee@x.org",
        "anna .lee@x.org",
        "GB29NWBK6016133192681",
        "GB29NWBK601613319268190",
        "gb29nwbk60161331926819",
        "plan.txt",
        "notes",
        "notes/plan",
        "etc/hosts",
        "hosts",
        "../notes/plan.txt",
        "http://www.site.com",
        "www.site.com",
        "site.com/a",
        "https://www.site.com/a?q=secret",
        "https://www.site.com@evil.test/a",
        "gene",
        "riend",
        "s",
        ".",
        "",
        " ",
        "Pay 50",
        1200,
        0.5,
        5,
        -50,
        True,
        False,
        None,
        ["Bob"],
        {"Bob": 1},
        float("nan"),
        10**200,
    ],
)
def test_it_does_not_stand_there(value: object) -> None:
    """A part of a word, another case, a look-alike or a longer text is not found."""
    assert not stands_in(LINE, value)


@pytest.mark.parametrize(
    ("line", "value", "due"),
    [
        ("see https://a.test/x", "http://a.test/x", False),  # a scheme is not weakened
        ("see https://a.test/x", "a.test/x", True),
        ("see a.test", "https://a.test/", True),
        ("from 10-50", 50, False),
        ("1,000 of them", 1, False),
        ("1.50", 1, False),
        ("v1.5.2", 1.5, False),
        ("pay $50.", 50, True),
        ("pay 50€", 50, True),
        ("pay -5", -5, True),
        ("at 10:30", "30", False),
        ("co-op", "op", False),
        ("x@y.org", "@y.org", False),
        ("naïve", "na", False),
        ("e\u0301t", "e", False),
        ("", "a", False),
        ("a", "a", True),
    ],
)
def test_where_a_word_ends(line: str, value: object, due: bool) -> None:
    """What is joined to a word belongs to it; punctuation around it does not."""
    assert stands_in(line, value) == due


def test_a_long_line_and_value_take_no_time() -> None:
    """Searching is linear: a line made to be slow is not."""
    assert not stands_in("a" * 60_000, "a" * 4_000)
    assert not stands_in("GB29 " * 10_000, "GB29NWBK60161331926819")
    assert not stands_in("a", "a" * 100_000)
