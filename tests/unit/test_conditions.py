"""The one canonical form of each kind of condition, and what counts as left out."""

from __future__ import annotations

import pytest

from broker.conditions import (
    Absent,
    Free,
    HostIn,
    InIntent,
    Range,
    Under,
    Values,
    between,
    checked,
    empty,
    host_in,
    number,
    on,
    under,
    values,
)
from broker.errors import InputError


def test_what_counts_as_left_out() -> None:
    """Null, and an empty text, list or object; nothing that says something."""
    assert all(map(empty, (None, "", [], {})))
    assert not any(map(empty, (0, False, " ", [None], [""], {"a": None}, 0.0)))


# ── canonical form ──


def test_flags_and_numbers_never_meet() -> None:
    """`true` and 1 are equal to Python and never to a rule, a set or a cache."""
    assert values(1) != values(True)
    assert hash(values(0)) != hash(values(False)) or values(0) != values(False)
    assert values(1.0) == values(1)
    with pytest.raises(InputError, match="a flag is no number"):
        checked(Values(numbers=(True,)))


def test_spans_are_joined() -> None:
    """Spans that overlap or meet are one span, so equal tests have equal forms."""
    assert on((5, 9), (1, 4)) == on((1, 9))
    assert checked(on((1, 2), (4, 4))) == on((4, 4), (1, 2))


@pytest.mark.parametrize(
    "make",
    [
        values,
        lambda: values(""),
        lambda: values("  "),
        lambda: values("a\u200b"),
        lambda: values("a\nb"),
        lambda: values("a" * 5_000),
        lambda: values(*range(300)),
        lambda: values(None),
        lambda: values(["a"]),
        lambda: number(float("nan")),
        lambda: number(float("inf")),
        lambda: number(2**60),
        lambda: number(True),
        lambda: between(5, 4),
        lambda: between("1", 4),
        on,
        lambda: on((5, 4)),
        lambda: on((0, 4)),
        host_in,
        lambda: host_in("https://a.test"),
        lambda: under("src/**"),
        lambda: under("../x"),
        lambda: under("/etc"),
        lambda: checked("in intent"),  # type: ignore[arg-type]  # on purpose
    ],
)
def test_what_no_rule_may_hold(make) -> None:
    """A malformed condition is an error when it is made, never a condition that passes nothing."""
    with pytest.raises(InputError):
        make()


def test_canonical_forms_are_their_own() -> None:
    """Checking a checked test changes nothing."""
    for test in (Free(), Absent(), InIntent(), Range(0, 1), HostIn(("a.test",)), Under("src")):
        assert checked(test) == test
    assert checked(Range(0.0, 5.0)) == between(0, 5)
