"""Caveats: how one is made, when one covers another, and how one is shown."""

from __future__ import annotations

import pytest

from broker.caveats import (
    BOUNDS,
    KINDS,
    LISTS,
    NUMBERS,
    Caveat,
    calls,
    covers,
    hosts,
    paths,
    reads,
    show,
    tools,
    until,
    writes,
)
from broker.errors import InputError, PatternError
from broker.limits import MAX_CALLS


def test_every_kind_has_its_place() -> None:
    """The tables of kinds agree: each kind is a list or a number, and is bounded by itself."""
    assert set(KINDS) == LISTS | NUMBERS == set(BOUNDS)
    assert not LISTS & NUMBERS
    assert all(kind in bounds for kind, bounds in BOUNDS.items())


def test_patterns_are_made_canonical_and_kept_once() -> None:
    """A constructor tidies what it is given, keeps the order and drops repetitions."""
    assert paths("./src//a", "docs", "src/a") == Caveat("paths", ("src/a", "docs"))
    assert hosts("EXAMPLE.com.", "example.com") == Caveat("hosts", ("example.com",))
    assert tools() == Caveat("tools", ())
    assert reads("a").kind == "reads"
    assert writes("a").kind == "writes"


@pytest.mark.parametrize("make", [paths, reads, writes])
def test_a_malformed_path_pattern_is_an_error(make: object) -> None:
    """No list of paths takes a pattern that leaves the workspace."""
    assert callable(make)
    with pytest.raises(PatternError):
        make("../x")


@pytest.mark.parametrize("number", [0, 1, MAX_CALLS])
def test_a_number_of_calls(number: int) -> None:
    """`calls` takes every whole number up to its ceiling."""
    assert calls(number).value == number


@pytest.mark.parametrize("number", [-1, MAX_CALLS + 1, True, 1.0, "1", None])
def test_no_number_of_calls(number: object) -> None:
    """`calls` takes nothing below zero, above its ceiling, or of another type."""
    with pytest.raises(InputError, match="whole number"):
        calls(number)  # type: ignore[arg-type]  # the wrong types are the test


@pytest.mark.parametrize("at", [True, 1.5, "2030-01-01T00:00:00Z", None])
def test_an_instant_is_a_whole_number(at: object) -> None:
    """`until` takes nanoseconds and nothing that only looks like an instant."""
    with pytest.raises(InputError, match="nanoseconds"):
        until(at)  # type: ignore[arg-type]  # the wrong types are the test


@pytest.mark.parametrize(
    ("wide", "narrow", "widens"),
    [
        (tools("a*"), tools("ab", "ac"), None),
        (tools("ab", "ac"), tools("a*"), "a*"),
        (tools("a"), tools(), None),
        (tools(), tools("a"), "a"),
        (paths("src/**"), paths("src/a/*.py"), None),
        (paths("src/*"), paths("src/**"), "src/**"),
        (paths("src"), reads("src/a"), None),
        (paths("src"), writes("docs"), "docs"),
        (hosts("*.a.test"), hosts("x.a.test"), None),
        (hosts("*.a.test"), hosts("a.test"), "a.test"),
        (calls(3), calls(3), None),
        (calls(3), calls(4), "4"),
        (until(10), until(9), None),
        (until(10), until(11), "11"),
        (paths("**"), paths(".git/hooks"), ".git/hooks"),
        (reads("**"), reads(".git/hooks"), None),
    ],
)
def test_covers(wide: Caveat, narrow: Caveat, widens: str | None) -> None:
    """One caveat covers another by meaning, and otherwise names the value that widens."""
    assert covers(wide, narrow) == widens


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (reads("a"), paths("a")),
        (writes("a"), reads("a")),
        (tools("a"), hosts("a")),
        (calls(1), until(1)),
        (calls(1), Caveat("users", 1)),
        (Caveat("users", ()), Caveat("users", ())),
        (calls(1), Caveat("calls", ("1",))),
    ],
)
def test_pairs_that_do_not_compare(wide: Caveat, narrow: Caveat) -> None:
    """Kinds that do not bound each other, unknown kinds and wrong values are errors."""
    with pytest.raises(InputError):
        covers(wide, narrow)


@pytest.mark.parametrize(
    ("caveat", "shown"),
    [
        (paths(), "paths=none"),
        (paths("a", "b"), "paths=a,b"),
        (tools(*"abcdefgh"), "tools=a,b,c,d,e,f and 2 more"),
        (calls(0), "calls=0"),
        (until(0), "until=1970-01-01T00:00:00Z"),
    ],
)
def test_show(caveat: Caveat, shown: str) -> None:
    """A caveat is shown as a person would type it, and a long list is cut short."""
    assert show(caveat) == shown
