"""
Which of the patterns of a scope comes nearest to what was refused.

Decided here: an order, for people and models to read: what shares most with the value comes first,
and what is as near stays as it was typed. Not decided here: anything that a call comes to; a
pattern that comes first may still be far off.

Rules a maintainer keeps: total and deterministic; the cost is one short comparison for each
pattern, since a model may ask for what is refused as often as it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

MAX_COMPARED_CHARS: Final = 256  # of a value and of each pattern

Nearness = Callable[[str, str], int]


def nearest_first(value: str, patterns: Sequence[str], nearness: Nearness) -> Sequence[str]:
    """
    Return the patterns with those first that come nearest to a value.

    >>> nearest_first("docs/x/a.md", ["src/**", "docs/guide/**", "docs/x/*.py"], near_paths)
    ['docs/x/*.py', 'docs/guide/**', 'src/**']
    """
    if len(patterns) < 2:
        return patterns
    short = value[:MAX_COMPARED_CHARS]
    return sorted(patterns, key=lambda p: -nearness(short, p[:MAX_COMPARED_CHARS]))


def near_names(name: str, pattern: str) -> int:
    """
    Return how near two names of tools are: what they begin and end with, by letters and digits.

    >>> near_names("read_file", "ReadFile") > near_names("read_file", "write_file")
    True
    """
    one, other = _plain(name), _plain(pattern)
    begins = _shared(one, other)
    left = min(len(one), len(other)) - begins
    # What they begin with tells more: `read_file` is nearer to `read` than to `write_file`.
    return 2 * begins + min(left, _shared(one[::-1], other[::-1]))


def near_paths(path: str, pattern: str) -> int:
    """
    Return how near a path and a pattern are: by the components that they begin with.

    >>> near_paths("src/a/b.py", "src/a/*.md"), near_paths("src/a/b.py", "docs/**")
    (2, 0)
    """
    return _shared(path.strip("/").split("/"), pattern.strip("/").split("/"))


def near_hosts(host: str, pattern: str) -> int:
    """
    Return how near a host and a pattern are: by the labels that they end with.

    >>> near_hosts("api.example.org", "*.example.org"), near_hosts("api.example.org", "a.b")
    (2, 0)
    """
    host = host.partition(":")[0]
    return _shared(host.split(".")[::-1], pattern.partition(":")[0].split(".")[::-1])


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many items two sequences begin with alike."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
