"""
One request to an anchor over HTTP: bounded in time and size, and never redirected.

Decided here: what counts as an answer. Anything else is an ``AnchorError``, except where the
caller wants to see the status itself.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Final
from urllib.parse import urlsplit

from broker.anchors.anchor import AnchorError

TIMEOUT_S: Final = 10.0
MAX_ANSWER_BYTES: Final = 2**20


class _Straight(urllib.request.HTTPRedirectHandler):
    """Follows nothing: an anchor is where its owner said it is."""

    def redirect_request(self, *_: object) -> None:
        return None


_opener: Final = urllib.request.build_opener(_Straight())


def ask(url: str, body: bytes, kind: str) -> tuple[int, str, bytes]:
    """
    Send a body; return the status, the answer's kind and the answer.

    Raises:
        AnchorError: nobody answers in time, or with too much.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise AnchorError(f"`{url}` is no web address: it begins with https://")
    request = urllib.request.Request(  # noqa: S310  the scheme was looked at
        url, body, {"content-type": kind, "user-agent": "capability-broker"}
    )
    try:
        with _opener.open(request, timeout=TIMEOUT_S) as answer:
            return answer.status, answer.headers.get_content_type(), _read(url, answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get_content_type(), _read(url, error)
    except (OSError, HTTPException, ValueError) as error:
        raise AnchorError(f"`{url}` does not answer: {error}") from error


def post(url: str, body: bytes, kind: str, wanted: str) -> bytes:
    """
    Send a body; return the answer, which must be a success and of the wanted kind.

    Raises:
        AnchorError: it is not.
    """
    status, found, answer = ask(url, body, kind)
    if status != 200:
        raise AnchorError(f"`{url}` answers with status {status}")
    if found != wanted:
        raise AnchorError(f"`{url}` answers with `{found}` and not with `{wanted}`")
    return answer


def _read(url: str, answer: object) -> bytes:
    content: bytes = answer.read(MAX_ANSWER_BYTES + 1)  # type: ignore[attr-defined]  # a response
    if len(content) > MAX_ANSWER_BYTES:
        raise AnchorError(f"`{url}` answers with more than {MAX_ANSWER_BYTES} bytes")
    return content
