"""
The laws of path and tool patterns, against naive readings of the same language.

The reference matchers below backtrack and know no trick; the reference for inclusion tries
every short text over a small alphabet. A claimed inclusion must hold on all of them, and a
refused one must come with a text that proves it.
"""

from __future__ import annotations

from itertools import product

from hypothesis import assume, example, given
from hypothesis import strategies as st

from broker.errors import PatternError
from broker.globs import (
    check_path,
    check_tool,
    path_matcher,
    path_witness,
    paths_cover,
    place_example,
    tool_matcher,
    tool_witness,
    tools_cover,
)
from broker.limits import MAX_INCLUSION_STEPS

# ── paths ──

NAME_CHARS = "ab."
NAMES = [
    name
    for length in (1, 2, 3)
    for name in map("".join, product(NAME_CHARS, repeat=length))
    if name not in (".", "..")
]
SHORT_NAMES = [name for name in NAMES if len(name) < 3]
PLACES = (
    [""]
    + [f"{a}/" for a in NAMES]
    + [f"{a}/{b}/" for a in SHORT_NAMES for b in SHORT_NAMES]
    + [f"{a}/{b}/{c}/" for a in "ab" for b in ("a", "b", ".a") for c in ("a", "b", "a.b")]
    + ["a/b/a/b/", "b/b/b/b/"]
)

parts = st.one_of(
    st.just("**"),
    st.lists(
        st.sampled_from(["a", "b", ".", "*", "?", "[ab]", "[!a]", "[.-b]", "[!.]", "[]b]"]),
        min_size=1,
        max_size=3,
    ).map("".join),
)


@st.composite
def path_patterns(draw: st.DrawFn) -> str:
    """Draw a canonical path pattern."""
    text = "/".join(draw(st.lists(parts, min_size=1, max_size=4)))
    try:
        return check_path(text)
    except PatternError:
        assume(False)
        raise


path_lists = st.lists(path_patterns(), max_size=3).map(tuple)


def naive_class(text: str) -> tuple[str, str]:
    """Split a text that begins with a class into the class and the rest."""
    closed = text.index("]", 3 if text[1] == "!" else 2)
    return text[: closed + 1], text[closed + 1 :]


def naive_member(spelled: str, char: str) -> bool:
    """Return whether a character is of a class without escapes."""
    inner = spelled[1:-1]
    negated = inner.startswith("!")
    inner = inner.removeprefix("!")
    found = False
    while inner:
        if len(inner) > 2 and inner[1] == "-":
            found |= inner[0] <= char <= inner[2]
            inner = inner[3:]
        else:
            found |= inner[0] == char
            inner = inner[1:]
    return found != negated


