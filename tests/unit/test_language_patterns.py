"""Reading path patterns: the canonical text, and every error with its offset."""

from __future__ import annotations

import pytest

from broker.errors import PatternError
from broker.language.patterns import DEEP, check_path, first_unseen, read_path
from broker.limits import MAX_PATTERN_CHARS, MAX_PATTERN_PARTS


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("src/**", "src/**"),
        ("./src/**", "src/**"),
        ("src/./a.py", "src/a.py"),
        ("src//a.py", "src/a.py"),
        ("src/", "src"),
        (".", "."),
        ("./", "."),
        ("**", "**"),
        ("src/**/**/b.py", "src/**/b.py"),
        ("src/**/./**", "src/**"),
        ("src/[]a].py", "src/[]a].py"),
        ("src/[!]a]", "src/[!]a]"),
        ("app/\\[id\\]/page.tsx", "app/\\[id]/page.tsx"),
        ("app/[[]id]/page.tsx", "app/[[]id]/page.tsx"),
        ("a\\ b", "a b"),
        ("\\!x", "\\!x"),
        ("./!x", "\\!x"),
        ("./~/x", "\\~/x"),
        ("C\\:/x", "C\\:/x"),
        ("a\\*b", "a\\*b"),
        ("$HOME/x", "$HOME/x"),
        ("my docs/(a|b)+^.py", "my docs/(a|b)+^.py"),
        ("文書/**", "文書/**"),
        ("\U0001f469\u200d\U0001f680/\u2764\ufe0f", "\U0001f469\u200d\U0001f680/\u2764\ufe0f"),
        ("a" * MAX_PATTERN_CHARS, "a" * MAX_PATTERN_CHARS),
        ("a/" * (MAX_PATTERN_PARTS - 1) + "a", "a/" * (MAX_PATTERN_PARTS - 1) + "a"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    """A pattern has one canonical text, which is its own canonical text."""
    assert check_path(text) == canonical
    assert check_path(canonical) == canonical


@pytest.mark.parametrize(
    ("text", "offset", "said"),
    [
        ("", 0, "empty"),
        ("\u3000", 0, "blanks"),
        ("\u00a0 ", 0, "blanks"),
        ("/etc", 0, "workspace root"),
        ("/", 0, "workspace root"),
        ("~/x", 0, "workspace root"),
        ("!src/**", 0, "negative"),
        ("C:\\x", 0, "drive"),
        ("c:/x", 0, "drive"),
        ("src/../**", 4, "`..`"),
        ("..", 0, "`..`"),
        ("\\..", 0, "needs no"),
        ("[.]", 0, "matches no name"),
        ("a/.[.]", 2, "matches no name"),
        ("[.-.].", 0, "matches no name"),
        ("src/***/a.py", 4, "whole part"),
        ("src/a**", 5, "whole part"),
        ("src\\**", 4, "whole part"),
        ("src/{a}.py", 4, "braces"),
        ("src/a}", 5, "braces"),
        ("src/\\", 4, "nothing follows"),
        ("src\\/a", 3, "nothing follows"),
        ("src\\a.py", 3, "needs no"),
        ("src[/]a.py", 3, "not closed"),
        ("[]", 0, "not closed"),
        ("[!]", 0, "not closed"),
        ("[a", 0, "not closed"),
        ("[^a]", 0, "`[!`"),
        ("[z-a]", 1, "reversed"),
        ("[[:alpha:]]", 1, "named classes"),
        ("[a[=b=]]", 2, "named classes"),
        ("a\u200bb", 1, "U+200B"),
        ("a\x00", 1, "U+0000"),
        ("a\x7f", 1, "U+007F"),
        ("a\x85", 1, "U+0085"),
        ("a\u2028", 1, "U+2028"),
        ("src/\u202e**", 4, "U+202E"),
        ("\ud800/**", 0, "U+D800"),
        ("a" * (MAX_PATTERN_CHARS + 1), MAX_PATTERN_CHARS, "characters"),
        ("a/" * MAX_PATTERN_PARTS + "a", 2 * MAX_PATTERN_PARTS, "parts"),
    ],
)
def test_errors_say_what_and_where(text: str, offset: int, said: str) -> None:
    """A text that is no pattern is an error with its offset, in one plain line."""
    with pytest.raises(PatternError) as caught:
        check_path(text)
    assert caught.value.offset == offset
    assert said in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("value", [None, 7, b"src", ["src"]])
def test_not_text(value: object) -> None:
    """What is not text is a pattern error, never a TypeError."""
    with pytest.raises(PatternError):
        check_path(value)  # type: ignore[arg-type]  # the point of the test


def test_braces_inside_a_class_are_members() -> None:
    """A brace inside a class has only one reading."""
    assert check_path("[{}]") == "[{}]"


def test_parts_and_head() -> None:
    """The head begins every match, and plain says that there is no wildcard."""
    read = read_path("src/**/a*")
    assert (read.names, read.head, read.plain) == (("src",), "src/", False)
    assert read.parts[1] == DEEP
    assert read_path("src/te*").head == "src/te"
    assert read_path("src/a").head == "src/a/"
    assert read_path("src/a").plain


@pytest.mark.parametrize(
    ("pattern", "names"),
    [(".git/**", True), ("sub/.GIT/x", True), ("**", False), (".gi[t]/x", False), (".git*", False)],
)
def test_naming_git(pattern: str, names: bool) -> None:
    """Only a literal part names a `.git` folder."""
    assert read_path(pattern).names_git() is names


def test_first_unseen_finds_every_kind() -> None:
    """Visible characters of any script pass, whatever cannot be seen is found."""
    assert first_unseen("plain text, ümläut, 日本, 😀") == -1
    for code in (
        0,
        0x1F,
        0x7F,
        0x9F,
        0xAD,
        0x200B,
        0x200D,
        0x202E,
        0x2069,
        0xFEFF,
        0xDFFF,
        0xE0041,
    ):
        assert first_unseen("é" + chr(code)) == 1
