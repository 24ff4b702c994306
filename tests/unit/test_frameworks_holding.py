"""A session as a block."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import AttenuationError, InputError, ScopeError, StoreError
from broker.frameworks.holding import Holder, current, session
from broker.receipt.sealing import create_auditor
from broker.service.client import SessionClient
from broker.service.server import Server
from broker.session import Session
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

SCOPE = ["tools=read,grep", "calls=2"]


def opened(bench: Bench, scope: list[str] | None = None) -> session:
    """Return a block of the bench's own, outside of any run."""
    return session(
        SCOPE if scope is None else scope,
        workspace=bench.workspace,
        home=bench.home,
        environ={},
        outside=bench.outside,
    )


@pytest.fixture
def run(bench: Bench, tmp_path: Path) -> Iterator[tuple[Session, dict[str, str]]]:
    """A session of another program, and the environment of a process in its run."""
    running = bench.open(SCOPE)
    server = Server(running, tmp_path / "s", {})
    server.bind()
    server.start()
    yield running, {"BROKER_SOCKET": str(tmp_path / "s")}
    server.stop()


def test_a_block_is_a_session(bench: Bench) -> None:
    """What a block decides stands in a receipt, which is sealed and verifies when it ends."""
    with opened(bench) as held:
        assert held.check("read", {}).allowed
        assert not held.check("shell", {"command": "ls"}).allowed
        held.result("", ok=True, output="text")
    kinds = [kind for kind, _ in bench.entries(held.sid)]
    assert kinds == ["open", "ticket", "decision", "decision", "result", "seal"]
    assert bench.verdict(held.sid).state == "SEALED"


def test_an_error_ends_a_session_as_interrupted(bench: Bench) -> None:
    """A block that is left by an error is sealed, and says how it ended."""
    with pytest.raises(KeyError), opened(bench) as held:
        raise KeyError("x")
    assert bench.entries(held.sid)[-1][1]["reason"] == "interrupted"


def test_a_configured_auditor_counts(bench: Bench) -> None:
    """A session of a block is forward-secure where the configuration says that every one is."""
    key = bench.home.config / "auditor.key"
    bench.home.config.mkdir(parents=True)
    create_auditor(key)
    (bench.home.config / "broker.toml").write_text('[broker]\nforward = "auditor.key.pub"\n')
    with opened(bench) as held:
        pass
    assert "forward" in bench.entries(held.sid)[0][1]


def test_the_intent_is_what_the_caller_vouches_for(bench: Bench) -> None:
    """A typed line is recorded, and the ticket binds to it."""
    with session(
        [], workspace=bench.workspace, home=bench.home, environ={}, intent="mend the test"
    ) as held:
        sid = held.sid
    assert ("intent", "mend the test") in [(k, d.get("line")) for k, d in bench.entries(sid)]


def test_delegates_narrow_and_share_the_budget(bench: Bench) -> None:
    """A delegate's ticket is its parent's and less, its calls are its parent's calls."""
    with opened(bench) as held:
        with held.narrowed("tools=read", name="reader") as child:
            assert current() is child
            assert child.check("read", {}).allowed
            assert not child.check("grep", {}).allowed
            with child.narrowed() as grandchild:
                assert grandchild.check("read", {}).allowed
            with pytest.raises(AttenuationError, match="widens"):
                child.narrowed("tools=grep")
        assert current() is held
        refusal = held.check("grep", {}).refusal
        assert refusal is not None
        assert refusal.caveat == "calls"
        with pytest.raises(ScopeError):
            held.narrowed("tool=read")
    given = [d for k, d in bench.entries(held.sid) if k == "delegate"]
    assert [d["decision"] for d in given] == ["allow", "allow", "refuse"]
    actors = [d["actor"] for k, d in bench.entries(held.sid) if k == "decision"]
    assert actors[0].startswith("agent:reader:")
    assert actors[-1] == "main"


def test_a_block_in_a_block_is_refused(bench: Bench) -> None:
    """Nobody mints inside a session; the error says how to narrow instead."""
    with opened(bench), pytest.raises(InputError, match="narrowed"), opened(bench):
        pass
    with pytest.raises(InputError, match="no session is open"):
        current()


