"""How conditions are typed: sets, ranges, days, ways to arguments."""

from __future__ import annotations

import pytest

from broker.conditions import (
    Absent,
    Free,
    InIntent,
    LinksTyped,
    between,
    host_in,
    links,
    on,
    under,
    values,
)
from broker.errors import ScopeError
from broker.language.rulereading import read_rule
from broker.rules import Condition, Hop, Rule
from broker.scope import parse_pieces, parse_scope


def typed(text: str) -> Rule:
    (item,) = parse_scope(f"tools={text}", at=0).caveats[0].value
    assert isinstance(item, Rule)
    return item


def only(text: str) -> Condition:
    (condition,) = typed(f"t({text})").conditions
    return condition


@pytest.mark.parametrize(
    ("text", "test"),
    [
        ('a="A"', values("A")),
        ('a = "A"', values("A")),
        ('a in {"A","B" , 1, true}', values("A", "B", 1, True)),
        ("a=7", values(7)),
        ("a=-0.50", values(-0.5)),
        ("a=true", values(True)),
        ("a<=50", between(0, 50)),
        ("a>=-5, a<=5.5", between(-5, 5.5)),
        ("a<=5, a>=1", between(1, 5)),
        ("a>=1", between(1, None)),
        ("a on 0001-01-02", on((2, 2))),
        ("a on 0001-02", on((32, 59))),
        ("a on 0001", on((1, 365))),
        ("a on {0001-01-01..0001-01-05, 0001-01-06}", on((1, 6))),
        ("a host in {*.A.example, b.test:8443}", host_in("*.a.example", "b.test:8443")),
        ('a under "./src/"', under("src")),
        ('a under "."', under(".")),
        ("a in intent", InIntent()),
        ("a links absent", links()),
        ("a links in intent", LinksTyped()),
        ('a links in {"https://x.test/", "bob@x.test"}', links("x.test", "bob@x.test")),
        ("a absent", Absent()),
        ("a", Free()),
    ],
)
def test_each_condition_is_read(text: str, test: object) -> None:
    """Each kind of condition is read as what it says."""
    assert only(text).test == test


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", (Hop("a"),)),
        ("a?", (Hop("a", True),)),
        ("a[]", (Hop("a"), Hop(None))),
        ("a?[][].b-c", (Hop("a", True), Hop(None), Hop(None), Hop("b-c"))),
        ('"a b".c?', (Hop("a b"), Hop("c", True))),
        ('"in"', (Hop("in"),)),
        ("on", (Hop("on"),)),
        ("a . b", (Hop("a"), Hop("b"))),
    ],
)
def test_a_way_to_an_argument_is_read(text: str, path: tuple[Hop, ...]) -> None:
    """Names, lists and what may be left out are read step by step."""
    assert only(text).path == path


def test_rules_stand_beside_names_and_join_with_a_bar() -> None:
    """Alternatives by `|`, items by commas, the rest by three dots or an ellipsis."""
    caveat = parse_scope('tools=read, a(b="1")|a(b="2") ,*(… in intent)', at=0).caveats[0]
    read, one, two, rest = caveat.value
    assert (read, one.tool, two.tool) == ("read", "a", "a")
    assert rest == typed("*(... in intent)")
    assert rest.rest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a(b<=1, b<=2)", "given twice"),
        ("a(b>=5, b<=1)", "no number is at least 5 and at most 1"),
        ("a(b<=-1)", "no number is at least 0"),
        ("a(... in intent, … in intent)", "given twice"),
        ("a(b on 2024-02-30)", "no day of the calendar"),
        ("a(b on 2024-05-02..2024-05-01)", "ends before it begins"),
        ("a(b host in {*.com})", "whole top-level domain"),
        ('a(b under "src/*")', "takes no wildcards"),
        ('a(b under "../x")', ""),
        ('a(b="\\ud800")', "control or invisible"),
        ('a(b="\\u0000")', "control or invisible"),
        ("a(b=99999999999999999)", "2^53"),
        ('a(b="1", b.c="2")', "at once"),
        ('a(b="1", b="2")', "given twice"),
        ('mcp__git*(b="1")', "server's name"),
        ('a(b="")', "absent"),
    ],
)
def test_what_cannot_be_meant_is_an_error_with_its_place(text: str, message: str) -> None:
    """Each is refused when it is typed, inside the parentheses that it stands in."""
    with pytest.raises(ScopeError) as caught:
        parse_scope(f"tools={text}", at=0)
    assert message in caught.value.message
    assert 6 <= caught.value.offset < len(text) + 6


def test_places_are_those_of_the_text() -> None:
    """A condition knows where its argument is named, and where what is asked of it stands."""
    text = 'tools=a(b="1")'
    (piece,) = [p for p in parse_pieces(text, "scope") if p.name == "rule"]
    (condition,) = read_rule(text, piece).conditions
    assert (condition.start, condition.asked) == (8, 10)
