"""
The browser: a page that is opened before the person's eyes, such as one to sign in at.

Decided here: that only an address of the web is opened, by the platform's own opener. Not decided
here: whether it may be; what a *tool* fetches is a call like any other and does not come here.

Rules a maintainer keeps: an address is one word of a command, so it never begins like an option
and holds nothing that is not seen; where there is no opener the answer says so.
"""

from __future__ import annotations

from typing import ClassVar, Final, Protocol

from broker.capabilities.process import Command, Processes
from broker.errors import CapabilityError, InputError
from broker.hosts import UrlError, read_url

OPENERS: Final = {"linux": "xdg-open", "darwin": "open"}
_PASSED_ON: Final = ("PATH", "HOME", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "BROWSER",
                     "XDG_RUNTIME_DIR", "XDG_CURRENT_DESKTOP", "DBUS_SESSION_BUS_ADDRESS",
                     "LANG")  # fmt: skip
_TIMEOUT_S: Final = 20.0


class Browser(Protocol):
    """What shows a page to the person."""

    @property
    def kind(self) -> str:
        """Which browser this is: ``real``, ``unavailable`` or ``fake``."""

    def open(self, url: str) -> None:
        """Open a page; ``CapabilityError`` when it cannot be, ``InputError`` for a bad address."""


def checked_url(url: str) -> str:
    """
    Return an address as it may be shown to the person.

    Raises:
        InputError: it is not an address of the web.

    >>> checked_url("https://a.test/x?y=1")
    'https://a.test/x?y=1'
    >>> checked_url("file:///etc/passwd")
    Traceback (most recent call last):
    broker.errors.InputError: `file:` is not opened; only http and https are
    """
    try:
        read = read_url(url)
    except UrlError as error:
        raise InputError(f"`{url}` is no address: {error}") from error
    if read.scheme not in ("http", "https"):
        raise InputError(f"`{read.scheme}:` is not opened; only http and https are")
    return read.tidy


class NoBrowser:
    """No browser, and the reason why."""

    __slots__ = ("_why",)
    kind: ClassVar = "unavailable"

    def __init__(self, why: str = "this run was given none") -> None:
        self._why = why

    def open(self, url: str) -> None:
        """
        Say what the person can do instead.

        Raises:
            CapabilityError: always (``capability.unavailable``).
        """
        raise CapabilityError(
            f"no browser: {self._why}; open `{checked_url(url)}` yourself",
            code="capability.unavailable",
        )


class PlatformBrowser:
    """The platform's own opener, run as a command."""

    __slots__ = ("_opener", "_processes")
    kind: ClassVar = "real"

    def __init__(self, processes: Processes, opener: str) -> None:
        self._processes = processes
        self._opener = opener

    def open(self, url: str) -> None:
        """
        Hand a page to the opener.

        Raises:
            InputError: it is not an address of the web.
            CapabilityError: the opener is not there or says no (``capability.unavailable``).
        """
        shown = checked_url(url)
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
            why = f"`{self._opener}` ended with {ended.code}" if ended.code else ""
            why = f"`{self._opener}` took too long" if ended.code is None else why
        except OSError as error:
            why = f"`{self._opener}`: {(error.strerror or str(error)).lower()}"
        if why:
            NoBrowser(why).open(shown)


def platform_browser(processes: Processes) -> Browser:
    """Return the opener of this platform, or a browser that says that there is none."""
    opener = OPENERS.get(processes.platform)
    if opener is None:
        return NoBrowser(f"nothing is known that opens a page on `{processes.platform}`")
    return PlatformBrowser(processes, opener)


class RememberingBrowser:
    """A browser that remembers what it was to open, in ``opened``."""

    kind: ClassVar = "fake"

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, url: str) -> None:
        """Remember a page; a bad address is an error, as in the real one."""
        self.opened.append(checked_url(url))
