"""The laws of scope text: what is written is read back, and reading is total."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from broker.caveats import KINDS, Caveat, calls, hosts, paths, reads, tools, until, writes
from broker.errors import PatternError, ScopeError
from broker.globs import check_path
from broker.instants import FIRST_INSTANT, LAST_INSTANT, format_instant, parse_until
from broker.limits import MAX_CALLS
from broker.scope import parse_scope, render

AT = 1_767_268_800 * 10**9  # 2026-01-01T12:00:00Z

# Names that would be read as something else if they were not quoted, and pieces of them.
ODD = ["none", "@x", "hosts=x", "a,b", '"', 'a"b', "a b", " ", " a ", "=", ">x", "'a'", "“a”"]
ODD += ["none ", "paths = x", "x paths=y", "a;b", "a|b", "\u00a0a", r"\*", r"a\\b", r"\[x]", "読む"]
ODD += [
    "#x",
    "a#b",
    ",",
    ",,",
    '",',
    r"\!x",
    r"\~",
    "a'",
    "(x)",
    "until",
    "@",
    r"a\?\"b",
    "👩\u200d💻",
]

characters = st.sampled_from(list("ab.,\"'= @#;|()>~!\\*?[]-/‘“é")) | st.characters(
    exclude_categories=("Cs", "Cc")
)


def canonical(text: str) -> list[str]:
    """The canonical spelling of a path pattern, or nothing when the text is none."""
    try:
        return [check_path(text)]
    except PatternError:
        return []


def spelled_one_way(pattern: str) -> bool:
    """Whether no quote in it has a needless backslash: quotes cannot tell it from a plain one."""
    return r"\"" not in pattern


path_patterns = (
    (st.sampled_from(ODD) | st.text(characters, min_size=1, max_size=12))
    .map(canonical)
    .filter(lambda found: bool(found) and spelled_one_way(found[0]))
    .map(lambda found: found[0])
)
tool_patterns = st.sampled_from(
    ["none", "a", "a*", "読む", "mcp__x__*", "x=y", "a-b", "*", "paths"]
)
host_patterns = st.sampled_from(
    ["none", "none:80", "a.test", "*.a.test:8443", "*", "[::1]:80", "127.0.0.1", "hosts"]
)


def lists(
    patterns: st.SearchStrategy[str], make: Callable[..., Caveat]
) -> st.SearchStrategy[Caveat]:
    """Caveats of one kind with up to four patterns."""
    return st.lists(patterns, max_size=4).map(lambda items: make(*items))


caveat_lists = st.lists(
    st.one_of(
        *(lists(path_patterns, make) for make in (paths, reads, writes)),
        lists(host_patterns, hosts),
        st.integers(0, MAX_CALLS).map(calls),
        st.integers(FIRST_INSTANT, LAST_INSTANT).map(until),
    ),
    max_size=5,
)


@given(caveat_lists, lists(tool_patterns, tools))
def test_what_is_written_is_read_back(several: list[Caveat], named: Caveat) -> None:
    """parse_scope(render(x)) == x, order and repetition included."""
    caveats = (*several, named)
    assert parse_scope(render(caveats), at=AT, past_ok=True).caveats == caveats


@given(caveat_lists)
def test_writing_is_stable(several: list[Caveat]) -> None:
    """What was read is written in the same words again."""
    texts = render(several)
    assert render(parse_scope(texts, at=AT, past_ok=True).caveats) == texts


@given(path_patterns, path_patterns)
def test_different_patterns_are_written_differently(one: str, other: str) -> None:
    """No two patterns share a text, so that nothing can be slipped in by spelling."""
    assert (render([paths(one)]) == render([paths(other)])) == (one == other)


texts = st.text(max_size=40) | st.builds(
    "{}{}{}".format,
    st.sampled_from([*KINDS, "@", "path", "", "Paths", " tools "]),
    st.sampled_from(["=", "= ", "", ":", "=="]),
    st.text(characters, max_size=20) | st.text("0123456789wdhmsTZ:-+.", max_size=25),
)


@given(texts)
@example('paths="')
@example("tools=@")
@example("until=1w1w")
def test_reading_is_total(text: str) -> None:
    """Any text is read or gives a ``ScopeError`` with a place in it, never another error."""
    try:
        found = parse_scope(text, at=AT).caveats
    except ScopeError as error:
        place = error.offset
        drawn = error.pointed()
    else:
        place = len(found) - 1
        drawn = render(found)[0]
    assert 0 <= place <= len(text)
    assert drawn


@given(texts)
def test_a_text_means_one_thing(text: str) -> None:
    """What is read from a text, written out, is read as the same again."""
    try:
        found = parse_scope(text, at=AT).caveats
    except ScopeError:
        found = ()
    assert parse_scope(render(found), at=AT).caveats == found


@given(texts, texts)
def test_a_list_is_read_text_by_text(one: str, other: str) -> None:
    """A scope of two texts holds what each holds alone: no text reaches into the next."""
    alone: list[Caveat] = []
    for text in (one, other):
        try:
            alone += parse_scope(text, at=AT).caveats
        except ScopeError:
            alone += parse_scope("calls=7", at=AT).caveats
    both = render(alone)
    try:
        assert parse_scope(both, at=AT).caveats == tuple(alone)
    except ScopeError as error:
        assert "no call could ever pass" in error.message


@given(
    st.text("0123456789wdhms", min_size=1, max_size=12)
    | st.integers(AT + 1, LAST_INSTANT).map(format_instant)
)
def test_the_grammar_and_the_reader_of_instants_agree(text: str) -> None:
    """`until` takes exactly what the reader of instants takes, in the future."""
    try:
        wanted = parse_until(text, AT)
    except ValueError:
        wanted = 0
    try:
        found = parse_scope(f"until={text}", at=AT).caveats[0].value
    except ScopeError:
        found = 0
    assert found == wanted
