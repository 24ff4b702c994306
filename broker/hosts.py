"""
Host patterns: reading one, matching a URL's keys, and whether one list matches no more.

Decided here: which texts are host patterns and what they match. Not decided here: which host
a URL means (``broker.language.urls``; ``read_url`` is found here too), which arguments are URLs
(``broker.resolve``).

Rules a maintainer keeps: a pattern is read as a URL's host is read, so that both have the same
spelling; matching canonical patterns needs no parser. A name that ends in a number is an
address; a star never stands for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from broker.errors import PatternError
from broker.language.patterns import first_unseen
from broker.language.urls import (
    DEFAULT_PORTS,
    Url,
    UrlError,
    is_ipv4,
    read_host,
    read_port,
    read_url,
)
from broker.limits import MAX_HOST_CHARS, MAX_PATTERN_CHARS

__all__ = [
    "HostMatcher",
    "Url",
    "UrlError",
    "check_host",
    "host_matcher",
    "hosts_cover",
    "read_url",
]

# ── patterns ──

# Names that no registry sells: a star below one of them is no slip.
_PRIVATE: Final = frozenset(
    ("corp", "example", "home", "internal", "invalid", "lan", "local", "localhost", "onion",
     "private", "test")
)  # fmt: skip


def check_host(text: str) -> str:
    """
    Return the canonical text of a host pattern.

    Raises:
        PatternError: the text is no host pattern; ``offset`` says where.

    >>> check_host("Bücher.example."), check_host("*.example.org:8443"), check_host("[::0:1]")
    ('xn--bcher-kva.example', '*.example.org:8443', '[::1]')
    >>> check_host("https://example.com/a")
    Traceback (most recent call last):
    ...
    broker.errors.PatternError: hosts are named without a scheme
    """
    if not isinstance(text, str):
        raise PatternError("a pattern must be text")
    return _check_host(text)


@lru_cache(maxsize=4096)
def _check_host(text: str) -> str:
    _refuse_shape(text)
    host, port, at = _cut_port(text)
    suffix = f":{port}" if port else ""
    if host == "*":
        return "*" + suffix
    below = host.startswith("*.")
    if "*" in host[below:]:
        raise PatternError(
            "a star stands only for whole labels in front", text.find("*", below), "*.example.com"
        )
    if host.startswith("."):
        raise PatternError("a host begins with a dot", 0, f"*{text}")
    try:
        name = read_host(host[2:] if below else host)
    except UrlError as error:
        raise PatternError(error.reason, min(2 * below, at), error.hint) from None
    if below:
        _refuse_broad(name)
        name = "*." + name
    return name + suffix


def _refuse_broad(name: str) -> None:
    if is_ipv4(name) or name.startswith("["):
        raise PatternError("a star does not stand before an address", 0)
    if len(name) + 2 > MAX_HOST_CHARS:
        raise PatternError("no name fits below so long a name", 2)
    if "." not in name and name not in _PRIVATE:
        raise PatternError(
            f"`*.{name}` is a whole top-level domain", 0, "name the sites, or `*` for every name"
        )


def _refuse_shape(text: str) -> None:
    if not text:
        raise PatternError("a pattern is empty", 0, "write `none` to allow nothing")
    if len(text) > MAX_PATTERN_CHARS:
        raise PatternError(f"a pattern has at most {MAX_PATTERN_CHARS} characters")
    unseen = first_unseen(text)
    if unseen >= 0:
        raise PatternError(f"a control or invisible character (U+{ord(text[unseen]):04X})", unseen)
    scheme = text.find("://")
    if scheme >= 0:
        rest = text[scheme + 3 :].partition("/")[0].rpartition("@")[2]
        raise PatternError("hosts are named without a scheme", 0, rest or "example.com")
    if text[0] == "-":
        raise PatternError("there are no negative patterns", 0, "list the hosts that are allowed")
    for at, char in enumerate(text):
        if char.isspace():
            raise PatternError("a host holds no blanks", at, "hosts are parted by commas")
        if char in _MISPLACED:
            message, hint = _MISPLACED[char]
            raise PatternError(message, at, text[:at] or None if hint is None else hint)


_MISPLACED: Final[dict[str, tuple[str, str | None]]] = {
    '"': ("a host needs no quotes", "leave the quotes out"),
    "'": ("a host needs no quotes", "leave the quotes out"),
    "/": ("hosts are named without a path", None),
    "?": ("hosts are named without a query", None),
    "#": ("hosts are named without a fragment", None),
    "@": ("hosts are named without a user", "leave out what stands before the `@`"),
    "\\": ("a backslash cannot stand in a host", None),
    "%": ("a `%` cannot stand in a host", None),
}


def _cut_port(text: str) -> tuple[str, str, int]:
    """Return the host, the port's canonical digits, and the offset of the port."""
    closed = text.find("]") + 1
    if text.startswith("[") and not closed:
        raise PatternError("the brackets of an IPv6 address are not closed", 0, "[::1]")
    at = text.find(":", closed)
    if closed and text[closed : closed + 1] not in ("", ":"):
        raise PatternError("only a port may follow the `]`", closed)
    if at < 0:
        return text, "", len(text)
    digits = text[at + 1 :]
    if ":" in digits:
        raise PatternError("an IPv6 address stands in brackets", at, f"[{text}]")
    if not digits:
        raise PatternError("no port follows the `:`", at, text[:at])
    try:
        port = read_port(digits)
    except UrlError as error:
        raise PatternError(error.reason, at + 1, "a port is 1 to 65535") from None
    if not port:
        raise PatternError("port 0 reaches nothing", at + 1, "a port is 1 to 65535")
    return text[:at], str(port), at


