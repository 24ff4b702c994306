"""What `broker doctor` says of the sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.cli import walls as room
from broker.cli.walls import walls
from broker.sandbox import machine
from broker.sandbox.machine import Machine
from tests.sandbox.catalogue import BY_LANDLOCK


def said(monkeypatch: pytest.MonkeyPatch, found: Machine) -> dict[str, tuple[str, str]]:
    """Return each finding on a machine of our making."""
    monkeypatch.setattr(machine, "look", lambda: found)
    monkeypatch.setattr(room.sys, "platform", "linux")
    return {f.name: (f.state, f.text) for f in walls()}


def test_a_machine_without_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thing that is missing is told with what brings it, and none of it is bad."""
    found = said(monkeypatch, Machine("", 0, False, True))
    assert "bubblewrap`" in found["bubblewrap"][1]
    assert "lsm=landlock" in found["landlock"][1]
    assert {state for state, _ in found.values()} <= {"note", "ok"}


def test_an_old_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an older ABI does not hold is named."""
    state, text = said(monkeypatch, Machine("", 3, False, True))["landlock"]
    assert state == "ok"
    assert "abstract sockets and signals (6)" in text
    assert "emptying" not in text


@pytest.mark.parametrize("reason", sorted(set(BY_LANDLOCK.values())))
def test_what_landlock_alone_does_not_hold(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """Each gap of the catalogue of ways out is told, also where bubblewrap closes it."""
    assert reason in said(monkeypatch, Machine("/x", 7, None, True))["landlock"][1]


def test_a_broken_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program that cannot work is told, with the setting that forbids it where it is known."""
    monkeypatch.setattr(machine, "bwrap_works", lambda _: "No permissions")
    monkeypatch.setattr(machine, "why_no_spaces", lambda: "")
    assert "No permissions" in said(monkeypatch, Machine("/x", 7, None, True))["bubblewrap"][1]
    monkeypatch.setattr(machine, "why_no_spaces", lambda: "sudo sysctl a=1")
    assert "sysctl a=1" in said(monkeypatch, Machine("/x", 7, None, True))["bubblewrap"][1]


def test_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on Linux one line says so, and of a Mac that nothing was tried there."""
    for system, profiler, words in (
        ("darwin", "/usr/bin/sandbox-exec", "never tried on a Mac"),
        ("darwin", "", "has no engine"),
        ("freebsd14", "", "has no engine"),
    ):
        monkeypatch.setattr(machine, "look", lambda p=profiler: Machine("", 0, False, False, p))
        monkeypatch.setattr(room.sys, "platform", system)
        (only,) = walls()
        assert (only.name, only.state, words in only.text) == ("sandbox", "note", True)
