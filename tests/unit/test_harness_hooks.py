"""Hooks: in order, within their time, and any of them can stop a call."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from broker.capabilities.clock import FakeClock, SystemClock
from broker.capabilities.process import Finished, ScriptedProcesses, SystemProcesses
from broker.harness.hooks import HookStop, command_hook, run_hooks
from broker.harness.items import CallHook, HookedCall, Veto
from broker.harness.workers import Workers


def hooked() -> HookedCall:
    """A call."""
    return HookedCall("read", "c1", "main", {"path": "a"})


def test_each_hook_sees_what_the_one_before_left() -> None:
    """Hooks run in their order on one copy."""

    def add(name: str) -> CallHook:
        return CallHook(
            name,
            "arguments",
            lambda call: call.arguments.update(path=call.arguments["path"] + name),  # type: ignore[func-returns-value,operator]  # a text
        )

    call = hooked()
    assert run_hooks([add("b"), add("c")], call, SystemClock(), Workers()) is None
    assert call.arguments == {"path": "abc"}
    assert run_hooks([], call, SystemClock(), Workers()) is None


@pytest.mark.parametrize(
    ("run", "stop"),
    [
        (lambda call: Veto("no"), HookStop("blocked", "h", "no")),
        (lambda call: 1 // 0, HookStop("hook_failed", "h", "ZeroDivisionError: integer division")),
        (lambda call: "no", HookStop("hook_failed", "h", "it answered with `str`")),
        (lambda call: False, HookStop("hook_failed", "h", "it answered with `bool`")),
        (lambda call: sys.exit(), HookStop("hook_failed", "h", "it wanted to end the process")),
    ],
)
def test_no_hook_runs_after_one_that_stopped(run: object, stop: HookStop) -> None:
    """The first stop is the answer, with the hook's name."""
    later: list[HookedCall] = []
    hooks = [CallHook("h", "arguments", run), CallHook("later", "arguments", later.append)]  # type: ignore[arg-type]  # what a test makes up
    found = run_hooks(hooks, hooked(), SystemClock(), Workers())
    assert found is not None
    assert (found.how, found.hook) == (stop.how, stop.hook)
    assert found.reason.startswith(stop.reason)
    assert later == []


def test_each_hook_has_its_own_time() -> None:
    """A slow hook uses up its own time and not that of the next one."""
    clock, go = FakeClock(), threading.Event()
    begun = [threading.Event(), threading.Event()]

    def first(call: HookedCall) -> None:
        begun[0].set()
        clock.sleep(4)

    def second(call: HookedCall) -> None:
        begun[1].set()
        go.wait(10)

    hooks = [
        CallHook("first", "arguments", first, timeout_s=5),
        CallHook("second", "arguments", second, timeout_s=3),
    ]
    found: list[HookStop | None] = []
    runner = threading.Thread(
        target=lambda: found.append(run_hooks(hooks, hooked(), clock, Workers())), daemon=True
    )
    runner.start()
    assert begun[0].wait(10)
    assert clock.wait_for_sleepers(2)  # the hook, and whoever waits for it
    clock.advance(4)
    assert begun[1].wait(10)
    clock.advance(1.5)  # more than the first one had left, less than the second one has
    assert found == []
    clock.advance(2)
    runner.join(10)
    go.set()
    assert found == [HookStop("hook_timeout", "second", "it took longer than 3 s")]


def test_a_real_clock_gives_up_too() -> None:
    """With the machine's own time a hanging hook stops the call."""
    hang = CallHook("hang", "arguments", lambda call: threading.Event().wait(60), timeout_s=0.1)  # type: ignore[arg-type,return-value]  # never comes back
    found = run_hooks([hang], hooked(), SystemClock(), Workers())
    assert found is not None
    assert found.how == "hook_timeout"


# ── hooks that are commands ──


def command(text: str, timeout_s: float = 5.0) -> CallHook:
    """A hook that is a shell's text."""
    return command_hook(
        "cmd", "permission", ["/bin/sh", "-c", text], processes=SystemProcesses(), cwd="/",
        timeout_s=timeout_s,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ("true", None),
        ('grep -q \'"path": "a"\'', None),
        ("echo not today; exit 3", HookStop("blocked", "cmd", "not today")),
        ("exit 3", HookStop("blocked", "cmd", "it ended with 3")),
        ("kill -9 $$", HookStop("blocked", "cmd", "it ended with -9")),
    ],
)
def test_a_command_vetoes_by_its_exit_code(text: str, stop: HookStop | None) -> None:
    """It reads the call as JSON, and anything but success is a no."""
    assert run_hooks([command(text)], hooked(), SystemClock(), Workers()) == stop


def test_a_command_that_sleeps_past_its_limit_is_a_no() -> None:
    """A slow command is killed, and the call is stopped."""
    found = run_hooks([command("sleep 30", 0.2)], hooked(), SystemClock(), Workers())
    assert found is not None
    assert found.how == "hook_failed"
    assert "longer than 0.2 s" in found.reason


@pytest.mark.parametrize("answer", [FileNotFoundError(2, "none"), Finished(None)])
def test_a_command_that_cannot_be_asked_is_a_no(answer: Finished | OSError, tmp_path: Path) -> None:
    """One that is not there, or does not come back, stops the call."""
    processes = ScriptedProcesses([answer])
    hook = command_hook("cmd", "permission", ["x"], processes=processes, cwd=str(tmp_path))
    found = run_hooks([hook], hooked(), SystemClock(), Workers())
    assert found is not None
    assert found.how == "hook_failed"


def test_a_command_gets_the_call_and_no_environment() -> None:
    """What it is given is the call as it will run, and only what was passed on."""
    processes = ScriptedProcesses([Finished(0)], environ={"API_KEY": "k"})
    hook = command_hook("cmd", "arguments", ["x"], processes=processes, cwd="/")
    assert run_hooks([hook], hooked(), SystemClock(), Workers()) is None
    (ran,) = processes.ran
    assert ran.environ == {}
    assert b'"arguments": {"path": "a"}' in ran.stdin
