"""Policies: what a file may hold, where one is found, and that the shipped ones keep their word."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import policy
from broker.authorize import authorize
from broker.calls import ALLOW, Decision, Refusal
from broker.catalogs import load_catalogs
from broker.caveats import Caveat
from broker.errors import InputError, PolicyError, ScopeError
from broker.limits import MAX_POLICY_BYTES, MAX_POLICY_DEPTH
from broker.policy import (
    check_expects,
    find_policy,
    load_policy,
    policy_loader,
    policy_names,
)
from broker.resolve import Resolver
from broker.scope import parse_scope, render
from broker.ticket import mint
from tests.properties.test_scope_laws import caveat_lists

GROUPS = {"reads": frozenset({"read_file", "grep"})}
SHIPPED = (
    "ci-triage",
    "docs",
    "fix-tests",
    "locked-down",
    "refactor",
    "release-notes",
    "research",
    "review",
)
GOOD = """# Look around.
tools = @reads, edit_file     # what it may call
writes = "a #1/**", c#/**

expect allow  read_file(path="a # b", n=3, deep={"x": [true, null, -1.5]})
expect refuse edit_file(path="b")    # writes
expect refuse shell()   # no shell at all
"""


def at(text: str, name: str = "p") -> ScopeError:
    """The error that the text of a policy gives."""
    with pytest.raises(ScopeError) as caught:
        load_policy(text, name, groups=GROUPS)
    return caught.value


def refuse(caveat: str) -> Decision:
    """A refusal by a caveat."""
    return Decision(Refusal(caveat, "value", "because"))


def test_examples_in_docstrings() -> None:
    """Every example in the module's documentation is true."""
    assert doctest.testmod(policy).failed == 0


# ── what a file holds ──


def test_a_file_is_read_line_by_line() -> None:
    """A policy is its first comment, its texts in order, and its tests."""
    found = load_policy(GOOD, "look", groups=GROUPS)
    assert (found.name, found.about, found.source) == ("look", "Look around.", "look.scope")
    assert found.texts == ("tools=@reads, edit_file", 'writes="a #1/**", c#/**')
    first, second, third = found.expects
    assert (first.allowed, first.tool, first.where) == (True, "read_file", "look.scope:5")
    assert first.arguments == {"path": "a # b", "n": 3, "deep": {"x": [True, None, -1.5]}}
    assert (second.allowed, second.caveat) == (False, "writes")
    assert (third.allowed, third.caveat, third.arguments) == (False, None, {})


def test_other_line_ends_and_a_byte_order_mark_are_no_fault() -> None:
    """A file saved by an editor of another system reads the same."""
    other = "\ufeff" + GOOD.replace("\n", "\r\n")
    assert load_policy(other, "look") == load_policy(GOOD, "look")


@pytest.mark.parametrize(
    ("line", "offset", "message"),
    [
        ("path = src", 0, "no such key `path`"),
        ("paths = src,,x", 12, "an empty item"),
        ("paths = ../x", 8, "`..`"),
        ("tools = @rads", 8, "no such group"),
        ("until = yesterday", 8, ""),
        ("calls = 5\tx", 9, "a tab"),
        ("# \u202e", 2, "U+202E"),
        ("expects allow read()", 20, "no `=` in it"),
        ("expect", 0, "begins with `expect allow` or `expect refuse`"),
        ("expect deny read()", 0, "begins with `expect allow` or `expect refuse`"),
        ("expect allow", 12, "ends too early"),
        ("expect allow read", 17, "ends too early"),
        ("expect allow read(", 18, "ends too early"),
        ("expect allow read(path)", 22, "unexpected `)`"),
        ("expect allow read(path='a')", 23, "unexpected `'`"),
        ("expect allow read(path=01)", 23, "unexpected `0`"),
        ("expect allow read(a=1 b=2)", 22, "unexpected `b`"),
        ("expect allow read() write()", 20, "unexpected `w`"),
        ('expect allow read(a="\\x")', 20, "not a JSON value"),
        ("expect allow read(a=1, a=2)", 23, "`a` is given twice"),
        ('expect allow read(a={"b":1,"b":2})', 27, "`b` is given twice"),
        ("expect refuse read()  # tool", 20, "no caveat `tool`"),
        ("@other", 0, "cannot be included here"),
        ("@other x", 7, "stands alone"),
    ],
)
def test_a_fault_names_the_file_the_line_and_the_place(
    line: str, offset: int, message: str
) -> None:
    """A malformed line is refused with file, line and caret; nothing of the file is used."""
    error = at(f"# About.\ncalls = 3\n{line}\n", "mine")
    assert error.where == "mine.scope:3"
    assert str(error).startswith("mine.scope:3: ")
    assert message in error.message
    assert error.offset == offset


