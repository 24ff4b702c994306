"""Sessions whose calls are counted with those of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.budgets.sqlite import SqliteStore
from broker.budgets.store import Revoked
from broker.calls import ALLOW
from broker.errors import Break, ConfigError, InputError, StoreError
from broker.intent import TypedLine
from broker.opinions.settings import OpinionSetting
from broker.session import Session
from broker.sessions.following import earlier_session
from broker.sessions.past import Past
from broker.sessions.recovery import Recovered, seal_abandoned
from broker.ticket import session_key
from tests.pdpkit import DecisionPoint
from tests.sessionkit import Bench, bench, drop

__all__ = ["bench"]

READ = ("Read", {"file_path": "src/a.py"})


@pytest.fixture
def counts(bench: Bench, tmp_path: Path) -> Path:
    """The file of shared counts that the configuration of the bench names."""
    path = tmp_path / "counts" / "file"
    bench.home.config.mkdir(parents=True, mode=0o700, exist_ok=True)
    file = bench.home.config / "broker.toml"
    file.write_text(f'[budget]\nurl = "sqlite://{path}"\n', encoding="utf-8")
    file.chmod(0o600)
    return path


def reads(bench: Bench, session: Session, times: int = 1) -> list[str]:
    """Let a session read a file some times, and return the caveats that refused."""
    found = [session.decide(*READ, cwd=str(bench.workspace)).refusal for _ in range(times)]
    return ["" if refusal is None else refusal.caveat for refusal in found]


def spent(counts: Path, *links: str) -> tuple[int, ...] | None:
    """Return what the store has counted."""
    store = SqliteStore(counts, 1.0)
    try:
        return store.counts(links)
    finally:
        store.close()


def test_a_session_counts_where_the_configuration_says(bench: Bench, counts: Path) -> None:
    """Its receipt says so, and has the number of each debit, rising."""
    session = bench.open()
    assert reads(bench, session, 4) == ["", "", "", "calls"]
    assert session.spent() == (3,) == spent(counts, session.ticket.id)
    entries = bench.entries(session.sid)
    assert entries[0][1]["counts"] == "shared"
    debits = [data.get("debit") for kind, data in entries if kind == "decision"]
    assert debits[:3] == sorted(set(debits[:3]))
    assert debits[3] is None
    session.seal()
    assert bench.verdict(session.sid).state == "SEALED"


def test_no_tool_touches_the_counts(bench: Bench, counts: Path) -> None:
    """The file of counts, even in the workspace, is closed under a ticket without limits."""
    file = bench.home.config / "broker.toml"
    inside = bench.workspace / "counts" / "file"
    inside.parent.mkdir(mode=0o700)
    file.write_text(f'[budget]\nurl = "sqlite://{inside}"\n', encoding="utf-8")
    session = bench.open([])
    for path in ("counts/file", "counts/file-wal"):
        for tool in ("Read", "Write"):
            given = {"file_path": path, "content": ""}
            refusal = session.decide(tool, given, cwd=str(bench.workspace)).refusal
            assert refusal is not None, (tool, path)
            assert refusal.caveat == "own"
    assert counts != inside


def test_a_session_goes_on_with_its_shared_counts(bench: Bench, counts: Path) -> None:
    """After its broker was killed a session has spent what it recorded, and nothing else."""
    session = bench.open()
    reads(bench, session)
    budget = session._ground.custody.root.budget
    line, limits = session.ticket.line, session.ticket.limits
    assert budget.settle(line, 1, lambda _: ALLOW, limits=limits).allowed
    assert spent(counts, session.ticket.id) == (2,)
    drop(session)
    again = Session.resume(session.sid, home=bench.home, outside=bench.outside)
    assert again.spent() == (1,)
    assert reads(bench, again, 3) == ["", "", "calls"]


def test_a_session_never_goes_on_with_other_counts(bench: Bench, counts: Path) -> None:
    """Without the table, with a store that lost the counts, or with none, it does not go on."""
    session = bench.open()
    reads(bench, session)
    drop(session)
    for each in counts.parent.iterdir():
        each.unlink()
    with pytest.raises(StoreError) as raised:
        Session.resume(session.sid, home=bench.home, outside=bench.outside)
    assert raised.value.code == "store.lost"
    (bench.home.config / "broker.toml").unlink()
    with pytest.raises(ConfigError, match="has no `\\[budget\\]`"):
        Session.resume(session.sid, home=bench.home, outside=bench.outside)


def test_a_store_that_lost_the_counts_ends_a_session_s_calls(bench: Bench, counts: Path) -> None:
    """While it runs, every later call is refused, by a reason that says so, and stays refused."""
    session = bench.open()
    assert reads(bench, session) == [""]
    store = session._ground.custody.root.budget.store
    store._db.execute("delete from holders")
    assert reads(bench, session, 2) == ["session", "session"]
    reason = bench.entries(session.sid)[-1][1]["reason"]
    assert "has lost what was counted" in reason


def test_a_sealed_session_gives_back_what_it_never_recorded(bench: Bench, counts: Path) -> None:
    """Whoever seals an abandoned session takes back the call that it had only reserved."""
    session = bench.open()
    reads(bench, session)
    budget = session._ground.custody.root.budget
    budget.settle(session.ticket.line, 1, lambda _: ALLOW, limits=session.ticket.limits)
    drop(session)
    assert spent(counts, session.ticket.id) == (2,)
    found = list(seal_abandoned(bench.home, bench.key(), bench.clock))
    assert found == [Recovered(session.sid)]
    assert spent(counts, session.ticket.id) == (1,)


def test_a_replaced_scope_counts_from_none_in_the_store(bench: Bench, counts: Path) -> None:
    """Another root is a tree of its own, and goes on after an interruption."""
    session = bench.open()
    reads(bench, session, 3)
    root = session.replace(["tools=Read", "calls=2"], line=TypedLine("go on", "terminal"))
    assert reads(bench, session) == [""]
    assert spent(counts, root.id) == (1,)
    drop(session)
    again = Session.resume(session.sid, home=bench.home, outside=bench.outside)
    assert reads(bench, again, 2) == ["", "calls"]


def test_a_store_that_is_gone_keeps_the_scope_that_was(bench: Bench, counts: Path) -> None:
    """A new scope whose counts cannot be kept is refused, and the session goes on as it was."""
    session = bench.open()
    store = session._ground.custody.root.budget.store
    store._db.execute("drop table trees")
    with pytest.raises(InputError, match="the scope is what it was"):
        session.replace(["tools=Read"], line=TypedLine("go on", "terminal"))
    assert "intent" not in [kind for kind, _ in bench.entries(session.sid)]


def test_another_session_takes_a_ticket_and_one_budget(bench: Bench, counts: Path) -> None:
    """Handed a ticket that a first session narrowed, a second one spends from both."""
    first = bench.open()
    child = first.delegate(["calls=2"])
    second = bench.open([], handed=child.wire())
    assert second.ticket.line == child.line
    assert reads(bench, second, 3) == ["", "", "calls"]
    assert reads(bench, first, 2) == ["", "calls"]
    assert spent(counts, first.ticket.id, child.id) == (3, 2)
    entries = bench.entries(second.sid)
    assert entries[0][1]["joins"] == first.sid
    assert "intent" not in [kind for kind, _ in entries]
    second.seal()
    assert bench.verdict(second.sid).state == "SEALED"


def test_a_ticket_is_narrowed_where_it_is_taken(bench: Bench, counts: Path) -> None:
    """What is typed beside it narrows, a subagent's is below, and both hold on resuming."""
    first = bench.open()
    second = bench.open(["calls=2"], handed=first.ticket.wire())
    assert second.ticket.line[:1] == first.ticket.line
    assert second.ticket.least == 2
    child = second.delegate(["calls=1"], holder="agent:x:1")
    assert second.decide(*READ, actor="agent:x:1", cwd=str(bench.workspace)).allowed
    drop(second)
    again = Session.resume(second.sid, home=bench.home, outside=bench.outside)
    assert again.ticket == second.ticket
    assert again.spent(child) == (1, 1, 1)
    assert not again.decide(*READ, actor="agent:x:1", cwd=str(bench.workspace)).allowed
    assert reads(bench, again, 2) == ["", "calls"]


