"""The narrowest readable scope under which a run could have been."""

from __future__ import annotations

import pytest

from broker.calls import Call, Fault, PathSubject, UrlSubject
from broker.catalogs import load_catalogs
from broker.errors import InputError
from broker.replay.reading import ReadCall
from broker.replay.seen import SeenCall
from broker.replay.suggest import Suggestion, suggest

CATALOGS = load_catalogs()


def _path(place: str, access: str = "read", **more: object) -> PathSubject:
    return PathSubject("", place, access, (place,), **more)  # type: ignore[arg-type]  # a test's keywords


def _reads(*calls: Call, caveat: str = "") -> list[ReadCall]:
    return [
        ReadCall(SeenCall(n, 0, c.tool, c.server, caveat=caveat), c, "receipt")
        for n, c in enumerate(calls)
    ]


def _of(*calls: Call) -> Suggestion:
    return suggest([("r", _reads(*calls))], CATALOGS)


def test_a_run_becomes_a_scope() -> None:
    """Reads by group, writes by name, few folders, the hosts, and twice the calls."""
    address = UrlSubject("url", "https://a.test/", "https", "a.test", 443, ("a.test", "a.test:443"))
    found = _of(
        Call("Read", paths=(_path("src/a.py/"),)),
        Call("Grep", paths=(_path("src/", below=True),)),
        Call("Edit", paths=(_path("src/a.py/", "write"),)),
        Call("Write", paths=(_path("src/b.py/", "write"),)),
        Call("WebFetch", urls=(address,)),
        Call("Bash", opaque=True, command="ls"),
    )
    assert found.scope == (
        "tools=@reads,Bash,Edit,WebFetch,Write",
        "reads=src",
        "writes=src/*",
        "hosts=a.test",
        "calls=12",
    )
    assert (found.left_open, found.beyond, found.unknown, found.calls) == ((), (), (), 6)
    tools, _, writes, *_ = found.texts
    assert tools.items[0].why == "only read: Grep, Read"
    assert [call.n for call in tools.items[0].calls] == [0, 1]
    assert writes.items[0].why == "2 entries of `src`: a.py, b.py"


def test_what_was_not_done_is_closed() -> None:
    """A run that wrote nothing and reached nobody gets `none` for both."""
    found = _of(Call("Read", paths=(_path("a/"),)))
    assert found.scope[2:4] == ("writes=none", "hosts=none")
    assert found.texts[2].why == "no path was written"


def test_what_no_pattern_reaches_leaves_its_key_out() -> None:
    """A read outside of the workspace leaves reads unlimited, and is named."""
    outside = PathSubject("", "/etc/hosts", "read", ())
    found = _of(Call("Read", paths=(outside,)), Call("Edit", paths=(_path("a/", "write"),)))
    assert [t.key for t in found.texts] == ["tools", "writes", "hosts", "calls"]
    assert found.left_open[0].startswith("reads are not limited: reading `/etc/hosts`")


def test_a_write_inside_git_is_named() -> None:
    """Only a pattern that names `.git` reaches inside it, and no folder is opened for two."""
    paths = [_path(f".git/{n}/", "write", inner_git=True) for n in "ab"]
    assert _of(*[Call("Edit", paths=(p,)) for p in paths]).scope[2] == "writes=.git/a,.git/b"


def test_what_no_scope_admits_is_named() -> None:
    """An unreadable call and the broker's own files are beyond every scope."""
    fault = Call("Read", fault=Fault("arguments", "", "odd"))
    own = Call("Read", paths=(_path("x/", own=True),))
    found = _of(Call("Grep"), fault, own)
    assert [(call.n, call.tool) for call, _ in found.beyond] == [(1, "Read"), (2, "Read")]


def test_a_missing_argument_opens_what_would_ask_for_it() -> None:
    """Where a path was left out, no limit on paths or hosts lets the call through."""
    found = _of(Call("Read", missing=("file_path",)))
    assert found.scope == ("tools=@reads", "calls=2")
    assert len(found.left_open) == 3


def test_several_runs_get_one_scope() -> None:
    """The lists hold what any run did, and the budget is that of the longest."""
    one = _reads(Call("Read", paths=(_path("a/"),)))
    two = _reads(Call("Read", paths=(_path("b/"),)), Call("Bash", opaque=True))
    found = suggest([("one", one), ("two", two)], CATALOGS)
    assert found.scope[:2] == ("tools=@reads,Bash", "reads=*")
    assert found.texts[-1].text == "calls=4"
    assert {call.run for call in found.texts[1].items[0].calls} == {"one", "two"}


def test_nothing_allowed_gives_nothing() -> None:
    """A run in which every call was refused suggests no scope."""
    with pytest.raises(InputError, match="no call was allowed"):
        suggest([("r", _reads(Call("Read"), caveat="tools"))], CATALOGS)


def test_calls_inside_a_call_count_and_are_named() -> None:
    """The tools and paths of calls inside a call are in the scope, and each is counted."""
    inner = Call("Edit", paths=(_path("a/", "write"),))
    found = _of(Call("several", nested=(inner, inner)))
    assert found.scope == (
        "tools=Edit,several",
        "reads=none",
        "writes=a",
        "hosts=none",
        "calls=6",
    )
