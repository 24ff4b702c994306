"""Caveats written as scope text; the law that it reads back is in the properties."""

from __future__ import annotations

import doctest

import pytest

from broker.caveats import Caveat
from broker.errors import InputError
from broker.instants import SECOND
from broker.language import scopetext
from broker.language.scopetext import render
from broker.scope import parse_scope


def test_examples_in_docstrings() -> None:
    """Every example in the module's documentation is true."""
    assert doctest.testmod(scopetext).failed == 0


@pytest.mark.parametrize(
    ("caveat", "text"),
    [
        (Caveat("paths", ("src/**", "b c")), 'paths=src/**,"b c"'),
        (Caveat("paths", ("none",)), 'paths="none"'),
        (Caveat("paths", ('a"b',)), r'paths="a\"b"'),
        (Caveat("paths", (r"a\*b",)), r"paths=a\*b"),
        (Caveat("reads", ()), "reads=none"),
        (Caveat("tools", ("none", "a*")), 'tools="none",a*'),
        (Caveat("hosts", ("none", "a.test")), "hosts=none.,a.test"),
        (Caveat("calls", 0), "calls=0"),
        (Caveat("until", SECOND + 5), "until=1970-01-01T00:00:01.000000005Z"),
    ],
)
def test_caveats_are_written_one_way(caveat: Caveat, text: str) -> None:
    """Each caveat has one text, with quotes only around what needs them."""
    assert render([caveat]) == (text,)
    assert parse_scope(text, at=0).caveats == (caveat,)


def test_an_instant_outside_the_calendar_cannot_be_written() -> None:
    """No text names an instant after the year 9999, so writing one is an error."""
    with pytest.raises(InputError, match="9999"):
        render([Caveat("until", 10**30)])
