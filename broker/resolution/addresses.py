"""
Addresses in a call's arguments: URLs, files spelled as URLs, and the hosts in headers.

Decided here: which texts are addresses that every reader takes alike, beyond what
``broker.hosts`` reads. An address that readers disagree on is ``Unreadable``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NoReturn
from urllib.parse import unquote_to_bytes

from broker.calls import UrlSubject
from broker.limits import MAX_URL_CHARS
from broker.resolution.arguments import Unreadable, clean, leaves

_FILE_URL: Final = re.compile(r"file://(?:localhost)?(/[^?#]*)", re.IGNORECASE)
# The URL standard leaves these out, and a step up may be what remains.
_DROPPED: Final = re.compile(r"[\x00-\x1f\x7f]| \Z")
_NO_HOST: Final = re.compile(r"[/?#@]")  # would end the host of an address, or stand before it
_HOST_NAMES: Final = frozenset(["host", ":authority"])
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|%2[Ff]|%5[Cc]|%00")


def read_address(label: str, text: str) -> UrlSubject:
    """
    Read one address.

    Raises:
        Unreadable: readers of addresses would not agree on it.
    """
    from broker.hosts import UrlError, read_url  # noqa: PLC0415 - it needs a parser: lazily

    if len(text) > MAX_URL_CHARS:
        _bad_url(label, f"the address has {len(text)} characters, more than {MAX_URL_CHARS}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            _bad_url(label, "half a surrogate pair cannot stand in an address")
    try:
        url = read_url(text)
    except UrlError as error:
        hint = error.hint or ""
        if hint:
            hint = f": did you mean `{clean(hint)}`?" if "://" in hint[:9] else f": {clean(hint)}"
        raise Unreadable("url", label, error.message + hint) from None
    return UrlSubject(label, text, url.scheme, url.host, url.port or 0, url.keys)


def _bad_url(label: str, reason: str) -> NoReturn:
    raise Unreadable("url", label, reason)


def file_path(text: str) -> str | None:
    """
    Return the path that a ``file:`` address names, or None when readers may not agree on it.

    >>> file_path("file:///ws/a%20b"), file_path("file://server/ws/a"), file_path("file:/ws")
    ('/ws/a b', None, None)
    """
    found = _FILE_URL.fullmatch(text)
    if found is None or "\\" in text or _BAD_ESCAPE.search(text) or _DROPPED.search(text):
        return None
    try:
        return unquote_to_bytes(found[1]).decode()
    except UnicodeError:
        return None


def named_hosts(label: str, value: object, scheme: str) -> Iterator[UrlSubject]:
    """
    Yield each host that headers name, as an address of that scheme.

    Raises:
        Unreadable: these are no headers, or a host is not read by all alike.

    >>> [found.host for found in named_hosts("h", {"Host": "a.example", "Accept": "*"}, "https")]
    ['a.example']
    """
    for here, name, content in header_pairs(label, value):
        if "\n" in content or "\r" in content or "\n" in name or "\r" in name:
            raise Unreadable("arguments", here, "a header holds a line break")
        if name.strip().lower() not in _HOST_NAMES:
            continue
        if _NO_HOST.search(content.strip()):
            raise Unreadable("url", here, "a host is named here, with its port at most")
        yield read_address(here, f"{scheme}://{content.strip()}/")


def header_pairs(label: str, value: object) -> Iterator[tuple[str, str, str]]:
    """
    Yield each header's place, name and content, from any of the usual shapes.

    Raises:
        Unreadable: the value has none of them.

    >>> list(header_pairs("h", {"Host": "a.example"})), list(header_pairs("h", ["Host: b"]))
    ([('h.Host', 'Host', 'a.example')], [('h[0]', 'Host', ' b')])
    """
    if isinstance(value, dict):
        for key, content in value.items():
            for here, _, item in leaves(content, f"{label}.{clean(key)}"):
                yield here, key, item if isinstance(item, str) else ""
    elif isinstance(value, list):
        for n, item in enumerate(value):
            yield from _header(f"{label}[{n}]", item)
    elif isinstance(value, str):
        for line in value.replace("\r\n", "\n").split("\n"):
            yield label, *_split_header(line)
    else:
        raise Unreadable("arguments", label, "these are no headers")


def _header(label: str, item: object) -> Iterator[tuple[str, str, str]]:
    """Yield what one item of a list of headers says."""
    match item:
        case {"name": str(name), "value": str(content)} | {"key": str(name), "value": str(content)}:
            yield label, name, content
        case [str(name), str(content)]:
            yield label, name, content
        case dict():
            yield from header_pairs(label, item)
        case str():
            yield label, *_split_header(item)
        case _:
            raise Unreadable("arguments", label, "this is no header")


def _split_header(line: str) -> tuple[str, str]:
    start = 1 if line.startswith(":") else 0
    cut = line.find(":", start)
    return (line, "") if cut < 0 else (line[:cut], line[cut + 1 :])
