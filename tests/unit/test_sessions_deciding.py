"""A call between its ticket, the opinions of others, its receipt and its debit."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.budgets.sqlite import SqliteStore
from broker.budgets.store import Revoked
from broker.errors import ConfigError, InputError
from broker.events import CallDecided, OpinionFailed
from broker.opinions.opinion import digest
from broker.opinions.settings import OpinionSetting
from broker.session import Session
from broker.sessions.asking import AskingSession
from broker.sessions.revoking import Revocations
from tests.pdpkit import DecisionPoint
from tests.sessionkit import Bench, bench, drop

__all__ = ["bench"]

READ: dict[str, Any] = {"file_path": "src/a.py"}


def _with(point: DecisionPoint, **more: Any) -> tuple[OpinionSetting, ...]:
    return (OpinionSetting("corp", point.url, **more),)


def _last(bench: Bench, session: Session) -> dict[str, Any]:
    return [data for kind, data in bench.entries(session.sid) if kind == "decision"][-1]


def test_the_strictest_answer_wins_and_is_recorded(bench: Bench) -> None:
    """A call that the ticket allows and the opinion does not is refused, costs nothing, is kept."""
    allowed = [True]
    with DecisionPoint(lambda _: allowed[0]) as point:
        session = bench.open(opinions=_with(point))
        assert session.decide("Read", READ).allowed
        assert session.spent() == (1,)
        data = _last(bench, session)
        assert data["opinions"] == [
            {
                "name": "corp",
                "said": "allow",
                "asked": digest(point.bodies),
                "answered": digest(point.answers),
            }
        ]
        allowed[0] = False
        refusal = session.decide("Read", READ).refusal
        assert refusal is not None
        assert refusal.caveat == "opinion"
        assert session.spent() == (1,)
        assert (session.allowed, session.refused) == (1, 1)
        data = _last(bench, session)
        assert (data["decision"], data["caveat"]) == ("refuse", "opinion")
        assert data["opinions"][0]["said"] == "refuse"
        assert point.asked[0]["context"]["ticket_id"] == session.ticket.id
        session.seal()
        assert str(bench.verdict(session.sid).state) == "SEALED"


def test_what_the_ticket_refuses_is_asked_of_nobody(bench: Bench) -> None:
    """An opinion cannot loosen, and learns nothing of what the ticket refuses."""
    with DecisionPoint(lambda _: True) as point:
        session = bench.open(opinions=_with(point))
        refusal = session.decide("Read", {"file_path": "secret.txt"}).refusal
        assert refusal is not None
        assert refusal.caveat == "paths"
        assert point.asked == []
        assert "opinions" not in _last(bench, session)


def test_no_answer_refuses(bench: Bench) -> None:
    """A decision point that is gone refuses; the person is told why, and the receipt has it."""
    with DecisionPoint(lambda _: True) as point:
        pass
    told: list[object] = []
    bench.bus.subscribe(told.append)
    session = bench.open(opinions=_with(point))
    refusal = session.decide("Read", READ).refusal
    assert refusal is not None
    assert "could not be had" in refusal.reason
    assert session.spent() == (0,)
    (failed,) = [each for each in told if isinstance(each, OpinionFailed)]
    assert (failed.name, failed.sid) == ("corp", session.sid)
    assert "reached" in failed.fault
    (recorded,) = _last(bench, session)["opinions"]
    assert (recorded["said"], recorded["fault"]) == ("none", failed.fault)


def test_other_calls_go_on_while_an_opinion_is_asked(bench: Bench) -> None:
    """A slow opinion on one call holds no other call up, and the budget counts both once."""
    gate, met = threading.Event(), threading.Event()

    def rule(evaluation: dict[str, Any]) -> bool:
        if evaluation["action"]["name"] == "Edit":
            met.set()
            gate.wait(5)
        return True

    decided: list[CallDecided] = []
    bench.bus.subscribe(lambda e: decided.append(e) if isinstance(e, CallDecided) else None)
    with DecisionPoint(rule) as point:
        session = bench.open(opinions=_with(point, within_s=5.0))
        edit = threading.Thread(target=session.decide, args=("Edit", READ))
        edit.start()
        assert met.wait(5)
        assert session.decide("Read", READ).allowed
        assert [each.tool for each in decided] == ["Read"]
        gate.set()
        edit.join()
    assert [(each.tool, each.decision.allowed) for each in decided] == [
        ("Read", True),
        ("Edit", True),
    ]
    assert session.spent() == (2,)


def test_the_budget_is_looked_at_again(bench: Bench) -> None:
    """Calls that wait for opinions together do not spend more than there is."""
    barrier = threading.Barrier(5)

    def rule(_: object) -> bool:
        barrier.wait(5)
        return True

    with DecisionPoint(rule) as point:
        session = bench.open(opinions=_with(point, within_s=5.0))
        answers: list[bool] = []
        threads = [
            threading.Thread(target=lambda: answers.append(session.decide("Read", READ).allowed))
            for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(answers) == [False, False, True, True, True]
    assert session.spent() == (3,)
    refused = [d for k, d in bench.entries(session.sid) if k == "decision" and "caveat" in d]
    assert {d["caveat"] for d in refused} == {"calls"}


def test_a_ticket_that_ends_meanwhile_refuses(bench: Bench) -> None:
    """An opinion that comes after the session is over allows nothing."""
    ended: list[Callable[[], None]] = []

    def rule(_: object) -> bool:
        ended[0]()
        return True

    with DecisionPoint(rule) as point:
        session = bench.open(opinions=_with(point))
        ended.append(session.seal)
        refusal = session.decide("Read", READ).refusal
    assert refusal is not None
    assert refusal.caveat == "session"


def test_a_link_that_is_turned_meanwhile(bench: Bench) -> None:
    """What was asked about is what runs: a place that leads elsewhere since is refused."""
    link = bench.workspace / "src" / "link"
    (bench.workspace / "src" / "b.py").write_text("", encoding="utf-8")
    link.symlink_to("a.py")

    def rule(_: object) -> bool:
        link.unlink()
        link.symlink_to("b.py")
        return True

    with DecisionPoint(rule) as point:
        session = bench.open(opinions=_with(point))
        refusal = session.decide("Read", {"file_path": "src/link"}).refusal
    assert refusal is not None
    assert (refusal.caveat, "changed" in refusal.reason) == ("opinion", True)
    assert session.spent() == (0,)


def test_every_entrance_has_the_configured_opinions(bench: Bench) -> None:
    """Who opens a session need not know of opinions: the configuration is read by the session."""
    bench.home.config.mkdir(parents=True, mode=0o700)
    policy = bench.home.config / "house.cedar"
    policy.write_text('permit (principal, action == Action::"Read", resource);', encoding="utf-8")
    settings = bench.home.config / "broker.toml"
    settings.write_text('[opinions.house]\ncedar = "house.cedar"\n', encoding="utf-8")
    settings.chmod(0o600)
    policy.chmod(0o600)
    session = bench.open()
    assert session.decide("Read", READ).allowed
    refusal = session.decide("Edit", READ).refusal
    assert refusal is not None
    assert (refusal.caveat, refusal.value) == ("opinion", "house")
    opening = bench.entries(session.sid)[0][1]
    assert opening["opinions"] == [{"name": "house", "of": str(policy)}]
    settings.write_text("[opinions.house]\n", encoding="utf-8")
    with pytest.raises(ConfigError):
        bench.open()


def test_no_tool_touches_what_an_opinion_is_made_from(bench: Bench, tmp_path: Path) -> None:
    """A policy that lies anywhere is closed to every tool, like the configuration."""
    policy = tmp_path / "p.cedar"
    policy.write_text("permit (principal, action, resource);", encoding="utf-8")
    policy.chmod(0o600)
    session = bench.open((), opinions=[OpinionSetting("p", cedar=policy)])
    refusal = session.decide("Write", {"file_path": os.fspath(policy)}).refusal
    assert refusal is not None
    assert refusal.caveat == "own"


def test_a_session_goes_on_with_its_opinions_or_not_at_all(bench: Bench) -> None:
    """A resumed session asks whom it asked before; without them it does not resume."""
    with DecisionPoint(lambda _: False) as point:
        session = bench.open(opinions=_with(point))
        sid = session.sid
        drop(session)
        with pytest.raises(InputError, match="the opinion `corp`"):
            Session.resume(sid, home=bench.home, outside=bench.outside)
        again = Session.resume(sid, home=bench.home, outside=bench.outside, opinions=_with(point))
        refusal = again.decide("Read", READ).refusal
        assert refusal is not None
        assert refusal.caveat == "opinion"


def test_a_hook_and_the_gateway_behind_it_ask_once(bench: Bench) -> None:
    """What a gateway meets after a hook was allowed was asked about already."""
    with DecisionPoint(lambda _: True) as point:
        session = bench.open(("tools=mcp__git__log",), opinions=_with(point))
        assert session.decide("mcp__git__log", {}, call_id="c1").allowed
        assert session.decide("mcp__git__log", {}, call_id="g1", again=True).allowed
        assert len(point.asked) == 1
        assert session.decide("mcp__git__log", {}, call_id="g2", again=True).allowed
        assert len(point.asked) == 2


def test_a_refusal_of_an_opinion_is_no_question_to_the_person(bench: Bench) -> None:
    """With `--ask` too: a yes of the person is for the ticket, and an opinion is another's."""
    with DecisionPoint(lambda _: False) as point:
        session = AskingSession.open(
            ("tools=Read",),
            workspace=bench.workspace,
            home=bench.home,
            outside=bench.outside,
            opinions=_with(point),
        )
        asked: list[object] = []
        assert isinstance(session, AskingSession)
        session.ask = asked.append
        refusal = session.decide("Read", READ).refusal
        assert refusal is not None
        assert (refusal.caveat, asked) == ("opinion", [])


