"""Scopes that are spelled rightly and not meant so."""

from __future__ import annotations

import pytest

from broker.caveats import calls, paths, tools
from broker.errors import ScopeError
from broker.language.slips import Pair, never_passes, refuse_disjoint_tools, repeated
from broker.scope import parse_scope


def test_a_key_given_twice_is_warned_of() -> None:
    """The warning shows how one list is written, and which number counts."""
    warnings = repeated(
        [Pair(paths("a"), ("a",)), Pair(paths("b"), ("b",)), Pair(calls(1)), Pair(calls(2))]
    )
    assert "paths=a,b" in warnings[0]
    assert "the smaller one counts" in warnings[1]


def test_tools_that_never_meet_are_an_error_with_rules_too() -> None:
    """A rule counts by its tool's name: lists without a common tool let no call pass."""
    with pytest.raises(ScopeError, match="no call could ever pass"):
        parse_scope(['tools=a(b="1")', "tools=c"], at=0)
    refuse_disjoint_tools(parse_scope(['tools=a(b="1")', "tools=a"], at=0).caveats)


def test_what_admits_nothing_is_said() -> None:
    """`none` and zero calls are lawful, and told."""
    assert len(never_passes([tools(), calls(0), calls(1)])) == 2
