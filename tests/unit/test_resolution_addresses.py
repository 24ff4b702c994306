"""Addresses in arguments: one reading for URLs, for files as URLs and for headers."""

from __future__ import annotations

import pytest

from broker.limits import MAX_URL_CHARS
from broker.resolution.addresses import file_path, header_pairs, read_address
from broker.resolution.arguments import Unreadable


def test_an_address_is_read() -> None:
    """Host, port and keys come from the one reading of a URL."""
    found = read_address("url", "https://EXAMPLE.com./x")
    assert (found.scheme, found.host, found.port) == ("https", "example.com", 443)
    assert found.keys == ("example.com", "example.com:443")
    assert found.argument == "url"


def test_other_schemes_fit_no_pattern() -> None:
    """An address that is not of the web is a subject without keys."""
    found = read_address("url", "ftp://example.com/")
    assert (found.scheme, found.keys, found.port) == ("ftp", (), 0)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("example.com/x", "https://example.com/x"),
        ("", "https://"),
        ("https://a\ud800/", "surrogate"),
        ("https://a/" + "x" * MAX_URL_CHARS, "characters"),
        ("https://a\\@b/", "backslash"),
    ],
)
def test_an_unclear_address_is_unreadable(text: str, word: str) -> None:
    """The reason names what is wrong and, when it is near, what is right."""
    with pytest.raises(Unreadable) as caught:
        read_address("where", text)
    assert caught.value.fault.kind == "url"
    assert caught.value.fault.argument == "where"
    assert word in caught.value.fault.reason


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///ws/a.py", "/ws/a.py"),
        ("FILE://LOCALHOST/ws/a.py", "/ws/a.py"),
        ("file:///ws/a%20b%C3%A9", "/ws/a b\u00e9"),
        ("file:///ws/%2e%2e/x", "/ws/../x"),
        ("file://server/ws/a", None),
        ("file:/ws/a", None),
        ("file:ws", None),
        ("file:///ws/..%2fx", None),
        ("file:///ws/%5cx", None),
        ("file:///ws/%00", None),
        ("file:///ws/%zz", None),
        ("file:///ws/%ff", None),
        ("file:///ws/a?b", None),
        ("file:///ws/a#b", None),
        ("file:///ws\\a", None),
        ("file:///ws/.\n./x", None),
        ("file:///ws/.\t.", None),
        ("file:///ws/a\r", None),
        ("file:///ws/.. ", None),
        ("file:///ws/a b", "/ws/a b"),
    ],
)
def test_a_file_s_address(text: str, path: str | None) -> None:
    """Only what every reader takes alike has a path: no coded separator, nothing left out."""
    assert file_path(text) == path


@pytest.mark.parametrize(
    "value",
    [
        {"Host": "a"},
        [{"name": "Host", "value": "a"}],
        [{"key": "Host", "value": "a"}],
        [["Host", "a"]],
        ["Host:a"],
        "Host:a",
        "X: b\r\nHost:a",
        {"Host": ["a"]},
        [{"Host": "a"}],
    ],
)
def test_headers_in_every_shape(value: object) -> None:
    """The Host header is found in each of the usual shapes."""
    pairs = [(name, content) for _, name, content in header_pairs("headers", value)]
    assert ("Host", "a") in pairs


def test_an_authority_is_a_header() -> None:
    """The name of HTTP/2's host begins with a colon."""
    assert list(header_pairs("h", [":authority: x"])) == [("h[0]", ":authority", " x")]
    assert list(header_pairs("h", ["no colon"])) == [("h[0]", "no colon", "")]


@pytest.mark.parametrize("value", [5, True, [5], [["a"]], [None]])
def test_no_headers(value: object) -> None:
    """A value of another shape is unreadable."""
    with pytest.raises(Unreadable):
        list(header_pairs("headers", value))
