"""The calls of a receipt, as far as it tells them."""

from __future__ import annotations

from typing import Any

import pytest

from broker.authorize import authorize
from broker.catalogs import load_catalogs
from broker.scope import parse_scope
from broker.sessions.recalled import Recalled, looks_into, recalled
from broker.ticket import Ticket, mint
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

KNOWN = load_catalogs()


def ticket(*texts: str) -> Ticket:
    """Return a ticket."""
    caveats = parse_scope(texts, at=0, groups=KNOWN.groups(), lookup=KNOWN.known).caveats
    return mint(caveats, key=bytes(32), sid="s", minted_at=0)


def taken(**data: Any) -> Recalled | None:
    """Return what an entry says."""
    return recalled(7, {"tool": "Read", "decision": "allow", "subjects": [], **data}, KNOWN)


def test_the_same_scope_decides_as_the_session_did(bench: Bench) -> None:
    """Reads, writes, addresses and commands are told apart again, in a real receipt."""
    scope = ["tools=Read,Edit,WebFetch,Bash", "writes=src/**", "hosts=a.test"]
    session = bench.open(scope)
    inside, outside = {"file_path": "src/a.py"}, {"file_path": "/etc/passwd"}
    for tool, arguments in (
        ("Read", inside),
        ("Read", outside),
        ("Edit", {**inside, "old_string": "a", "new_string": "b"}),
        ("Edit", {"file_path": "b.py", "old_string": "a", "new_string": "b"}),
        ("Edit", {"file_path": ".git/config", "old_string": "a", "new_string": "b"}),
        ("WebFetch", {"url": "https://a.test/x", "prompt": "p"}),
        ("WebFetch", {"url": "http://a.test:8080/x", "prompt": "p"}),
        ("Bash", {"command": "ls"}),
        ("Grep", {"pattern": "x"}),
    ):
        session.decide(tool, arguments, cwd=str(bench.workspace))
    found = [
        each
        for n, (kind, data) in enumerate(bench.entries(session.sid))
        if kind == "decision" and (each := recalled(n, data, KNOWN)) is not None
    ]
    assert len(found) == 9
    calls = [each.call for each in found if each.call is not None]
    again = [authorize(ticket(*scope), call, 0).allowed for call in calls]
    assert again == [each.allowed for each in found]
    assert {each.allowed for each in found} == {True, False}


@pytest.mark.parametrize(
    "data",
    [
        {"cost": 3},
        {"subjects": [{"more": 9}]},
        {"subjects": [{"inside": "Read", "path": "a", "access": "read"}]},
        {"subjects": [{"path": "a…", "access": "read"}]},
        {"subjects": [{"path": "a/[hidden]/b", "access": "read"}]},
        {"tool": "R…"},
        {"decision": "refuse", "caveat": "paths"},
    ],
)
def test_what_is_not_whole_is_said_and_not_guessed(data: dict[str, Any]) -> None:
    """A call that the receipt does not have whole is none."""
    found = taken(**data)
    assert found is not None
    assert found.call is None
    assert found.why


def test_concealed_subjects_are_not_taken_for_none() -> None:
    """A call whose subjects are only committed to touched something, which is not told."""
    found = recalled(7, {"tool": "Read", "decision": "allow"}, KNOWN)
    assert found is not None
    assert found.call is None


@pytest.mark.parametrize("caveat", ["own", "call", "session", "enforcement"])
def test_a_refusal_of_no_scope_is_left_out(caveat: str) -> None:
    """What no scope could have allowed says nothing of a scope."""
    assert taken(decision="refuse", caveat=caveat) is None


def test_a_rule_looks_into_arguments_that_are_not_there() -> None:
    """Only where a plain name does not admit the tool already."""
    found = taken()
    assert found is not None
    assert found.call is not None
    assert looks_into(ticket('tools=Read(file_path="a")'), found.call)
    assert not looks_into(ticket('tools=Read,Edit(file_path="a")'), found.call)
