"""Another root, typed by the person while the session runs."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.errors import Break, BrokerError, InputError, StoreError
from broker.events import Event, IntentOpened, TicketReplaced
from broker.intent import TypedLine
from broker.session import Session
from broker.sessions.past import Past
from broker.ticket import session_key
from tests.sessionkit import Bench, bench, drop

__all__ = ["bench"]

LINE = TypedLine("/scope replace tools=Read,Bash", "terminal")


def may(session: Session, tool: str, **more: object) -> str:
    """Decide a call of a tool, and return the caveat that refused, or nothing."""
    arguments = {"command": "ls"} if tool == "Bash" else {"file_path": "src/a.py"}
    decision = session.decide(tool, arguments, cwd=str(session.workspace), **more)  # type: ignore[arg-type]  # tests pass what they like
    return "" if decision.refusal is None else decision.refusal.caveat


def resumed(bench: Bench, session: Session) -> Session:
    """Drop a session and go on with it."""
    drop(session)
    return Session.resume(session.sid, home=bench.home, outside=bench.outside)


def test_a_typed_scope_replaces_the_root(bench: Bench) -> None:
    """The new scope holds at once, wider or narrower, with its line and what it replaced."""
    seen: list[Event] = []
    session = bench.open(["tools=Read,Edit", "calls=3"], intent="look")
    bench.bus.subscribe(seen.append)
    old = session.ticket
    assert may(session, "Bash") == "tools"
    new = session.replace(["tools=Read,Bash", "calls=2"], line=LINE)
    assert session.ticket is new
    assert (may(session, "Bash"), may(session, "Edit")) == ("", "tools")
    entries = bench.entries(session.sid)
    (at,) = (n for n, (kind, data) in enumerate(entries) if data.get("replaces") == old.id)
    assert [kind for kind, _ in entries[at - 1 : at + 1]] == ["intent", "ticket"]
    assert entries[at - 1][1]["digest"] == new.intent != old.intent
    assert entries[at - 1][1]["line"] == LINE.text
    told = [event for event in seen if isinstance(event, IntentOpened | TicketReplaced)]
    assert [type(event) for event in told] == [IntentOpened, TicketReplaced]
    session.seal()
    assert bench.verdict(session.sid).state == "SEALED"


def test_a_new_root_counts_from_none_and_a_resumed_session_counts_the_same(bench: Bench) -> None:
    """What the old root spent is not spent again, and no crash gives a call back."""
    session = bench.open(["calls=1"])
    assert (may(session, "Read"), may(session, "Read")) == ("", "calls")
    session.replace(["calls=2"], line=LINE)
    assert may(session, "Read") == ""
    assert session.spent() == (1,)
    again = resumed(bench, session)
    assert again.spent() == (1,)
    assert (may(again, "Read"), may(again, "Read")) == ("", "calls")


def test_who_holds_a_ticket_of_the_old_root_is_held_to_both(bench: Bench) -> None:
    """A subagent keeps what it was handed, and no more than the new root permits; after a crash."""
    session = bench.open(["tools=Read,Edit,Bash"])
    child = session.delegate(["tools=Read,Edit"], holder="agent:x")
    session.replace(["tools=Edit,Bash", "calls=9"], line=LINE)
    for _ in range(2):
        for named in ({"actor": "agent:x"}, {"ticket": child.id}, {"ticket": child.wire()}):
            found = [may(session, tool, **named) for tool in ("Read", "Edit", "Bash")]
            assert found == ["tools", "", "tools"]
        assert [t.id for t in session.holds("agent:x")] == [child.id, session.ticket.id]
        assert session.holds("agent:other") == (session.ticket,)
        session = resumed(bench, session)
    assert session.spent() == (6,)


def test_the_old_root_itself_is_no_way_around_the_new_one(bench: Bench) -> None:
    """Whoever kept the wire form of the old root gets no more by it, and its children neither."""
    session = bench.open([])
    old = session.ticket
    session.replace(["tools=Read"], line=LINE)
    assert may(session, "Bash", ticket=old.wire()) == "tools"
    assert may(session, "Bash", ticket=old.id) == "tools"
    late = session.delegate(["tools=Bash"], parent=old.wire())
    assert may(session, "Bash", ticket=late.id) == "tools"


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        ([], LINE),
        (["tools="], LINE),
        (["until=2001-01-01T00:00:00Z"], LINE),
        (["tools=Read"], TypedLine("x", "terminal", depth=1)),
        (["tools=Read"], TypedLine("  ", "terminal")),
        (["tools=Read"], "/scope replace tools=Read"),
    ],
)
def test_what_is_no_scope_or_no_typed_line_changes_nothing(
    bench: Bench, texts: list[str], line: TypedLine
) -> None:
    """Only a person's own line mints: not a text, not a subagent's, not half a scope."""
    session = bench.open()
    before, root = bench.entries(session.sid), session.ticket
    with pytest.raises(InputError):
        session.replace(texts, line=line)
    assert session.ticket is root
    assert bench.entries(session.sid) == before


def test_a_policy_may_be_named_and_a_line_looked_into(bench: Bench) -> None:
    """The scope is read as at the start, and `in intent` looks into the new line."""
    session = bench.open(["tools=Read"])
    session.replace(["@locked-down"], line=TypedLine("/scope replace @locked-down", "terminal"))
    assert (may(session, "Read"), may(session, "Bash")) == ("", "tools")
    rule = "tools=Read,Edit(file_path in intent)"
    session.replace([rule], line=TypedLine("only src/a.py", "terminal"))
    for _ in range(2):
        assert may(session, "Edit") == ""
        other = session.decide("Edit", {"file_path": "src/b.py"}, cwd=str(session.workspace))
        assert not other.allowed
        session = resumed(bench, session)


def test_a_line_that_cannot_be_written_ends_the_session(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A root that is not in the receipt judges nothing, and nothing else does either."""
    session = bench.open()

    def fail(*_: object, **__: object) -> None:
        raise StoreError("full")

    monkeypatch.setattr(type(session._receipt), "append", fail)
    with pytest.raises(StoreError):
        session.replace(["tools=Bash"], line=LINE)
    monkeypatch.undo()
    assert may(session, "Bash") == may(session, "Read") == "session"


