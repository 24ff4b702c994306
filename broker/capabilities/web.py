"""
One page of the web, asked for once.

Decided here: that the address which was judged is the address which is asked, and that nothing is
followed: a page that has moved says where to. Not decided here: whether it may be asked.

Rules a maintainer keeps: no proxy from the environment (the host that was judged is the host that
is asked), no scheme but http and https, a bounded body in a bounded time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Final
from urllib.parse import urljoin
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request

from broker.errors import CapabilityError
from broker.hosts import UrlError, read_url
from broker.limits import MAX_PAGE_BYTES

_TIMEOUT_S: Final = 20.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class WebPage:
    """What one address answered; ``moved`` is where it sends the reader instead."""

    url: str
    status: int
    kind: str
    text: str
    moved: str | None = None


def web_address(url: str, *, verb: str = "fetched") -> str:
    """
    Return an address of the web in its plain spelling.

    Raises:
        CapabilityError: it is none (``capability.address``).

    >>> web_address("HTTPS://A.test/x?y=1")
    'https://a.test/x?y=1'
    >>> web_address("file:///etc/passwd")
    Traceback (most recent call last):
    broker.errors.CapabilityError: `file:` is not fetched; only http and https are
    """
    try:
        read = read_url(url)
    except UrlError as error:
        raise CapabilityError(str(error), code="capability.address") from error
    if read.scheme not in ("http", "https"):
        raise CapabilityError(
            f"`{read.scheme}:` is not {verb}; only http and https are", code="capability.address"
        )
    return read.tidy


def get_page(url: str) -> WebPage:
    """
    Ask one address once and follow nothing.

    Raises:
        CapabilityError: it is no address of the web (``capability.address``), or cannot be
            reached (``capability.unavailable``).
    """
    asked = web_address(url)
    # A bare director has no handler for redirects, errors, proxies, files or ftp.
    opener = OpenerDirector()
    opener.add_handler(HTTPHandler())
    opener.add_handler(HTTPSHandler())
    request = Request(asked, headers={"User-Agent": "broker-reference-agent"})  # noqa: S310
    try:
        response = opener.open(request, timeout=_TIMEOUT_S)
        if not isinstance(response, HTTPResponse):
            raise _unreachable(asked, "it gave no answer")
        with response:
            return _page(asked, response)
    except (OSError, HTTPException, ValueError) as error:
        why = str(getattr(error, "reason", error)) or type(error).__name__
        raise _unreachable(asked, why) from error


def _unreachable(url: str, why: str) -> CapabilityError:
    return CapabilityError(f"`{url}` cannot be fetched: {why}", code="capability.unavailable")


def _page(url: str, response: HTTPResponse) -> WebPage:
    moved = response.headers.get("Location") if response.status in _REDIRECTS else None
    body = b"" if moved is not None else _body(url, response)
    return WebPage(
        url,
        response.status,
        response.headers.get_content_type(),
        _decoded(body, response.headers.get_content_charset("utf-8")),
        None if moved is None else urljoin(url, moved),
    )


def _body(url: str, response: HTTPResponse) -> bytes:
    """Read at most MAX_PAGE_BYTES, and not for longer than the time-out in all."""
    deadline = time.monotonic() + _TIMEOUT_S
    body = bytearray()
    while len(body) < MAX_PAGE_BYTES:
        if time.monotonic() > deadline:
            raise _unreachable(url, "it did not arrive in time")
        chunk = response.read1(MAX_PAGE_BYTES - len(body))
        if not chunk:
            break
        body += chunk
    return bytes(body)


def _decoded(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset, "replace")
    except LookupError:  # a charset that nobody knows
        return body.decode("utf-8", "replace")
