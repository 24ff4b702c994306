"""Reading URLs: what is read, what is refused, and that nothing else ever happens."""

from __future__ import annotations

import subprocess
import sys

import pytest

from broker.language.urls import UrlError, read_host, read_url
from broker.limits import MAX_URL_CHARS, MAX_URL_FRONT_CHARS


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("https://example.com", ("example.com", "example.com:443")),
        ("HTTP://Example.COM/a?b#c", ("example.com", "example.com:80")),
        ("ws://example.com:815/", ("example.com:815",)),
        ("wss://example.com:443/", ("example.com", "example.com:443")),
        ("https://example.com:/", ("example.com", "example.com:443")),
        ("https://example.com:80/", ("example.com:80",)),
        ("https://example.com:000443/", ("example.com", "example.com:443")),
        ("https://example.com./", ("example.com", "example.com:443")),
        ("https://us%2fer:p%40ss@example.com/", ("example.com", "example.com:443")),
        ("http://😀x@host/", ("host", "host:80")),
        ("https://example.com/?q=a\\b", ("example.com", "example.com:443")),
        ("https://example.com?@evil.test/", ("example.com", "example.com:443")),
        ("https://example.com#@evil.test/", ("example.com", "example.com:443")),
        ("https://example.com/%0d%0a a\u200b", ("example.com", "example.com:443")),
        ("https://bücher.example/", ("xn--bcher-kva.example", "xn--bcher-kva.example:443")),
        ("https://a_b.example/", ("a_b.example", "a_b.example:443")),
        ("https://a-.-b.example/", ("a-.-b.example", "a-.-b.example:443")),
        ("http://127.0.0.1:8080/", ("127.0.0.1:8080",)),
        ("http://[0:0:0:0:0:0:0:1]/", ("[::1]", "[::1]:80")),
        ("http://[2001:DB8::A]:81/", ("[2001:db8::a]:81",)),
        ("http://0x7f.0.0.0x7g/", ("0x7f.0.0.0x7g", "0x7f.0.0.0x7g:80")),
        ("http://10.0.0.1.nip.io/", ("10.0.0.1.nip.io", "10.0.0.1.nip.io:80")),
    ],
)
def test_reading(text: str, keys: tuple[str, ...]) -> None:
    """A plain URL has one reading, and its keys hold the bare host for a default port only."""
    assert read_url(text).keys == keys


