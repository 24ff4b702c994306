"""The decision: which refusal is named, in what order, in which words, and what enforces."""

from __future__ import annotations

import pytest

from broker.authorize import ASK, authorize, enforce
from broker.calls import Call, Decision, Fault, PathSubject, Refusal, UrlSubject
from broker.caveats import Caveat, calls, hosts, paths, reads, tools, until, writes
from broker.errors import Refused
from broker.limits import MAX_QUICK_CHARS
from broker.ticket import Ticket, attenuate, mint

KEY = bytes(32)


def minted(*caveats: Caveat) -> Ticket:
    """A root ticket of these caveats."""
    return mint(caveats, key=KEY, sid="s", minted_at=0)


def read(*places: str, **more: bool) -> PathSubject:
    """A path that is read, at these places."""
    spelled = places[-1].rstrip("/") if places else "/etc/passwd"
    return PathSubject("path", spelled, "read", places, **more)


def write(*places: str, **more: bool) -> PathSubject:
    """A path that is written, at these places."""
    spelled = places[0].rstrip("/") if places else "/etc/passwd"
    return PathSubject("path", spelled, "write", places, **more)


def url(host: str, *keys: str) -> UrlSubject:
    """A URL of this host."""
    return UrlSubject("url", f"https://{host}/", "https", host, 443, keys or (host, f"{host}:443"))


def refusal(ticket: Ticket, call: Call, at: int | None = 0, spent: int = 0) -> Refusal:
    """The refusal of a call that must be refused."""
    decision = authorize(ticket, call, at, spent)
    assert decision.refusal is not None
    return decision.refusal


SRC = minted(paths("src"))
SHELL = Call("shell", opaque=True)


