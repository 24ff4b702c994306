"""The default permission rules that come after the ticket."""

from __future__ import annotations

import pytest

from broker.calls import Call, Fault, PathSubject, UrlSubject
from broker.permissions import DEFAULTS, effects, permission

READ = PathSubject("path", "a", "read", ("a/",))
WRITE = PathSubject("path", "a", "write", ("a/",))
URL = UrlSubject("url", "https://x/", "https", "x", 443, ("x", "x:443"))


@pytest.mark.parametrize(
    ("call", "found", "answer"),
    [
        (Call("think"), set(), "allow"),
        (Call("read", paths=(READ,)), {"read"}, "allow"),
        (Call("edit", paths=(READ, WRITE)), {"read", "write"}, "ask"),
        (Call("fetch", urls=(URL,)), {"egress"}, "ask"),
        (Call("shell", opaque=True), {"unseen"}, "ask"),
        (Call("read", missing=("path",)), {"unseen"}, "ask"),
        (Call("read", fault=Fault("path", "path", "odd")), {"unseen"}, "ask"),
        (Call("batch", nested=(Call("read", paths=(READ,)),)), {"read"}, "allow"),
        (Call("batch", nested=(Call("edit", paths=(WRITE,)),)), {"write"}, "ask"),
    ],
)
def test_reading_is_allowed_and_the_rest_is_asked_about(
    call: Call, found: set[str], answer: str
) -> None:
    """Reads run at once; writes, egress and what cannot be seen need the person's yes."""
    assert effects(call) == found
    assert permission(call) == answer


def test_a_kind_that_no_rule_speaks_of_is_asked_about() -> None:
    """Leaving a kind out of the rules never allows it."""
    assert permission(Call("read", paths=(READ,)), {}) == "ask"
    assert permission(Call("edit", paths=(WRITE,)), {**DEFAULTS, "write": "allow"}) == "allow"