@pytest.mark.parametrize(
    "text",
    ["file:///etc/passwd", "data:text/plain,hi", "ftp://example.com/", "http+unix://x/",
     "mailto:a@b", "view-source:https://example.com/", "javascript:fetch(1)", "ext::sh -c id"],
)  # fmt: skip
def test_other_schemes_fit_no_pattern(text: str) -> None:
    """A scheme that is not of the web is read, and has no keys."""
    assert read_url(text).keys == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no scheme"),
        ("example.com/x", "no scheme"),
        ("example.com:8080/x", "no scheme"),
        ("//example.com/", "no scheme"),
        ("/x", "no scheme"),
        ("?q=https://example.com/", "no scheme"),
        (" https://example.com/", "no scheme"),
        ("%68ttps://example.com/", "no scheme"),
        ("https:example.com", "two slashes"),
        ("https:/example.com", "two slashes"),
        ("https:\\\\example.com", "two slashes"),
        ("https:///example.com", "no host"),
        ("http://#", "no host"),
        ("http://@/x", "no host"),
        ("https://./", "no host"),
        ("https://-x.test/", "dash"),
        ("https://example.com\\path", "backslash"),
        ("https://a\\@b/", "backslash"),
        ("https://a@b@c/", "more than one"),
        ("https://exam ple.com/", "blank"),
        ("https://example.com\u3000.test/", "blank"),
        ("https://exam\u00adple.com/", "invisible"),
        ("https://exam\u200dple.com/", "invisible"),
        ("https://a\u202eb@example.com/", "invisible"),
        ("https://example%2ecom/", "`%`"),
        ("http://[fe80::1%25eth0]/", "`%`"),
        ("https://example.com/\t", "control"),
        ("https://example.com/\x7f", "control"),
        ("\x00https://example.com/", "control"),
        ("https://example.com/\ud800", "control"),
        ("https://example.com../", "empty"),
        ("https://.example.com/", "empty"),
        ("https://a..b/", "empty"),
        ("https://example.com。。/", "empty"),
        ("https://" + "a" * 64 + ".test/", "too long"),
        ("https://" + "a." * 126 + "ab/", "too long"),
        ("https://a;b/", "cannot stand"),
        ("https://*.example.com/", "cannot stand"),
        ("http://a<b/", "cannot stand"),
        ("http://example.com:-1/", "no port"),
        ("http://example.com:80a/", "no port"),
        ("http://example.com:4_43/", "no port"),
        ("http://example.com:443:443/", "no port"),
        ("http://example.com:４４３/", "no port"),
        ("http://example.com:70000/", "no port"),
        ("http://example.com:65536/", "no port"),
        ("http://::1/", "no host"),
        ("http://[::1/", "not closed"),
        ("http://[@example.com/", "bracket"),
        ("http://[::1]@example.com/", "bracket"),
        ("http://[::1]x/", "not closed"),
        ("http://[]/", "no IPv6"),
        ("http://[www.example.com]/", "no IPv6"),
        ("http://[::12345]/", "no lawful"),
        ("http://2130706433/", "four decimal"),
        ("http://0x7f.1/", "four decimal"),
        ("http://0177.0.0.1/", "four decimal"),
        ("http://127.1/", "four decimal"),
        ("http://127.0.0.1./", "four decimal"),
        ("http://256.0.0.1/", "four decimal"),
        ("http://foo.0x/", "four decimal"),
        ("http://①②⑦.0.0.1/", "four decimal"),
        ("https://evil.test\uff0f.example.com/", "separator"),
        ("https://evil.test\uff0f@example.com/", "separator"),
        ("https://evil.test\u2100.example.com/", "separator"),
        ("https://a\u05d0.example.com/", "no lawful"),
        ("https://xn--\u0301.test/", "no lawful"),
        ("x" * (MAX_URL_CHARS + 1), "characters"),
        (f"https://{'u' * (MAX_URL_FRONT_CHARS - 5)}@a.test/", "before the path"),
    ],
)
def test_refusing(text: str, said: str) -> None:
    """What two parsers could read differently is refused, and the reason says why."""
    with pytest.raises(UrlError) as caught:
        read_url(text)
    assert said in caught.value.reason
    assert "\n" not in caught.value.reason


def test_hint_adds_the_scheme() -> None:
    """A forgotten scheme is proposed."""
    with pytest.raises(UrlError) as caught:
        read_url("example.com/x")
    assert caught.value.hint == "https://example.com/x"


def test_not_text() -> None:
    """What is not text is a URL error, never a TypeError."""
    with pytest.raises(UrlError):
        read_url(None)  # type: ignore[arg-type]  # the point of the test


def test_longest_lawful_url() -> None:
    """A URL of the greatest length is read, and its tidy form is whole."""
    text = "https://example.com/"
    text += "a" * (MAX_URL_CHARS - len(text))
    assert read_url(text).tidy == text


def test_longest_lawful_front() -> None:
    """A user part of the greatest length is read."""
    text = f"https://{'u' * (MAX_URL_FRONT_CHARS - 7)}@a.test/"
    assert read_url(text).host == "a.test"


def test_longest_lawful_host() -> None:
    """253 characters and labels of 63 are lawful."""
    name = ".".join(["a" * 63] * 3 + ["b" * 61])
    assert read_host(name + ".") == name


def test_tidy_is_what_the_standard_writes() -> None:
    """The tidy form is spelled as the standard spells it."""
    assert read_url("HTTPS://EXAMPLE.com:443/a b/../c").tidy == "https://example.com/c"


def test_parser_is_not_imported_for_plain_hosts() -> None:
    """Neither importing the module nor a plain pattern loads the parser."""
    code = (
        "import sys, broker.hosts as h; h.check_host('*.example.com:8443');"
        "h.host_matcher(('a.test',)).match(('a.test',)); sys.exit('ada_url' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
