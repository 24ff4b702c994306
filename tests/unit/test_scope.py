"""Scope texts: what each means, which are refused for their size, which are surely slips."""

from __future__ import annotations

import doctest
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.resources import files

import pytest

from broker import scope
from broker.caveats import KINDS, Caveat
from broker.errors import PolicyError, ScopeError
from broker.instants import SECOND, parse_instant
from broker.limits import (
    MAX_CAVEATS,
    MAX_SCOPE_CHARS,
    MAX_SCOPE_ITEMS,
    MAX_SCOPE_PATTERNS,
    MAX_SCOPE_TEXTS,
)
from broker.scope import parse_scope, render

AT = parse_instant("2026-01-01T12:00:00Z")
GROUPS = {"reads": frozenset({"read_file", "grep"}), "edits": frozenset({"edit_file"})}


def read(*texts: str) -> tuple[Caveat, ...]:
    """The caveats of some texts, at a fixed instant and with two groups."""
    return parse_scope(texts, at=AT, groups=GROUPS).caveats


def fault(*texts: str) -> ScopeError:
    """The error that some texts give."""
    with pytest.raises(ScopeError) as caught:
        read(*texts)
    return caught.value


def test_examples_in_docstrings() -> None:
    """Every example in the module's documentation is true."""
    assert doctest.testmod(scope).failed == 0


# ── what is read ──


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("tools=read_file,grep", ("read_file", "grep")),
        ("tools=@reads,edit_file", ("grep", "read_file", "edit_file")),
        ("tools=grep,@reads,@edits", ("grep", "read_file", "edit_file")),
        ("tools=mcp__github__*", ("mcp__github__*",)),
        ('tools="none"', ("none",)),
        ("tools=読む", ("読む",)),
        ("paths=src/**,tests/**", ("src/**", "tests/**")),
        ("paths=a,b,a,./a", ("a", "b")),
        ("paths=a=b/**", ("a=b/**",)),
        ("paths==x/**", ("=x/**",)),
        ("paths=my docs/**", ("my docs/**",)),
        ("paths=@types/**", ("@types/**",)),
        ("paths=it's/**", ("it's/**",)),
        ("paths=nonesuch,none/x", ("nonesuch", "none/x")),
        ("paths=文書/**", ("文書/**",)),
        ('paths="a,b",c', ("a,b", "c")),
        ('paths=" a "', (" a ",)),
        (r'paths="a\"b"', ('a"b',)),
        (r'paths="\\*"', (r"\\*",)),
        (r'paths="\*,x"', (r"\*,x",)),
        ('paths="none","hosts=x"', ("none", "hosts=x")),
        ("reads=a", ("a",)),
        ("writes=a", ("a",)),
        ("hosts=Example.COM,*.example.org:8443", ("example.com", "*.example.org:8443")),
        ("hosts=none", ()),
        ("paths= none ", ()),
        ("  paths  =  a  ,  b  ", ("a", "b")),
        ("calls=0", 0),
        ("calls=2147483647", 2**31 - 1),
        ("calls= 5 ", 5),
        ("until=10m", AT + 600 * SECOND),
        ("until=2026-01-01T14:00:00+01:00", AT + 3600 * SECOND),
    ],
)
def test_right_texts_are_read(text: str, value: tuple[str, ...] | int) -> None:
    """Each right spelling gives the caveat that it says."""
    assert read(text) == (Caveat(text.split("=", maxsplit=1)[0].strip(), value),)


def test_texts_keep_their_order() -> None:
    """Caveats come in the order in which they were typed, repeated keys included."""
    texts = ("calls=9", "paths=a", "calls=1")
    assert [c.kind for c in read(*texts)] == ["calls", "paths", "calls"]


def test_one_text_and_none_at_all() -> None:
    """A single string is one text; an empty list is an empty scope."""
    assert parse_scope("calls=1", at=AT).caveats == (Caveat("calls", 1),)
    assert parse_scope([], at=AT) == scope.Scope(())


def test_the_grammar_knows_every_kind() -> None:
    """Each kind of caveat can be typed, so that the grammar cannot fall behind."""
    examples = dict.fromkeys(KINDS, "a") | {"calls": "1", "until": "1h"}
    assert [read(f"{kind}={examples[kind]}")[0].kind for kind in KINDS] == list(KINDS)
    source = files("broker.grammar").joinpath("scope.lark").read_text(encoding="utf-8")
    assert source.count("|".join(KINDS)) == 2


