"""A search pattern starts somewhere, and must not be able to leave that place."""

from __future__ import annotations

import pytest

from broker.resolution.globbing import fixed_start, recurses
from broker.resolution.realpaths import PathError


@pytest.mark.parametrize(
    ("pattern", "start"),
    [
        ("**/*.py", ""),
        ("*.py", ""),
        ("src/**/*.py", "src"),
        ("src/a?.py", "src"),
        ("src/a.py", "src/a.py"),
        ("../**", ".."),
        ("src/../x/*", "src/../x"),
        ("/etc/*", "/etc"),
        ("/*", "/"),
        ("src/{a,b}/*.py", "src"),
        ("{src,tests/unit}/**", ""),
        ("**/.{eslintrc,prettierrc}*", ""),
        ("src/[a-z]*.{js,ts}", "src"),
        ("src/@(a|b)/x", "src"),
        ("@scope/pkg/*", "@scope/pkg"),
        ("routes/+page.svelte", "routes/+page.svelte"),
        ("!src/**", ""),
        ("src{,2}/*.py", ""),
        ("{,src/}*.py", ""),
        ("src/{,a}/*.py", "src"),
        ("*/...", ""),
        ("*/.[a-z]*", ""),
        ("*/[", ""),
        ("src/\\*/x", "src"),
        ("src/*(.js|.ts)/a", "src"),
        ("src/!(a).b", "src"),
        ("(a|b)/x", ""),
        ("a,b/*", "a,b"),
        ("{1..3}.txt", ""),
        ("}{,)(|", ""),
        ("a..b/*", "a..b"),
    ],
)
def test_where_a_search_starts(pattern: str, start: str) -> None:
    """It starts at the last slash before the first wildcard."""
    assert fixed_start(pattern) == start


@pytest.mark.parametrize(
    "pattern",
    [
        "*/../x",
        "src/*/../../x",
        "{..,src}/*",
        "{src,..}/*",
        "{/etc,src}/*",
        "{src, /etc}/*",
        "{~,src}/*",
        ".{.,x}/y",
        "{.,src}{.,x}/y",
        "{.,a/}./x",
        "[.][.]/x",
        "\\../x",
        "\\.\\./x",
        ".\\./x",
        "@(..|a)/x",
        "!../x",
        "!/etc/*",
        "*/{a,../../b}/c",
        "src/*/..",
        "{}/etc/*",
        "{,a}/etc/*",
        "{a,}{,b}/etc/*",
        "{{,a},b}/etc/*",
        "x+(a/|.)/y",
        "+(.)/x",
        "\\etc\\*",
        "*/[!a]./x",
        "*/[+-9]./x",
        "{..",
    ],
)
def test_a_pattern_that_could_climb(pattern: str) -> None:
    """Whatever dialect could make a step up or a root of it, it is refused."""
    with pytest.raises(PathError):
        fixed_start(pattern)


@pytest.mark.parametrize(
    ("pattern", "deep"),
    [
        ("src/a.py", False),
        ("src/*.py", False),
        ("*", False),
        ("src/[a-z]?.{py,pyi}", False),
        ("**", True),
        ("src/**/*.py", True),
        ("src/**.py", True),
        ("src/*/a.py", True),
        ("src/{a,b/c}.py", True),
        ("src/*(a/)b", True),
        ("src\\*.py", True),
        ("src/*\\a.py", True),
        ("!src", True),
        ("!src/*.py", True),
    ],
)
def test_a_pattern_that_looks_into_other_folders(pattern: str, deep: bool) -> None:
    """It recurses when something after its first wildcard may part folders."""
    assert recurses(pattern) is deep
