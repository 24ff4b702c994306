"""Which addresses and accounts a text names, however they are spelled."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.language.links import _TELLING, link_form, links_in, links_stand


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("see www.evil.test", ["www.evil.test"]),
        ("see https://evil.test/a?b=c#d!", ["evil.test/a?b=c#d"]),
        ("(see http://evil.test/)", ["evil.test"]),
        ("[here](https://evil.test/a)", ["evil.test/a"]),
        ("<a href='https://evil.test'>https://good.test</a>", ["evil.test", "good.test"]),
        ("go:https://evil.test", ["evil.test"]),
        ("evil.test|https://good.test", ["good.test", "evil.test"]),
        ("ftp://evil.test/x", ["ftp://evil.test/x"]),
        ("mallory@evil.test", ["mallory@evil.test"]),
        ("mailto:mallory@evil.test,", ["mallory@evil.test"]),
        ("to:mallory@localhost", ["mallory@localhost"]),
        ("https://good.test,@evil.test/", ["good.test,@evil.test"]),
        ("read this...evil.test", ["this...evil.test"]),
        ("evil.test's page", ["evil.test"]),
        ("*evil.test*, _evil.test_", ["evil.test"]),
        ("10.0.0.1:8080/x", ["10.0.0.1:8080/x"]),
        ("ＷＷＷ．ｅｖｉｌ．ｔｅｓｔ", ["WWW.evil.test"]),
        ("evil。test and evil｡test", ["evil.test"]),
        ("ev\u200bil\u00ad.test", ["evil.test"]),
        ("müller.example", ["müller.example"]),
        ("GB29 NWBK 6016 1331 9268 19", ["GB29NWBK60161331926819"]),
        ("to US133000000121212121212.", ["US133000000121212121212"]),
        ("[x](javascript:alert)", ["javascript:alert"]),
        ("call TEL:+49900", ["TEL:+49900"]),
        ("//evil.test/x", ["//evil.test/x"]),
        ("AT6854532054", ["AT6854532054"]),
        ("to bc1qx7f3a9h4pkw2, now", ["bc1qx7f3a9h4pkw2"]),
        (f"pay 0x{'aB12' * 10}!", [f"0x{'aB12' * 10}"]),
        ("BTC:1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", ["1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2"]),
    ],
)
def test_what_names_something_is_found(text: str, named: list[str]) -> None:
    """Addresses, mailboxes and accounts are found among signs, glued, and in odd letters."""
    assert list(links_in(text)) == named


@pytest.mark.parametrize(
    "text",
    [
        "",
        "At 10.30 on 2026-05-01 10:30:00.5Z we pay 98.70 or 1,200.50.",
        "e.g. this, i.e. that... and so on",
        "Hello @bob, #general: 50% off!",
        "The data: see below. Tel: none; ratio 3:4, note:this",
        "a.m. and p.m., version 1.2.3 of v2",
        "The IBAN is secret. UK12 is too short",
        "0x1F, 3 of 100, abc1234567890123456789, commit 1b4f0e9851971998e732078544c96b36c3d01ced",
    ],
)
def test_plain_words_and_numbers_name_nothing(text: str) -> None:
    """Days, amounts, mentions and the ends of sentences are no addresses."""
    assert links_in(text) == ()


@given(st.text(max_size=60), st.text(max_size=60))
def test_what_stands_apart_is_found_whatever_is_around(before: str, behind: str) -> None:
    """No words around it hide an address that stands between blanks."""
    assert "evil.test/x" in links_in(f"{before} evil.test/x {behind}")


@given(st.text(alphabet="a1.@:/- \t\n\x1c\u2003é", max_size=40))
def test_only_words_with_a_sign_inside_are_looked_at(text: str) -> None:
    """One search finds the words that splitting at blanks and looking at each one finds."""
    words = text.split()
    telling = [w for w in words if "." in w[:-1] or "@" in w or ":" in w[:-1]]
    assert _TELLING.findall(text) == telling


@given(st.text(alphabet="ab.@:/-_ 'é1,()", max_size=40))
def test_a_form_is_its_own(text: str) -> None:
    """What is found compares as what it is, however often it is written down."""
    assert all(link_form(link_form(link)) == link_form(link) for link in links_in(text))


@given(st.text(alphabet="ab.@:/-_ 'é1,()", max_size=40))
def test_a_text_that_stands_in_the_line_names_nothing_new(text: str) -> None:
    """The line itself, repeated, names nothing that does not stand in it."""
    assert links_stand(text, text) or not text.strip(" ") or not any(map(str.isalnum, text))


def test_each_address_must_stand_in_the_line() -> None:
    """An address passes in any spelling the line may give it, and no other one does."""
    line = "Tell <bob@b.test> of https://a.test/x and GB29 NWBK 6016 1331 9268 19"
    assert links_stand(line, "bob@b.test: see a.test/x and GB29NWBK60161331926819")
    assert not links_stand(line, "bob@b.test: see a.test")
    assert not links_stand(line, "ob@b.test")
    assert not links_stand(None, "bob@b.test")
    assert links_stand(None, "hello")


@pytest.mark.parametrize(
    "part", ["a", "a.", "a-", ".a", "@a", "://", "AA11 ", "(", "a@", "é", "1", "A1 "]
)
def test_the_time_grows_with_the_text(part: str) -> None:
    """A long text of one sign is gone through in time."""
    text = part * (200_000 // len(part))
    begun = time.process_time()
    links_in(text)
    assert time.process_time() - begun < 5
