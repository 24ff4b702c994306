"""One request to an anchor: bounded, never redirected, and told apart from evidence."""

from __future__ import annotations

import pytest

from broker.anchors import web
from broker.anchors.anchor import AnchorError
from broker.anchors.web import ask, post
from tests.anchorkit import Serving


class Fixed(Serving):
    """Answers everything alike."""

    def __init__(self, status: int, kind: str, body: bytes, **headers: str) -> None:
        super().__init__()
        self.said = (status, kind, body)
        self.headers = headers

    def answer(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        """Answer as told."""
        return self.said


def test_a_success_of_the_wanted_kind_is_an_answer() -> None:
    """Status and kind are both looked at."""
    with Fixed(200, "text/plain; charset=utf-8", b"yes") as server:
        assert post(server.url, b"x", "text/plain", "text/plain") == b"yes"
        with pytest.raises(AnchorError, match="and not with"):
            post(server.url, b"x", "text/plain", "application/timestamp-reply")
    with Fixed(503, "text/plain", b"later") as server:
        assert ask(server.url, b"x", "text/plain") == (503, "text/plain", b"later")
        with pytest.raises(AnchorError, match="status 503"):
            post(server.url, b"x", "text/plain", "text/plain")


def test_nothing_is_followed() -> None:
    """A redirect is an answer that is no success, and its target is not asked."""
    with (
        Fixed(200, "text/plain", b"evil") as target,
        Fixed(302, "text/plain", b"", location=target.url) as server,
    ):
        assert ask(server.url, b"x", "text/plain")[0] == 302


def test_too_much_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An anchor that never stops talking is cut off."""
    monkeypatch.setattr(web, "MAX_ANSWER_BYTES", 10)
    with Fixed(200, "text/plain", b"x" * 11) as server, pytest.raises(AnchorError, match="more"):
        ask(server.url, b"x", "text/plain")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/", "", "http://127.0.0.1:9/"])
def test_what_cannot_be_asked(url: str) -> None:
    """Only the web is asked, and nobody there is told as that."""
    with pytest.raises(AnchorError):
        ask(url, b"x", "text/plain")