def test_a_misspelt_caveat_gets_the_nearest() -> None:
    """The caveat that a test names is checked, with the right spelling as a hint."""
    assert at("# A.\ncalls=1\nexpect refuse a()  # host").hint == "hosts"


def test_a_quote_that_is_not_closed_hides_no_comment() -> None:
    """A line with an open quote is refused as a whole."""
    assert "not closed" in at('# A.\npaths = "a # b').message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begin with a comment"),
        ("calls = 3", "begin with a comment"),
        ("calls = 3  # not about the policy", "begin with a comment"),
        ("# About.\n\n", "limits nothing"),
        ("# About.\nexpect allow a()", "limits nothing"),
        ("# About.\ncalls=1" + "\n" * MAX_POLICY_BYTES, "at most"),
        ("# About.\n" + "calls=1\n" * 300, "texts in one policy"),
    ],
)
def test_a_file_without_purpose_or_limit_is_refused(text: str, message: str) -> None:
    """A policy says what it is for and limits something, within its ceilings."""
    with pytest.raises(PolicyError, match=message):
        load_policy(text, "p")


def test_deep_values_are_refused() -> None:
    """A value nested without end is an error, not a crash."""
    error = at(f"# A.\ncalls=1\nexpect allow a(b={'[' * 4000}{']' * 4000})")
    assert "nested deeper" in error.message


# ── where it is found ──


def write(folder: Path, name: str, *lines: str) -> Path:
    """A policy file in a folder, with a comment before its lines."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.scope"
    path.write_text("\n".join(["# About it.", *lines]), encoding="utf-8")
    return path


def test_a_name_is_looked_for_in_the_users_folders_first(tmp_path: Path) -> None:
    """The user's own policy of a name wins over the shipped one; others are still found."""
    write(tmp_path / "one", "review", "calls=7")
    write(tmp_path / "two", "review", "calls=8")
    folders = [tmp_path / "none", tmp_path / "one", tmp_path / "two"]
    assert find_policy("review", folders).texts == ("calls=7",)
    assert find_policy("docs", folders) == find_policy("docs")


def test_a_path_starts_from_the_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`./team.scope` is found from the current folder, or from the base that is given."""
    path = write(tmp_path, "team", "calls=7")
    assert find_policy("./team.scope", base=tmp_path).texts == ("calls=7",)
    assert find_policy(str(path)).name == "team"
    monkeypatch.chdir(tmp_path)
    assert find_policy("./team.scope").texts == ("calls=7",)


def test_includes_stand_where_they_are_named(tmp_path: Path) -> None:
    """An included policy's texts come in its place; paths start from the including file."""
    write(tmp_path / "a" / "b", "inner", "paths=x", "expect refuse y()")
    write(tmp_path / "a", "outer", "calls=9", "@./b/inner.scope", "@mine", "until=1h")
    write(tmp_path / "own", "mine", "tools=t")
    found = find_policy("./a/outer.scope", [tmp_path / "own"], base=tmp_path)
    assert found.texts == ("calls=9", "paths=x", "tools=t", "until=1h")
    assert found.expects == ()


