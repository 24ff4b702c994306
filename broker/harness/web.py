"""
One page of the web, with every redirect a new question.

Decided here: that a redirect is decided before it is followed, and how many are. Not decided here:
the answer to that question, and how a page is asked for (``broker.capabilities.web``).

A rule a maintainer keeps: no redirect that was not decided anew.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.capabilities.browser import Browser
from broker.capabilities.web import WebPage
from broker.harness.files import ToolError
from broker.limits import MAX_REDIRECTS


def fetch_page(browser: Browser, url: str, hop: Callable[[str], None]) -> WebPage:
    """
    Fetch one page; ``hop`` is asked before every redirect and raises when it is refused.

    Args:
        browser: the way to the web.
        url: the address, already decided.
        hop: decides the next address anew.

    Raises:
        CapabilityError: the address is not of the web or cannot be reached.
        ToolError: it redirects too often.
    """
    for _ in range(MAX_REDIRECTS + 1):
        page = browser.get(url)
        if page.moved is None:
            return page
        url = page.moved
        hop(url)
    raise ToolError(f"more than {MAX_REDIRECTS} redirects, the last one to `{url}`")
