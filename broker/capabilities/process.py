"""
Processes: a command that is run to its end, and what this process itself was started with.

Decided here: that a command has a time limit, that its output is bounded, and that nothing in its
process group outlives it. Not decided here: which command may run, and in which environment; what
it starts in a session of its own (``setsid``) is out of reach here, and held by a sandbox alone.

Rules a maintainer keeps: no shell is put in between; the environment is exactly what is given;
the command leads a process group of its own, which is killed whatever happened.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, ClassVar, Final, Protocol

_CHUNK_BYTES: Final = 65_536
_LAST_WORDS_S: Final = 1.0  # for what is left in the pipes of a command that has ended
_LOOK_S: Final = 0.05  # how often an end is looked for while a pipe is held open


@dataclass(frozen=True, slots=True)
class Command:
    """
    A command to run.

    ``merged`` sends its errors where its output goes. Of the output, and of the errors where
    they are apart, the first ``output_bytes`` are kept.
    """

    argv: tuple[str, ...]
    cwd: str
    environ: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    timeout_s: float = 60.0
    output_bytes: int = 2**20
    merged: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """
    What a command came to.

    ``code`` is its exit code, negative for the signal that ended it, and None when it was stopped
    at the time limit. ``cut`` says that there was more output than was kept.
    """

    code: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    cut: bool = False


class Processes(Protocol):
    """What runs commands."""

    @property
    def kind(self) -> str:
        """Which processes these are: ``real`` or ``fake``."""

    @property
    def argv(self) -> tuple[str, ...]:
        """The words that this process was started with, without its own name."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment that this process was started with."""

    @property
    def cwd(self) -> str:
        """The folder that this process works in."""

    @property
    def platform(self) -> str:
        """The system, as ``sys.platform`` names it."""

    def run(self, command: Command) -> Finished:
        """Run a command to its end; ``OSError`` when it cannot be started."""


class SystemProcesses:
    """
    The machine's own processes.

    >>> SystemProcesses().run(Command(("/bin/sh", "-c", "cat; exit 3"), "/", stdin=b"hello"))
    Finished(code=3, stdout=b'hello', stderr=b'', cut=False)
    """

    __slots__ = ()
    kind: ClassVar = "real"

    @property
    def argv(self) -> tuple[str, ...]:
        """The words that this process was started with, without its own name."""
        return tuple(sys.argv[1:])

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment that this process was started with."""
        return dict(os.environ)

    @property
    def cwd(self) -> str:
        """The folder that this process works in."""
        return os.getcwd()

    @property
    def platform(self) -> str:
        """The system, as ``sys.platform`` names it."""
        return sys.platform

    def run(self, command: Command) -> Finished:
        """Run a command to its end; ``OSError`` when it cannot be started."""
        try:
            process = subprocess.Popen(
                command.argv,
                cwd=command.cwd,
                env=dict(command.environ),
                stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if command.merged else subprocess.PIPE,
                start_new_session=True,
            )
        except ValueError as error:  # a NUL in a word
            raise OSError(str(error)) from error
        talk = _Talk(process, command)
        try:
            in_time = talk.listen(time.monotonic() + command.timeout_s)
        finally:
            _end(process)
        code = process.returncode if in_time else None
        out, err = talk.kept
        return Finished(code, bytes(out), bytes(err), talk.cut)


class _Talk:
    """The pipes of one command: what goes in, and what is kept of what comes out."""

    def __init__(self, process: subprocess.Popen[bytes], command: Command) -> None:
        self.kept = (bytearray(), bytearray())
        self.cut = False
        self._process = process
        self._limit = command.output_bytes
        self._left = memoryview(command.stdin)

    def listen(self, deadline: float) -> bool:
        """Talk until the command ends; return False when the deadline came first."""
        process = self._process
        with selectors.DefaultSelector() as waiting:
            for number, pipe in enumerate((process.stdout, process.stderr)):
                if pipe is not None:
                    waiting.register(pipe, selectors.EVENT_READ, number)
            if process.stdin is not None:
                os.set_blocking(process.stdin.fileno(), False)
                waiting.register(process.stdin, selectors.EVENT_WRITE)
            ended = False
            while waiting.get_map() and any(k.data is not None for k in waiting.get_map().values()):
                left = deadline - time.monotonic()
                if left <= 0:
                    return ended
                for key, _ in waiting.select(min(left, _LOOK_S)):
                    self._serve(waiting, key)
                if not ended and _has_ended(process):
                    # What it left running holds the pipes open: that is over now as well.
                    ended = True
                    _kill_group(process)
                    deadline = min(deadline, time.monotonic() + _LAST_WORDS_S)
        pause_s = 0.000_5
        while not _has_ended(process):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, pause_s))
            pause_s = min(2 * pause_s, _LOOK_S)
        return True

    def _serve(self, waiting: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        if key.data is None:
            if not self._tell(key.fd):
                waiting.unregister(key.fileobj)
                if self._process.stdin is not None:
                    self._process.stdin.close()
            return
        chunk = os.read(key.fd, _CHUNK_BYTES)
        if not chunk:
            waiting.unregister(key.fileobj)
            return
        kept = self.kept[key.data]
        room = self._limit - len(kept)
        kept += chunk[: max(0, room)]
        self.cut = self.cut or len(chunk) > room

    def _tell(self, handle: int) -> bool:
        """Write a piece of the input; return whether there is more to write."""
        try:
            self._left = self._left[os.write(handle, self._left[:_CHUNK_BYTES]) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:  # it does not want to hear the rest
            return False
        return bool(self._left)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """
    Whether a process has ended. It is not collected, so that its number stays its own.

    A number that is free again may be another's, and its group would be killed in place of this.
    """
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    look = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, look) is not None


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it left nothing behind
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command's whole process group and collect it."""
    _kill_group(process)
    process.wait()
    pipes: tuple[IO[bytes] | None, ...] = (process.stdin, process.stdout, process.stderr)
    for pipe in pipes:
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


Answer = Finished | OSError | Callable[[Command], Finished]


class ScriptedProcesses:
    """
    Processes that end as a script says, in the order in which they are run.

    Args:
        answers: what each command comes to; an ``OSError`` is raised, a function is asked.

    ``ran`` holds the commands. One that the script has no answer for cannot be started.

    >>> processes = ScriptedProcesses([Finished(0, b"done")])
    >>> processes.run(Command(("make",), "/ws")).stdout, len(processes.ran)
    (b'done', 1)
    """

    kind: ClassVar = "fake"

    def __init__(
        self,
        answers: Iterable[Answer] = (),
        *,
        argv: tuple[str, ...] = (),
        environ: Mapping[str, str] | None = None,
        cwd: str = "/ws",
        platform: str = "linux",
    ) -> None:
        self.argv = argv
        self.environ: Mapping[str, str] = dict(environ or {})
        self.cwd = cwd
        self.platform = platform
        self.ran: list[Command] = []
        self._answers = deque(answers)
        self._lock = threading.Lock()

    def run(self, command: Command) -> Finished:
        """Return what the script says of the next command."""
        with self._lock:
            self.ran.append(command)
            if not self._answers:
                raise FileNotFoundError(2, "the script of processes is over", command.argv[0])
            answer = self._answers.popleft()
        if isinstance(answer, OSError):
            raise answer
        if not isinstance(answer, Finished):
            return answer(command)
        room = command.output_bytes
        said, errors = answer.stdout, answer.stderr
        if command.merged:
            said, errors = said + errors, b""
        out, err = said[:room], errors[:room]
        cut = answer.cut or (out, err) != (said, errors)
        return Finished(answer.code, out, err, cut)
