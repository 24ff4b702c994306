"""A search pattern starts somewhere, and must not be able to leave that place."""

from __future__ import annotations

import pytest

from broker.resolution.globbing import fixed_start
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