# ── what is refused ──


@pytest.mark.parametrize("texts", [[7], [None], [["paths=src"]], [b"paths=src"], 7, None, {}])
def test_what_is_no_text_is_a_scope_error(texts: object) -> None:
    """A number, nothing or a list where a text is due is malformed input, not a crash."""
    with pytest.raises(ScopeError, match="scope"):
        parse_scope(texts, at=AT)  # type: ignore[arg-type]  # the point of the test


def test_an_old_record_may_be_over() -> None:
    """With ``past_ok`` an instant that is over is read as it stands."""
    assert parse_scope("until=1970-01-01T00:00:01Z", at=AT, past_ok=True).caveats == (
        Caveat("until", SECOND),
    )


# ── sizes ──


@pytest.mark.parametrize(
    "text",
    [
        "paths=" + "a" * 1_000_000,
        "x" * 1_000_000,
        "paths=" + "\u4e00" * 1_000_000,
        "calls=" + "9" * 5_000,
        "until=" + "9" * 4_000 + "d",
        "until=2026-01-01T13:00:00." + "1" * 3_000 + "Z",
        "paths=" + " " * 16_000 + ",",
        "paths=a" + " " * 16_000 + '"',
        "paths=a" + " paths" * 2_500 + '"',
        'paths="' + "\\" * 16_001,
        "tools=" + '"' * 16_001,
        "hosts=" + "https://" * 2_000,
        "paths=" + "a/" * 5_000 + "**",
        "=" * 16_001 + '"',
        "@" * 16_001,
        "calls=" + "1," * 8_000,
    ],
)
def test_absurd_texts_are_refused_quickly(text: str) -> None:
    """Whatever its size, a malformed text is refused in a fraction of a second."""
    fault("paths=")  # loads the grammar
    begun = time.perf_counter()
    fault(text)
    assert time.perf_counter() - begun < 0.5


