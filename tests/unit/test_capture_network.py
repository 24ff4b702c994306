"""Connections out of the sandbox, in the trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker.capture import network as module
from broker.capture.network import Network
from broker.sandbox.carrying import Egressed
from tests.worldkit import recorded

OPEN = Egressed(1, "example.org", 443, "CONNECT")


def test_a_connection_is_two_events(tmp_path: Path) -> None:
    """What was let through is told, and at its end with its bytes; the second names the first."""
    run = recorded(tmp_path)
    network = Network(run.writer)
    network.hear(OPEN)
    network.hear(replace(OPEN, ended=True, sent_bytes=5, received_bytes=7, duration_ms=9))
    asked, answered = run.lines()
    assert (asked["type"], asked["attrs"]) == (
        "net.request",
        {"host": "example.org", "port": 443, "method": "CONNECT", "allowed": True},
    )
    assert (answered["type"], answered["causes"]) == ("net.response", [asked["seq"]])
    assert answered["attrs"]["received_bytes"] == 7


def test_a_refused_connection_is_one(tmp_path: Path) -> None:
    """What was refused says why, and has no end; secrets in an address are hidden."""
    run = recorded(tmp_path)
    network = Network(run.writer)
    it = replace(
        OPEN, method="GET", url="http://example.org/?token=hunter2", refused="not in hosts"
    )
    network.hear(it)
    network.hear(replace(it, ended=True))
    (found,) = run.lines()
    assert (found["attrs"]["allowed"], found["attrs"]["reason"]) == (False, "not in hosts")
    assert "hunter2" not in str(found)


def test_a_run_tells_so_many_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit nothing is told; a trace that takes no more breaks nothing."""
    monkeypatch.setattr(module, "MAX_CONNECTIONS_TOLD", 2)
    run = recorded(tmp_path)
    network = Network(run.writer)
    for number in range(5):
        network.hear(replace(OPEN, number=number))
        network.hear(replace(OPEN, number=number, ended=True))
    assert len(run.lines()) == 4
    run.writer.seal(0)
    Network(run.writer).hear(OPEN)
    assert len(run.lines()) == 4