def naive_name(pattern: str, name: str) -> bool:
    """Match one component, backtracking."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(naive_name(pattern[1:], name[i:]) for i in range(len(name) + 1))
    if not name:
        return False
    if pattern[0] == "[":
        spelled, rest = naive_class(pattern)
        return naive_member(spelled, name[0]) and naive_name(rest, name[1:])
    if pattern[0] == "\\":
        pattern = pattern[1:]
    elif pattern[0] == "?":
        return naive_name(pattern[1:], name[1:])
    return pattern[0] == name[0] and naive_name(pattern[1:], name[1:])


def naive_parts(pattern: list[str], place: list[str]) -> bool:
    """Match components, backtracking."""
    if not pattern:
        return not place
    if pattern[0] == "**":
        return any(naive_parts(pattern[1:], place[i:]) for i in range(len(place) + 1))
    return bool(place) and naive_name(pattern[0], place[0]) and naive_parts(pattern[1:], place[1:])


def naive_match(pattern: str, place: str) -> bool:
    """Match a place the way the language is described to a person."""
    components = place.split("/")[:-1]
    split = [] if pattern == "." else pattern.split("/")
    if not set(pattern) & set("*?["):
        split.append("**")
    return naive_parts(split, components)


@given(path_lists)
@example(("**/a*/**/b",))
@example(("**/a/**/a", "*a*a"))
@example((".",))
def test_matching_is_what_the_naive_reading_says(patterns: tuple[str, ...]) -> None:
    """The fast matcher and the naive one agree on every short place."""
    matcher = path_matcher(patterns)
    for place in PLACES:
        assert matcher.match(place) == any(naive_match(p, place) for p in patterns), place


@given(path_lists, path_patterns())
@example(("[!b]*", "b*"), "*")
@example(("*/**", "?"), "**/*")
@example(("[!.]",), "?")
@example(("**/a/**",), "**/a/**/b")
def test_path_inclusion_is_exact(wide: tuple[str, ...], narrow: str) -> None:
    """A claimed inclusion holds on every short place; a refused one has a place to prove it."""
    found = path_witness(wide, (narrow,), steps=MAX_INCLUSION_STEPS)
    assert paths_cover(wide, (narrow,)) == (None if found is None else narrow)
    if found is None:
        matcher, inner = path_matcher(wide), path_matcher((narrow,))
        assert [p for p in PLACES if inner.match(p) and not matcher.match(p)] == []
        return
    place = found[1]
    assert place is not None
    assert not {"", ".", ".."} & set(place.split("/")[:-1])
    assert naive_match(narrow, place)
    assert not any(naive_match(p, place) for p in wide)


@given(path_lists, path_lists, path_lists)
def test_covering_is_an_order(a: tuple[str, ...], b: tuple[str, ...], c: tuple[str, ...]) -> None:
    """Covering is reflexive and transitive, and grows with the wider list."""
    assert paths_cover(a, a, True) is None
    assert paths_cover(a + b, b, True) is None
    if paths_cover(a, b) is None and paths_cover(b, c) is None:
        assert paths_cover(a, c) is None


@given(path_patterns())
def test_canonical_path_is_stable_and_has_an_example(pattern: str) -> None:
    """The canonical text of a canonical text is itself, and its example is matched."""
    assert check_path(pattern) == pattern
    assert naive_match(pattern, place_example(pattern))


@given(st.text(alphabet="ab./*?[]!^-\\{}~:\u200b\n", max_size=12))
def test_reading_a_path_is_total(text: str) -> None:
    """Any text is a pattern whose canonical text stays, or a pattern error inside the text."""
    try:
        canonical = check_path(text)
    except PatternError as error:
        assert 0 <= error.offset <= len(text)
    else:
        assert check_path(canonical) == canonical
        matcher = path_matcher((canonical,))
        assert matcher.match(place_example(canonical))
        for place in PLACES:
            assert matcher.match(place) == path_matcher((text,)).match(place)


@given(path_lists, st.sampled_from(PLACES))
def test_folding_adds_only_letter_case(patterns: tuple[str, ...], place: str) -> None:
    """Among lower-case places and patterns folding changes nothing; upper case is the same."""
    folded = path_matcher(patterns, folded=True)
    assert folded.match(place) == path_matcher(patterns).match(place)
    assert folded.match(place.upper()) == folded.match(place)


@given(path_lists, st.sampled_from(PLACES))
@example(("**/*",), "a/")
@example(("*", "*/**/*"), "a/")
@example(("[!b]*/**", "b/**", "b?*/**"), "b/")
@example(("a/**", "**/*.b"), "b/")
@example(("a", "b/**/*", "b"), "b/a/")
def test_a_folder_is_covered_when_all_below_it_is(patterns: tuple[str, ...], place: str) -> None:
    """Covering a place is exactly covering the pattern of the place and everything below it."""
    matcher = path_matcher(patterns)
    covered = matcher.covers(place)
    assert covered == (paths_cover(patterns, (f"{place}**",)) is None)
    if covered:
        assert [p for p in PLACES if p.startswith(place) and not matcher.match(p)] == []
    else:
        found = path_witness(patterns, (f"{place}**",))
        assert found is not None
        assert found[1] is not None
        assert found[1].startswith(place)
        assert not any(naive_match(p, found[1]) for p in patterns)


@given(path_lists, path_lists, st.sampled_from(PLACES))
def test_covering_a_folder_is_monotone(
    wide: tuple[str, ...], narrow: tuple[str, ...], place: str
) -> None:
    """A list that covers another covers every folder that the other covers, and more lists more."""
    if path_matcher(narrow).covers(place):
        assert path_matcher(narrow + wide).covers(place)
        assert paths_cover(wide, narrow) is not None or path_matcher(wide).covers(place)


@given(path_lists, st.sampled_from(PLACES))
def test_a_folded_list_covers_no_more(patterns: tuple[str, ...], place: str) -> None:
    """Where letter case does not count, a covered folder holds no place that is not matched."""
    folded = path_matcher(patterns, folded=True)
    assert folded.covers(place) == folded.covers(place.upper())
    if folded.covers(place):
        assert path_matcher(patterns).covers(place)
        assert all(folded.match(p) for p in PLACES if p.startswith(place))


# ── tools ──

OWN = ["".join(t) for n in (1, 2, 3) for t in product("ab_", repeat=n)] + ["mcp", "mcp_", "mcp_a"]
SERVERS = ("a", "b", "a__b", "a_", "_a")
RESTS = ("a", "b", "_a", "a__b", "b__a", "a_b", "ab", "aba")
CALLS: list[tuple[str, str | None]] = [(name, None) for name in OWN]
for a_server, a_rest in product(SERVERS, RESTS):
    a_name = f"mcp__{a_server}__{a_rest}"
    CALLS += [(a_name, None), (a_name, a_server), (a_rest, a_server)]


@st.composite
def tool_patterns(draw: st.DrawFn) -> str:
    """Draw a canonical tool pattern, most often one for an MCP server."""
    pieces = st.lists(st.sampled_from(["a", "b", "_", "__", "*"]), min_size=1, max_size=5)
    text = draw(st.sampled_from(["", "", "mcp__", "mcp__a__", "mcp__a__b"])) + "".join(draw(pieces))
    try:
        return check_tool(text)
    except PatternError:
        assume(False)
        raise


tool_lists = st.lists(tool_patterns(), max_size=3).map(tuple)


def naive_stars(pattern: str, name: str) -> bool:
    """Match stars, backtracking."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(naive_stars(pattern[1:], name[i:]) for i in range(len(name) + 1))
    return name[:1] == pattern[0] and naive_stars(pattern[1:], name[1:])


