"""Each malformed condition is explained: where, what, and how it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ScopeError
from broker.language.rulehelp import explain_rule, open_rule
from broker.scope import parse_scope

RIGHT = 'tools=pay(to in {"A", "B"}, sum<=50, at on 2024-05, cc absent, x? in intent)|pay(y=true)'


@pytest.mark.parametrize(
    ("text", "at", "message", "hint"),
    [
        ("a(", 2, "a `)` is missing", "such as"),
        ('a(b="1"', 7, "a `)` is missing", "such as"),
        ("a()", 2, "an argument's name is missing", "such as"),
        ('a(b="1",)', 8, "an argument's name is missing", "such as"),
        ("a(*)", 2, "named, not starred", "... in intent"),
        ("a(5=5)", 2, "where an argument's name is due", "take quotes"),
        ("a(b=x)", 4, "double quotes", '"x"'),
        ("a(b='x')", 4, "double quotes", "such as"),
        ("a(b=1e5)", 4, "a number is not spelled so", "plain digits"),
        ("a(b=.5)", 4, "unexpected `.`", "such as"),
        ("a(b==5)", 4, "`==`", "one `=`"),
        ("a(b<5)", 3, "unexpected `<`", "write `<=`"),
        ('a(b!="x")', 3, "unexpected `!`", "no negative"),
        ('a(b not in {"x"})', 4, "unexpected `not`", "no negative"),
        ('a(b like "x")', 4, "unexpected `like`", "no patterns"),
        ('a(b matches "x")', 4, "unexpected `matches`", "no regular expressions"),
        ('a(b in ["x"])', 7, "in braces", "in {"),
        ("a(b in {})", 8, "empty set", "absent"),
        ("a(b links in {})", 14, "empty set", "links absent"),
        ("a(b links)", 9, "unexpected `)`", "links in intent"),
        ('a(b in {"x" "y"})', 12, "comma", "such as"),
        ('a(b="x" c="y")', 8, "comma", "such as"),
        ('a(b="x" or b="y")', 8, "comma", "such as"),
        ("a(b<=x)", 5, "a number is due", "amount<=50"),
        ("a(git log)", 6, "unexpected `log`", 'a(command="git log")'),
        ('a(b.="x")', 4, "unexpected `=`", None),
        ('a(b in "x")', 7, "in braces", "in {"),
    ],
)
def test_each_fault_is_named_at_its_place(text: str, at: int, message: str, hint: str | None):
    """The caret stands where the grammar stopped, and the hint shows the right way."""
    with pytest.raises(ScopeError) as caught:
        parse_scope(f"tools={text}", at=0)
    error = caught.value
    assert (error.offset - 6, message in error.message) == (at, True), error.pointed()
    assert hint is None or hint in (error.hint or "")


def test_the_right_text_is_right() -> None:
    """What the next test breaks is well-formed."""
    assert len(parse_scope(RIGHT, at=0).caveats[0].value) == 2


@given(st.integers(6, len(RIGHT) - 1), st.sampled_from([*'"(){}[]|,=<>.?*!@ a5-', "…", ""]))
def test_any_change_is_read_or_explained(at: int, sign: str) -> None:
    """One character more, less or other never gives anything but a scope or a scope's error."""
    for text in (RIGHT[:at] + sign + RIGHT[at:], RIGHT[:at] + sign + RIGHT[at + 1 :], RIGHT[:at]):
        try:
            parse_scope(text, at=0)
        except ScopeError as error:
            assert 0 <= error.offset <= len(text)
            assert error.message


@given(st.text(max_size=20), st.integers(0, 20))
def test_explaining_is_total(inside: str, offset: int) -> None:
    """Whatever stands in the parentheses, an explanation comes back."""
    text = f"tools=a({inside}"
    place = min(8 + offset, len(text))
    assert isinstance(explain_rule(text, 7, place), ScopeError)


def test_a_parenthesis_in_quotes_opens_nothing() -> None:
    """Only a parenthesis outside quotes begins a rule."""
    assert open_rule('tools=a(b="(")', 6, 14) == -1
    assert open_rule('tools="a(b"', 6, 11) == -1
    assert open_rule("tools=a(b", 6, 9) == 7
