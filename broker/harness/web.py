"""
One page of the web, fetched without following a redirect on its own.

Decided here: that the address which was judged is the address which is asked, and that a
redirect is a new question. Not decided here: the answer to that question.

Rules a maintainer keeps: no proxy from the environment (the host that was judged is the host
that is asked), no scheme but http and https, no redirect that was not decided anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Final
from urllib.parse import urljoin
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request

from broker.harness.files import ToolError
from broker.hosts import UrlError, read_url
from broker.limits import MAX_PAGE_BYTES, MAX_REDIRECTS

_TIMEOUT_S: Final = 20.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Page:
    """What one address answered; ``moved`` is where it sends the reader instead."""

    url: str
    status: int
    kind: str
    text: str
    moved: str | None


def fetch_page(url: str, hop: Callable[[str], None]) -> Page:
    """
    Fetch one page; ``hop`` is asked before every redirect and raises when it is refused.

    Args:
        url: the address, already decided.
        hop: decides the next address anew.

    Raises:
        ToolError: the address is not of the web, cannot be reached, or redirects too often.
    """
    for _ in range(MAX_REDIRECTS + 1):
        page = get(url)
        if page.moved is None:
            return page
        url = page.moved
        hop(url)
    raise ToolError(f"more than {MAX_REDIRECTS} redirects, the last one to `{url}`")


def get(url: str) -> Page:
    """
    Ask one address once and follow nothing.

    Raises:
        ToolError: the address is not of the web or cannot be reached.
    """
    try:
        read = read_url(url)
    except UrlError as error:
        raise ToolError(str(error)) from error
    if read.scheme not in ("http", "https"):
        raise ToolError(f"`{read.scheme}:` is not fetched; only http and https are")
    # A bare director has no handler for redirects, errors, proxies, files or ftp.
    opener = OpenerDirector()
    opener.add_handler(HTTPHandler())
    opener.add_handler(HTTPSHandler())
    request = Request(read.tidy, headers={"User-Agent": "broker-reference-agent"})  # noqa: S310
    try:
        response = opener.open(request, timeout=_TIMEOUT_S)
        if not isinstance(response, HTTPResponse):
            raise ToolError(f"`{read.tidy}` gave no answer")
        with response:
            return _page(read.tidy, response)
    except (OSError, HTTPException, ValueError) as error:
        reason = str(getattr(error, "reason", error)) or type(error).__name__
        raise ToolError(f"`{read.tidy}` cannot be fetched: {reason}") from error


def _page(url: str, response: HTTPResponse) -> Page:
    moved = response.headers.get("Location") if response.status in _REDIRECTS else None
    body = b"" if moved is not None else _body(response)
    return Page(
        url,
        response.status,
        response.headers.get_content_type(),
        _decoded(body, response.headers.get_content_charset("utf-8")),
        None if moved is None else urljoin(url, moved),
    )


def _body(response: HTTPResponse) -> bytes:
    """Read at most MAX_PAGE_BYTES, and not for longer than the time-out in all."""
    deadline = time.monotonic() + _TIMEOUT_S
    body = bytearray()
    while len(body) < MAX_PAGE_BYTES:
        if time.monotonic() > deadline:
            raise ToolError("the page did not arrive in time")
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