def naive_servers(name: str) -> list[str]:
    """Return every server that an MCP tool's name could mean."""
    inner = name[len("mcp__") :]
    splits = range(1, len(inner) - 2)
    return [inner[:i] for i in splits if inner[i : i + 2] == "__"]


def naive_tool_match(pattern: str, tool: str, server: str | None) -> bool:
    """Match a tool the way the language is described to a person."""
    if server is not None and not tool.startswith(f"mcp__{server}__"):
        tool = f"mcp__{server}__{tool}"
    if pattern in ("*", tool):
        return tool != ""
    if not tool.startswith("mcp__") or not pattern.startswith("mcp__"):
        return not tool.startswith("mcp__") and "*" in pattern and naive_stars(pattern, tool)
    servers = naive_servers(tool) if server is None else [server]
    # The star must be right whichever of them is meant.
    return bool(servers) and all(
        tool != f"mcp__{s}__"
        and pattern.startswith(f"mcp__{s}__")
        and naive_stars(pattern.removeprefix(f"mcp__{s}__"), tool.removeprefix(f"mcp__{s}__"))
        for s in servers
    ) and "*" in pattern  # fmt: skip


@given(tool_lists)
@example(("mcp__a__*",))
@example(("m*", "mcp__a__b__*"))
def test_tool_matching_is_what_the_naive_reading_says(patterns: tuple[str, ...]) -> None:
    """The fast matcher and the naive one agree, with and without a known server."""
    matcher = tool_matcher(patterns)
    for tool, server in CALLS:
        expected = any(naive_tool_match(p, tool, server) for p in patterns)
        assert matcher.match(tool, server) == expected, (tool, server)


@given(tool_lists, tool_patterns())
@example(("mcp__a__*",), "mcp__a__b__*")
@example(("mcp__a__b__*", "mcp__a__*b*"), "mcp__a__b*")
@example(("a*", "*a"), "a*a")
@example((), "m*cp__a")
def test_tool_inclusion_is_exact(wide: tuple[str, ...], narrow: str) -> None:
    """A claimed inclusion holds on all short names; a refused one has a tool to prove it."""
    found = tool_witness(wide, (narrow,), steps=MAX_INCLUSION_STEPS)
    assert tools_cover(wide, (narrow,)) == (None if found is None else narrow)
    if found is None:
        for tool, server in CALLS:
            if naive_tool_match(narrow, tool, server):
                assert any(naive_tool_match(p, tool, server) for p in wide), (tool, server)
        return
    if narrow == "*":
        assert "*" not in wide
        return
    assert found[1] is not None
    tool, server = found[1]
    assert naive_tool_match(narrow, tool, server)
    assert not any(naive_tool_match(p, tool, server) for p in wide)


@given(st.text(alphabet="mcp_ab*?@ \u200d", max_size=12))
def test_reading_a_tool_is_total(text: str) -> None:
    """Any text is a tool pattern whose canonical text stays, or an error inside the text."""
    try:
        canonical = check_tool(text)
    except PatternError as error:
        assert 0 <= error.offset <= len(text)
    else:
        assert check_tool(canonical) == canonical
