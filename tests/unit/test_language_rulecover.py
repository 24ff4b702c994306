"""Inclusion of rules by hand-picked cases; brute force is in tests/properties."""

from __future__ import annotations

from random import Random

import pytest

from broker.caveats import tools
from broker.conditions import on, values
from broker.errors import AttenuationError, LimitError
from broker.language.rulecover import rules_cover
from broker.rules import Condition, Hop, Rule, argument, rule
from broker.scope import parse_scope
from broker.ticket import attenuate, mint


def items(text: str) -> tuple:
    return parse_scope(f"tools={text}", at=0).caveats[0].value


@pytest.mark.parametrize(
    ("wide", "narrow", "due"),
    [
        ('p(a="1")', 'p(a="1")', True),
        ("p", 'p(a="1")', True),
        ("p*", 'p(a="1")', True),
        ('p(a in {"1", "2"})', 'p(a="1")', True),
        ('p(a="1")', 'p(a in {"1", "2"})', False),
        ('p(a="1")', 'p(a="1", b="2")', False),  # b was closed
        ('p(a="1", b)', 'p(a="1", b="2")', True),
        ('p(a="1", b)', 'p(a="1")', True),
        ('p(a="1", b="2")', 'p(a="1")', False),
        ('p(a="1", b?="2")', 'p(a="1")', True),
        ('p(a="1")', 'p(a="1", b absent)', True),
        ('p(a="1")', 'q(a="1")', False),
        ('p*(a="1")', 'pq(a="1")', True),
        ('pq(a="1")', 'p*(a="1")', False),
        ('p*(a="1"),q', 'p*(a="1")', True),
        ('pq*(a="1"),p*(a="2")', 'p*(a="1")', False),
        ("p(a<=10)", "p(a<=5)", True),
        ("p(a<=10)", "p(a>=1)", False),
        ('p(a="1", b<=5)|p(a="2", b<=9)', 'p(a in {"1", "2"}, b<=5)', True),
        ('p(a="1", b<=5)|p(a="2", b<=9)', 'p(a in {"1", "2"}, b<=6)', False),
        ("p(a on 2024-01..2024-06)|p(a on 2024-07..2024-12)", "p(a on 2024)", True),
        ("p(a on 2024)", "p(a on 2024-05-01)", True),
        ("p(a[]=1)|p(a[]=2)", "p(a[] in {1, 2})", False),
        ("p(a[] in {1, 2})", "p(a[]=1)", True),
        ("p(a[].b=1, a[].c)", "p(a[].b=1)", True),
        ("p(a[].b=1)", "p(a[].b=1, a[].c=1)", False),
        ("p(a.b=1)|p(a.b=2)", "p(a.b in {1, 2})", True),
        ("p(a? in intent)", "p(a in intent)", True),
        ("p(... in intent)", "p(a in intent, b[] in intent)", True),
        ("p(... in intent)", "p(a in intent, b)", False),
        ("p(... in intent)", 'p(a="1")', False),
        ("*(... in intent)", "p(... in intent)", True),
        ("p(... in intent)", "p(... in intent, a absent)", True),
        ("p(... in intent, a absent)", "p(... in intent)", False),
        ("p(a host in {*.x.test})", "p(a host in {b.x.test})", True),
        ('p(a under "s")', 'p(a under "s/t")', True),
        ('p(a under "s")', 'p(a under "s/.git")', False),
        ('p(a under "s")', 'p(a="s/t")', False),  # a link may lead elsewhere
        ("p(a=1)", "p(a=true)", False),
        ('p(a="1")', "p(a=1)", False),
    ],
)
def test_what_covers_what(wide: str, narrow: str, due: bool) -> None:
    """Inclusion is decided by what the rules admit, and what is closed counts."""
    asked = items(narrow)
    assert (rules_cover(items(wide), asked) is None) == due


def test_a_plain_name_is_never_within_a_rule() -> None:
    """A rule closes what it does not name, so no rule covers the tool without conditions."""
    parent = mint([tools(*items("p(a)"))], key=bytes(32), sid="s", minted_at=0)
    with pytest.raises(AttenuationError, match="`p` is not within it"):
        attenuate(parent, tools("p"))


def test_many_alternatives_of_one_set_are_decided_at_once() -> None:
    """A hundred alternatives, one for each recipient, cover the set of all of them."""
    wide = ",".join(f'p(a="{n}", b<={n + 10})' for n in range(100))
    narrow = "p(a in {" + ", ".join(f'"{n}"' for n in range(100)) + "}, b<=10)"
    assert rules_cover(items(wide), items(narrow)) is None


def test_what_takes_too_long_is_refused_by_name() -> None:
    """A hard question ends at a number of steps, and the ticket is not narrowed."""

    chance = Random(1)

    def bits(fixed: dict[int, int]) -> Rule:
        free = (0, 1)
        return rule("p", *[argument(f"a{m}", values(*([fixed[m]] if m in fixed else free)))
                           for m in range(60)])  # fmt: skip

    wide = [bits({chance.randrange(60): chance.randrange(2) for _ in "abc"}) for _ in range(320)]
    narrow = bits({})
    parent = mint([tools(*wide)], key=bytes(32), sid="s", minted_at=0)
    with pytest.raises(LimitError, match="steps"):
        rules_cover(tuple(wide), (narrow,))
    with pytest.raises(AttenuationError, match="steps"):
        attenuate(parent, tools(narrow))


def test_large_sets_count_as_the_work_that_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rules take more steps where their sets are large, so no list holds up an asker."""
    optional = [Condition((Hop(f"o{n}", True), Hop("x")), values(1)) for n in range(4)]

    def on_days_but(day: int, last: int) -> Rule:
        days = [(n, n) for n in range(1, last, 2) if n != day]
        return rule("p", argument("d", on(*days)), *optional)

    monkeypatch.setattr("broker.language.rulecover.MAX_RULE_STEPS", 3_000)
    small, large = (tuple(on_days_but(n, last) for n in range(1, 100, 2)) for last in (105, 513))
    assert rules_cover(small, (on_days_but(0, 105),)) is None
    with pytest.raises(LimitError, match="steps"):
        rules_cover(large, (on_days_but(0, 513),))


def test_too_many_names_are_refused_by_name() -> None:
    """A starred rule is weighed against a few patterns and not against hundreds."""
    wide = ",".join(f"p{n}*(a=1)" for n in range(20))
    with pytest.raises(LimitError, match="names"):
        rules_cover(items(wide), items("p*(a=1)"))


def test_too_many_ways_to_leave_out_are_refused_by_name() -> None:
    """Each optional list doubles the cases; there is an end to that."""
    narrow = "p(" + ", ".join(f"a{m}?[]=1" for m in range(12)) + ")"
    with pytest.raises(LimitError, match="leave arguments out"):
        rules_cover(items("p(a=1)"), items(narrow))