@pytest.mark.parametrize(
    ("ticket", "call", "allowed"),
    [
        (SRC, Call("t", paths=(read("src/a/"),)), True),
        (SRC, Call("t", paths=(read("src/"),)), True),
        (SRC, Call("t", paths=(read("srcs/"),)), False),
        (SRC, Call("t", paths=(read(""),)), False),
        (SRC, Call("t", paths=(read(),)), False),
        (SRC, Call("t", paths=(write("src/a/", "docs/a/"),)), False),
        (SRC, Call("t", paths=(read("src/a/"), read("docs/a/"))), False),
        (SRC, Call("t", paths=(read("SRC/a/", folded=True),)), True),
        (SRC, Call("t", paths=(read("SRC/a/"),)), False),
        (SRC, Call("t", paths=(write("src/.git/hooks/", inner_git=True),)), False),
        (
            minted(paths("src/.git")),
            Call("t", paths=(write("src/.git/a/", inner_git=True),)),
            True,
        ),
        (SRC, Call("t", paths=(read("src/", below=True),)), True),
        (SRC, Call("t", paths=(read("", below=True),)), False),
        (SRC, Call("t", paths=(read("src/", "docs/", below=True),)), False),
        (SRC, Call("t", paths=(read("SRC/", folded=True, below=True),)), True),
        (minted(paths("s*")), Call("t", paths=(read("src/"),)), True),
        (minted(paths("s*")), Call("t", paths=(read("src/", below=True),)), False),
        (minted(paths("s*/**")), Call("t", paths=(read("src/", below=True),)), True),
        (minted(paths("s*", "*/**/*")), Call("t", paths=(read("src/", below=True),)), True),
        (minted(reads("**/*.py")), Call("t", paths=(read("src/", below=True),)), False),
        (minted(reads("**/*.py")), Call("t", paths=(write("src/", below=True),)), True),
        (minted(writes("s*")), Call("t", paths=(write("src/", below=True),)), False),
        (minted(writes("s*")), Call("t", paths=(write("src/"),)), True),
        (minted(writes("s*/**")), Call("t", paths=(write("src/", below=True),)), True),
        (minted(writes("src")), Call("t", paths=(write("src/a/", below=True),)), True),
        (minted(writes("**/*.py")), Call("t", paths=(write("a.py/", below=True),)), False),
        (minted(paths("**")), Call("t", paths=(read("", below=True),)), True),
        (minted(), Call("t", paths=(read("", below=True),)), True),
        (minted(), Call("t", paths=(read(below=True),)), True),
        (SRC, Call("t", paths=(read(below=True),)), False),
        (
            minted(paths("**", ".git/*")),
            Call("t", paths=(write(".git/a/", inner_git=True, below=True),)),
            False,
        ),
        (minted(reads("src")), Call("t", paths=(write("docs/a/"),)), True),
        (minted(writes("src")), Call("t", paths=(write("docs/a/"),)), False),
        (minted(paths("*.py", "src/*")), Call("t", paths=(read("a.py/"),)), True),
        (minted(hosts("a.test")), Call("t", urls=(url("a.test"),)), True),
        (minted(hosts("a.test")), Call("t", urls=(url("a.test", "a.test:8443"),)), False),
        (minted(hosts()), Call("t", urls=(url("a.test"),)), False),
        (minted(hosts()), Call("t"), True),
        (minted(tools("t")), Call("t", urls=(url("a.test"),)), True),
        (SRC, Call("t", urls=(url("a.test"),)), False),
        (minted(paths("src"), tools("t")), Call("t", urls=(url("a.test"),)), True),
        (minted(paths("src"), hosts("*")), Call("t", urls=(url("a.test"),)), True),
        (minted(), SHELL, True),
        (SRC, SHELL, False),
        (minted(paths("src"), tools("shell")), SHELL, True),
        (minted(paths("src"), tools("sh*")), SHELL, False),
        (minted(until(10)), Call("t"), True),
        (minted(), Call("t", fault=Fault("path", "path", "empty")), False),
        (minted(), Call("t", missing=("path",)), True),
        (SRC, Call("t", missing=("path",)), False),
        (minted(), Call("t", paths=(read("a/", own=True),)), False),
        (SRC, Call("t", nested=(Call("t", paths=(read("docs/"),)),)), False),
        (minted(tools("batch")), Call("batch", nested=(Call("t"),)), False),
        (minted(tools("t")), Call("t", "other"), False),
        (minted(tools("mcp__a__t")), Call("t", "a"), True),
        (minted(tools("mcp__a__t")), Call("mcp__a__t", "a"), True),
        (minted(tools("mcp__a__t")), Call("mcp__a__t", "b"), False),
        (minted(tools("mcp__a__t")), Call("mcp__a__t"), True),
        (minted(paths("src"), tools("shell", "*")), Call("shell", "a", opaque=True), False),
        (minted(paths("src"), tools("mcp__a__sh")), Call("sh", "a", opaque=True), True),
    ],
)
def test_what_is_allowed(ticket: Ticket, call: Call, allowed: bool) -> None:
    """One call under one ticket is allowed or refused as the rules say."""
    assert authorize(ticket, call, 0).allowed is allowed


def test_the_first_fault_is_named() -> None:
    """Own files come first, then the tool, the deadline, paths, hosts and the count."""
    ticket = minted(tools("t"), until(5), paths("src"), hosts("a.test"), calls(1))
    own, outside, far = read("a/", own=True), read("b/"), url("b.test")
    everything = Call("x", paths=(own, outside), urls=(far,))
    assert refusal(ticket, everything, 5, 1).caveat == "own"
    assert refusal(ticket, Call("x", paths=(outside,), urls=(far,)), 5, 1).caveat == "tools"
    assert refusal(ticket, Call("t", paths=(outside,), urls=(far,)), 5, 1).caveat == "until"
    assert refusal(ticket, Call("t", paths=(outside,), urls=(far,)), 4, 1).caveat == "paths"
    assert refusal(ticket, Call("t", urls=(far,)), 4, 1).caveat == "hosts"
    assert refusal(ticket, Call("t"), 4, 1).caveat == "calls"
    assert authorize(ticket, Call("t"), 4, 0).allowed