def test_policies_may_not_include_each_other(tmp_path: Path) -> None:
    """A circle is refused and drawn, also when it goes through a link."""
    write(tmp_path, "a", "@./b.scope")
    write(tmp_path, "b", "@./c.scope")
    (tmp_path / "c.scope").symlink_to(tmp_path / "a.scope")
    with pytest.raises(PolicyError, match=r"include each other: a.scope → b.scope → a.scope"):
        find_policy("./a.scope", base=tmp_path)


def test_includes_end_at_their_ceiling(tmp_path: Path) -> None:
    """As many levels as the ceiling says are read, one more is not."""
    write(tmp_path, "p0", "calls=1")
    for number in range(1, MAX_POLICY_DEPTH + 1):
        write(tmp_path, f"p{number}", f"@./p{number - 1}.scope")
    deepest = MAX_POLICY_DEPTH - 1
    assert find_policy(f"./p{deepest}.scope", base=tmp_path).texts == ("calls=1",)
    with pytest.raises(PolicyError, match="too deeply"):
        find_policy(f"./p{deepest + 1}.scope", base=tmp_path)


def test_a_fault_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    """The inner file and line are named, not the line that includes it."""
    inner = write(tmp_path, "inner", "calls=1", "path=x")
    write(tmp_path, "outer", "@./inner.scope")
    with pytest.raises(ScopeError) as caught:
        find_policy("./outer.scope", base=tmp_path)
    assert caught.value.where == f"{inner.parent}/inner.scope:3"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("revew", "@review"), ("fixtests", "@fix-tests"), ("zzzz", "`broker policy list` names them")],
)
def test_an_unknown_name_gets_the_nearest(name: str, hint: str) -> None:
    """A name that no policy has is refused with the nearest that one has."""
    with pytest.raises(PolicyError, match=f"no policy is called `{name}`") as caught:
        find_policy(name)
    assert str(caught.value.detail["hint"]).startswith(hint)


@pytest.mark.parametrize("name", ["__init__", "..", "", "a\0b", "./a\0b", "./no.scope", "./", "/"])
def test_odd_names_find_nothing(name: str) -> None:
    """What is no policy's name or file is an error, never another file."""
    with pytest.raises(PolicyError):
        find_policy(name)


def test_unreadable_files_say_why(tmp_path: Path) -> None:
    """A file that is no text, or too large, is refused by name."""
    (tmp_path / "raw.scope").write_bytes(b"# a\xff")
    (tmp_path / "big.scope").write_bytes(b"#" * (MAX_POLICY_BYTES + 1))
    with pytest.raises(PolicyError, match=r"raw.scope: not UTF-8 at byte 3"):
        find_policy("raw", [tmp_path])
    with pytest.raises(PolicyError, match=r"big.scope: a policy has at most"):
        find_policy("big", [tmp_path])


def test_a_folder_that_cannot_be_looked_at_is_an_error(tmp_path: Path) -> None:
    """The shipped policy does not step in for one of the user's that cannot be looked at."""
    folders = [tmp_path / ("x" * 300)]
    with pytest.raises(PolicyError, match="cannot be read"):
        find_policy("review", folders)
    with pytest.raises(PolicyError, match="cannot be read"):
        policy_names(folders)


def test_a_folder_that_is_none_is_an_error(tmp_path: Path) -> None:
    """A file where a folder of policies is due is refused by name."""
    path = write(tmp_path, "review", "calls=1")
    with pytest.raises(PolicyError, match="cannot be read"):
        policy_names([path])


def test_the_loader_serves_scopes(tmp_path: Path) -> None:
    """A scope names policies by the loader; faults are shown where they were typed."""
    write(tmp_path, "mine", "tools=@reads", "calls=9")
    loader = policy_loader([tmp_path], groups=GROUPS)
    scope = parse_scope(["@mine", "calls=3"], at=0, groups=GROUPS, policies=loader)
    assert [c.value for c in scope.caveats] == [("grep", "read_file"), 9, 3]
    with pytest.raises(ScopeError) as caught:
        parse_scope("@mind", at=0, policies=loader)
    assert (caught.value.text, caught.value.offset, caught.value.hint) == ("@mind", 0, "@mine")


