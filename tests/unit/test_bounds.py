"""Bounds: what the lists of a chain come to, and the widening that is refused by name."""

from __future__ import annotations

import pytest

from broker.bounds import narrow, root_bounds
from broker.caveats import Caveat, hosts, paths, reads, tools, writes
from broker.errors import AttenuationError


def test_lists_of_one_kind_all_hold() -> None:
    """Two lists of a kind are two bounds, and neither is a shortcut to an allow."""
    bounds = root_bounds((tools("a*"), tools("ab"), paths("x"), paths("x/y")))
    assert [b.patterns for b in bounds.tools] == [("a*",), ("ab",)]
    assert (
        [b.patterns for b in bounds.reads]
        == [("x",), ("x/y",)]
        == [b.patterns for b in bounds.writes]
    )
    assert bounds.quick_tools == frozenset()
    assert bounds.quick_reads == () == bounds.quick_writes


def test_paths_bound_reading_and_writing() -> None:
    """`paths` bounds both, `reads` and `writes` only their own."""
    bounds = root_bounds((paths("a"), reads("a/r"), writes("a/w")))
    assert [(b.kind, b.patterns) for b in bounds.reads] == [("paths", ("a",)), ("reads", ("a/r",))]
    assert [(b.kind, b.patterns) for b in bounds.writes] == [
        ("paths", ("a",)),
        ("writes", ("a/w",)),
    ]


def test_what_is_absent_is_unrestricted() -> None:
    """Without a list the shortcuts take every tool and every place."""
    bounds = root_bounds(())
    assert bounds.quick_tools is None
    assert "anything/".startswith(bounds.quick_reads)
    assert "anything/".startswith(bounds.quick_writes)
    assert not bounds.seen
    assert not bounds.no_network


def test_an_empty_list_is_nothing() -> None:
    """An empty list is not an absent one: the shortcuts take nothing."""
    bounds = root_bounds((tools(), paths()))
    assert bounds.quick_tools == frozenset()
    assert not "anything/".startswith(bounds.quick_reads)
    assert not "".startswith(bounds.quick_reads)


@pytest.mark.parametrize("limited", [paths("a"), reads("a"), writes("a")])
def test_a_scope_that_limits_paths_grants_no_network(limited: Caveat) -> None:
    """Where the root limits paths and says nothing of hosts, no network was meant."""
    assert root_bounds((limited,)).no_network
    assert not root_bounds((limited, hosts("a.test"))).no_network
    assert narrow(root_bounds((limited,)), (hosts("a.test"),)).no_network


def test_only_the_root_names_a_tool_outright() -> None:
    """A later link keeps what the root named and adds nothing to it."""
    root = root_bounds((tools("shell", "r*"),))
    assert root.named == {"shell"}
    assert narrow(root, (tools("read"),)).named == {"shell"}
    assert root_bounds((tools("*"),)).named == frozenset()


def test_a_narrower_list_takes_the_place_of_its_kind() -> None:
    """The newest list of a kind stands for those before it, and other kinds stay."""
    bounds = narrow(root_bounds((paths("a"), tools("*"))), (paths("a/b"),))
    assert [b.patterns for b in bounds.reads] == [("a/b",)]
    assert [b.patterns for b in bounds.tools] == [("*",)]


@pytest.mark.parametrize(
    ("root", "added", "kind", "value"),
    [
        (tools("read"), tools("read", "shell"), "tools", "shell"),
        (paths("src"), paths("src", "docs"), "paths", "docs"),
        (paths("src"), writes("docs"), "writes", "docs"),
        (paths("src"), reads("docs"), "reads", "docs"),
        (hosts("a.test"), hosts("*"), "hosts", "*"),
        (tools(), tools("a"), "tools", "a"),
    ],
)
def test_a_widening_is_refused_by_name(root: Caveat, added: Caveat, kind: str, value: str) -> None:
    """The error names the caveat and the value that is not within what is there."""
    with pytest.raises(AttenuationError, match=f"`{value.replace('*', '.')}` is not within") as it:
        narrow(root_bounds((root,)), (added,))
    assert it.value.kind == kind


def test_every_list_that_is_there_must_cover() -> None:
    """A list within one of two lists of its kind, and not within the other, widens."""
    root = root_bounds((paths("a", "b"), paths("b", "c")))
    assert narrow(root, (paths("b/x"),))
    with pytest.raises(AttenuationError):
        narrow(root, (paths("a/x"),))


def test_equal_lists_share_their_bounds() -> None:
    """Bounds depend on the lists alone, and are made once."""
    assert root_bounds((tools("a"),)) is root_bounds((tools("a"),))


def test_starred_patterns_are_counted_along_the_chain() -> None:
    """Plain names, beginnings and hosts cost nothing; a narrower link never lowers the count."""
    root = root_bounds((paths("src/**", "a", "*.py"), tools("read", "get_*"), hosts("*.test")))
    assert root.stars == 2
    child = narrow(root, (paths("src/a"), tools("read")))
    assert child.stars == 2
    assert narrow(child, (reads("src/a/**/b", "src/a"),)).stars == 3
