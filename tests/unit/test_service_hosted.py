"""Which sessions a service holds, and that all of them are sealed."""

from __future__ import annotations

import pytest

from broker.errors import AttenuationError, InputError, LimitError, StoreError
from broker.service import hosted as module
from broker.service.access import KeyHolder
from broker.service.authzen import Evaluation
from broker.service.hosted import private
from broker.service.subjects import Subjects
from tests.servekit import inside
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

ALEX = KeyHolder("alex", "operator")


def test_a_subjects_ticket_is_below_the_root(bench: Bench) -> None:
    """A subject that would get more than the root permits stops the service from beginning."""
    with pytest.raises(AttenuationError):
        inside(bench, texts=("tools=Read",))
    found = inside(bench, texts=("tools=can_read,can_update",), subjects="")
    assert found.hosted.own.session.ticket.bounds.tools
    found.hosted.seal()


def test_all_sessions_are_sealed_at_the_end(bench: Bench) -> None:
    """Every receipt gets its last line, and nothing is minted any more."""
    hosted = inside(bench).hosted
    minted = [hosted.mint(["calls=1"], line="go", by=ALEX) for _ in range(3)]
    assert len(hosted.sessions) == 4
    assert hosted.seal() == []
    for session in [hosted.own.session, *minted]:
        assert bench.entries(session.sid)[-1][0] == "seal"
    with pytest.raises(StoreError):
        hosted.mint(["calls=1"], line="go", by=ALEX)


def test_there_is_a_limit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is full says so, and takes another once one has ended."""
    monkeypatch.setattr(module, "MAX_SERVED_SESSIONS", 2)
    hosted = inside(bench).hosted
    first = hosted.mint(["calls=1"], line="go", by=ALEX)
    with pytest.raises(LimitError):
        hosted.mint(["calls=1"], line="go", by=ALEX)
    hosted.taken(first.sid).session.seal()
    hosted.mint(["calls=1"], line="go", by=ALEX)
    hosted.seal()


def test_a_ticket_of_another_service_is_of_no_session_here(bench: Bench) -> None:
    """A wire form names a session, and one that is not held here has no clerk."""
    hosted, other = inside(bench).hosted, bench.open()
    with pytest.raises(InputError) as told:
        hosted.clerk_of(other.ticket.wire())
    assert told.value.code == "session"
    with pytest.raises(InputError):
        hosted.clerk_of("no ticket")
    hosted.seal()


def test_a_ticket_of_one_session_is_refused_in_another(bench: Bench) -> None:
    """Even if a question came to the wrong session, its key would not believe the ticket."""
    hosted = inside(bench).hosted
    session = hosted.mint(["calls=1"], line="go", by=ALEX)
    asked = Evaluation(("user", "ana"), "can_read", {}, session.ticket.wire())
    refusal = hosted.decide(hosted.own.session, asked).refusal
    assert refusal is not None
    assert refusal.caveat == "session"
    hosted.seal()


def test_without_a_scope_the_own_root_is_used_by_nobody(bench: Bench) -> None:
    """The root of the service's own session may permit everything, and answers no subject."""
    hosted = inside(bench, subjects="").hosted
    decision = hosted.decide(hosted.own.session, Evaluation(("main", "x"), "Read", {}))
    assert decision.refusal is not None
    assert decision.refusal.caveat == "subject"
    assert Subjects.read("") == Subjects()
    hosted.seal()


def test_files_of_the_service_are_its_own(bench: Bench) -> None:
    """A file of the service has all its names closed to tools, those behind links too."""
    link = bench.workspace / "keys"
    link.symlink_to(bench.workspace / "src" / "a.py")
    assert private([link]) == (str(link), str((bench.workspace / "src" / "a.py").resolve()))
