"""A verified receipt as the calls of a run."""

from __future__ import annotations

import pytest

from broker.errors import Break
from broker.receipt.entry import Entry
from broker.replay.seen import SeenCall, SeenRun, seen_run, with_arguments
from broker.resolution.arguments import canonical_digest

OPEN = {"workspace": "/ws", "agent": "claude"}


def _entries(*rows: tuple[str, dict[str, object]]) -> list[Entry]:
    return [Entry(n, "", kind, n * 10, data) for n, (kind, data) in enumerate(rows)]


def _decision(**more: object) -> tuple[str, dict[str, object]]:
    return "decision", {"tool": "Read", "decision": "allow", "actor": "main", **more}


def test_a_run_is_what_its_receipt_tells() -> None:
    """Workspace, line, scope and calls come from the entries, with instants and numbers."""
    run = seen_run(
        "k3v",
        _entries(
            ("open", OPEN),
            ("intent", {"line": "tidy"}),
            ("ticket", {"caveats": ["calls=3"]}),
            _decision(args="ab", subjects=[{"path": "a", "access": "read"}], server="s", cost=2),
            _decision(decision="refuse", caveat="paths", reason="no"),
            ("seal", {"reason": "complete"}),
        ),
    )
    assert (run.workspace, run.agent, run.line, run.scope) == (
        "/ws",
        "claude",
        "tidy",
        ("calls=3",),
    )
    first, second = run.calls
    assert (first.n, first.at, first.server, first.cost, first.digest) == (3, 30, "s", 2, "ab")
    assert (second.caveat, second.ran) == ("paths", False)
    assert run.ran == (first,)


def test_the_canary_is_no_call_of_the_run() -> None:
    """What the broker tried before the run is left out."""
    assert seen_run("k", _entries(("open", OPEN), _decision(actor="canary"))).calls == ()


@pytest.mark.parametrize(
    "row",
    [
        _decision(decision="maybe"),
        _decision(cost=0),
        _decision(subjects="a"),
        _decision(subjects=["a"]),
        _decision(tool=3),
    ],
)
def test_an_odd_entry_is_a_break(row: tuple[str, dict[str, object]]) -> None:
    """An entry that no session writes is not passed over."""
    with pytest.raises(Break):
        seen_run("k", _entries(("open", OPEN), row))


def test_without_an_opening_there_is_no_run() -> None:
    """A receipt that does not say where the session ran is a break."""
    with pytest.raises(Break):
        seen_run("k", [])


def test_arguments_are_those_that_were_decided() -> None:
    """Arguments go to the call of their id and digest; others of that id are not believed."""
    one, two = {"path": "a"}, {"path": "b"}
    calls = (
        SeenCall(1, 0, "Read", call_id="x", digest=canonical_digest(one)),
        SeenCall(2, 0, "Read", call_id="other", digest=canonical_digest(two)),
        SeenCall(3, 0, "Read", call_id="x3", digest="changed"),
    )
    told = [("x", one), ("y", two), ("x3", {"path": "[hidden]"}), ("z", "no object")]
    found = with_arguments(SeenRun("k", "/ws", 0, calls=calls), told)
    assert [call.arguments for call in found.calls] == [one, two, None]
