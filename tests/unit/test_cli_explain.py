"""The plain words about a scope are true."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.authorize import authorize
from broker.calls import Call, UrlSubject
from broker.catalogs import load_catalogs
from broker.caveats import Caveat, calls, hosts, paths, reads, tools, until, writes
from broker.cli.explain import explain, outlook, span
from broker.scope import parse_scope
from broker.ticket import Ticket, mint

CATALOGS = load_catalogs()
S = 10**9


def ticket(*texts: str) -> Ticket:
    """Return a ticket for a scope."""
    return mint(parse_scope(texts, at=0).caveats, key=bytes(32), sid="s", minted_at=0)


@pytest.mark.parametrize(
    ("caveat", "said"),
    [
        (tools(), ["no tool at all"]),
        (tools("*"), ["any tool"]),
        (tools("read"), ["only the tool read"]),
        (tools("a", "b"), ["only the tools a, b"]),
        (tools("mcp__x__*"), ["only tools called like mcp__x__*"]),
        (tools("a", "r*"), ["only the tool a", "and tools called like r*"]),
        (paths(), ["no call that reads or writes a path"]),
        (writes("."), ["every path that a call writes is:", "- anything in the workspace"]),
        (reads("**"), ["every path that a call reads is:", "- anything in the workspace"]),
        (
            paths("src/**", "a/b", "*.py", "a*/**", r"\*/**"),
            [
                "every path that a call reads or writes is:",
                "- src and everything below it",
                "- a/b, or below it",
                "- like *.py",
                "- like a*/**",
                r"- \* and everything below it",
            ],
        ),
        (
            hosts("a.test", "*.b.test:8443", "*", "[::1]:80", "[::1]"),
            [
                "every URL leads to:",
                "- a.test on the scheme's usual port",
                "- any name below b.test, not b.test itself, on port 8443",
                "- any name, but no bare address, on the scheme's usual port",
                "- [::1] on port 80",
                "- [::1] on the scheme's usual port",
            ],
        ),
        (calls(1), ["1 call in all, by this ticket and everything delegated from it"]),
        (until(90 * S), ["until 1970-01-01T00:01:30Z (in 1m30s); that instant is too late"]),
        (until(0), ["until 1970-01-01T00:00:00Z (now); that instant is too late"]),
        (until(-5 * S), ["until 1969-12-31T23:59:55Z (over already); that instant is too late"]),
    ],
)
def test_words(caveat: Caveat, said: list[str]) -> None:
    """Each kind of caveat, and each shape of pattern, has its words."""
    assert explain(caveat, 0) == said


def test_every_tool_is_shown() -> None:
    """A long list of tools is wrapped and never cut: what is out of sight is still permitted."""
    names = [f"tool_number_{n}" for n in range(300)]
    said = " ".join(" ".join(explain(tools(*names), 0)).split())
    assert all(f"{name}," in f"{said}," for name in names)


def test_outlook_of_the_network() -> None:
    """The words about URLs are what is decided about them."""
    url = UrlSubject("url", "https://a.test/", "https", "a.test", 443, ("a.test", "a.test:443"))
    call = Call("fetch", urls=(url,))
    for texts in (("paths=src",), ("calls=1",), ("paths=src", "hosts=*"), ()):
        found = ticket(*texts)
        closed = not authorize(found, call, 0).allowed
        assert (
            "no URL is reached: paths are limited and no hosts are named"
            in outlook(found, CATALOGS)
        ) is closed


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((), ["nothing is limited: every call is allowed"]),
        (
            ("tools=grep", "paths=src", "hosts=none", "calls=1", "until=1h"),
            ["a shell, and any tool whose effects cannot be seen, is refused"],
        ),
        (
            ("tools=shell,nobody_knows_me,grep", "paths=src", "hosts=none", "calls=1", "until=1h"),
            [
                "nobody_knows_me, shell: named outright, so allowed, though what it touches cannot "
                "be seen (enforcement: none)"
            ],
        ),
        (
            ("tools=shell,a", "tools=a", "writes=src", "hosts=*", "calls=1", "until=1h"),
            [
                "reading is not limited",
                "a: named outright, so allowed, though what it touches cannot be seen "
                "(enforcement: none)",
            ],
        ),
        (
            ("tools=grep", "reads=src", "hosts=*", "calls=1"),
            [
                "writing is not limited",
                "a shell, and any tool whose effects cannot be seen, is refused",
                "it does not end by itself",
            ],
        ),
        (
            ("until=1h",),
            [
                "tools are not limited",
                "paths are not limited",
                "hosts are not limited",
                "the number of calls is not limited",
            ],
        ),
    ],
)
def test_outlook(texts: tuple[str, ...], said: list[str]) -> None:
    """What is open, closed or unseen under the whole scope is said."""
    assert outlook(ticket(*texts), CATALOGS) == said


@given(st.integers(0, 10**9))
def test_span_is_near(seconds: int) -> None:
    """A length of time is said in its two largest units, never longer than it is."""
    sizes = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
    said, number = 0, ""
    units = []
    for char in span(seconds):
        if char.isdigit():
            number += char
        else:
            said += int(number) * sizes[char]
            units.append(char)
            number = ""
    assert len(units) <= 2
    assert said <= seconds < said + (sizes[units[-1]] if seconds else 1) * 60
