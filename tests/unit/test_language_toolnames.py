"""Tool patterns: reading, matching with and without a server, and covering."""

from __future__ import annotations

import pytest

from broker.errors import PatternError
from broker.language.toolnames import (
    check_tool,
    tool_example,
    tool_matcher,
    tool_witness,
    tools_cover,
)
from broker.limits import MAX_TOOL_CHARS


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("read_file", "read_file"),
        ("mcp__github__*", "mcp__github__*"),
        ("mcp__my__server__get_*_x", "mcp__my__server__get_*_x"),
        ("mcp__bs__catalog.get-entity", "mcp__bs__catalog.get-entity"),
        ("mcp__github", "mcp__github"),
        ("a***b", "a*b"),
        ("**", "*"),
        ("読む", "読む"),
        ("github/get:issue", "github/get:issue"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    """A tool pattern has one canonical text, which is its own canonical text."""
    assert check_tool(text) == canonical
    assert check_tool(canonical) == canonical


@pytest.mark.parametrize(
    ("text", "offset", "said"),
    [
        ("", 0, "empty"),
        ("read file", 4, "blanks"),
        ("read\u3000file", 4, "blanks"),
        ("[rw]_file", 0, "`[`"),
        ("read_file|shell", 9, "`|`"),
        ("'x'", 0, "`'`"),
        ("f?", 1, "`?`"),
        ("@reads", 0, "`@`"),
        ("a\\b", 1, "`\\`"),
        ("!shell", 0, "negative"),
        ("-shell", 0, "negative"),
        ("^mcp__a__*", 0, "negative"),
        ("~x", 0, "negative"),
        ("mcp__git*", 8, "server"),
        ("mcp__*", 5, "server"),
        ("mcp__*__x", 5, "server"),
        ("mcp__git*__x", 8, "server"),
        ("mcp__github__", 13, "no tool"),
        ("a\u200db", 1, "U+200D"),
        ("a\n", 1, "U+000A"),
        ("a" * (MAX_TOOL_CHARS + 1), MAX_TOOL_CHARS, "characters"),
    ],
)
def test_errors_say_what_and_where(text: str, offset: int, said: str) -> None:
    """A text that is no tool pattern is an error with its offset."""
    with pytest.raises(PatternError) as caught:
        check_tool(text)
    assert caught.value.offset == offset
    assert said in caught.value.message


def test_not_text() -> None:
    """What is not text is a pattern error, never a TypeError."""
    with pytest.raises(PatternError):
        check_tool(["x"])  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parametrize(
    ("pattern", "tool", "server", "matched"),
    [
        ("read_file", "read_file", None, True),
        ("read_file", "Read_File", None, False),
        ("read_file", "read_file\n", None, False),
        ("read", "read_file", None, False),
        ("*", "anything", None, True),
        ("*", "mcp__evil__x", None, True),
        ("*", "mcp__evil__x", "evil", True),
        ("*", "", None, False),
        ("*_file", "read_file", None, True),
        ("*_file", "mcp__evil__x_file", None, False),
        ("*_file", "x_file", "evil", False),
        ("read_*", "read_\n", None, False),
        ("a*a", "a", None, False),
        ("a*b*a", "a_b_b_a", None, True),
        ("a*b*a", "a_c_a", None, False),
        ("read.*", "read_file", None, False),
        ("mcp__github__*", "mcp__github__get_issue", None, True),
        ("mcp__github__*", "mcp__github_evil__x", None, False),
        ("mcp__github__*", "mcp__gith__ub__x", None, False),
        ("mcp__github__*", "mcp__github__a__b", None, False),
        ("mcp__github__*", "mcp__github__a__b", "github", True),
        ("mcp__github__*", "mcp__github__", None, False),
        ("mcp__github__*", "mcp__github__", "github", False),
        ("mcp__github__*", "github__get_issue", None, False),
        ("mcp__github__*", "get_issue", "github", True),
        ("mcp__github__get_*", "mcp__github__forget_x", None, False),
        ("mcp__evil__*", "mcp__evil__foo__real_tool", "evil__foo", False),
        ("mcp__evil__*", "mcp__evil__foo__real_tool", "evil", True),
        ("mcp__my__server__*", "mcp__my__server__do_thing", "my__server", True),
        ("mcp__my__server__*", "mcp__my__server__do_thing", None, True),
        ("mcp__a__b", "mcp__a__x__b", "a", False),
        ("mcp__a__x__b", "mcp__a__x__b", "a__x", True),
        ("mcp__my_server__*", "mcp__my_server__x", "my server", True),
        ("read_file", "read_file", "evil", False),
        ("mcp__evil__read_file", "read_file", "evil", True),
        ("mcp__github__x", "mcp__github__x", "evil", False),
        ("mcp__s__read-only", "mcp__s__read_only", None, False),
        ("mcp__a__*", "mcp__a__b__", None, True),
        ("mcp__a__*", "mcp__a___b", None, False),
        ("mcp__a__*", "mcp__a___b", "a", True),
        ("mcp__github__*", "mcp__", None, False),
        ("mcp__github__*", "mcp____x", None, False),
    ],
)
def test_matching(pattern: str, tool: str, server: str | None, matched: bool) -> None:
    """A star stays within the tool's own name, whatever the server is called."""
    assert tool_matcher((pattern,)).match(tool, server) is matched


def test_naming_outright() -> None:
    """A star names no tool outright."""
    matcher = tool_matcher(("shell", "*", "mcp__a__*"))
    assert matcher.names("shell")
    assert not matcher.names("other")
    assert not tool_matcher(()).match("x", None)


@pytest.mark.parametrize(
    ("wide", "narrow", "uncovered"),
    [
        ("read_file", "read_file", None),
        ("*", "mcp__a__*,x,*", None),
        ("read_*", "read_file,read_*_x", None),
        ("read_*", "*", "*"),
        ("a*,b*", "a,b*c,c", "c"),
        ("a*,b*", "*a", "*a"),
        ("*a,mcp__a__*", "mcp__x__a", "mcp__x__a"),
        ("mcp__a__*", "mcp__a__b", None),
        ("mcp__a__*", "mcp__a__b__c", "mcp__a__b__c"),
        ("mcp__a__*", "mcp__a__b__*", "mcp__a__b__*"),
        ("mcp__a__b__*", "mcp__a__b__c", None),
        ("mcp__a__b__*", "mcp__a__b__c*", None),
        ("mcp__a__b__*", "mcp__a__*", "mcp__a__*"),
        ("mcp__a__*", "mcp__a___*", "mcp__a___*"),
        ("mcp__a___*", "mcp__a__*", "mcp__a__*"),
        ("mcp__a__x*,mcp__a__*", "mcp__a__*y", None),
        ("mcp__a__*x*", "mcp__a__*", "mcp__a__*"),
        ("m*", "mcp__a__b", "mcp__a__b"),
        ("m*", "mcp*", None),
        ("", "x", "x"),
        ("x", "", None),
    ],
)
def test_covering(wide: str, narrow: str, uncovered: str | None) -> None:
    """A list covers another when it matches every tool of every server that the other does."""
    split = [tuple(filter(None, text.split(","))) for text in (wide, narrow)]
    assert tools_cover(split[0], split[1]) == uncovered


def test_steps_run_out_to_no() -> None:
    """When the steps do not suffice the answer is *not covered*, without a proof."""
    wide, narrow = ("*a*", "*b*"), ("*ab*a*",)
    assert tool_witness(wide, narrow, steps=5) == ("*ab*a*", None)
    assert tool_witness(wide, narrow) is None


@pytest.mark.parametrize(
    ("inside", "outside", "found"),
    [
        ([("read", "write")], ("read",), ("write", None)),
        ([("read",), ("r*",)], (), ("read", None)),
        ([("mcp__a__*",), ("mcp__b__*",)], (), None),
        ([("mcp__a__x",)], (), ("mcp__a__x", "a")),
        ([("*",)], ("*",), None),
    ],
)
def test_an_example_of_a_tool(
    inside: list[tuple[str, ...]], outside: tuple[str, ...], found: tuple[str, str | None] | None
) -> None:
    """A tool that each list has and the other does not, with its server."""
    assert tool_example(inside, outside) == found


def test_a_star_means_servers_too() -> None:
    """Where every tool of the agent's own is taken, one of some server is left."""
    name, server = tool_example([("*",)], ("a*", "b*")) or ("", None)
    assert name
    assert not name.startswith(("a", "b"))
    assert server is None
    every_own = tuple(f"{char}*" for char in "abcdefghijklmnopqrstuvwxyz")
    assert tool_example([("*", "mcp__s__*"), ("mcp__s__*",)], every_own) == ("mcp__s__x", "s")
