"""Mint, attenuate, check, describe, result, end: what AuthZEN has no words for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.service.native import KEYS
from tests.servekit import OPERATOR, Inside, inside
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

MINT = {"line": "tidy a.py", "scope": ["tools=Read,Edit", "paths=src/**", "calls=3"]}
READ = {"tool": "Read", "arguments": {"file_path": "src/a.py"}}


@pytest.fixture
def pdp(bench: Bench) -> Iterator[Inside]:
    """A service in this process."""
    made = inside(bench)
    yield made
    made.hosted.seal()
    made.loop.close()


def _minted(pdp: Inside, **change: Any) -> dict[str, Any]:
    heard = pdp.ask("/v1/mint", {**MINT, **change}, key=OPERATOR)
    assert heard.status == 201, heard.body
    found: dict[str, Any] = heard.json()
    return found


def test_an_operator_mints_and_the_line_is_recorded(pdp: Inside, bench: Bench) -> None:
    """A minted ticket has a session and a receipt of its own, with the typed line and who typed."""
    found = _minted(pdp)
    assert found["sid"] != pdp.hosted.own.session.sid
    assert pdp.ask("/v1/check", {**READ, "ticket": found["ticket"]}).json() == {
        "decision": "allow", "enforcement": "gate",
    }  # fmt: skip
    entries = dict(reversed(pdp.entries(found["sid"])))
    assert entries["intent"]["line"] == "tidy a.py"
    assert entries["open"]["agent"] == "serve:alex"
    assert entries["decision"]["actor"] == "actor:pep"
    assert bench.verdict(found["sid"]).lines == 5


def test_only_an_operator_mints_and_ends(pdp: Inside) -> None:
    """An evaluator's key, which an agent's harness may hold, mints nothing and ends nothing."""
    for path, body in (("/v1/mint", MINT), ("/v1/end", {"sid": "x"})):
        heard = pdp.ask(path, body)
        assert (heard.status, heard.json()["error"]["code"]) == (403, "forbidden")
    assert len(pdp.hosted.sessions) == 1


@pytest.mark.parametrize(
    "change", [{"scope": []}, {"line": ""}, {"line": "  "}, {"scope": ["nonsense"]}, {"scope": [3]}]
)
def test_nothing_is_minted_without_a_line_and_a_scope(pdp: Inside, change: dict[str, Any]) -> None:
    """An empty scope would permit everything, and a line says why: both are needed."""
    assert pdp.ask("/v1/mint", {**MINT, **change}, key=OPERATOR).status == 400
    assert len(pdp.hosted.sessions) == 1


def test_a_ticket_is_narrowed_and_never_widened(pdp: Inside) -> None:
    """What is derived permits less, spends from one budget, and a widening names its caveat."""
    root = _minted(pdp)
    narrow = {"ticket": root["ticket"], "scope": ["tools=Read", "calls=2"]}
    child = pdp.ask("/v1/attenuate", narrow).json()
    edit = {"tool": "Edit", "arguments": {"file_path": "src/a.py"}, "ticket": child["ticket"]}
    assert pdp.ask("/v1/check", edit).json()["caveat"] == "tools"
    for _ in range(2):
        answer = pdp.ask("/v1/check", {**READ, "ticket": child["ticket"]}).json()
        assert answer["decision"] == "allow"
    assert pdp.ask("/v1/check", {**READ, "ticket": child["ticket"]}).json()["caveat"] == "calls"
    described = pdp.ask("/v1/describe", {"ticket": child["ticket"]}).json()
    assert described["spent"] == [2, 2]
    wide = pdp.ask("/v1/attenuate", {"ticket": child["ticket"], "scope": ["tools=Read,Edit"]})
    assert (wide.status, wide.json()["error"]["kind"]) == (403, "tools")


def test_a_ticket_is_its_wire_form_and_never_its_id(pdp: Inside) -> None:
    """Ids stand in receipts, so they name nothing here; a changed wire form is not believed."""
    root = _minted(pdp)
    for path, more in (("/v1/describe", {}), ("/v1/attenuate", {"scope": ["calls=1"]})):
        heard = pdp.ask(path, {"ticket": root["id"], **more})
        assert (heard.status, heard.json()["error"]["code"]) == (400, "ticket.format")
    forged = root["ticket"].replace('"calls",3', '"calls",9')
    assert pdp.ask("/v1/describe", {"ticket": forged}).status == 403
    assert pdp.ask("/v1/check", {**READ, "ticket": forged}).json()["decision"] == "refuse"


def test_an_ended_session_takes_its_tickets_with_it(pdp: Inside, bench: Bench) -> None:
    """After the end every ticket of the session is refused, children too, and others go on."""
    root, other = _minted(pdp), _minted(pdp)
    child = pdp.ask("/v1/attenuate", {"ticket": root["ticket"], "scope": ["calls=1"]}).json()
    ended = pdp.ask("/v1/end", {"sid": root["sid"]}, key=OPERATOR)
    assert (ended.status, ended.json()["sid"]) == (200, root["sid"])
    for ticket in (root, child):
        heard = pdp.ask("/v1/check", {**READ, "ticket": ticket["ticket"]}).json()
        assert (heard["decision"], heard["caveat"]) == ("refuse", "session")
        assert pdp.ask("/v1/describe", {"ticket": ticket["ticket"]}).status == 404
    heard = pdp.ask("/v1/check", {**READ, "ticket": other["ticket"]}).json()
    assert heard["decision"] == "allow"
    assert pdp.ask("/v1/end", {"sid": root["sid"]}, key=OPERATOR).status == 404
    own = pdp.hosted.own.session.sid
    assert pdp.ask("/v1/end", {"sid": own}, key=OPERATOR).status == 400
    assert bench.verdict(root["sid"]).lines == 5


def test_a_ticket_is_revoked_with_all_below_it(pdp: Inside) -> None:
    """An operator takes a ticket back by its id or wire form; it holds at the next decision."""
    root = _minted(pdp)
    one, two = (
        pdp.ask("/v1/attenuate", {"ticket": root["ticket"], "scope": ["tools=Read"]}).json()
        for _ in range(2)
    )
    below = pdp.ask("/v1/attenuate", {"ticket": one["ticket"], "scope": ["calls=1"]}).json()
    body = {"ticket": one["id"], "reason": "wrong folder"}
    assert pdp.ask("/v1/revoke", body).status == 403
    assert pdp.ask("/v1/revoke", body, key=OPERATOR).json() == {"ticket": one["id"], "new": True}
    for ticket in (one, below):
        heard = pdp.ask("/v1/check", {**READ, "ticket": ticket["ticket"]}).json()
        assert (heard["decision"], heard["caveat"]) == ("refuse", "revoked")
    assert pdp.ask("/v1/check", {**READ, "ticket": two["ticket"]}).json()["decision"] == "allow"
    again = {"ticket": one["ticket"], "reason": "again"}
    assert pdp.ask("/v1/revoke", again, key=OPERATOR).json()["new"] is False
    for wrong in ({"ticket": "x", "reason": "y"}, {**body, "reason": " "}):
        assert pdp.ask("/v1/revoke", wrong, key=OPERATOR).status == 400
    kinds = [kind for kind, _ in pdp.entries(root["sid"])]
    assert kinds.count("revoke") == 1


def test_how_a_call_ended_is_recorded(pdp: Inside) -> None:
    """A result is kept with its call's name; without a ticket of the session nobody tells any."""
    root = _minted(pdp)
    body = {"ticket": root["ticket"], "call_id": "c1", "ok": True, "output": {"n": 1}}
    assert pdp.ask("/v1/result", body).status == 200
    assert pdp.ask("/v1/result", {**body, "ok": 1}).status == 400
    assert pdp.ask("/v1/result", {**body, "ticket": "x\n" + "0" * 64}).status == 400
    results = [data for kind, data in pdp.entries(root["sid"]) if kind == "result"]
    assert [(data["call"], data["ok"]) for data in results] == [("c1", True)]


def test_a_key_that_a_request_does_not_have_is_an_error(pdp: Inside) -> None:
    """A misspelt key would not be heeded, so it is told; so is one that is missing."""
    for path, (needed, _) in KEYS.items():
        body: dict[str, Any] = dict.fromkeys(needed, "x")
        for wrong in ({**body, "tikcet": 1}, {}):
            heard = pdp.ask(path, wrong, key=OPERATOR)
            assert (heard.status, heard.json()["error"]["code"]) == (400, "input.key")
