"""A run in a few figures."""

from __future__ import annotations

from pathlib import Path

from broker.trace.reader import RunReader
from broker.trace.summary import summary
from tests.unit.tracekit import event, whole


def test_the_figures_of_a_run(tmp_path: Path) -> None:
    """Requests, calls, tokens, decisions and commands are counted, each where it stands."""
    found = summary(RunReader.open(whole(tmp_path).folder).stream())
    assert (found.events, found.turns, found.requests, found.calls) == (9, 2, 2, 1)
    assert (found.models, found.tools, found.ended) == ({"m": 2}, {"read_file": 1}, True)
    found = summary(
        [
            event(0, "model.response", attrs={"status": 529, "input_tokens": 3}),
            event(1, "model.response", attrs={"status": 200, "output_tokens": 4}),
            event(2, "model.response", attrs={"error": "network"}),
            event(3, "note", attrs={"kind": "authority.decision", "allowed": True}),
            event(4, "note", attrs={"kind": "authority.decision", "allowed": False}),
            event(5, "shell.result", attrs={"exit_code": 0}),
            event(6, "shell.result", attrs={"exit_code": 3}),
            event(7, "shell.result", attrs={"signal": "SIGKILL"}),
        ]
    )
    assert (found.failed_requests, found.input_tokens, found.output_tokens) == (2, 3, 4)
    assert (found.allowed, found.refused) == (1, 1)
    assert (found.shell, found.failed_shell) == (3, 2)
    assert not found.ended


def test_what_a_run_says_fills_no_memory(tmp_path: Path) -> None:
    """A run of a million names keeps a few, and values of odd types count nothing."""
    found = summary(
        [event(n, "tool.call", attrs={"name": f"t{n}"}) for n in range(1_000)]
        + [event(0, "model.response", attrs={"status": "x", "input_tokens": True})]
    )
    assert found.calls == 1_000
    assert len(found.tools) < 100
    assert (found.failed_requests, found.input_tokens) == (0, 0)
