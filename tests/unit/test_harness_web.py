"""The web: one address is asked at a time, and every redirect is a new question."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from broker.errors import Refused
from broker.harness.files import ToolError
from broker.harness.web import fetch_page, get
from broker.limits import MAX_PAGE_BYTES, MAX_REDIRECTS

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


def never(url: str) -> None:
    """Refuse every redirect."""
    raise Refused(f"no: {url}")


def test_a_page_is_fetched(site: str) -> None:
    """A page comes back with its status and its text."""
    page = fetch_page(f"{site}/end", never)
    assert (page.status, page.kind, page.text) == (200, "text/plain", "grüße")


def test_a_redirect_is_not_followed_when_it_is_refused(site: str) -> None:
    """A refused hop ends the fetch before the next address is asked."""
    ASKED.clear()
    with pytest.raises(Refused, match="/2"):
        fetch_page(f"{site}/3", never)
    assert ASKED == ["/3"]


def test_every_hop_is_asked_about_in_order(site: str) -> None:
    """Each redirect is decided on the whole address it leads to, and then asked."""
    hops: list[str] = []
    page = fetch_page(f"{site}/2", hops.append)
    assert hops == [f"{site}/1", f"{site}/0", f"{site}/end?a=1#here"]
    assert page.text == "grüße"


def test_redirects_have_an_end(site: str) -> None:
    """The last redirect of the limit is followed, one more is an error."""
    assert fetch_page(f"{site}/{MAX_REDIRECTS - 1}", lambda url: None).status == 200
    with pytest.raises(ToolError, match="redirects"):
        fetch_page(f"{site}/{MAX_REDIRECTS}", lambda url: None)


def test_the_proxy_of_the_environment_is_not_used(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address that was decided is asked itself, whatever proxy is set."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert get(f"{site}/end").status == 200


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://127.0.0.1/", "data:,x", "", "no url", "http://a b/"]
)
def test_other_schemes_and_odd_addresses_are_errors(url: str) -> None:
    """Only well-formed http and https addresses are asked."""
    with pytest.raises(ToolError):
        get(url)


def test_an_unreachable_address_is_an_error() -> None:
    """A refused connection is the tool's error, with the address in it."""
    with pytest.raises(ToolError, match="cannot be fetched"):
        get("http://127.0.0.1:1/")


def test_long_and_odd_pages(site: str) -> None:
    """A long page is cut at the limit, and an unknown charset is read as UTF-8."""
    assert len(get(f"{site}/big").text) == MAX_PAGE_BYTES
    assert get(f"{site}/odd").text == "grüße"
    assert get(f"{site}/missing").status == 404
