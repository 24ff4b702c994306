"""The web: one address is asked once, and nothing is followed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from broker.capabilities.web import get_page
from broker.errors import CapabilityError
from broker.limits import MAX_PAGE_BYTES

ASKED: list[str] = []


class Site(BaseHTTPRequestHandler):
    """A few pages on loopback."""

    def do_GET(self) -> None:
        """Answer one request by its path."""
        ASKED.append(self.path)
        name = self.path.strip("/")
        if name.isdigit():
            self.send_response(302)
            self.send_header("Location", str(int(name) - 1) if name != "0" else "/end?a=1#here")
            self.end_headers()
            return
        self.send_response(404 if name == "missing" else 200)
        self.send_header(
            "Content-Type", f"text/plain; charset={'odd' if name == 'odd' else 'utf-8'}"
        )
        self.end_headers()
        body = b"x" * (MAX_PAGE_BYTES + 1) if name == "big" else "grüße".encode()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of a running site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_page_comes_with_its_status_and_its_text(site: str) -> None:
    """A page comes back with its status, its kind and its text."""
    page = get_page(f"{site}/end")
    assert (page.status, page.kind, page.text) == (200, "text/plain", "grüße")


def test_a_redirect_is_told_and_not_followed(site: str) -> None:
    """A page that has moved says where to, as a whole address, and that one is not asked."""
    ASKED.clear()
    assert get_page(f"{site}/3").moved == f"{site}/2"
    assert get_page(f"{site}/0").moved == f"{site}/end?a=1#here"
    assert ASKED == ["/3", "/0"]


def test_the_proxy_of_the_environment_is_not_used(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address that was decided is asked itself, whatever proxy is set."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert get_page(f"{site}/end").status == 200


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://127.0.0.1/", "data:,x", "", "no url", "http://a b/"]
)
def test_other_schemes_and_odd_addresses_are_errors(url: str) -> None:
    """Only well-formed http and https addresses are asked."""
    with pytest.raises(CapabilityError):
        get_page(url)


def test_an_unreachable_address_is_an_error() -> None:
    """A refused connection is the tool's error, with the address in it."""
    with pytest.raises(CapabilityError, match="cannot be fetched"):
        get_page("http://127.0.0.1:1/")


def test_long_and_odd_pages(site: str) -> None:
    """A long page is cut at the limit, and an unknown charset is read as UTF-8."""
    assert len(get_page(f"{site}/big").text) == MAX_PAGE_BYTES
    assert get_page(f"{site}/odd").text == "grüße"
    assert get_page(f"{site}/missing").status == 404
