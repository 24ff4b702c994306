"""
The agent's process: started in the foreground, signalled, waited for.

Decided here: what happens to signals while it runs. Not decided here: what it is started with.

- SIGINT and SIGQUIT come from the terminal to the whole group: the agent decides, we wait.
  Without a terminal they are passed on.
- SIGTERM and SIGHUP are passed on; an agent that does not end within GRACE_S is killed. What it
  has started and left behind is then ended too (Linux), where it was told to end: an agent is often
  a small process around the real one. What is left by an agent that ends by itself is let be.
- A signal that was ignored when we were started stays ignored, in the agent too.
- When this process is killed, the kernel kills the one that was started (Linux: PR_SET_PDEATHSIG).
  An agent that runs as a child of that one, and any agent elsewhere, goes on without a broker, and
  its hooks refuse.

Rules a maintainer keeps: the handlers of before are put back; the agent gets the default
handlers; an agent that must be stopped is killed if it does not go by itself.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final

from broker.descendants import Descendants
from broker.errors import LaunchError

GRACE_S: Final = 10.0  # from a signal to end until the agent is killed
LEFT_S: Final = 2.0  # for what it left behind, from being told to end until it is killed
POLL_S: Final = 0.1  # how often a run that slipped away is looked for
PR_SET_PDEATHSIG: Final = 1

_FROM_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT)
_PASSED_ON: Final = (signal.SIGTERM, signal.SIGHUP)


class Child:
    """
    The agent of one run, and the signals of the time around it.

    Use it in a ``with``: from there on no signal ends this process, so that what was begun can be
    brought to an end. ``signalled`` is the signal that asked the run to end, ``stopped`` says why
    we stopped it ourselves; both are empty when the agent ended by itself (``ended``).
    """

    def __init__(self) -> None:
        self.signalled = 0
        self.stopped = ""
        self.ended = False
        self._reach: Callable[[int], None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._others: Descendants | None = None
        self._kill_at_s = 0.0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Child:
        # Handlers, not SIG_IGN: an ignored signal would stay ignored in the agent.
        for number in (*_FROM_TERMINAL, *_PASSED_ON):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # by `nohup`, or behind a shell's `&`: it is not for us, nor the agent
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            self._look()
            process.kill()
            process.wait()
        self._end_others()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def start(
        self,
        program: str,
        command: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path,
        *,
        passed: Sequence[int] = (),
        shielded: bool = False,
    ) -> None:
        """
        Start the agent with our own streams, in the foreground. No other thread may run yet.

        Args:
            program: the file that is started.
            command: its name and arguments.
            environ: its environment.
            cwd: the folder it starts in.
            passed: descriptors that it gets beside the standard ones.
            shielded: it ignores the signals that are the agent's, until it says otherwise:
                what is started is a sandbox, and ``reach_by`` is told how to signal within.

        Raises:
            LaunchError: it cannot be started, or a signal came first.
        """
        if self.signalled:
            raise LaunchError(f"interrupted before `{command[0]}` was started")
        try:
            self._process = subprocess.Popen(
                list(command),
                executable=program,
                env=dict(environ),
                cwd=cwd,
                pass_fds=passed,
                preexec_fn=_before(os.getpid(), shielded),  # noqa: PLW1509 - no other thread runs
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise LaunchError(f"`{command[0]}` cannot be started: {_why(error)}") from error
        if self.signalled:
            self._end(self.signalled)  # it came while the process was being made

    @property
    def pid(self) -> int:
        """The process that was started; 0 before."""
        return 0 if self._process is None else self._process.pid

    def abandon(self) -> None:
        """Kill what was started, so that something else can be started in its place."""
        process, self._process = self._process, None
        self._reach = None
        if process is not None:
            process.kill()
            process.wait()

    def reach_by(self, reach: Callable[[int], None]) -> None:
        """Signal in another way from here on; a signal that came before is sent again."""
        self._reach = reach
        if self.signalled:
            reach(self.signalled)

    def wait(self, escaped: Callable[[], str | None]) -> int:
        """
        Wait until the agent ends, and return its exit code, 128 + N after signal N.

        Args:
            escaped: asked all the time; a reason to stop the agent, or None.
        """
        process = self._process
        assert process is not None  # noqa: S101 - start made it
        while True:
            try:
                code = process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                if not self.stopped and (why := escaped()) is not None:
                    self.stopped = why
                    self._end(signal.SIGTERM)
                if self._others is not None:
                    self._others.look()
                if self._kill_at_s and time.monotonic() > self._kill_at_s:
                    process.kill()
                    self.stopped = self.stopped or (
                        f"it did not end within {GRACE_S:.0f} s of being told to, and was killed"
                    )
            else:
                self._end_others()
                if -code in _FROM_TERMINAL:
                    self.signalled = self.signalled or -code
                self.ended = not self.stopped
                return code if code >= 0 else 128 - code

    def _end(self, number: int) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            self._look()
            (self._reach or process.send_signal)(number)
            if not self._kill_at_s:
                self._kill_at_s = time.monotonic() + GRACE_S

    def _look(self) -> None:
        """Take in what the agent has started, before it is told to end."""
        if self._others is None:
            self._others = Descendants(self.pid)
        self._others.look()

    def _end_others(self) -> None:
        others, self._others = self._others, None
        if others is not None:
            others.end(LEFT_S)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if number in _FROM_TERMINAL and self._process is not None and has_terminal():
            return  # the terminal sent it to the agent too, which knows what it means there
        self.signalled = number
        self._end(number)


def _why(error: Exception) -> str:
    """Return why a program did not start, and what helps."""
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return "it has no `#!` line: name its interpreter, as in `-- sh ./agent`"
    if isinstance(error, OSError) and error.errno == errno.ENOENT:
        return "what its `#!` line names, or the folder to start in, is missing"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(error)


def has_terminal() -> bool:
    """Whether we are in the foreground of a terminal, whose keys reach the agent by themselves."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _before(parent: int, shielded: bool) -> Callable[[], None] | None:
    """Return what a new process does before it becomes another program, if it does anything."""
    die_with_parent = dying_with(parent)
    if not shielded:
        return die_with_parent

    def ignore() -> None:
        for number in (*_FROM_TERMINAL, *_PASSED_ON):
            signal.signal(number, signal.SIG_IGN)
        if die_with_parent is not None:
            die_with_parent()

    return ignore


def dying_with(parent: int) -> Callable[[], None] | None:
    """Return what a new process does to be killed with its parent; None where it cannot."""
    if sys.platform != "linux":
        return None
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None

    def die_with_parent() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(137)  # it died before it could be asked

    return die_with_parent
