"""Host patterns: reading, matching and covering."""

from __future__ import annotations

import pytest

from broker.errors import PatternError
from broker.hosts import check_host, host_matcher, hosts_cover, read_url
from broker.limits import MAX_PATTERN_CHARS


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("example.com", "example.com"),
        ("Example.COM.", "example.com"),
        ("example.com:0443", "example.com:443"),
        ("*.example.org:8443", "*.example.org:8443"),
        ("*", "*"),
        ("*:8443", "*:8443"),
        ("localhost:3000", "localhost:3000"),
        ("localhost:65535", "localhost:65535"),
        ("*.internal", "*.internal"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::0:1]:80", "[::1]:80"),
        ("[::FFFF:127.0.0.1]", "[::ffff:7f00:1]"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("*.bu\u0308cher.example", "*.xn--bcher-kva.example"),
        ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
        ("0x7f.0.0.0x7g", "0x7f.0.0.0x7g"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    """A host pattern has one canonical text, which is its own canonical text."""
    assert check_host(text) == canonical
    assert check_host(canonical) == canonical


@pytest.mark.parametrize(
    ("text", "offset", "said", "hint"),
    [
        ("", 0, "empty", "none"),
        ("https://example.com/a", 0, "scheme", "example.com"),
        ("example.com/a", 11, "path", "example.com"),
        ("example.com?a", 11, "query", "example.com"),
        ("exa mple.com", 3, "blanks", "commas"),
        ('"example.com"', 0, "quotes", "quotes"),
        ("u@example.com", 1, "user", "@"),
        ("a\\b", 1, "backslash", "a"),
        ("-evil.test", 0, "negative", "allowed"),
        ("a%2eb", 1, "`%`", "a"),
        (".example.com", 0, "dot", "*.example.com"),
        ("..example.com", 0, "dot", "*"),
        ("*.", 2, "no host", ""),
        ("*..com", 2, "empty", ""),
        ("a..b", 0, "empty", ""),
        ("example.com..", 0, "empty", ""),
        ("api*.example.com", 3, "star", "*.example.com"),
        ("*example.com", 0, "star", "*.example.com"),
        ("*.*.example.com", 2, "star", "*.example.com"),
        ("a.*", 2, "star", "*.example.com"),
        ("*.com", 0, "top-level", "sites"),
        ("*.10.0.0.1", 0, "address", ""),
        ("*.[::1]", 0, "address", ""),
        ("example.com:", 11, "no port", "example.com"),
        ("example.com:http", 12, "no port", "65535"),
        ("example.com:65536", 12, "no port", "65535"),
        ("example.com:0", 12, "port 0", "65535"),
        ("example.com:８０", 12, "no port", "65535"),
        ("::1", 0, "brackets", "[::1]"),
        ("[::1", 0, "not closed", "[::1]"),
        ("[::1]x", 5, "follow", ""),
        ("[fe80::1%eth0]", 8, "`%`", "["),
        ("256.0.0.1", 0, "four decimal", ""),
        ("127.1", 0, "four decimal", ""),
        ("127.0.0.1.", 0, "four decimal", ""),
        ("1", 0, "four decimal", ""),
        ("a;b", 0, "cannot stand", ""),
        ("a\u200bb", 1, "U+200B", ""),
        ("*." + "a." * 125 + "ab", 2, "no name fits", ""),
        ("a" * (MAX_PATTERN_CHARS + 1), 0, "characters", ""),
    ],
)
def test_errors_say_what_where_and_how_to_mend_it(
    text: str, offset: int, said: str, hint: str
) -> None:
    """A text that is no host pattern is an error with its offset and a hint."""
    with pytest.raises(PatternError) as caught:
        check_host(text)
    assert caught.value.offset == offset
    assert said in caught.value.message
    assert hint in (caught.value.hint or "")


def test_not_text() -> None:
    """What is not text is a pattern error, never a TypeError."""
    with pytest.raises(PatternError):
        check_host(["x"])  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parametrize(
    ("pattern", "url", "matched"),
    [
        ("example.com", "https://example.com/", True),
        ("example.com", "http://example.com/", True),
        ("example.com", "https://example.com:8443/", False),
        ("example.com", "https://example.com:80/", False),
        ("example.com", "https://api.example.com/", False),
        ("example.com", "https://evilexample.com/", False),
        ("example.com", "https://example.com.evil.test/", False),
        ("example.com:443", "https://example.com/", True),
        ("example.com:443", "http://example.com/", False),
        ("example.com:443", "http://example.com:443/", True),
        ("*.example.com", "https://a.b.example.com/", True),
        ("*.example.com", "https://example.com/", False),
        ("*.example.com", "https://evilexample.com/", False),
        ("*.example.com", "https://a.example.com:8443/", False),
        ("*.example.com:8443", "https://a.example.com:8443/", True),
        ("*", "https://anything.test/", True),
        ("*", "https://anything.test:8443/", False),
        ("*", "http://127.0.0.1/", False),
        ("*", "http://[::1]/", False),
        ("*", "file:///etc/passwd", False),
        ("*:8443", "https://anything.test:8443/", True),
        ("*:8443", "http://127.0.0.1:8443/", False),
        ("*:443", "https://anything.test/", True),
        ("127.0.0.1", "http://127.0.0.1/", True),
        ("127.0.0.1", "http://127.0.0.1.nip.io/", False),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/", False),
        ("[::1]", "http://[::1]/", True),
        ("[::1]:81", "http://[::1]:81/", True),
        ("[::1]", "http://[::1]:81/", False),
    ],
)
def test_matching(pattern: str, url: str, matched: bool) -> None:
    """A pattern matches its host at its port, whole labels only, and no unnamed address."""
    assert host_matcher((check_host(pattern),)).match(read_url(url).keys) is matched


def test_nothing_is_matched_by_the_empty_list() -> None:
    """An empty list allows no host, and no list a URL without keys."""
    assert not host_matcher(()).match(("example.com", "example.com:443"))
    assert not host_matcher(("*",)).match(())


@pytest.mark.parametrize(
    ("wide", "narrow", "uncovered"),
    [
        ("example.com", "example.com", None),
        ("*", "example.com,*.example.com", None),
        ("*", "*:8443", "*:8443"),
        ("*", "127.0.0.1", "127.0.0.1"),
        ("*", "[::1]", "[::1]"),
        ("*.example.com", "a.example.com,*.a.example.com", None),
        ("*.example.com", "example.com", "example.com"),
        ("*.example.com", "*.example.org", "*.example.org"),
        ("*.example.com", "*", "*"),
        ("example.com", "example.com:443", "example.com:443"),
        ("example.com:443", "example.com", "example.com"),
        ("example.com:443,example.com:80", "example.com", None),
        ("example.com:443,*.com.test,*:80", "example.com", None),
        ("*.example.com:8443", "a.example.com:8443", None),
        ("*.example.com:8443", "a.example.com", "a.example.com"),
        ("[::1]", "[::1]:80", "[::1]:80"),
        ("[::1]:80,[::1]:443", "[::1]", None),
        ("a.b", "*.b", "*.b"),
        ("", "a.test", "a.test"),
        ("a.test", "", None),
    ],
)
def test_covering(wide: str, narrow: str, uncovered: str | None) -> None:
    """A list covers another when it matches every URL that the other matches."""
    split = [tuple(filter(None, text.split(","))) for text in (wide, narrow)]
    assert hosts_cover(split[0], split[1]) == uncovered
