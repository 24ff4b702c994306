"""One session: what is decided, recorded and answered, and in which order."""

from __future__ import annotations

import os
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from broker.calls import Decision
from broker.errors import AttenuationError, FatalStoreError, InputError, StoreError
from broker.events import CallDecided, Event, SessionSealed, TicketDelegated
from broker.receipt.commitment import shown
from broker.session import Session
from broker.sessions.conceal import Disclosures
from tests.sessionkit import Bench, bench, drop

__all__ = ["bench"]

INSIDE = {"file_path": "src/a.py"}


def read(session: Session, **more: Any) -> Decision:
    """Decide a read inside the scope."""
    return session.decide("Read", INSIDE, cwd=str(session.workspace), **more)


def caveat(decision: Decision) -> str:
    """Return the caveat that refused, or a dash."""
    return decision.refusal.caveat if decision.refusal else "-"


def test_a_session_tells_its_story(bench: Bench) -> None:
    """Open, intent, ticket, decisions, delegations and seal stand in the receipt, in order."""
    session = bench.open(intent="fix the test")
    assert read(session, call_id="c1").allowed
    assert caveat(session.decide("Read", {"file_path": "/etc/passwd"})) == "paths"
    session.delegate(["tools=Read"], asked_by="main")
    with pytest.raises(AttenuationError):
        session.delegate(["tools=Bash"], asked_by="agent:x:1")
    session.result("c1", ok=True, output={"lines": 1})
    session.note("hello", source="test")
    session.seal()
    entries = bench.entries(session.sid)
    assert [kind for kind, _ in entries] == [
        "open",
        "intent",
        "ticket",
        "decision",
        "decision",
        "delegate",
        "delegate",
        "result",
        "note",
        "seal",
    ]
    decided = [data["decision"] for _, data in entries[3:7]]
    assert decided == ["allow", "refuse", "allow", "refuse"]
    assert entries[6][1]["caveat"] == "tools"
    assert bench.verdict(session.sid).state == "SEALED"
    assert (session.allowed, session.refused) == (1, 1)


def test_the_intent_is_bound_into_the_ticket(bench: Bench) -> None:
    """The ticket carries the digest of the typed line that the receipt tells."""
    session = bench.open(intent="fix the test")
    (told,) = (data for kind, data in bench.entries(session.sid) if kind == "intent")
    assert session.ticket.intent == told["digest"]
    assert bench.open().ticket.intent == ""


def test_a_decision_is_recorded_before_it_is_answered(bench: Bench) -> None:
    """Whoever gets an answer finds its entry in the receipt at that moment."""
    session = bench.open()
    for number, tool in enumerate(("Read", "Bash", "Read"), 1):
        session.decide(tool, INSIDE, call_id=f"c{number}", cwd=str(bench.workspace))
        kind, data = bench.entries(session.sid)[-1]
        assert (kind, data["call"]) == ("decision", f"c{number}")


@pytest.mark.parametrize("error", [StoreError("full"), FatalStoreError("broken")])
def test_without_a_receipt_nothing_is_allowed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A decision that cannot be recorded is refused, and so is every later one; none is counted."""
    session = bench.open()

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(session._receipt), "append", fail)
    assert caveat(read(session)) == "session"
    monkeypatch.undo()
    assert caveat(read(session)) == "session"
    assert session.spent() == (0,)
    with pytest.raises(StoreError):
        session.delegate(["calls=1"])
    with pytest.raises(StoreError):
        session.note("x", source="test")


def test_after_the_seal_nothing_is_decided(bench: Bench) -> None:
    """A sealed session refuses, and sealing again changes nothing."""
    session = bench.open()
    session.seal()
    session.seal("interrupted")
    assert caveat(read(session)) == "session"
    with pytest.raises(StoreError):
        session.result("c", ok=True)
    assert bench.verdict(session.sid).reason in ("", "complete")


@pytest.mark.parametrize("own", ["keys/receipt.key", "x"])
def test_the_brokers_own_files_are_closed(bench: Bench, own: str) -> None:
    """No ticket, not even an unrestricted one, opens the broker's own files to a tool."""
    session = bench.open([])
    for path in (bench.home.data / own, session.receipt_path, bench.home.config / "broker.toml"):
        for tool in ("Read", "Edit", "Write"):
            assert caveat(session.decide(tool, {"file_path": str(path)})) == "own"
    extra = bench.workspace / "settings.json"
    assert (
        caveat(bench.open([], own=[str(extra)]).decide("Read", {"file_path": str(extra)})) == "own"
    )


