"""Hypothesis strategies for caveats, calls and chains over small alphabets, so that they meet."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from broker.calls import Call, Fault, PathSubject, UrlSubject
from broker.caveats import Caveat, calls, hosts, paths, reads, tools, until, writes

NAMES = ["a", "b", "ab", ".git", "c.py"]
TOOLS = ["read", "write", "shell", "fetch", "mcp__git__log", "mcp__git__push", "mcp__hub__log"]
HOSTS = ["a.test", "x.a.test", "b.test", "127.0.0.1"]
INSTANTS = [5, 10, 20]

parts = st.sampled_from(["a", "b", "ab", "*", "**", "a*", "?", "[ab]", "[!a]", ".git", "*.py"])
path_patterns = st.lists(parts, min_size=1, max_size=4).map("/".join) | st.just(".")
tool_patterns = st.sampled_from(
    [*TOOLS, "*", "r*", "*e*", "mcp__git__*", "mcp__git__l*", "mcp__hub__*"]
)
host_patterns = st.sampled_from(
    [*HOSTS, "*", "*.a.test", "*.test", "a.test:8443", "*.a.test:8443", "*:8443"]
)


def some(
    patterns: st.SearchStrategy[str], make: Callable[..., Caveat]
) -> st.SearchStrategy[Caveat]:
    return st.lists(patterns, max_size=3).map(lambda items: make(*items))


path_caveats = st.one_of(some(path_patterns, m) for m in (paths, reads, writes))
caveats = st.one_of(
    some(tool_patterns, tools),
    path_caveats,
    some(host_patterns, hosts),
    st.integers(0, 4).map(calls),
    st.sampled_from(INSTANTS).map(until),
)
steps = st.lists(caveats, max_size=4)

places = st.lists(st.sampled_from(NAMES), max_size=4).map(lambda ns: "".join(n + "/" for n in ns))


@st.composite
def path_subjects(draw: st.DrawFn) -> PathSubject:
    access = draw(st.sampled_from(["read", "write"]))
    found = tuple(draw(st.lists(places, min_size=0 if draw(st.booleans()) else 1, max_size=2)))
    inner = access == "write" and any(".git" in p.split("/") for p in found)
    own = draw(st.integers(0, 19)) == 0
    below = draw(st.booleans())
    return PathSubject("path", "spelled", access, found, inner_git=inner, own=own, below=below)


@st.composite
def url_subjects(draw: st.DrawFn) -> UrlSubject:
    host = draw(st.sampled_from(HOSTS))
    scheme = draw(st.sampled_from(["https", "http", "ftp"]))
    default = {"https": 443, "http": 80}.get(scheme)
    port = draw(st.sampled_from([443, 80, 8443]))
    keys: tuple[str, ...] = (f"{host}:{port}",)
    if default is None:
        keys = ()
    elif port == default:
        keys = (host, *keys)
    return UrlSubject("url", f"{scheme}://{host}", scheme, host, port, keys)


@st.composite
def plain_calls(draw: st.DrawFn, nested: bool = True) -> Call:
    fault = Fault("path", "path", "unreadable") if draw(st.integers(0, 19)) == 0 else None
    inner = draw(st.lists(plain_calls(nested=False), max_size=2)) if nested else []
    return Call(
        draw(st.sampled_from(TOOLS)),
        paths=tuple(draw(st.lists(path_subjects(), max_size=2))),
        urls=tuple(draw(st.lists(url_subjects(), max_size=2))),
        opaque=draw(st.integers(0, 4)) == 0,
        missing=("path",) if draw(st.integers(0, 9)) == 0 else (),
        fault=fault,
        nested=tuple(inner),
    )


instants = st.sampled_from([0, 4, 5, 6, 10, 19, 20, 30]) | st.none()
counts = st.integers(0, 5)
