"""
The laws of URLs and host patterns, against other parsers and naive readings.

A URL that is accepted must mean the same host to the standard library's parser, which knows
nothing of ours; covering is compared with every URL of a small world.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from hypothesis import assume, example, given
from hypothesis import strategies as st

from broker.errors import PatternError
from broker.hosts import UrlError, check_host, host_matcher, hosts_cover, read_url
from broker.language.urls import DEFAULT_PORTS

# Texts near the edge of being a URL, where parsers part ways.
pieces = st.sampled_from(
    ["http://", "https:", "//", "ws://", "@", ":", "/", "\\", "?", "#", ".", "..", "[", "]", "::1",
     "example", "com", "EXAMPLE.com", "xn--", "127.0.0.1", "0x7f.1", "0177", "1", "%2e", "%00",
     "443", ":80", ":٣", " ", "\t", "\n", "\x00", "\x7f", "\u200d", "\u00ad", "\u3002", "\uff0f",
     "ß", "K", "é", "①", "\u05d0", "😀", "\ud800", "_", "-", "*", ";", "&", "=", "<", "|", "^"]
)  # fmt: skip
odd_urls = st.lists(pieces, max_size=8).map("".join)
names = st.sampled_from(
    ["example.com", "a.example.com", "a-b.test", "x", "localhost", "127.0.0.1", "[::1]",
     "[2001:db8::a]", "1.example", "EXAMPLE.com", "example.com.", "bücher.test", "a_b.test"]
)  # fmt: skip
tails = st.text(alphabet="ab/?#@:%2.\\é ", max_size=8).map(lambda t: "/" + t)


@st.composite
def near_urls(draw: st.DrawFn) -> str:
    """Draw a URL that is mostly right."""
    scheme = draw(st.sampled_from(["http", "https", "ws", "wss", "HTTPS"]))
    user = draw(st.sampled_from(["", "", "u@", "u:p@", "evil.test:80@", "%2f@", "@"]))
    port = draw(st.sampled_from(["", "", ":", ":80", ":443", ":8443", ":0443", ":65536"]))
    return f"{scheme}://{user}{draw(names)}{port}{draw(tails)}"


urls = st.one_of(near_urls(), near_urls(), odd_urls, odd_urls.map("https://".__add__), st.text())


@given(urls)
@example("http://\ud800/")
@example("https://[::1%]/")
@example("https://xn--/")
@example("http://[::1]:/")
@example("https://a." + "\u0301" * 300)
def test_reading_is_total(text: str) -> None:
    """Any text gives a URL or a URL error, and never anything else."""
    try:
        url = read_url(text)
    except UrlError as error:
        assert error.reason
        assert "\n" not in error.reason
    else:
        assert bool(url.keys) == (url.scheme in DEFAULT_PORTS)


@given(st.one_of(urls, st.text(alphabet=st.characters(), max_size=6).map("https://a{}b/".format)))
@example("https://user@Example.com.:0443/a?b#c")
@example("https://example.com?@evil.test")
def test_other_parsers_agree(text: str) -> None:
    """The standard library reads the same scheme, host and port in an accepted URL."""
    try:
        url = read_url(text)
    except UrlError:
        return
    if not url.keys:
        return
    other = urlsplit(text)
    host, port = (other.hostname or "").removesuffix("."), other.port
    assert other.scheme == url.scheme
    assert (DEFAULT_PORTS[url.scheme] if port is None else port) == url.port
    if url.host.startswith("["):
        assert ipaddress.ip_address(host) == ipaddress.ip_address(url.host[1:-1])
    elif host.isascii():
        assert host == url.host
    else:
        assert check_host(host) == url.host


@given(urls)
def test_tidy_means_the_same(text: str) -> None:
    """The tidy form of a URL has the same keys, and is its own tidy form."""
    try:
        url = read_url(text)
    except UrlError:
        return
    again = read_url(url.tidy)
    assert (again.keys, again.tidy) == (url.keys, url.tidy)


@given(urls)
def test_a_host_names_itself(text: str) -> None:
    """The host of an accepted URL is a canonical pattern, and matches that URL."""
    try:
        url = read_url(text)
    except UrlError:
        return
    for key in url.keys:
        assume(url.port != 0)
        assert check_host(key) == key
        assert host_matcher((key,)).match(url.keys)


@given(st.one_of(odd_urls, st.text(max_size=12), names, names.map("*.{}:80".format)))
def test_reading_a_pattern_is_total(text: str) -> None:
    """Any text is a host pattern whose canonical text stays, or an error inside the text."""
    try:
        canonical = check_host(text)
    except PatternError as error:
        assert 0 <= error.offset <= len(text)
        assert "\n" not in error.message
    else:
        assert canonical.isascii()
        assert check_host(canonical) == canonical


# ── matching and covering, in a small world ──

HOSTS = ["a.test", "b.test", "x.a.test", "y.x.a.test", "xa.test", "other", "10.0.0.1", "[::1]"]
WORLD = [
    (scheme, host, port)
    for scheme in ("http", "https", "ws", "wss")
    for host in HOSTS
    for port in ("", ":80", ":443", ":8443")
]
KEYS = {point: read_url(f"{point[0]}://{point[1]}{point[2]}/").keys for point in WORLD}

patterns = st.builds(
    str.__add__,
    st.sampled_from([*HOSTS, "*", "*.test", "*.a.test", "*.x.a.test"]),
    st.sampled_from(["", "", ":80", ":443", ":8443"]),
).map(check_host)
lists = st.lists(patterns, max_size=4).map(tuple)


def naive_match(pattern: str, scheme: str, host: str, port: str) -> bool:
    """Match a URL the way the language is described to a person."""
    default = {"http": 80, "ws": 80, "https": 443, "wss": 443}[scheme]
    number = int(port[1:]) if port else default
    wanted, colon, named = pattern.rpartition(":")
    if not colon or pattern.endswith("]"):
        wanted, named = pattern, str(default)
    address = host.startswith("[") or host[0].isdigit()
    if wanted == "*":
        fits = not address
    elif wanted.startswith("*."):
        labels, below = host.split("."), wanted.split(".")[1:]
        fits = not address and len(labels) > len(below) and labels[-len(below) :] == below
    else:
        fits = wanted == host
    return fits and number == int(named)


@given(lists)
def test_matching_is_what_the_naive_reading_says(listed: tuple[str, ...]) -> None:
    """The matcher and the naive one agree on every URL of the world."""
    matcher = host_matcher(listed)
    for point, keys in KEYS.items():
        assert matcher.match(keys) == any(naive_match(p, *point) for p in listed), point


@given(lists, patterns)
@example(("a.test:80", "*.test:443"), "a.test")
@example(("*.test",), "*.test:443")
def test_covering_is_exact(wide: tuple[str, ...], narrow: str) -> None:
    """A pattern is covered exactly when every URL of the world that it matches is matched."""
    covered = hosts_cover(wide, (narrow,)) is None
    outer, inner = host_matcher(wide), host_matcher((narrow,))
    witnesses = [k for k in KEYS.values() if inner.match(k) and not outer.match(k)]
    # A star matches more names than the world has: ask about one that no pattern spells.
    if narrow.startswith("*"):
        host, colon, port = narrow.partition(":")
        fresh = "q.w" if host == "*" else "q.w" + host[1:]
        for scheme in DEFAULT_PORTS:
            keys = read_url(f"{scheme}://{fresh}{colon}{port}/").keys
            if inner.match(keys) and not outer.match(keys):
                witnesses.append(keys)
    assert covered == (not witnesses)


@given(lists, lists, lists)
def test_covering_is_an_order(a: tuple[str, ...], b: tuple[str, ...], c: tuple[str, ...]) -> None:
    """Covering is reflexive and transitive, and grows with the wider list."""
    assert hosts_cover(a + b, b) is None
    if hosts_cover(a, b) is None and hosts_cover(b, c) is None:
        assert hosts_cover(a, c) is None