# ── matching ──


@dataclass(frozen=True, slots=True)
class HostMatcher:
    """
    A list of host patterns, ready to match the keys of a ``Url``.

    A key is matched when it is one of ``exact``, ends in one of ``suffixes``, or is a name
    (no address) with a port of ``every`` (the empty text: the default port).
    """

    exact: frozenset[str]
    suffixes: tuple[str, ...]
    every: frozenset[str]

    def match(self, keys: Sequence[str]) -> bool:
        """Return whether a pattern of the list matches one of the keys."""
        for key in keys:
            if key in self.exact or key.endswith(self.suffixes):
                return True
            if self.every and not key.startswith("["):
                host, colon, port = key.partition(":")
                if colon + port in self.every and not is_ipv4(host):
                    return True
        return False


@lru_cache(maxsize=1024)
def host_matcher(patterns: tuple[str, ...]) -> HostMatcher:
    """
    Return the matcher of a list of canonical host patterns.

    >>> matcher = host_matcher(("example.com", "*.example.org"))
    >>> matcher.match(read_url("https://a.b.example.org/").keys)
    True
    >>> matcher.match(read_url("https://example.com:8443/").keys)
    False
    """
    every = frozenset(p[1:] for p in patterns if p == "*" or p.startswith("*:"))
    suffixes = tuple(p[1:] for p in patterns if p.startswith("*."))
    exact = frozenset(p for p in patterns if not p.startswith("*"))
    return HostMatcher(exact, suffixes, every)


# ── inclusion ──


@lru_cache(maxsize=1024)
def hosts_cover(wide: tuple[str, ...], narrow: tuple[str, ...]) -> str | None:
    """
    Return the first pattern of ``narrow`` that matches a URL which ``wide`` does not.

    Both are lists of canonical patterns. A pattern without port is covered by the two that
    name the default ports together, and not the other way round: ``example.com:443`` also
    matches plain http on port 443.

    Returns:
        None when ``wide`` matches every URL that ``narrow`` matches.

    >>> hosts_cover(("*.example.org", "example.com"), ("api.example.org", "example.com"))
    >>> hosts_cover(("example.com",), ("example.com", "*.example.com"))
    '*.example.com'
    """
    held = set(wide)
    left = [p for p in narrow if p not in held]
    if not left:
        return None
    split = [_split(p) for p in wide]
    return next((p for p in left if not _covered(p, split)), None)


def _split(pattern: str) -> tuple[str, str]:
    host, colon, port = pattern.rpartition(":")
    return (host, port) if colon and not port.endswith("]") else (pattern, "")


def _covered(pattern: str, wide: Sequence[tuple[str, str]]) -> bool:
    host, port = _split(pattern)
    if port:
        return any(p == port and _host_covers(h, host) for h, p in wide)
    return all(
        any(p in ("", str(default)) and _host_covers(h, host) for h, p in wide)
        for default in set(DEFAULT_PORTS.values())
    )


def _host_covers(wide: str, narrow: str) -> bool:
    if wide == "*":
        return not narrow.startswith("[") and not is_ipv4(narrow)
    return wide == narrow or (wide.startswith("*.") and narrow.endswith(wide[1:]))