def test_nobody_reaches_above_the_ticket_that_was_handed_over(bench: Bench, counts: Path) -> None:
    """The wider ticket that it came from, and its other children, are none of this session."""
    first = bench.open()
    child, sibling = first.delegate(["calls=1"]), first.delegate(["calls=2"])
    second = bench.open([], handed=child.wire())
    for ticket in (first.ticket, sibling):
        refusal = second.decide(*READ, ticket=ticket.wire(), cwd=str(bench.workspace)).refusal
        assert refusal is not None
        assert "belongs to no root" in refusal.reason
    with pytest.raises(Exception, match="widens"):
        bench.open(["calls=9"], handed=child.wire())


def test_a_ticket_of_others_is_taken_only_where_it_is_counted(bench: Bench, counts: Path) -> None:
    """Without shared counts, in a store without its tree, or made by another key, it is refused."""
    first = bench.open()
    wire = first.ticket.wire()
    with pytest.raises(Exception, match="not made with this key"):
        bench.open([], handed=wire[:-1] + ("0" if wire[-1] != "0" else "1"))
    file = bench.home.config / "broker.toml"
    file.write_text(f'[budget]\nurl = "sqlite://{counts}2"\n', encoding="utf-8")
    with pytest.raises(StoreError, match="nothing is known of its counts"):
        bench.open([], handed=wire)
    file.unlink()
    with pytest.raises(ConfigError, match="name the place"):
        bench.open([], handed=wire)


