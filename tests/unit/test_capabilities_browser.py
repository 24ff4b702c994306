"""The browser: one address of the web, one word of a command, or an honest no."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.capabilities.browser import (
    NoBrowser,
    PlatformBrowser,
    RememberingBrowser,
    checked_url,
    platform_browser,
)
from broker.capabilities.process import Finished, ScriptedProcesses, SystemProcesses
from broker.errors import CapabilityError, InputError

URL = "https://a.test/sign-in?x=1"


@pytest.mark.parametrize(
    "url",
    ["", "file:///etc/passwd", "--help", "javascript:alert(1)", "x-apple:y", "https://", "a.test"],
)
def test_only_the_web_is_opened(url: str) -> None:
    """What is no address of the web is opened by none of them."""
    for browser in (
        NoBrowser(),
        PlatformBrowser(ScriptedProcesses(), "open"),
        RememberingBrowser(),
    ):
        with pytest.raises(InputError):
            browser.open(url)


def test_the_opener_gets_one_word() -> None:
    """The address is the opener's only argument, and only what it needs is passed on."""
    processes = ScriptedProcesses([Finished(0)], environ={"PATH": "/bin", "API_KEY": "k"})
    platform_browser(processes).open(URL)
    (ran,) = processes.ran
    assert (ran.argv, ran.environ) == (("xdg-open", URL), {"PATH": "/bin"})


@pytest.mark.parametrize("answer", [Finished(3), Finished(None), FileNotFoundError(2, "none")])
def test_an_opener_that_fails_is_told(answer: Finished | OSError) -> None:
    """When the opener says no, is slow or is not there, the person is told what to do instead."""
    browser = PlatformBrowser(ScriptedProcesses([answer]), "xdg-open")
    with pytest.raises(CapabilityError, match=r"open `https://a\.test/sign-in") as caught:
        browser.open(URL)
    assert caught.value.code == "capability.unavailable"


def test_a_platform_without_an_opener_says_so() -> None:
    """Where nothing opens pages there is no browser, and it says so."""
    browser = platform_browser(ScriptedProcesses(platform="plan9"))
    assert browser.kind == "unavailable"
    with pytest.raises(CapabilityError, match="plan9"):
        browser.open(URL)


def test_a_real_opener_is_run(tmp_path: Path) -> None:
    """The real processes hand the address to a real command."""
    opener = tmp_path / "opener"
    opener.write_text(f'#!/bin/sh\nprintf %s "$#:$1" >{tmp_path}/opened\n')
    opener.chmod(0o700)
    PlatformBrowser(SystemProcesses(), str(opener)).open(URL)
    assert (tmp_path / "opened").read_text() == f"1:{URL}"


def test_the_fake_one_remembers() -> None:
    """A fake browser keeps what it was to open."""
    browser = RememberingBrowser()
    browser.open(URL)
    assert browser.opened == [URL] == [checked_url(URL)]