def test_concealed_arguments_cannot_be_guessed_from_a_digest(bench: Bench) -> None:
    """Two calls that are the same have different digests of what was asked."""
    with DecisionPoint(lambda _: True) as point:
        session = bench.open(opinions=_with(point), conceal=["arguments"])
        for _ in range(2):
            assert session.decide("Read", READ).allowed
        found = [d["opinions"][0]["asked"] for k, d in bench.entries(session.sid)
                 if k == "decision"]  # fmt: skip
    assert len(set(found)) == 2


def test_what_is_asked_about_reserves_nothing(bench: Bench, tmp_path: Path) -> None:
    """Where counts are shared with others, a call that waits for an opinion takes none of them."""
    path = tmp_path / "counts" / "file"
    bench.home.config.mkdir(parents=True, mode=0o700, exist_ok=True)
    settings = bench.home.config / "broker.toml"
    settings.write_text(f'[budget]\nurl = "sqlite://{path}"\n', encoding="utf-8")
    settings.chmod(0o600)
    seen: list[tuple[int, ...] | None] = []
    answers = [False, True]

    def rule(_: object) -> bool:
        store = SqliteStore(path, 1.0)
        seen.append(store.counts((session.ticket.id,)))
        store.close()
        return answers.pop(0)

    with DecisionPoint(rule) as point:
        session = bench.open(opinions=_with(point))
        assert [session.decide("Read", READ).allowed for _ in range(2)] == [False, True]
    assert seen == [(0,), (0,)]
    assert session.spent() == (1,)
    assert ["debit" in data for kind, data in bench.entries(session.sid) if kind == "decision"] == [
        False,
        True,
    ]


def test_a_ticket_that_is_revoked_meanwhile(bench: Bench) -> None:
    """A yes that comes after the person has taken the ticket back allows nothing."""
    revoked: list[Callable[[], object]] = []

    def rule(_: object) -> bool:
        revoked[0]()
        return True

    with DecisionPoint(rule) as point:
        session = bench.open(opinions=_with(point))
        revocations = Revocations(bench.home.revoked, bench.key())
        revoked.append(lambda: revocations.add(Revoked(session.ticket.id, "enough", 0)))
        refusal = session.decide("Read", READ).refusal
    assert refusal is not None
    assert refusal.caveat == "revoked"
