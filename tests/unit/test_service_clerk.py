"""One sync of the disk for many callers, and no answer before it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from broker.calls import Decision
from broker.errors import StoreError
from broker.service.clerk import GROUP, Clerk
from broker.session import Session
from broker.sessions.ground import Outside
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


def _ask(session: Session) -> Sequence[Decision]:
    return [session.decide("Read", {"file_path": "src/a.py"}, durable=False)]


class _Counting:
    """A session that counts its flushes, and may fail at one."""

    def __init__(self, session: Session, fails: bool = False) -> None:
        self.session = session
        self.flushes = 0
        self.fails = fails
        self.waits = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def flush(self) -> None:
        self.flushes += 1
        if self.fails:
            raise StoreError("broken")
        self.session.flush()


def _together(session: Any, asks: Sequence[Any]) -> list[Sequence[Decision]]:
    async def work() -> list[Sequence[Decision]]:
        with ThreadPoolExecutor(2) as pool:
            clerk = Clerk(session, pool)
            return await asyncio.gather(*[clerk.ask(ask) for ask in asks])

    return asyncio.run(work())


def test_many_callers_share_a_sync(bench: Bench) -> None:
    """A hundred questions at once take a few flushes, and each hears its own answer, durable."""
    session = _Counting(bench.open(["tools=Read", "calls=60"]))
    found = _together(session, [_ask] * 100)
    assert sum(decision.allowed for (decision,) in found) == 60
    assert session.flushes <= 3
    lines = session._receipt.snapshot()[0]
    assert lines == session._receipt.last[0]


def test_a_group_that_is_not_durable_is_refused_whole(bench: Bench) -> None:
    """Where the flush fails, an allow that was decided already becomes a refusal for everybody."""
    session = _Counting(bench.open(["tools=Read"]), fails=True)
    for (decision,) in _together(session, [_ask] * 5):
        assert decision.refusal is not None
        assert decision.refusal.caveat == "session"


def test_what_breaks_in_one_question_refuses_that_one(bench: Bench) -> None:
    """A fault nobody foresaw is a refusal of its own question, and the rest are answered."""

    def broken(_: Session) -> Sequence[Decision]:
        raise ZeroDivisionError

    (one,), (other,) = _together(bench.open(["tools=Read"]), [broken, _ask])
    assert one.refusal is not None
    assert "ZeroDivisionError" in one.refusal.reason
    assert other.allowed


def test_a_caller_who_leaves_takes_no_one_along(bench: Bench) -> None:
    """A question whose caller is gone is decided and recorded, and the others hear theirs."""

    async def work(session: Session) -> list[bool]:
        with ThreadPoolExecutor(1) as pool:
            clerk = Clerk(session, pool)
            leaving = asyncio.create_task(clerk.ask(_ask))
            await asyncio.sleep(0)
            staying = asyncio.create_task(clerk.ask(_ask))
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
            return [decision.allowed for decision in await staying]

    session = bench.open(["tools=Read"])
    assert asyncio.run(work(session)) == [True]
    assert session.allowed == 2


def test_no_group_makes_the_loop_wait_for_the_disk(bench: Bench) -> None:
    """The loop's thread decides and never syncs, however many ask, and for however much."""
    at = bench.clock()
    bench.outside = Outside(lambda: at, bus=bench.bus)
    session = bench.open(["tools=Read"])
    real, synced = session._receipt._journal._disk, []

    def sync(fd: int) -> None:
        synced.append(threading.current_thread() is threading.main_thread())
        real.sync(fd)

    session._receipt._journal._disk = replace(real, sync=sync)

    def many(asked: Session) -> Sequence[Decision]:
        return [_ask(asked)[0] for _ in range(GROUP)]

    async def work() -> list[Sequence[Decision]]:
        with ThreadPoolExecutor(2) as pool:
            clerk = Clerk(session, pool)
            single = [clerk.ask(_ask) for _ in range(200)]
            return await asyncio.gather(*single, *[clerk.ask(many, GROUP) for _ in range(3)])

    assert sum(map(len, asyncio.run(work()))) == 200 + 3 * GROUP
    assert synced
    assert not any(synced)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_where_a_decision_may_wait_it_does_not_wait_in_the_loop(
    bench: Bench, elsewhere: bool
) -> None:
    """A decision that may wait for a network is made in a thread, and any other in the loop's."""
    session = _Counting(bench.open(["tools=Read"]))
    session.waits = elsewhere
    inside = []

    def ask(asked: Session) -> Sequence[Decision]:
        inside.append(threading.current_thread() is threading.main_thread())
        return _ask(asked)

    found = _together(session, [ask] * 3)
    assert [decision.allowed for (decision,) in found] == [True] * 3
    assert inside == [not elsewhere] * 3


def test_what_is_done_alone_has_its_turn(bench: Bench) -> None:
    """Work beside the groups waits for one to end, and the groups wait for it."""

    async def work(session: Session) -> list[str]:
        order: list[str] = []

        def ask(asked: Session) -> Sequence[Decision]:
            order.append("ask")
            return _ask(asked)

        def alone(_: Session) -> None:
            order.append("alone")

        with ThreadPoolExecutor(2) as pool:
            clerk = Clerk(session, pool)
            await asyncio.gather(
                *[clerk.ask(ask) for _ in range(70)], clerk.alone(alone), clerk.ask(ask)
            )
        return order

    order = asyncio.run(work(bench.open(["tools=Read"])))
    assert order.count("ask") == 71
    assert order.count("alone") == 1