def test_a_scope_is_a_list(bench: Bench) -> None:
    """A text where a list is due would be read letter by letter."""
    with pytest.raises(InputError, match="a list of texts"):
        session("tools=read")  # a text is a sequence of texts too, so types do not tell


def test_a_malformed_scope_opens_nothing(bench: Bench) -> None:
    """Where the block cannot begin, nothing is left behind: no session, no ticket."""
    with pytest.raises(ScopeError), opened(bench, ["tool=read"]):
        pass
    with pytest.raises(InputError, match="no session is open"):
        current()
    assert not list(bench.home.sessions.glob("*"))


def test_under_a_run_nothing_is_minted(bench: Bench, run: tuple[Session, dict[str, str]]) -> None:
    """A block works under the run's ticket, a scope narrows it, and a wider one is refused."""
    running, environ = run
    with session(environ=environ) as held:
        assert held.sid == running.sid
        assert held.check("grep", {}).allowed
    with session(["tools=read"], environ=environ) as held:
        assert not held.check("grep", {}).allowed
        assert held.check("read", {}, call_id="c").allowed
        held.result("c", ok=True)
        with held.narrowed("paths=src/**") as child:
            assert child.check("read", {}).refusal is not None  # the budget of the run is spent
    with pytest.raises(AttenuationError), session(["tools=*"], environ=environ):
        pass
    assert (running.allowed, running.refused) == (2, 2)


def test_a_run_that_is_gone_refuses(tmp_path: Path) -> None:
    """Where the run cannot be asked, every call is refused and nothing narrows."""
    with session(environ={"BROKER_SOCKET": str(tmp_path / "gone")}) as held:
        refusal = held.check("read", {}).refusal
        assert refusal is not None
        assert refusal.caveat == "session"
        with pytest.raises(StoreError):
            held.narrowed("tools=read")


def test_threads_have_no_block_unasked(bench: Bench) -> None:
    """A thread starts without a ticket, and gets one by a copy of the context only."""
    found: list[Holder | str] = []

    def look() -> None:
        try:
            found.append(current())
        except InputError as error:
            found.append(error.code)

    with opened(bench) as held:
        for target in (look, lambda: contextvars.copy_context().run(look)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        copied = contextvars.copy_context()
        thread = threading.Thread(target=lambda: copied.run(look))
        thread.start()
        thread.join()
    assert found == ["input.session", "input.session", held]


def test_tasks_keep_apart(bench: Bench) -> None:
    """Two tasks that narrow at once each work under their own ticket, on one budget."""

    async def one(held: Holder, tool: str) -> list[bool]:
        with held.narrowed(f"tools={tool}") as child:
            await asyncio.sleep(0)
            assert current() is child
            return [child.check(name, {}).allowed for name in ("read", "grep")]

    async def both() -> list[list[bool]]:
        async with opened(bench) as held:
            return await asyncio.gather(one(held, "read"), one(held, "grep"))

    assert asyncio.run(both()) == [[True, False], [False, True]]


def test_the_switch_of_runs_is_not_a_blocks(bench: Bench) -> None:
    """A configuration that switches the broker off leaves a block's code held."""
    bench.home.config.mkdir(parents=True)
    (bench.home.config / "broker.toml").write_text("[broker]\nenabled = false\n")
    with opened(bench) as held:
        assert not held.check("shell", {"command": "ls"}).allowed


def test_what_a_ticket_could_ever_allow(
    bench: Bench, run: tuple[Session, dict[str, str]], tmp_path: Path
) -> None:
    """What is shown to a model follows from the ticket, of this process or of a run."""
    own = Holder(bench.open(["tools=mcp__notes__look,read"]))
    assert own.offer("notes").admits("look")
    assert not own.offer("notes").admits("read")
    assert not own.offer().admits("look")
    for held in (own, Holder(SessionClient.find(run[1])).delegate("tools=read")):
        assert held.offer().admits("read")
        assert not held.offer().admits("grep")
        assert len(held.delegate("tools=read", name="few").bounds().tools) == 1
    with pytest.raises(StoreError):
        Holder(SessionClient(str(tmp_path / "gone"))).offer()
