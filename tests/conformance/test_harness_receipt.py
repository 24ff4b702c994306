"""What the receipt says of a call is what ran: the pipeline under a real session, end to end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.capabilities.bundle import FakeWorld
from broker.capabilities.fs import SystemFiles
from broker.catalogs import load_catalogs
from broker.harness.approval import Approver
from broker.harness.files import Files
from broker.harness.held import OwnSession
from broker.harness.items import CallHook, HookedCall, Veto
from broker.harness.outcome import Caller, CallReport, Result
from broker.harness.pipeline import Pipeline
from broker.harness.registry import Registry
from broker.harness.script import ToolCall
from broker.harness.spill import Spill
from broker.harness.tools import TOOLS
from broker.resolve import Resolver, canonical_digest
from broker.session import Session
from tests.sessionkit import Bench

SCOPE = ["tools=read,write,grep,shell", "paths=src/**", "calls=4"]
CALLER = Caller("main", "", lambda prompt, narrow, mode: "", "auto")
Turn = list[tuple[str, dict[str, object]]]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A home and a workspace of this test's own."""
    return Bench(tmp_path)


def play(
    bench: Bench, turn: Turn, *hooks: CallHook
) -> tuple[Session, list[Result], list[CallReport]]:
    """Handle one turn under a real session in a real workspace, and seal it."""
    session = bench.open(SCOPE)
    root = os.path.realpath(bench.workspace)
    registry, reports = Registry(), []
    with registry.batch() as batch:
        batch.add(*TOOLS, *hooks)
    world = FakeWorld.of()
    pipeline = Pipeline(
        OwnSession(session),
        Approver(Resolver(root, load_catalogs(), own=bench.home.own())),
        world.capabilities(),
        Files(SystemFiles(), root),
        lambda: registry.current,
        Spill(world.fs.below("/results")),
        reports.append,
    )
    calls = [(ToolCall(tool, arguments), f"c{n}") for n, (tool, arguments) in enumerate(turn)]
    results = pipeline.calls(calls, CALLER)
    session.seal()
    return session, results, reports


def entries(bench: Bench, session: Session, kind: str) -> list[dict[str, object]]:
    """Return the data of every verified entry of a kind."""
    assert bench.verdict(session.sid).state == "SEALED"
    return [data for found, data in bench.entries(session.sid) if found == kind]


def test_the_hash_in_the_receipt_is_the_hash_of_what_ran(bench: Bench) -> None:
    """Decision, report and file agree, though a hook changed the call before and after."""
    kept: list[HookedCall] = []

    def before(call: HookedCall) -> None:
        kept.append(call)
        call.arguments["path"] = "src/hooked.py"

    def after(call: HookedCall) -> None:
        kept[0].arguments["content"] = call.arguments["content"] = "evil"

    session, (result,), (report,) = play(
        bench,
        [("write", {"path": "src/asked.py", "content": "good"})],
        CallHook("before", "arguments", before),
        CallHook("after", "permission", after),
    )
    assert result.outcome == "done"
    ran = {"path": "src/hooked.py", "content": "good"}
    (decision,) = entries(bench, session, "decision")
    assert decision["args"] == report.digest == canonical_digest(ran)
    assert (bench.workspace / "src/hooked.py").read_text() == "good"
    assert not (bench.workspace / "src/asked.py").exists()
    assert any("to no effect" in str(note["text"]) for note in entries(bench, session, "note"))
    assert [data["answer"] for data in entries(bench, session, "permission")] == ["allow"]
    assert [data["ok"] for data in entries(bench, session, "result")] == [True]


@pytest.mark.parametrize("spoil", [lambda call: Veto("no"), lambda call: call.arguments.clear()])
def test_a_stopped_call_stands_in_the_receipt_and_costs_nothing(
    bench: Bench, spoil: Callable[[HookedCall], Veto | None]
) -> None:
    """A call that a hook stopped before the ticket has a note, no decision, and no debit."""
    session, (result,), _ = play(
        bench, [("read", {"path": "src/a.py"})], CallHook("spoil", "arguments", spoil)
    )
    assert result.outcome in ("refused", "failed")
    assert entries(bench, session, "decision") == []
    (note,) = entries(bench, session, "note")
    assert "was stopped" in str(note["text"])
    assert session.spent() == (0,)


def test_siblings_share_the_budget_in_their_order(bench: Bench) -> None:
    """Of six calls under a budget of four, the first four run and the last two are refused."""
    session, results, _ = play(bench, [("read", {"path": "src/a.py"})] * 6)
    assert [r.outcome for r in results] == ["done"] * 4 + ["refused"] * 2
    assert {r.caveat for r in results[4:]} == {"calls"}
    assert [d["call"] for d in entries(bench, session, "decision")] == [f"c{n}" for n in range(6)]
    assert [d["call"] for d in entries(bench, session, "result")] == [f"c{n}" for n in range(4)]


def test_the_hard_layer_stands_behind_a_ticket_that_allows(bench: Bench) -> None:
    """The receipt shows that the ticket allowed and that the rules did not."""
    session, (result,), _ = play(bench, [("write", {"path": "src/.envrc", "content": "x"})])
    assert (result.outcome, result.caveat) == ("refused", "permission")
    assert not (bench.workspace / "src/.envrc").exists()
    assert [d["decision"] for d in entries(bench, session, "decision")] == ["allow"]
    assert [p["answer"] for p in entries(bench, session, "permission")] == ["refuse"]
