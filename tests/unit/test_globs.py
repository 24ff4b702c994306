"""Path patterns: what a list matches, and what it covers."""

from __future__ import annotations

import pytest

from broker import globs
from broker.globs import path_example, path_matcher, path_witness, paths_cover, place_example


@pytest.mark.parametrize(
    ("patterns", "place", "matched"),
    [
        ("src/a.py", "src/a.py/", True),
        ("src", "src/a.py/", True),
        ("src", "srcx/", False),
        ("src/**", "src/", True),
        ("src/**", "src/pkg/deep/c.py/", True),
        ("src/**", "src2/", False),
        ("src/*", "src/.hidden/", True),
        ("src/*", "src/", False),
        ("src/*", "src/a/b/", False),
        ("src/*.py", "src/.py/", True),
        ("src/a*.py", "src/a.py/", True),
        ("s*c/a.py", "src/a.py/", True),
        ("src/*/b.py", "src/b.py/", False),
        ("src/*/b.py", "src/pkg/b.py/", True),
        ("src/*/b.py", "src/pkg/b.py/x/", False),
        ("**", "", True),
        ("**", ".git/config/", True),
        (".", "", True),
        (".", "a/", True),
        ("**/*", "", False),
        ("**/*.py", "a.py/", True),
        ("**/*.py", "x.py/run.sh/", False),
        ("a/**/b/**/c", "a/b/c/", True),
        ("a/**/b/**/c", "a/x/b/y/z/c/", True),
        ("a/**/b/**/c", "a/x/y/c/", False),
        ("**/a/**/a", "a/a/", True),
        ("**/a/**/a/**", "a/x/a/", True),
        ("*a*a", "aa/", True),
        ("*a*a", "a/", False),
        ("src/?.md", "src/😀.md/", True),
        ("src/?.py", "src/ab.py/", False),
        ("src?a.py", "src/a.py/", False),
        ("src[!x]a.py", "src/a.py/", False),
        ("src[+-0]a.py", "src/a.py/", False),
        ("src/[a-c].py", "src/b.py/", True),
        ("src/[!b].py", "src/b.py/", False),
        ("src/[]a].py", "src/].py/", True),
        ("app/[[]id]", "app/[id]/", True),
        ("app/\\[id\\]", "app/[id]/", True),
        ("app/[id]", "app/[id]/", False),
        ("src/$x^.py", "src/$x^.py/", True),
        ("src/a.py", "src/aXpy/", False),
        ("*", "a\nb/", True),
        ("*.py", "a.py\n/", False),
        ("src/**,docs/**", "docs/guide.md/", True),
        ("src/*,docs/*", "tests/a/", False),
    ],
)
def test_matching(patterns: str, place: str, matched: bool) -> None:
    """A list matches the places that one of its patterns describes, and no other."""
    assert path_matcher(tuple(patterns.split(","))).match(place) is matched


def test_nothing_is_matched_by_the_empty_list() -> None:
    """An empty list allows nothing, not even the root."""
    matcher = path_matcher(())
    assert not matcher.match("")
    assert not matcher.match("a/")
    assert matcher.git is None


def test_common_lists_need_no_expression() -> None:
    """Names and subtrees are matched by their beginnings alone."""
    matcher = path_matcher(("src/**", "README.md", "."))
    assert matcher.prefixes == ("src/", "README.md/", "")
    assert matcher.rest is None


def test_letter_case_counts_unless_folded() -> None:
    """Case counts in places, but for a file system that folds it."""
    assert not path_matcher(("SRC/[A-C]*",)).match("src/bx/")
    folded = path_matcher(("SRC/[A-C]*", "Docs/**"), folded=True)
    assert folded.match("src/bx/")
    assert folded.match("DOCS/X/")
    assert not path_matcher(("[!A]",), folded=True).match("a/")


def test_git_has_a_matcher_of_its_own() -> None:
    """Only patterns that name `.git` outright count inside it."""
    matcher = path_matcher(("**", "sub/.GIT/hooks"))
    assert matcher.git is not None
    assert matcher.git.match("sub/.GIT/hooks/x/")
    assert not matcher.git.match(".git/hooks/x/")
    assert path_matcher(("**",)).git is None


@pytest.mark.parametrize(
    ("patterns", "place", "covered"),
    [
        ("src/**", "src/", True),
        ("src/**", "src/pkg/", True),
        ("src", "src/", True),
        ("**", "src/", True),
        (".", "", True),
        ("**", "", True),
        ("src/**", "", False),
        ("src/**", "srcs/", False),
        ("s*", "src/", False),
        ("s*/**", "src/", True),
        ("src/*", "src/", False),
        ("src/*", "src/a/", False),
        ("**/*.py", "src/", False),
        ("**/*.py", "src/a.py/", False),
        ("src/**/*", "src/", False),
        ("src/**/*", "src/a/", True),
        ("src/*/**", "src/", False),
        ("src/*/**", "src/a/", True),
        ("src/**/**/*,s?c", "src/", True),
        ("s*,s*/*", "src/", False),
        ("s*,s*/*/**", "src/", True),
        ("s*,s*/[!a]*/**,s*/a*/**", "src/", True),
        ("s*,s*/[!a]*/**,s*/a?*/**", "src/", False),
        ("src/􏿿*/**", "src/", False),
        ("s*,**/?,**/??*", "src/", True),
        ("s*,**/?,**/???*", "src/", False),
        ("**/tests/**", "a/tests/", True),
        ("**/tests/**", "a/tests/b/", True),
        ("**/tests", "a/tests/", False),
        ("s*,docs", "docs/a/", True),
    ],
)
def test_covering_a_folder(patterns: str, place: str, covered: bool) -> None:
    """A list covers a folder when it matches the folder and all that could ever lie below it."""
    assert path_matcher(tuple(patterns.split(","))).covers(place) is covered