@given(st.text(max_size=60) | st.text('# "\\\n=,@exptalowrefus()tools paths{}[]:1', max_size=60))
def test_reading_is_total(text: str) -> None:
    """Whatever a file holds, it is a policy or an ``InputError`` that names the file."""
    try:
        said = load_policy(f"# A.\ncalls=1\n{text}", "p").source
    except InputError as error:
        said = str(error)
    assert said.startswith("p.scope")


# ── tests of policies ──


def test_broken_expectations_are_listed() -> None:
    """Each test that does not hold gives one line with its place, and no other does."""
    found = load_policy(
        "# A.\ncalls=1\nexpect allow a()\nexpect refuse b()\nexpect refuse c()  # hosts\n"
        "expect refuse d()  # hosts\nexpect allow e()",
        "p",
    )
    answers = {"a": refuse("tools"), "b": ALLOW, "c": refuse("paths"), "d": refuse("hosts")}
    failures = check_expects(found, lambda tool, _args, _line: answers.get(tool, ALLOW))
    assert failures == [
        "p.scope:3: `expect allow a()` was refused by `tools`: because",
        "p.scope:4: `expect refuse b()` was allowed",
        "p.scope:5: `expect refuse c()` was refused by `paths`, not by `hosts`",
    ]


def test_the_shipped_policies_are_all_here() -> None:
    """Each shipped policy can be named, and no file is left over."""
    assert policy_names() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policies_are_read_without_warnings(name: str) -> None:
    """A shipped policy is a sound scope that says what it is for, with an end and a budget."""
    found = find_policy(name)
    scope = parse_scope(found.texts, at=0, groups=GROUPS)
    assert scope.warnings == ()
    assert {"tools", "hosts", "calls", "until"} <= {c.kind for c in scope.caveats}
    assert found.about.endswith(".")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policies_carry_their_tests(name: str) -> None:
    """Each has an allow, a refusal, and a near miss, for plain and for Claude Code's names."""
    found = find_policy(name)
    kinds = {expect.allowed for expect in found.expects}
    assert kinds == {True, False}
    assert all(expect.caveat for expect in found.expects if not expect.allowed)
    assert any(expect.tool.islower() for expect in found.expects)
    assert any(expect.tool[0].isupper() for expect in found.expects)
    assert {e.caveat for e in found.expects} & {"paths", "reads", "writes", "hosts"}


def under(texts: tuple[str, ...], workspace: Path) -> policy.Decide:
    """What calls come to in a workspace under a ticket with these texts and nothing else."""
    catalogs = load_catalogs()
    caveats = parse_scope(texts, at=0, groups=catalogs.groups()).caveats
    ticket = mint(caveats, key=bytes(32), sid="s", minted_at=0)
    resolver = Resolver(workspace, catalogs)
    return lambda tool, arguments, _line: authorize(ticket, resolver.resolve(tool, arguments), 1)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policies_keep_their_word(name: str, tmp_path: Path) -> None:
    """Every expectation of a shipped policy holds for real calls under a real ticket."""
    found = find_policy(name, groups=load_catalogs().groups())
    assert check_expects(found, under(found.texts, tmp_path)) == []


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policies_test_what_they_say(name: str, tmp_path: Path) -> None:
    """Without a limit that a refusal names, the policy no longer keeps its word."""
    found = find_policy(name)
    for kind in {expect.caveat for expect in found.expects if expect.caveat}:
        others = tuple(text for text in found.texts if not text.startswith(f"{kind}="))
        assert len(others) < len(found.texts)
        assert check_expects(found, under(others, tmp_path)) != [], kind


@given(caveat_lists)
def test_a_policy_file_holds_any_scope(caveats: list[Caveat]) -> None:
    """What `render` writes can stand in a policy file, comments and quotes notwithstanding."""
    texts = render(caveats)
    lines = "".join(f"  {text}   # {text}\n" for text in texts)
    found = load_policy(f"# About.\ncalls=1\n{lines}", "p").texts[1:]
    assert parse_scope(found, at=0, past_ok=True).caveats == tuple(caveats)
