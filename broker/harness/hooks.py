"""
Hooks: asked in their order, each within its time, and any of them can stop a call.

Decided here: that a hook which raises, answers nonsense or takes too long stops the call, and that
no hook runs after one that stopped it. Not decided here: what a stop means at each stage.

Rules a maintainer keeps: hooks run on another thread, so that one which hangs is given up; what a
hook that was given up does later reaches nothing that is still used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from json import dumps
from typing import Final, Literal

from broker.boundary import contained
from broker.capabilities.clock import NS_PER_S, Clock
from broker.capabilities.process import Command, Processes
from broker.harness.items import CallHook, HookedCall, Veto, When
from broker.harness.workers import Workers

How = Literal["blocked", "hook_failed", "hook_timeout"]
_MAX_REASON_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class HookStop:
    """A hook stopped a call: how, which one, and why."""

    how: How
    hook: str
    reason: str


@dataclass(slots=True)
class _Progress:
    """How far the hooks of one stage are; written by the thread that runs them."""

    at: int = 0
    since_ns: int = 0
    given_up: bool = False
    stop: HookStop | None = field(default=None)


def run_hooks(
    hooks: Sequence[CallHook], hooked: HookedCall, clock: Clock, workers: Workers
) -> HookStop | None:
    """
    Ask hooks about a call, in their order; return what stopped it, or None.

    Args:
        hooks: of one stage.
        hooked: the call; each hook sees what the ones before it made of it.
        clock: tells when a hook's time is over.
        workers: where they run.
    """
    if not hooks:
        return None
    progress = _Progress(since_ns=clock.monotonic_ns())
    future = workers.submit(partial(_ask_all, hooks, hooked, clock, progress))
    try:
        while True:
            at = progress.at
            hook = hooks[min(at, len(hooks) - 1)]
            spent_s = (clock.monotonic_ns() - progress.since_ns) / NS_PER_S
            if clock.wait(future, max(0.0, hook.timeout_s - spent_s)):
                break
            if progress.at == at:
                why = f"it took longer than {hook.timeout_s:g} s"
                return HookStop("hook_timeout", hook.name, why)
    finally:
        progress.given_up = True
    if (error := future.exception()) is not None:
        return HookStop("hook_failed", hooks[progress.at].name, _said(error))
    return progress.stop


def _ask_all(
    hooks: Sequence[CallHook], hooked: HookedCall, clock: Clock, progress: _Progress
) -> None:
    for n, hook in enumerate(hooks):
        progress.since_ns = clock.monotonic_ns()
        progress.at = n
        if progress.given_up:
            return
        progress.stop = contained(partial(_ask, hook, hooked), partial(_broken, hook.name))
        if progress.stop is not None:
            return


def _ask(hook: CallHook, hooked: HookedCall) -> HookStop | None:
    try:
        said = hook.run(hooked)
    except SystemExit:
        return HookStop("hook_failed", hook.name, "it wanted to end the process")
    if said is None:
        return None
    if isinstance(said, Veto):
        return HookStop("blocked", hook.name, str(said.reason)[:_MAX_REASON_CHARS])
    kind = type(said).__name__
    return HookStop("hook_failed", hook.name, f"it answered with `{kind}`, not with a veto")


def _broken(name: str, error: Exception) -> HookStop:
    return HookStop("hook_failed", name, _said(error))


def _said(error: BaseException) -> str:
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return said[:_MAX_REASON_CHARS]


def command_hook(
    name: str,
    when: When,
    argv: Sequence[str],
    *,
    processes: Processes,
    cwd: str,
    environ: Mapping[str, str] | None = None,
    timeout_s: float = 5.0,
) -> CallHook:
    """
    Return a hook that is a command: it reads the call as JSON, and vetoes by its exit code.

    It changes nothing: the call is its input, and any exit code but 0 stops the call with what it
    wrote as the reason. It is killed when its time is over.

    Args:
        argv: the command's words.
        processes: what runs it.
        cwd: where it runs.
        environ: what is passed on; nothing by default.
    """

    def run(hooked: HookedCall) -> Veto | None:
        shown = {"tool": hooked.tool, "call": hooked.call, "actor": hooked.actor}
        text = dumps({**shown, "when": when, "arguments": hooked.arguments, "ok": hooked.ok})
        ended = processes.run(
            Command(
                tuple(argv),
                cwd,
                dict(environ or {}),
                stdin=text.encode(),
                timeout_s=timeout_s,
                output_bytes=_MAX_REASON_CHARS,
                merged=True,
            )
        )
        if ended.code is None:
            raise TimeoutError(f"it took longer than {timeout_s:g} s")
        said = ended.stdout.decode("utf-8", "replace").strip()
        return Veto(said or f"it ended with {ended.code}") if ended.code else None

    # The command is killed at its limit; the hook itself gets a moment more to say so.
    return CallHook(name, when, run, timeout_s + 1.0)