def test_covering_a_folder_where_letter_case_does_not_count() -> None:
    """There, only patterns that reach any depth by themselves cover."""
    folded = path_matcher(("S[Q-T]C/**", "Docs", "*", "*/**/*"), folded=True)
    assert folded.covers("SRC/A/")
    assert folded.covers("docs/")
    assert not folded.covers("lib/")


def test_covering_is_denied_when_its_steps_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be proved in so many steps is not covered; a plain answer needs none."""
    patterns = ("t*", "t*/**/*", "u*/**")
    monkeypatch.setattr(globs, "MAX_INCLUSION_STEPS", 3)
    assert not path_matcher(patterns).covers("t1/")
    assert path_matcher(patterns).covers("u1/")
    monkeypatch.setattr(globs, "MAX_INCLUSION_STEPS", 1)
    assert not path_matcher((*patterns, "[ab]", "[bc]")).covers("t1/")
    globs._below.cache_clear()


def test_what_is_remembered_of_places_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither many characters nor many answers are kept for ever, and answers stay right."""
    onward = globs._below(("*", "*/**/*", "[a-p]/**"), False)[1]
    assert onward is not None
    monkeypatch.setattr("broker.language.inclusion._KEPT", 2)
    for name in [chr(0x4E00 + n) for n in range(40)]:
        assert onward.covers(f"{name}/")
        assert not onward.covers("")
        assert onward.covers("a/b/")
        assert len(onward._kept) <= 2
    assert len(onward._machine.stepped) <= 6
    globs._below.cache_clear()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("pattern", "place"),
    [
        ("*a" * 60 + "b", "a" * 4000 + "/"),
        ("**/a/" * 60 + "b", "a/" * 4000),
        ("**/*a*/" * 60 + "b", "aa/" * 3000),
        ("*?" * 60 + "b", "a" * 4000 + "/"),
    ],
)
def test_no_pattern_makes_matching_slow(pattern: str, place: str) -> None:
    """Many stars and a long place do not multiply."""
    assert not path_matcher((pattern,)).match(place)


@pytest.mark.parametrize(
    ("wide", "narrow", "uncovered"),
    [
        ("src/**", "src/**", None),
        ("src/**", "src/a.py", None),
        ("src", "src/**", None),
        ("src/**", "src", None),
        ("**", "src/*/[a-z]?", None),
        (".", "**", None),
        ("src/**", "**", "**"),
        ("src/*", "src/a", "src/a"),
        ("src/*", "src/a*", None),
        ("src/**/*", "src/**", "src/**"),
        ("src/**/*.py", "src/a/*.py", None),
        ("src/**/a.py", "src/*/a.py", None),
        ("src/*/a.py", "src/**/a.py", "src/**/a.py"),
        ("[!b]*,b*", "*", None),
        ("[!b]*,b", "*", "*"),
        ("[!.],x", "?", None),
        ("a,*/*,b*,[!ab]*", "*,a/**", "*"),
        ("*/*/**,*", "**/*", None),
        ("*/**", "*/**/*", None),
        ("?*", "*", None),
        ("src/**", "docs/**,src/a", "docs/**"),
        ("", "src", "src"),
        ("src", "", None),
    ],
)
def test_covering(wide: str, narrow: str, uncovered: str | None) -> None:
    """A list covers another when it matches every place that the other matches."""
    split = [tuple(filter(None, text.split(","))) for text in (wide, narrow)]
    assert paths_cover(split[0], split[1]) == uncovered


def test_git_is_covered_only_by_what_names_it() -> None:
    """A pattern that names `.git` is not covered by one that only reaches it."""
    assert paths_cover(("**",), (".git/hooks",)) is None
    assert paths_cover(("**",), (".git/hooks",), True) == ".git/hooks"
    assert paths_cover(("**", ".git/**"), (".git/hooks", "src"), True) is None


def test_steps_run_out_to_no() -> None:
    """When the steps do not suffice the answer is *not covered*, without a proof."""
    wide, narrow = ("**/a*/**/b",), ("**/ab/**/b",)
    assert path_witness(wide, narrow, steps=10) == ("**/ab/**/b", None)
    assert path_witness(wide, narrow) is None


@pytest.mark.parametrize(
    "pattern",
    ["**", ".", "src/**/*.py", "?", "[.x]", "[.-0]", "[!x]", "..?", ".*", "[!a-\U0010ffff]", "a/b"],
)
def test_example_is_matched(pattern: str) -> None:
    """The example of a pattern is a place that it matches."""
    place = place_example(pattern)
    assert path_matcher((pattern,)).match(place)
    assert not any(part in ("", ".", "..") for part in place.split("/")[:-1])


def test_the_door_holds_every_public_name() -> None:
    """The tool functions are found beside the path functions."""
    assert all(hasattr(globs, name) for name in globs.__all__)


def test_an_example_of_a_place_knows_git() -> None:
    """Where a write is looked for, `.git` is left out, or only patterns that name it count."""
    assert path_example([("**",)], ("**",), git=True) is None
    assert path_example([("**", ".git/**")], ("**",), git=True) == ".git/"
    assert path_example([("**/.git/**",)], git=False) is None
    assert path_example([("**/.GIT/**",)], git=False) is None
    assert path_example([(".git*/**",)], git=False) not in (None, ".git/")
    assert path_example([("a/.gi/t",)], git=False) == "a/.gi/t/"