def test_a_session_that_shared_its_counts_is_not_followed(bench: Bench, counts: Path) -> None:
    """What is left of its calls is others' as well, so it is not handed to a new tree."""
    session = bench.open()
    session.seal()
    with pytest.raises(InputError, match="counts its calls with others"):
        earlier_session(session.sid, bench.home)


def test_a_receipt_without_its_debits_is_a_break(bench: Bench, counts: Path) -> None:
    """A call whose number does not rise, or a joined session that cannot be told, is a break."""
    session = bench.open()
    reads(bench, session, 2)
    opening, ticket, *rest = bench.entries(session.sid)
    past = Past(session_key(bench.key().secret, session.sid))
    for kind, data in (opening, ticket, rest[0]):
        past.take(kind, data, 0)
    with pytest.raises(Break, match="do not know"):
        past.take(*rest[0], 0)
    with pytest.raises(Break, match="cannot be told"):
        Past(bytes(32)).take("open", {**opening[1], "joins": "x"}, 0)


def test_a_second_opinion_is_weighed_before_shared_counts_are_spent(
    bench: Bench, counts: Path
) -> None:
    """What another refuses, or is asked about, costs nothing; what all allow is counted once."""
    answers = [True, False, True, True]
    with DecisionPoint(lambda _: answers.pop(0)) as point:
        session = bench.open(opinions=(OpinionSetting("corp", point.url),))
        assert reads(bench, session, 4) == ["", "opinion", "", ""]
        assert reads(bench, session) == ["calls"]
    assert spent(counts, session.ticket.id) == (3,)
    drop(session)
    told = [data.get("debit") for kind, data in bench.entries(session.sid) if kind == "decision"]
    assert [isinstance(number, int) for number in told] == [True, False, True, True, False]


def test_revoked_in_the_store_it_stops_everywhere(bench: Bench, counts: Path) -> None:
    """What another machine revoked stops both sessions at their next call, and is recorded."""
    first = bench.open()
    second = bench.open([], handed=first.ticket.wire())
    assert reads(bench, second) == [""]
    store = SqliteStore(counts, 1.0)
    store.revoke(Revoked(first.ticket.id, "wrong folder", 5))
    store.close()
    for session in (first, second):
        assert reads(bench, session, 2) == ["revoked", "revoked"]
        kinds = [kind for kind, _ in bench.entries(session.sid)]
        assert kinds.count("revoke") == 1
        assert kinds.index("revoke") == len(kinds) - 3
        data = bench.entries(session.sid)[kinds.index("revoke")][1]
        assert data == {"by": "operator", "reason": "wrong folder", "ticket": first.ticket.id}
    assert spent(counts, first.ticket.id) == (1,)
