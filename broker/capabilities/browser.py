"""
The browser: the way to the web. It asks for one page, or opens one before the person's eyes.

Decided here: that only an address of the web is opened, by the platform's own opener, as one word
of its command. Not decided here: whether it may be; how a page is asked for
(``broker.capabilities.web``).

Rules a maintainer keeps: a redirect is never followed here, since it is a new question; where
there is no opener the answer says so, and what the person can do instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, Protocol

from broker.capabilities.process import Command, Processes
from broker.capabilities.web import WebPage, get_page, web_address
from broker.errors import CapabilityError

OPENERS: Final = {"linux": "xdg-open", "darwin": "open"}
_PASSED_ON: Final = ("PATH", "HOME", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "BROWSER",
                     "XDG_RUNTIME_DIR", "XDG_CURRENT_DESKTOP", "DBUS_SESSION_BUS_ADDRESS",
                     "LANG")  # fmt: skip
_TIMEOUT_S: Final = 20.0


class Browser(Protocol):
    """What reaches the web. What it cannot do is a ``CapabilityError``."""

    @property
    def kind(self) -> str:
        """Which browser this is: ``real``, ``unavailable`` or ``fake``."""

    def get(self, url: str) -> WebPage:
        """Ask one address once and follow nothing."""

    def open(self, url: str) -> None:
        """Open a page before the person's eyes, such as one to sign in at."""


class NoBrowser:
    """
    No way to the web.

    >>> NoBrowser().get("https://a.test/")
    Traceback (most recent call last):
    broker.errors.CapabilityError: no browser: this run was given none
    """

    __slots__ = ()
    kind: ClassVar = "unavailable"

    def get(self, url: str) -> WebPage:
        """
        Refuse.

        Raises:
            CapabilityError: always (``capability.unavailable``).
        """
        raise CapabilityError("no browser: this run was given none", code="capability.unavailable")

    def open(self, url: str) -> None:
        """
        Say what the person can do instead.

        Raises:
            CapabilityError: always (``capability.unavailable``).
        """
        raise _unopened(web_address(url, verb="opened"), "this run was given no browser")


class SystemBrowser:
    """
    The machine's own way to the web; pages are opened by the platform's opener.

    Args:
        processes: what runs the opener, and tells the platform.
        opener: its command; by default the platform's.
    """

    __slots__ = ("_opener", "_processes")
    kind: ClassVar = "real"

    def __init__(self, processes: Processes, opener: str | None = None) -> None:
        self._processes = processes
        self._opener = opener or OPENERS.get(processes.platform)

    def get(self, url: str) -> WebPage:
        """Ask one address once and follow nothing; see ``broker.capabilities.web``."""
        return get_page(url)

    def open(self, url: str) -> None:
        """
        Hand a page to the opener.

        Raises:
            CapabilityError: it is no address of the web (``capability.address``), or there is no
                opener or it says no (``capability.unavailable``).
        """
        shown = web_address(url, verb="opened")
        if self._opener is None:
            platform = self._processes.platform
            raise _unopened(shown, f"nothing is known that opens a page on `{platform}`")
        environ = self._processes.environ
        command = Command(
            (self._opener, shown),
            "/",
            {name: environ[name] for name in _PASSED_ON if name in environ},
            timeout_s=_TIMEOUT_S,
            merged=True,
        )
        try:
            ended = self._processes.run(command)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise _unopened(shown, f"`{self._opener}`: {why}") from error
        if ended.code is None:
            raise _unopened(shown, f"`{self._opener}` took too long")
        if ended.code:
            raise _unopened(shown, f"`{self._opener}` ended with {ended.code}")


class ScriptedBrowser:
    """
    A browser over pages that a test gives; ``opened`` and ``asked`` hold the addresses.

    >>> browser = ScriptedBrowser([WebPage("https://a.test/", 200, "text/plain", "hello")])
    >>> browser.get("https://a.test/").text
    'hello'
    """

    kind: ClassVar = "fake"

    def __init__(self, pages: Iterable[WebPage] = ()) -> None:
        self.opened: list[str] = []
        self.asked: list[str] = []
        self._pages = {page.url: page for page in pages}

    def get(self, url: str) -> WebPage:
        """
        Return the page of an address.

        Raises:
            CapabilityError: as the real one; a page that the test did not give is unavailable.
        """
        shown = web_address(url)
        self.asked.append(shown)
        if shown not in self._pages:
            raise CapabilityError(
                f"`{shown}` cannot be fetched: it is not among the test's pages",
                code="capability.unavailable",
            )
        return self._pages[shown]

    def open(self, url: str) -> None:
        """Remember a page; a bad address is an error, as in the real one."""
        self.opened.append(web_address(url, verb="opened"))


def _unopened(url: str, why: str) -> CapabilityError:
    return CapabilityError(
        f"no page was opened: {why}; open `{url}` yourself", code="capability.unavailable"
    )
