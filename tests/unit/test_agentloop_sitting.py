"""One person with one agent: sessions, one after the other, and what each receipt says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.agentloop.sitting import brought_words
from broker.errors import AttenuationError, ScopeError
from broker.harness.items import Tool
from broker.harness.registry import Registry
from broker.harness.tools import TOOLS
from broker.loopback.script import Say, Use
from broker.receipt.entry import Entry
from broker.sessions.following import earlier_session
from tests.agentkit import Bench, Typist, scripted

READ = Use([("read", {"path": "a.txt"})])
WRITE = Use([("write", {"path": "b.txt", "content": "x"})])
SCRIPT = {"read": [READ, Say("Read.")], "write": [WRITE, Say("Written.")]}


def typed(tmp_path: Path, *lines: str, **asked: Any) -> Bench:
    """Sit down, type lines, and return what is left."""
    with scripted(tmp_path, SCRIPT, terminal=Typist(lines)) as (bench, _):
        ended = bench.run(**{"mode": "auto", **asked})
        assert ended.code == 0
    return bench


def kinds(bench: Bench, sid: str) -> list[str]:
    """Return the kinds of the entries of a receipt."""
    return [entry.kind for entry in bench.entries(sid)]


def test_the_first_line_is_the_intent_and_later_ones_are_noted(tmp_path: Path) -> None:
    """A session begins with the line that a person types, and with no other (row 15)."""
    bench = typed(tmp_path, "[script read] look", "[script read] again", texts=["tools=read"])
    (sid,) = bench.sids
    entries = bench.entries(sid)
    intents = [entry.data["line"] for entry in entries if entry.kind == "intent"]
    assert intents == ["[script read] look"]
    notes = [entry.data for entry in entries if entry.kind == "note"]
    assert notes == [{"source": "person", "text": "[script read] again"}]
    assert bench.decisions(sid) == [("read", "allow")] * 2
    assert entries[-1].data["reason"] == "complete"


def test_a_person_who_types_nothing_begins_no_session(tmp_path: Path) -> None:
    """Without a line nothing is minted, and there is no receipt."""
    bench = typed(tmp_path, "/scope", "/receipt", "/quit")
    assert not list(bench.home.sessions.glob("*"))
    assert "everything is permitted" in bench.terminal.shown
    assert "no session has begun" in bench.terminal.errors


def test_narrowing_is_a_delegation_on_the_receipt(tmp_path: Path) -> None:
    """What a person takes away in the midst holds from then on (rows 11 and 13)."""
    lines = ["[script write] one", "/scope narrow tools=read", "[script write] two", "/scope"]
    bench = typed(tmp_path, *lines, texts=["tools=read,write"])
    (sid,) = bench.sids
    assert bench.decisions(sid) == [("write", "allow"), ("write", "refuse")]
    (told,) = [e.data for e in bench.entries(sid) if e.kind == "delegate"]
    assert (told["asked_by"], told["holder"], told["caveats"]) == ("person", "main", ["tools=read"])
    assert "tools=read" in bench.terminal.shown


def test_a_widening_is_refused_by_name_and_recorded(tmp_path: Path) -> None:
    """`narrow` never widens; it says what would."""
    lines = ["[script read] one", "/scope narrow tools=shell"]
    bench = typed(tmp_path, *lines, texts=["tools=read"])
    (sid,) = bench.sids
    (told,) = [e.data for e in bench.entries(sid) if e.kind == "delegate"]
    assert (told["decision"], told["caveat"]) == ("refuse", "tools")
    assert "/scope replace" in bench.terminal.errors


def test_narrowing_before_the_first_line_is_part_of_the_scope(tmp_path: Path) -> None:
    """What is typed before a session begins holds beside what was typed before it."""
    lines = ["/scope narrow calls=1", "[script read] one", "[script read] two"]
    bench = typed(tmp_path, *lines, texts=["tools=read"])
    (sid,) = bench.sids
    assert bench.decisions(sid) == [("read", "allow"), ("read", "refuse")]


def test_a_replacement_is_a_root_of_its_own(tmp_path: Path) -> None:
    """A person may widen: by a ticket that their line mints, which names the old (row 13)."""
    typed_line = "/scope replace tools=write calls=5"
    lines = ["[script write] one", "/scope narrow calls=3", typed_line, "[script write] two"]
    bench = typed(tmp_path, *lines, texts=["tools=read"])
    (sid,) = bench.sids
    assert bench.decisions(sid) == [("write", "refuse"), ("write", "allow")]
    entries = bench.entries(sid)
    old, new = (e for e in entries if e.kind == "ticket")
    assert new.data["replaces"] == old.data["ticket"]
    assert new.data["caveats"] == ["tools=write", "calls=5"]
    assert (entries[new.n - 1].kind, entries[new.n - 1].data["line"]) == ("intent", typed_line)
    # What it was narrowed to before is gone with the ticket that was narrowed.
    left = earlier_session(sid, bench.home)
    assert left.texts == ("tools=write", "calls=4")


def test_a_replacement_keeps_the_conversation(tmp_path: Path) -> None:
    """The model is asked with all that was said before."""
    lines = ["[script read] one", "/scope replace tools=read", "[script read] two"]
    bench = typed(tmp_path, *lines, texts=["tools=read"])
    (sid,) = bench.sids
    body = bench.requests(sid)[-1].body
    assert body is not None
    told = bench.kept(sid).body(body).decode()
    assert told.index("[script read] one") < told.index("[script read] two")


def test_a_scope_that_is_no_scope_changes_nothing(tmp_path: Path) -> None:
    """A fault is pointed at, and the session goes on under its ticket."""
    lines = ["[script read] one", "/scope replace tool=read", "/scope loosen x", "[script read] on"]
    bench = typed(tmp_path, *lines, texts=["tools=read"])
    (sid,) = bench.sids
    assert len(bench.decisions(sid)) == 2
    assert "^" in bench.terminal.errors
    assert "/scope narrow K=V" in bench.terminal.errors


def test_taint_outlives_a_replacement(tmp_path: Path) -> None:
    """What was read stays in the conversation, so `auto` goes on to ask (row 25)."""
    script = {
        "fetch": [Use([("fetch", {"url": "https://a.test/"})]), Say("Fetched.")],
        "write": SCRIPT["write"],
    }
    lines = ["[script fetch] one", "/scope replace tools=write", "[script write] two", "n"]
    with scripted(tmp_path, script, terminal=Typist(lines)) as (bench, _):
        bench.run(mode="auto", texts=["tools=fetch", "hosts=a.test"])
    (sid,) = bench.sids
    told = [e.data for e in bench.entries(sid) if e.kind == "permission"]
    assert told[-1]["answer"] == "refuse"
    assert "a stranger" in bench.terminal.shown


@pytest.mark.parametrize(
    ("data", "tainted"),
    [
        ({"tool": "read", "subjects": [{"path": "a"}]}, False),
        ({"tool": "fetch", "subjects": [{"url": "https://a.test"}]}, True),
        ({"tool": "mcp__x__y", "server": "x"}, True),
        ({"tool": "unheard"}, True),
        ({"tool": "unheard", "decision": "refuse"}, False),
    ],
)
def test_a_stranger_s_words_are_seen_in_a_receipt(data: dict[str, Any], tainted: bool) -> None:
    """Who goes on with a conversation is told by its receipt what may have been read."""
    registry = Registry()
    with registry.batch() as batch:
        batch.add(*TOOLS, Tool("mcp__x__y", "", {}, lambda work, given: "", server="x"))
    entry = Entry(3, "", "decision", 0, {"decision": "allow", "call": "call-1", **data})
    assert bool(brought_words([entry], registry.current)) is tainted


def test_a_malformed_scope_begins_nothing(tmp_path: Path) -> None:
    """What is wrong with a scope is said before a session begins."""
    with scripted(tmp_path, SCRIPT) as (bench, model):
        with pytest.raises(ScopeError):
            bench.run("[script read] go", texts=["tool=read"])
        assert model.asked == []
    assert not list(bench.home.sessions.glob("*"))


def test_an_instant_stands_where_it_was_typed(tmp_path: Path) -> None:
    """A duration is resolved when it is typed, not when a session begins."""
    bench = typed(tmp_path, "/scope", "/quit", texts=["until=45m"])
    assert "until=20" in bench.terminal.shown
    assert "45m" not in bench.terminal.shown


def test_the_error_of_a_widening_is_one_of_ours() -> None:
    """The class that the terminal explains is the one that the session raises."""
    assert AttenuationError("it widens", kind="tools").code == "attenuation"