def test_a_concealed_line_is_concealed_here_too(bench: Bench) -> None:
    """The receipt commits to a later line as to the first, and a resumed session reads it."""
    session = bench.open([], intent="first words", conceal=["intent"])
    rule = "tools=Read(file_path in intent)"
    session.replace([rule], line=TypedLine("second words src/a.py", "terminal"))
    assert "second words" not in str(bench.entries(session.sid))
    assert may(resumed(bench, session), "Read") == ""


def test_what_a_hook_was_allowed_before_is_decided_again_after(bench: Bench) -> None:
    """A call on its way to a gateway passes under the new root, or not at all."""
    session = bench.open([])
    look = ("mcp__notes__look", {})
    assert session.decide(*look, call_id="h", server="notes").allowed
    session.replace(["tools=Read"], line=LINE)
    assert not session.decide(*look, call_id="g", server="notes", again=True).allowed


@pytest.mark.parametrize("change", ["replaces", "intent", "order"])
def test_a_receipt_whose_root_changes_without_a_line_is_a_break(bench: Bench, change: str) -> None:
    """Going on takes a root for one only behind the line that it is bound to."""
    session = bench.open(["tools=Read"], intent="look")
    session.replace(["tools=Bash"], line=LINE)
    drop(session)
    entries = bench.entries(session.sid)
    if change == "replaces":
        entries[-1][1]["replaces"] = "0" * 16
    elif change == "intent":
        entries[-2][1]["digest"] = "0" * 64
    else:
        entries.insert(-1, ("note", {"source": "x", "text": "y"}))
    past = Past(session_key(bench.key().secret, session.sid))
    for kind, data in entries[:-1]:
        past.take(kind, data, 1)
    with pytest.raises(Break):
        past.take(*entries[-1], 2)


TOOLS = st.lists(st.sampled_from(["Read", "Edit", "Bash"]), min_size=1, max_size=3, unique=True)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(first=TOOLS, handed=TOOLS, later=TOOLS)
def test_a_replacement_never_widens_what_was_handed_down(
    tmp_path_factory: pytest.TempPathFactory, first: list[str], handed: list[str], later: list[str]
) -> None:
    """A holder's calls pass when both its own ticket and the root in force say so, exactly."""
    session = Bench(tmp_path_factory.mktemp("s")).open([f"tools={','.join(first)}"])
    try:
        session.delegate([f"tools={','.join(handed)}"], holder="agent:x")
    except BrokerError:
        assert not set(handed) <= set(first)
        return
    session.replace([f"tools={','.join(later)}"], line=LINE)
    for tool in ("Read", "Edit", "Bash"):
        assert (may(session, tool) == "") == (tool in later)
        assert (may(session, tool, actor="agent:x") == "") == (tool in handed and tool in later)