@pytest.mark.parametrize(
    ("ticket", "call", "caveat", "value", "words"),
    [
        (minted(tools("a", "b")), Call("c"), "tools", "c", "tool `c` is not in tools: a, b"),
        (minted(tools()), Call("c"), "tools", "c", "is not in tools: none"),
        (SRC, Call("t", paths=(read("docs/a/"),)), "paths", "docs/a", "reading `docs/a` is not"),
        (SRC, Call("t", paths=(write(),)), "paths", "/etc/passwd", "outside the workspace"),
        (
            SRC,
            Call("t", paths=(write("src/l/", "docs/a/"),)),
            "paths",
            "src/l",
            "writing `src/l` (that is `docs/a`) is not within paths: src",
        ),
        (
            minted(paths("s*")),
            Call("t", paths=(read("src/", below=True),)),
            "paths",
            "src",
            "reading `src` with everything below it is not within paths: s*",
        ),
        (
            minted(writes("s*")),
            Call("t", paths=(write("src/", below=True),)),
            "writes",
            "src",
            "changing `src` with everything below it is not within writes: s*",
        ),
        (
            minted(),
            Call("t", paths=(write("", own=True, below=True),)),
            "own",
            "",
            "the broker's own files, which this would change too, are closed to tools",
        ),
        (
            minted(paths("s*")),
            Call("t", paths=(PathSubject("path", ".", "read", ("",), below=True),)),
            "paths",
            ".",
            "reading `.` with everything below it is not",
        ),
        (
            minted(paths("s*")),
            Call("t", paths=(read("s/x/", "lib/", below=True),)),
            "paths",
            "lib",
            "reading `lib` with everything below it is not",
        ),
        (
            SRC,
            Call("t", paths=(read(below=True),)),
            "paths",
            "/etc/passwd",
            "outside the workspace",
        ),
        (
            minted(),
            Call("t", paths=(read("", own=True, below=True),)),
            "own",
            "",
            "the broker's own files, which this would read too, are closed to tools",
        ),
        (
            minted(reads("src")),
            Call("t", paths=(read("docs/"),)),
            "reads",
            "docs",
            "is not within reads: src",
        ),
        (
            minted(paths("**")),
            Call("t", paths=(write(".git/hooks/", inner_git=True),)),
            "paths",
            ".git/hooks",
            "written only where .git is named",
        ),
        (
            minted(hosts("a.test")),
            Call("t", urls=(url("b.test"),)),
            "hosts",
            "b.test",
            "host `b.test` is not in hosts: a.test",
        ),
        (
            minted(hosts("a.test")),
            Call("t", urls=(UrlSubject("url", "ftp://a.test", "ftp", "a.test", 21, ()),)),
            "hosts",
            "ftp://a.test",
            "`ftp:` is not an address of the web",
        ),
        (SRC, Call("t", urls=(url("a.test"),)), "hosts", "a.test", "names no hosts"),
        (SRC, SHELL, "tools", "shell", "without naming `shell` in tools"),
        (SRC, Call("t", missing=("path",)), "paths", "path", "argument `path` of `t` is missing"),
        (minted(hosts("a.test")), Call("t", missing=("url",)), "hosts", "url", "is missing"),
        (
            SRC,
            Call("t", fault=Fault("path", "path", "the path is empty")),
            "paths",
            "path",
            "the path is empty in argument `path`",
        ),
        (
            minted(),
            Call("t", fault=Fault("path", "path", "the path is empty")),
            "call",
            "path",
            "the path is empty",
        ),
        (minted(), Call("", fault=Fault("tool", "", "no name")), "call", "", "no name; "),
        (minted(calls(0)), Call("t"), "calls", "0", "the budget of 0 calls is used up (0 made)"),
    ],
)
def test_a_refusal_in_words(
    ticket: Ticket, call: Call, caveat: str, value: str, words: str
) -> None:
    """A refusal names the caveat and the value, says what is allowed, and what not to do."""
    found = refusal(ticket, call)
    assert (found.caveat, found.value) == (caveat, value)
    assert words in found.reason
    assert found.reason.endswith(ASK)
    assert "\n" not in found.reason


def test_a_long_list_is_cut_short() -> None:
    """A refusal shows six patterns and how many more there are."""
    reason = refusal(minted(tools(*"abcdefgh")), Call("x")).reason
    assert "a, b, c, d, e, f and 2 more" in reason


