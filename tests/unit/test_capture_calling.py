"""A shell is caused by the call that it carries out."""

from __future__ import annotations

from pathlib import Path

from broker.capture.calling import MAX_OPEN, OpenCalls
from broker.capture.intake import Allowance, Intake
from tests.worldkit import recorded


def test_the_latest_open_call_counts() -> None:
    """Of two calls of one command the latest is meant, until its result is known."""
    calls = OpenCalls()
    calls.begun(3, {"command": "make test"})
    calls.begun(5, {"cmd": "make test"})
    words = ["bash", "-c", "make test"]
    assert calls.cause(words) == 5
    calls.ended(5)
    assert calls.cause(words) == 3
    assert calls.cause(["bash", "-c", "make"]) == -1


def test_what_is_kept_has_a_limit() -> None:
    """The oldest call is forgotten."""
    calls = OpenCalls()
    for seq in range(MAX_OPEN + 1):
        calls.begun(seq, {"command": f"run {seq}x"})
    assert calls.cause(["sh", "-c", "run 0x"]) == -1
    assert calls.cause(["sh", "-c", "run 1x"]) == 1


def test_a_call_that_is_written_late_is_named_by_the_result(tmp_path: Path) -> None:
    """An agent may run a shell before its answer was read: the end of the shell says the cause."""
    run = recorded(tmp_path)
    calls = OpenCalls()
    intake = Intake(run.writer, Allowance(), open_calls=calls)
    intake.take({"kind": "shell.exec", "pid": 1, "bytes": 9}, [b"sh\0-c\0pwd", b"/"])
    seq = run.writer.event("tool.call", "model", payload={"command": "pwd"})
    calls.begun(seq, {"command": "pwd"})
    intake.take({"kind": "shell.result", "exit_code": 0, "duration_ms": 1}, [])
    begun, ended = run.lines("shell.exec", "shell.result")
    assert "causes" not in begun
    assert ended["causes"] == [begun["seq"], seq]
