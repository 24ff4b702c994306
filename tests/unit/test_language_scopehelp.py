"""What is said about malformed scope texts: the message, the place, the nearest right spelling."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.caveats import KINDS
from broker.errors import ScopeError
from broker.instants import parse_instant
from broker.language import scopehelp
from broker.language.scopehelp import explain_expect, explain_scope, nearest, unseen
from broker.scope import parse_scope

AT = parse_instant("2026-01-01T12:00:00Z")
GROUPS = {"reads": frozenset({"read_file", "grep"})}


def fault(*texts: str) -> ScopeError:
    """The error that some texts give."""
    with pytest.raises(ScopeError) as caught:
        parse_scope(texts, at=AT, groups=GROUPS)
    return caught.value


def test_examples_in_docstrings() -> None:
    """Every example in the module's documentation is true."""
    assert doctest.testmod(scopehelp).failed == 0


@pytest.mark.parametrize(
    ("text", "offset", "hint"),
    [
        ("path=src", 0, "paths"),
        (" Paths=src", 1, "paths"),
        ("host=example.com", 0, "hosts"),
        ("expires=10m", 0, "until"),
        ("ttl=10m", 0, "until"),
        ("budget=3", 0, "calls"),
        ("files=src", 0, "paths"),
        ("--paths=src", 0, "paths="),
        ("paths+=src", 5, "paths="),
        ("paths:src/**", 5, "paths=src/**"),
        ("src/**", 6, "paths=src/**"),
        ("calls=1e3", 7, "calls=1000"),
        ("calls=1,000", 7, "calls=1000"),
        ("calls=1_000_000", 7, "calls=1000000"),
        ("calls=05", 6, "calls=5"),
        ("calls=٣", 6, "calls=3"),
        ("calls=５", 6, "calls=5"),
        ("until=10min", 8, "10m"),
        ("until= 2D", 8, "2d"),
        ("until=2026-01-01", 16, "2026-01-01T00:00:00Z"),
        ("hosts=https://example.com/a", 6, "example.com"),
        ('hosts="example.com"', 6, "example.com"),
        ("hosts=a.test, 'b.test'", 14, "b.test"),
        ("tools='read'", 6, "read"),
        ("tools=“read”", 6, "read"),
        ("paths='src/**'", 6, '"src/**"'),
        ("tools=@rads", 6, "@reads"),
    ],
)
def test_slips_get_the_nearest_right_spelling(text: str, offset: int, hint: str) -> None:
    """A slip is shown where it is, with what was most likely meant."""
    error = fault(text)
    assert (error.offset, error.hint) == (offset, hint)
    assert f"did you mean `{hint}`?" in error.pointed()


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("", 0, "an empty text"),
        ("  ", 0, "an empty text"),
        ("=", 0, "a key is missing"),
        ("=src", 0, "a key is missing"),
        ("paths", 5, "no `=` in it"),
        ('{"paths":["src/**"]}', 20, "no `=` in it"),
        ("read.deny=**/.env", 0, "no such key `read.deny`"),
        ("deny=x", 0, "no such key `deny`"),
        ("paths=", 6, "`paths` has no value"),
        ("until= ", 7, "`until` has no value"),
        ("paths=,", 6, "an empty item"),
        ("paths=a,,b", 8, "an empty item"),
        ("paths=a, ,b", 9, "an empty item"),
        ("paths=a,", 8, "an empty item"),
        ("hosts=a.test,,b.test", 13, "an empty item"),
        ("paths=none,a", 6, "`none` stands alone"),
        ("tools=a, none", 9, "`none` stands alone"),
        ("hosts=none,a.test", 6, "`none` stands alone"),
        ('paths="a', 6, "the quote is not closed"),
        (r'paths="a\"', 6, "the quote is not closed"),
        ('paths=a"b"', 7, "a quote stands around a whole item"),
        ('paths="a"b', 9, "a comma is missing"),
        ('paths="a" "b"', 10, "a comma is missing"),
        ("paths=src hosts=x", 10, "two caveats in one text"),
        ("paths=src,hosts=x", 10, "two caveats in one text"),
        ("tools=read,paths=src", 11, "two caveats in one text"),
        ("hosts=a.test,calls=3", 13, "two caveats in one text"),
        ("hosts=exa mple.com", 9, ""),
        ("tools=read|shell", 10, "`|` stands between rules only"),
        ("tools=@", 6, "a group of tools"),
        ("tools=a@b", 7, ""),
        ("paths=../x", 6, "`..`"),
        ("paths=a, ../x", 9, "`..`"),
        (r'paths="a\"", "b/../x"', 16, "`..`"),
        (r'paths="\"\"/.."', 12, "`..`"),
        ("calls=1.5", 7, "a whole number"),
        ("calls=-1", 6, "a whole number"),
        ("calls=none", 6, "a whole number"),
        ("calls=10/h", 8, "not a rate"),
        ("calls=2147483648", 6, "at most 2147483647"),
        ("calls=99999999999", 6, "at most 2147483647"),
        ("calls=½", 6, "a whole number"),
        ("until=never", 6, "neither a duration nor an instant"),
        ("until=2027-02-29T00:00:00Z", 14, "no such day"),
        ("until=2026-01-01T13:00:00Z;calls=9", 26, "unexpected text"),
        ("until=99999999999d", 6, "9999"),
        ("until=2026-01-01T12:00:00Z", 6, "not in the future"),
        ("until=2025-01-01T12:00:00Z", 6, "not in the future"),
        ("@", 1, "a policy is `@` and its name"),
        ("@fix-tests,paths=src", 10, "stands alone"),
        ("@fix-tests paths=src", 11, "stands alone"),
        ("@review", 0, "policies cannot be named here"),
        ("paths=a\tb", 7, "a tab"),
        ("paths=a\n", 7, "a line break"),
        ("paths=a\0", 7, "a NUL"),
        ("paths\u200b=a", 5, "U+200B"),
        ("paths=\u202ea", 6, "U+202E"),
        ("paths=\ud800", 6, "half a character"),
    ],
)
def test_malformed_texts_name_what_and_where(text: str, offset: int, message: str) -> None:
    """Every malformed text gives one line that says what, and the place of the fault."""
    error = fault("calls=1", text)
    assert message in error.message
    assert (error.text, error.offset) == (text, offset)
    assert "\n" not in str(error)