def test_a_delegate_spends_what_is_its_parents(bench: Bench) -> None:
    """A delegated ticket has its own budget and its parents' too."""
    session = bench.open(["tools=Read", "calls=3"])
    child = session.delegate(["calls=2"])
    answers = [read(session, ticket=child.id).allowed for _ in range(3)]
    assert answers == [True, True, False]
    assert [read(session).allowed for _ in range(2)] == [True, False]
    assert session.spent(child) == (3, 2)


def test_a_holder_is_held_to_its_ticket(bench: Bench) -> None:
    """A subagent is held to what was delegated to it or its type, and others are not."""
    session = bench.open(["tools=Read,Edit"])
    session.delegate(["tools=Edit"], holder="agent:writer")
    assert caveat(read(session, actor="agent:writer:1")) == "tools"
    assert read(session, actor="agent:reader:1").allowed
    assert read(session).allowed


def test_a_holder_that_delegates_hands_on_less(bench: Bench) -> None:
    """What a subagent delegates descends from its own ticket, never from the root."""
    session = bench.open(["tools=Read,Edit"])
    own = session.delegate(["tools=Read"], holder="agent:x")
    with pytest.raises(AttenuationError):
        session.delegate(["tools=Edit"], asked_by="agent:x:1")
    child = session.delegate(["tools=Read"], asked_by="agent:x:1")
    assert child.line[:2] == own.line
    with pytest.raises(InputError):
        session.delegate(["tools=Edit"], holder="agent:x", parent=session.ticket.id)


def test_a_bearers_own_narrowing_is_recorded_when_first_seen(bench: Bench) -> None:
    """A ticket narrowed without asking is recorded before the decision that uses it."""
    session = bench.open(["tools=Read"])
    from broker.caveats import calls
    from broker.ticket import attenuate

    wire = attenuate(session.ticket, calls(1)).wire()
    assert [read(session, ticket=wire).allowed for _ in range(2)] == [True, False]
    kinds = [kind for kind, _ in bench.entries(session.sid)]
    assert kinds == ["open", "ticket", "delegate", "decision", "decision"]


def test_a_ticket_that_is_not_ours_is_refused_and_recorded(bench: Bench) -> None:
    """A misspelt or forged ticket is a refusal in the receipt, never the root's allowance."""
    session = bench.open(["tools=Read"])
    for name in ("0" * 16, session.ticket.wire().replace("Read", "Bash")):
        assert caveat(read(session, ticket=name)) == "session"
    decisions = [data for kind, data in bench.entries(session.sid) if kind == "decision"]
    assert [d["caveat"] for d in decisions] == ["session", "session"]


def test_a_clock_that_is_set_back_revives_nothing(bench: Bench) -> None:
    """Time never runs backwards within a session, so an ended ticket stays ended."""
    session = bench.open(["until=1h"])
    assert read(session).allowed
    bench.clock.at += 3_600 * 10**9
    assert caveat(read(session)) == "until"
    bench.clock.at -= 3_600 * 10**9
    assert caveat(read(session)) == "until"


