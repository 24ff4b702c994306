"""From questions to decisions: order, sessions, and what is asked once."""

from __future__ import annotations

import asyncio
import io

from broker.errors import InputError
from broker.service.access import KeyHolder
from broker.service.authzen import Evaluation
from broker.service.deciding import decide_all, decide_one
from broker.service.watching import Watch
from tests.servekit import inside
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

ANA = Evaluation(("user", "ana"), "can_read", {"type": "todo", "id": "7"})


def test_evaluations_of_several_sessions_keep_their_order(bench: Bench) -> None:
    """Each is asked in the session of its ticket, and the answers come in the order asked."""
    hosted = inside(bench).hosted
    watch = Watch(io.StringIO(), bench.clock)
    minted = hosted.mint(["tools=can_read"], line="go", by=KeyHolder("alex", "operator"))
    theirs = Evaluation(("user", "x"), "can_read", {}, minted.ticket.wire())
    gone = Evaluation(("user", "x"), "can_read", {}, minted.ticket.wire().replace(minted.sid, "a"))
    items = [ANA, theirs, InputError("unreadable"), ANA, gone, theirs]
    found = asyncio.run(decide_all(hosted, watch, items))
    assert [each["decision"] for each in found] == [True, True, False, True, False, True]
    hosted.seal()
    assert (minted.allowed, hosted.own.session.allowed) == (2, 2)


def test_one_is_the_same_as_one_of_several(bench: Bench) -> None:
    """A single question is decided by the same way, and counted."""
    hosted = inside(bench).hosted
    watch = Watch(io.StringIO(), bench.clock)
    assert asyncio.run(decide_one(hosted, watch, ANA)).allowed
    assert b'decision="allow"} 1.0' in watch.metrics(1)
    hosted.seal()
