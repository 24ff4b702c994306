"""Which pattern comes nearest to what was refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.authorize import authorize
from broker.calls import Call, PathSubject
from broker.caveats import paths, tools
from broker.language.nearness import (
    MAX_COMPARED_CHARS,
    near_hosts,
    near_names,
    near_paths,
    nearest_first,
)
from broker.ticket import mint

NEAR = (near_names, near_paths, near_hosts)


@pytest.mark.parametrize(
    ("value", "patterns", "near", "first"),
    [
        ("read_file", ["shell", "Read", "write_file"], near_names, "Read"),
        ("Edit", ["Bash", "MultiEdit", "Read"], near_names, "MultiEdit"),
        ("mcp__fs__write", ["read", "mcp__fs__read", "mcp__git__log"], near_names, "mcp__fs__read"),
        ("src/b/x.py", ["docs/**", "src/a/**", "src/b/*.md"], near_paths, "src/b/*.md"),
        ("/etc/passwd", ["src/**", "docs/**"], near_paths, "src/**"),
        ("api.example.org:8443", ["a.b", "*.example.org"], near_hosts, "*.example.org"),
    ],
)
def test_the_nearest_comes_first(value: str, patterns: list[str], near, first: str) -> None:
    """By what a person would look for, and in the typed order where nothing is shared."""
    assert nearest_first(value, patterns, near)[0] == first


@given(st.text(max_size=300), st.lists(st.text(max_size=300), max_size=8), st.sampled_from(NEAR))
def test_the_list_stays_the_same_list(value: str, patterns: list[str], near) -> None:
    """Nothing is added, lost or changed, and the order is always the same."""
    found = nearest_first(value, patterns, near)
    assert sorted(found) == sorted(patterns)
    assert list(nearest_first(value, list(found), near)) == list(found)
    scores = [near(value[:MAX_COMPARED_CHARS], p[:MAX_COMPARED_CHARS]) for p in found]
    assert scores == sorted(scores, reverse=True)


@given(st.text(max_size=60), st.sampled_from(NEAR))
def test_nothing_is_nearer_than_itself(value: str, near) -> None:
    """A pattern that is the value shares all of it."""
    assert all(near(value, value) >= near(value, value[:n] + "x") for n in range(len(value)))


def test_a_refusal_shows_the_nearest_of_many() -> None:
    """Of a list that is too long to be shown the nearest is never the one left out."""
    names = [f"tool{n}" for n in range(40)]
    ticket = mint([tools(*names, "read_file")], key=bytes(32), sid="s", minted_at=0)
    refusal = authorize(ticket, Call("ReadFile"), 0).refusal
    assert refusal is not None
    assert "is not in tools: read_file, tool0" in refusal.reason
    assert "and 35 more" in refusal.reason
    folders = [f"dir{n}/**" for n in range(40)]
    ticket = mint([paths(*folders)], key=bytes(32), sid="s", minted_at=0)
    ticket = mint([paths(*folders, "src/a.py")], key=bytes(32), sid="s", minted_at=0)
    path = PathSubject("path", "src/b.py", "read", ("src/b.py/",))
    refusal = authorize(ticket, Call("read", paths=(path,)), 0).refusal
    assert refusal is not None
    assert "is not within paths: src/a.py, dir0/**" in refusal.reason
