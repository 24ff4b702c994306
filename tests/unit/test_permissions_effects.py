"""What kinds of effect a call has, and whether it brings back a stranger's words."""

from __future__ import annotations

import pytest

from broker.calls import Call, Fault, PathSubject, UrlSubject
from broker.permissions.effects import effects, untrusted

READ = PathSubject("path", "a", "read", ("a/",))
WRITE = PathSubject("path", "a", "write", ("a/",))
URL = UrlSubject("url", "https://x/", "https", "x", 443, ("x", "x:443"))


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (Call("think"), set()),
        (Call("read", paths=(READ,)), {"read"}),
        (Call("edit", paths=(READ, WRITE)), {"read", "write"}),
        (Call("fetch", urls=(URL,)), {"egress"}),
        (Call("shell", opaque=True), {"unseen"}),
        (Call("read", missing=("path",)), {"unseen"}),
        (Call("read", fault=Fault("path", "path", "odd")), {"unseen"}),
        (Call("batch", nested=(Call("read", paths=(READ,)),)), {"read"}),
        (Call("batch", nested=(Call("edit", paths=(WRITE,)),)), {"write"}),
    ],
)
def test_a_call_has_the_effects_of_its_subjects(call: Call, found: set[str]) -> None:
    """Paths read and write, addresses reach out, and what cannot be told is an effect too."""
    assert effects(call) == found


@pytest.mark.parametrize(
    ("call", "stranger"),
    [
        (Call("read", paths=(READ,)), False),
        (Call("shell", opaque=True, command="make"), False),
        (Call("fetch", urls=(URL,)), True),
        (Call("novel", opaque=True), True),
        (Call("mcp__files__read", paths=(READ,)), True),
        (Call("read", server="files", paths=(READ,)), True),
        (Call("batch", nested=(Call("read"), Call("fetch", urls=(URL,)))), True),
    ],
)
def test_a_stranger_s_words_come_from_the_web_and_from_unknown_tools(
    call: Call, stranger: bool
) -> None:
    """Pages, servers' tools and unknown tools bring them; files and commands do not."""
    assert untrusted(call) == stranger