def test_an_agent_s_own_way_to_write_conditions_is_explained() -> None:
    """`Bash(git log:*)` names no argument: the message shows how a condition is written here."""
    error = fault("tools=Bash(git log:*)")
    assert error.message == "unexpected `log` in a condition"
    assert error.hint is not None
    assert 'Bash(command="git log")' in error.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("paths=src/** docs/**", "items are split by commas: src/**,docs/**"),
        ("paths=src/**;docs/**", "items are split by commas: src/**,docs/**"),
        ("paths=src/**|docs/**", "items are split by commas: src/**,docs/**"),
        ("tools=read grep glob", "items are split by commas: read,grep,glob"),
        ("hosts=a.test b.test", "items are split by commas: a.test,b.test"),
        ('paths="src/**,docs/**"', "quotes make it one item; a list is src/**,docs/**"),
        ("hosts=a.test;b.test", "items are split by commas: a.test,b.test"),
    ],
)
def test_other_separators_are_answered_with_commas(text: str, hint: str) -> None:
    """A list split by something else shows the same list with commas."""
    assert fault(text).hint == hint


def test_the_caret_stands_under_the_fault() -> None:
    """The drawing that a person sees has the caret in the column of the fault."""
    assert fault("paths=src,hosts=x").pointed().splitlines()[1:3] == [
        "  paths=src,hosts=x",
        "            ^",
    ]


@given(st.text(max_size=30) | st.text("paths=cluntihos,none\"'()@| ", max_size=30), st.data())
def test_explaining_is_total(text: str, data: st.DataObject) -> None:
    """Whatever text and place it is given, an explanation is one line with a place in it."""
    offset = data.draw(st.integers(0, len(text)))
    for explain in (explain_scope, explain_expect):
        error = explain(text, offset)
        assert 0 <= error.offset <= len(text)
        assert error.message == error.message.strip().rstrip(".")
        assert error.pointed()


@given(st.sampled_from(KINDS), st.text("=abn,\"' (", max_size=12), st.data())
def test_explaining_any_place_of_any_key_is_total(
    kind: str, rest: str, data: st.DataObject
) -> None:
    """Behind every key, every place gets an explanation."""
    text = f"{kind}={rest}"
    error = explain_scope(text, data.draw(st.integers(len(kind), len(text))))
    assert 0 <= error.offset <= len(text)


def test_every_common_name_for_a_key_leads_to_a_key() -> None:
    """The table of other words for keys names real keys only, and is no key itself."""
    assert set(scopehelp._ALIASES.values()) <= set(KINDS)
    assert set(scopehelp._ALIASES).isdisjoint(KINDS)


def test_nothing_near_is_no_hint() -> None:
    """A name that is like none of the known ones gets no guess."""
    assert nearest("zzzz", ["review", "docs"]) is None


@pytest.mark.parametrize("char", ["\u200d", "\ufe0f", "é", "\u00a0", "👩"])
def test_what_shows_or_joins_emoji_may_stand(char: str) -> None:
    """Letters of any script, and what file names with emoji hold, are no fault."""
    assert unseen(f"paths={char}x") is None
