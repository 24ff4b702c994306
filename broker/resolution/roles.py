"""
What each role of a catalog means for how an argument is read.

Decided here: which roles touch files and how, and which wait for other arguments. Not decided
here: the roles themselves (``broker.catalogs.entry``), the reading (``broker.resolution.reading``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.calls import Access

ACCESS: Final[Mapping[str, Access]] = {
    "path-read": "read",
    "path-list": "read",
    "path-tree": "read",
    "path-write": "write",
    "path-put": "write",
    "path-delete": "write",
    "path-nofollow": "write",
}
# Touch no path and no host, but for a "cwd", which is read before the others.
PLAIN: Final = frozenset(
    ["text", "search-regex", "cwd", "recipient", "identifier", "amount", "date", "permission"]
)
# Read with other arguments, and some of them after those.
BESIDE: Final = frozenset(["glob-in", "link-target", "headers", "path-put"])
TOPS: Final = frozenset(["path-list", "path-tree"])  # where a search starts
WHOLE: Final = frozenset(["path-tree", "path-delete"])  # a folder goes with all below it
STAYS: Final = frozenset(["path-delete", "path-nofollow"])  # a link in the end goes itself