def test_ceilings_hold_at_their_number() -> None:
    """Each ceiling lets its own number through, and refuses one more."""
    filler = "paths=" + "a," * 20 + "b" * (4_000)
    assert read(filler + "," + "c" * 90)
    items = ",".join(f"a{n}" for n in range(MAX_SCOPE_ITEMS))
    assert read(f"paths={items}")[0].value == tuple(items.split(","))
    assert fault(f"paths={items},x").message == f"a list has at most {MAX_SCOPE_ITEMS} items"
    longest = "paths=" + ",".join(["b" * 4_000] * 4)
    longest += "," + "c" * (MAX_SCOPE_CHARS - len(longest) - 1)
    assert len(longest) == MAX_SCOPE_CHARS
    assert read(longest)
    assert fault(longest + "c").offset == MAX_SCOPE_CHARS
    full = [f"paths={items}"] * (MAX_SCOPE_PATTERNS // MAX_SCOPE_ITEMS)
    assert len(read(*full)) == len(full)
    assert "hold more than 8192 items together" in fault(*full, "tools=a").message
    assert len(read(*["calls=1"] * MAX_SCOPE_TEXTS)) == MAX_SCOPE_TEXTS
    assert "texts in one scope" in fault(*["calls=1"] * (MAX_SCOPE_TEXTS + 1)).message


def test_a_group_counts_with_its_tools() -> None:
    """A group cannot carry a list past the ceiling."""
    many = {"reads": frozenset(f"t{n}" for n in range(MAX_SCOPE_ITEMS + 1))}
    with pytest.raises(ScopeError, match="at most"):
        parse_scope("tools=@reads", at=AT, groups=many)


# ── policies by name ──


def named(name: str) -> Sequence[str]:
    """Three policies: one sound, one with a fault, one that names another."""
    try:
        return {"ok": ["tools=a", "calls=9"], "bad": ["path=x"], "nested": ["@ok"]}[name]
    except KeyError:
        raise PolicyError(f"no policy is called `{name}`", hint="@ok") from None


def test_a_policy_stands_where_it_is_named() -> None:
    """The texts of a policy come in the place of its name, narrowed by what is beside it."""
    found = parse_scope(["calls=3", "@ok", "paths=x"], at=AT, policies=named)
    assert render(found.caveats) == ("calls=3", "tools=a", "calls=9", "paths=x")
    assert found.warnings == ()


def test_faults_in_a_policy_name_it() -> None:
    """A fault inside a policy says which policy; an unknown one is shown with a caret."""
    with pytest.raises(ScopeError) as caught:
        parse_scope("@bad", at=AT, policies=named)
    assert str(caught.value) == "@bad: no such key `path`"
    with pytest.raises(ScopeError) as caught:
        parse_scope(" @okk ", at=AT, policies=named)
    assert (caught.value.offset, caught.value.hint) == (1, "@ok")


def test_the_texts_of_a_policy_are_flat() -> None:
    """A policy that still names another is refused, so that nothing can loop here."""
    with pytest.raises(ScopeError, match="policies cannot be named here"):
        parse_scope("@nested", at=AT, policies=named)


def test_caveats_of_policies_count_together() -> None:
    """Policies cannot carry a scope past the ceiling of one link."""
    with pytest.raises(ScopeError, match=f"more than {MAX_CAVEATS} caveats"):
        parse_scope(["@ok"] * 200, at=AT, policies=named)


# ── slips that are spelled rightly ──


FEW = frozenset(f"t{n}" for n in range(60))


def test_a_key_given_twice_is_warned_about() -> None:
    """Lists of one key show the one list that would allow either, groups as they are typed."""
    found = parse_scope(["paths=src/**", "paths=tests/**, a b"], at=AT)
    assert len(found.caveats) == 2
    assert found.warnings == (
        "`paths` is given 2 times and all must hold; "
        'to allow either, write one list: paths=src/**,tests/**,"a b"',
    )
    found = parse_scope(["tools=@few, b", "tools=b, @few, c*"], at=AT, groups={"few": FEW})
    assert found.warnings[0].endswith("write one list: tools=@few,b,c*")
    found = parse_scope(["paths=a,b,c,d", "paths=none", "paths=e,f f,g,h"], at=AT)
    assert found.warnings[0].endswith('write one list: paths=a,b,c,d,e,"f f" and 2 more')
    found = parse_scope(["hosts=none", "hosts=none"], at=AT)
    assert found.warnings[0].endswith("write one list: hosts=none")
    assert "the smaller one counts" in parse_scope(["calls=9", "calls=1"], at=AT).warnings[0]
    assert "the earlier one counts" in parse_scope(["until=9m", "until=1m"], at=AT).warnings[0]


@pytest.mark.parametrize(
    "texts", [["calls=0"], ["tools=none"], ["tools=none", "paths=a"], ["calls=0", "tools=a"]]
)
def test_a_scope_that_allows_nothing_is_warned_about(texts: list[str]) -> None:
    """What says outright that nothing may pass is read, with a warning."""
    assert any("allows no call at all" in w for w in parse_scope(texts, at=AT).warnings)


def test_lists_without_a_common_tool_are_an_error() -> None:
    """Plain names that no list shares let nothing pass, which no one means."""
    error = fault("tools=read,grep", "calls=3", "tools=shell")
    assert "no call could ever pass" in error.message
    assert (error.text, error.offset) == ("tools=shell", 6)
    with pytest.raises(ScopeError, match="no call could ever pass"):
        parse_scope(["@ok", "tools=b"], at=AT, policies=named)
    with pytest.raises(ScopeError) as caught:
        parse_scope(["tools=shell", "tools=@few"], at=AT, groups={"few": FEW})
    assert (caught.value.text, caught.value.offset) == (
        "tools=t0,t1,t10,t11,t12,t13 and 54 more",
        6,
    )


@pytest.mark.parametrize(
    "texts", [["tools=a,b", "tools=b,c"], ["tools=a", "tools=*"], ["tools=a*", "tools=b"]]
)
def test_lists_that_may_share_a_tool_are_read(texts: list[str]) -> None:
    """A shared name, or a star that might cover one, is no error."""
    assert len(read(*texts)) == 2


@pytest.mark.parametrize(
    "text", ["paths=src;docs", "paths=a|b", "paths=>src", "paths=-a", "paths=\u00a0a"]
)
def test_names_that_look_like_slips_are_warned_about(text: str) -> None:
    """A name with another tool's separator in it is read, and shown as one name."""
    assert "is read as one name" in parse_scope(text, at=AT).warnings[0]
    key, _, item = text.partition("=")
    assert parse_scope(f'{key}="{item}"', at=AT) == scope.Scope(read(text))


def test_nothing_heavy_is_imported_before_a_text_is_read() -> None:
    """Importing the module, and writing caveats, loads no parser."""
    code = (
        "import sys; from broker.scope import render; from broker.caveats import paths;"
        "render([paths('a b')]); sys.exit('lark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
