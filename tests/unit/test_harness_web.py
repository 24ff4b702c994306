"""The web: every redirect is a new question, decided before it is followed."""

from __future__ import annotations

import pytest

from broker.capabilities.browser import ScriptedBrowser
from broker.capabilities.web import WebPage
from broker.errors import CapabilityError, Refused
from broker.harness.files import ToolError
from broker.harness.web import fetch_page
from broker.limits import MAX_REDIRECTS

END = WebPage("https://a.test/end", 200, "text/plain", "here")


def moved(count: int) -> ScriptedBrowser:
    """A browser where `count` pages lead to the end, the one with the highest number first."""
    pages = [END]
    for n in range(1, count + 1):
        there = pages[-1].url
        pages.append(WebPage(f"https://a.test/{n}", 302, "text/plain", "", there))
    return ScriptedBrowser(pages)


def never(url: str) -> None:
    """Refuse every redirect."""
    raise Refused(f"no: {url}")


def test_a_page_is_fetched() -> None:
    """A page that has not moved needs no question."""
    assert fetch_page(moved(0), END.url, never) == END


def test_a_redirect_is_not_followed_when_it_is_refused() -> None:
    """A refused hop ends the fetch before the next address is asked."""
    browser = moved(3)
    with pytest.raises(Refused, match="/2"):
        fetch_page(browser, "https://a.test/3", never)
    assert browser.asked == ["https://a.test/3"]


def test_every_hop_is_asked_about_in_order() -> None:
    """Each redirect is decided on the whole address it leads to, and then asked."""
    hops: list[str] = []
    assert fetch_page(moved(2), "https://a.test/2", hops.append) == END
    assert hops == ["https://a.test/1", "https://a.test/end"]


def test_redirects_have_an_end() -> None:
    """The last redirect of the limit is followed, one more is an error."""
    first = f"https://a.test/{MAX_REDIRECTS}"
    assert fetch_page(moved(MAX_REDIRECTS), first, lambda url: None) == END
    first = f"https://a.test/{MAX_REDIRECTS + 1}"
    with pytest.raises(ToolError, match="redirects"):
        fetch_page(moved(MAX_REDIRECTS + 1), first, lambda url: None)


def test_an_odd_address_is_the_browser_s_error() -> None:
    """What is no address of the web is not asked."""
    with pytest.raises(CapabilityError):
        fetch_page(moved(0), "file:///etc/passwd", lambda url: None)
