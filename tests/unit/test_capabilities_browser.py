"""The browser: one address of the web, one word of a command, or an honest no."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.capabilities.browser import Browser, NoBrowser, ScriptedBrowser, SystemBrowser
from broker.capabilities.process import Finished, ScriptedProcesses, SystemProcesses
from broker.capabilities.web import WebPage
from broker.errors import CapabilityError

URL = "https://a.test/sign-in?x=1"


def code(browser: Browser, url: str = URL) -> tuple[str, str]:
    """Return why a page was not opened: the code and the message."""
    with pytest.raises(CapabilityError) as caught:
        browser.open(url)
    return caught.value.code, caught.value.message


@pytest.mark.parametrize(
    "url",
    ["", "file:///etc/passwd", "--help", "javascript:alert(1)", "x-apple:y", "https://", "a.test"],
)
def test_only_the_web_is_opened(url: str) -> None:
    """What is no address of the web is opened by none of them, and asked by none."""
    processes = ScriptedProcesses()
    for browser in (NoBrowser(), SystemBrowser(processes), ScriptedBrowser()):
        assert code(browser, url)[0] == "capability.address"
    for browser in (SystemBrowser(processes), ScriptedBrowser()):
        with pytest.raises(CapabilityError):
            browser.get(url)
    assert processes.ran == []


def test_the_opener_gets_one_word() -> None:
    """The address is the opener's only argument, and only what it needs is passed on."""
    processes = ScriptedProcesses([Finished(0)], environ={"PATH": "/bin", "API_KEY": "k"})
    SystemBrowser(processes).open(URL)
    (ran,) = processes.ran
    assert (ran.argv, ran.environ) == (("xdg-open", URL), {"PATH": "/bin"})


@pytest.mark.parametrize("answer", [Finished(3), Finished(None), FileNotFoundError(2, "none")])
def test_an_opener_that_fails_is_told(answer: Finished | OSError) -> None:
    """When the opener says no, is slow or is not there, the person is told what to do instead."""
    found, said = code(SystemBrowser(ScriptedProcesses([answer])))
    assert found == "capability.unavailable"
    assert f"open `{URL}` yourself" in said


def test_where_nothing_opens_pages_it_says_so() -> None:
    """A platform without an opener, and a run without a browser, are told apart."""
    assert "plan9" in code(SystemBrowser(ScriptedProcesses(platform="plan9")))[1]
    assert "given no browser" in code(NoBrowser())[1]
    with pytest.raises(CapabilityError, match="given none"):
        NoBrowser().get(URL)


def test_a_real_opener_is_run(tmp_path: Path) -> None:
    """The real processes hand the address to a real command."""
    opener = tmp_path / "opener"
    opener.write_text(f'#!/bin/sh\nprintf %s "$#:$1" >{tmp_path}/opened\n')
    opener.chmod(0o700)
    SystemBrowser(SystemProcesses(), str(opener)).open(URL)
    assert (tmp_path / "opened").read_text() == f"1:{URL}"


def test_the_fake_one_has_the_pages_it_was_given() -> None:
    """A scripted browser answers with its pages, remembers, and has no others."""
    browser = ScriptedBrowser([WebPage(URL, 200, "text/plain", "hello")])
    browser.open(URL)
    assert browser.get(URL).text == "hello"
    with pytest.raises(CapabilityError, match="not among the test's pages"):
        browser.get("https://b.test/")
    assert (browser.opened, browser.asked) == ([URL], [URL, "https://b.test/"])