def test_events_come_after_the_fact(bench: Bench) -> None:
    """Subscribers hear of a decision once it is recorded, and cannot change it by breaking."""
    heard: list[Event] = []

    def listen(event: Event) -> None:
        heard.append(event)
        if type(event) is CallDecided:
            assert bench.entries(event.sid)[event.n][1]["tool"] == event.tool
            raise ArithmeticError("no")

    bench.bus.subscribe(heard.append)
    bench.bus.subscribe(listen)
    session = bench.open()
    assert read(session).allowed
    session.delegate(["calls=1"])
    session.seal()
    names = [type(e).__name__ for e in heard if not isinstance(e, CallDecided)]
    assert names == ["SessionOpened"] * 2 + ["TicketDelegated", "SessionSealed"]
    assert sum(isinstance(e, CallDecided) for e in heard) == 2
    assert isinstance(heard[-1], SessionSealed)
    assert any(isinstance(e, TicketDelegated) for e in heard)
    assert "no" in [str(error) for _, error in bench.bus.broken]


def test_threads_get_exactly_the_budget(bench: Bench) -> None:
    """Eight threads on one session make exactly the calls that the ticket has."""
    session = bench.open(["calls=20"])
    allowed: list[bool] = []
    threads = [
        threading.Thread(target=lambda: allowed.extend(read(session).allowed for _ in range(5)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert allowed.count(True) == 20
    recorded = [d["decision"] for k, d in bench.entries(session.sid) if k == "decision"]
    assert (recorded.count("allow"), recorded.count("refuse")) == (20, 20)


def test_a_resumed_session_remembers(bench: Bench) -> None:
    """Tickets, holders and counts come back from the receipt alone."""
    session = bench.open(["tools=Read,Edit", "calls=3"])
    child = session.delegate(["calls=2", "tools=Read"], holder="agent:x")
    assert read(session).allowed
    assert read(session, actor="agent:x:1").allowed
    assert not session.decide("Bash", {"command": "ls"}).allowed
    drop(session)
    again = Session.resume(session.sid, home=bench.home, outside=bench.outside)
    assert again.ticket == session.ticket
    assert again.spent(child) == (2, 1)
    assert caveat(again.decide("Edit", INSIDE, actor="agent:x:1")) == "tools"
    assert read(again, actor="agent:x:1").allowed
    assert caveat(read(again)) == "calls"
    again.seal()
    assert bench.verdict(session.sid).state == "SEALED"


def test_a_living_session_is_not_resumed(bench: Bench) -> None:
    """Two brokers never serve one session."""
    session = bench.open()
    with pytest.raises(StoreError):
        Session.resume(session.sid, home=bench.home)
    assert read(session).allowed


def test_a_sealed_session_is_not_resumed(bench: Bench) -> None:
    """What is sealed stays as it is."""
    session = bench.open()
    session.seal()
    with pytest.raises(StoreError):
        Session.resume(session.sid, home=bench.home)


def test_a_seal_that_fails_leaves_the_session_to_be_found(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the seal cannot be written, the next start finds the session and seals it."""
    session = bench.open()

    def fail(*_: object, **__: object) -> None:
        raise StoreError("full")

    with monkeypatch.context() as patched:
        patched.setattr(type(session._receipt), "seal", fail)
        with pytest.raises(StoreError):
            session.seal()
    assert (session.folder / "alive").exists()
    assert caveat(read(session)) == "session"


@pytest.mark.parametrize("arguments", [None, [], "x", 3, {"file_path": ["a"]}, {"\ud800": 1}])
def test_any_arguments_get_an_answer(bench: Bench, arguments: object) -> None:
    """Arguments of any shape are decided and recorded, and never raise."""
    session = bench.open()
    assert not session.decide("Read", arguments).allowed
    assert not session.decide(arguments, arguments).allowed
    assert len(bench.entries(session.sid)) == 4


def test_relative_paths_start_where_the_agent_is(bench: Bench, tmp_path: Path) -> None:
    """A relative path is read from the agent's folder, not from the broker's."""
    session = bench.open()
    assert session.decide("Read", {"file_path": "a.py"}, cwd=str(bench.workspace / "src")).allowed
    assert not session.decide("Read", {"file_path": "src/a.py"}, cwd=os.fspath(tmp_path)).allowed


def test_the_harness_answers_after_the_ticket(bench: Bench) -> None:
    """What a harness's own permission rules said is recorded beside the decision."""
    session = bench.open()
    assert read(session, call_id="c1").allowed
    session.permission("c1", allowed=False, reason="writes are asked about")
    session.seal()
    last = [data for kind, data in bench.entries(session.sid) if kind == "permission"]
    assert last == [{"call": "c1", "answer": "refuse", "reason": "writes are asked about"}]


def test_required_enforcement_is_kept_when_resumed(bench: Bench) -> None:
    """A named tool that nothing holds is refused where the person asked for that, also later."""
    session = bench.open(["tools=Bash", "paths=src/**"], needs_enforcement=True)
    assert caveat(session.decide("Bash", {"command": "ls"})) == "enforcement"
    drop(session)
    again = Session.resume(session.sid, home=bench.home, outside=bench.outside)
    assert caveat(again.decide("Bash", {"command": "ls"})) == "enforcement"


def test_a_session_conceals_what_was_asked(bench: Bench) -> None:
    """Nothing concealed stands in the receipt in clear, all of it is kept, and it verifies."""
    session = bench.open(intent="find the leak of acme", conceal=["intent,arguments", "notes"])
    assert read(session, call_id="c1").allowed
    assert caveat(session.decide("Read", {"file_path": "/srv/acme/plan"})) == "paths"
    session.note("acme again", source="test")
    session.seal()
    content = session.receipt_path.read_text()
    assert "acme" not in content
    assert "src/a.py" not in content
    assert bench.verdict(session.sid).state == "SEALED"
    kept = Disclosures(session.folder).read()
    values = [shown(data, kept) for _, data in bench.entries(session.sid)]
    assert values[0] == ({}, 0)
    assert values[1] == ({"line": "find the leak of acme"}, 0)
    assert values[3][0]["subjects"] == [{"access": "read", "path": "src/a.py"}]
    assert set(values[4][0]) == {"args", "reason", "subjects", "value"}
    assert values[5] == ({"text": "acme again"}, 0)
    assert session.ticket.intent == bench.entries(session.sid)[1][1]["digest"]
    assert session.ticket.intent != sha256(b"find the leak of acme").hexdigest()


def test_a_resumed_session_conceals_as_before(bench: Bench) -> None:
    """What a session conceals is read from its receipt, not from whoever resumes it."""
    session = bench.open(conceal=["arguments"])
    drop(session)
    again = Session.resume(session.sid, home=bench.home, outside=bench.outside)
    assert read(again).allowed
    again.seal()
    assert "src/a.py" not in again.receipt_path.read_text()


def test_what_cannot_be_kept_is_not_decided(bench: Bench) -> None:
    """A call whose concealed values cannot be written is refused, like one without a receipt."""
    session = bench.open(conceal=["arguments"])
    (session.folder / "disclosures").mkdir()
    assert caveat(read(session)) == "session"
    assert caveat(read(session)) == "session"


def test_a_rehearsal_costs_and_counts_nothing(bench: Bench) -> None:
    """While it rehearses each call is the canary's; afterwards all is as it was."""
    session = bench.open()
    session.rehearsing = True
    closed = session.decide("Read", {"file_path": str(session.receipt_path)}, actor="agent:x:1")
    session.rehearsing = False
    assert caveat(closed) == "own"
    assert (session.allowed, session.refused, session.spent()) == (0, 0, (0,))
    assert read(session).allowed
    assert (session.allowed, session.refused) == (1, 0)
    session.seal()
    decisions = [data["actor"] for kind, data in bench.entries(session.sid) if kind == "decision"]
    assert decisions == ["canary", "main"]