@pytest.mark.parametrize("at", [10, 11, 10**30, None])
def test_the_deadline(at: int | None) -> None:
    """The instant itself, any later one, and a clock that cannot be read are too late."""
    assert refusal(minted(until(10)), Call("t"), at).caveat == "until"
    assert authorize(minted(until(10)), Call("t"), 9).allowed
    assert authorize(minted(), Call("t"), at).allowed


@pytest.mark.parametrize("spent", [3, (3, 0), (0, 2), (2,), (0, 0, 0), None, -1, (-1, 0), True])
def test_the_budget(spent: int | tuple[int, ...] | None) -> None:
    """A count at its limit, for any link, or one that cannot be read, refuses."""
    ticket = attenuate(minted(calls(3)), calls(2))
    decision = authorize(ticket, Call("t"), 0, spent)
    assert decision.refusal is not None
    assert decision.refusal.caveat == "calls"
    assert authorize(ticket, Call("t"), 0, (2, 1)).allowed


def test_calls_inside_a_call_are_counted() -> None:
    """A batch of two debits three, and the refusal says so."""
    batch = Call("batch", nested=(Call("a"), Call("b")))
    assert authorize(minted(calls(3)), batch, 0, 0).allowed
    assert "(1 made and this one holds 3)" in refusal(minted(calls(3)), batch, 0, 1).reason


def test_what_enforces() -> None:
    """A named opaque tool is held by nothing, or by a sandbox if there is one."""
    ticket = minted(paths("src"), tools("shell", "batch"))
    assert authorize(ticket, SHELL, 0).enforcement == "none"
    assert authorize(ticket, SHELL, 0, sandboxed=True).enforcement == "kernel"
    assert authorize(ticket, Call("batch", nested=(SHELL,)), 0).enforcement == "none"
    assert authorize(ticket, Call("batch", paths=(read("src/"),)), 0).enforcement == "gate"
    seen = Call("batch", nested=(SHELL, Call("batch", paths=(read("src/"),))))
    assert authorize(ticket, seen, 0, sandboxed=True).enforcement == "kernel"


def test_enforce() -> None:
    """`enforce` returns an allowance and raises a refusal, with the decision inside."""
    allowed = authorize(minted(), Call("t"), 0)
    assert enforce(allowed) is allowed
    refused = Decision(Refusal("tools", "x", "tool `x` is not in tools: none"))
    with pytest.raises(Refused, match="not in tools") as raised:
        enforce(refused)
    assert raised.value.detail["decision"] is refused


def test_a_call_too_large_to_compare_is_refused() -> None:
    """Many places times many starred patterns are too much, for every narrower ticket as well."""
    starred = minted(paths("src/**", *[f"*x{n}" for n in range(999)]))
    few = Call("read", paths=tuple(read(f"src/{n}/") for n in range(500)))
    many = Call("read", paths=tuple(read(f"src/{n}/") for n in range(5_000)))
    assert authorize(starred, few, 0).allowed
    found = refusal(starred, many)
    assert found.caveat == "call"
    assert "999 patterns with wildcards: split it into several calls" in found.reason
    assert refusal(attenuate(starred, paths("src")), many) == found
    assert authorize(minted(paths("src/**", "*x0", "*x1")), many, 0).allowed
    inner = Call("batch", nested=(many,))
    assert refusal(starred, inner).caveat == "call"
    tooled = minted(tools(*[f"x*{n}*y" for n in range(1_000)], "batch"))
    assert refusal(tooled, Call("batch", nested=(Call("t" * 256),) * 1_000)).caveat == "call"


def test_a_very_long_place_has_no_shortcut() -> None:
    """Whether a place is too long to compare does not hang on what a ticket could allow at once."""
    starred = minted(paths("src/**", *[f"*x{n}" for n in range(1_000)]), tools("read"))
    more = attenuate(starred, *[paths("src/**", *[f"*x{n}" for n in range(999)])] * 3)
    for length, allowed in ((MAX_QUICK_CHARS, True), (65_000, False)):
        place = "src/" + "a" * (length - 5) + "/"
        call = Call("read", paths=(read(place),))
        assert authorize(more, call, 0).allowed is allowed
        assert authorize(attenuate(more, paths("src")), call, 0).allowed is allowed
