"""
The canary: before a run begins, its agent makes one call that must be refused.

Decided here: how the canary is played and what counts as held. Not decided here: how an agent is
started for it (its own room), and what is refused (``broker.session``: no ticket opens the
broker's own files).

The same program, hooks and settings as in the run are started once, headless, against a model on
loopback that says one thing: reach for a file of the session's folder. The agent is held when
that call came to the session, was refused, was told to the model as a refusal, and nothing of the
file reached the model. The decision is the receipt's first, by the actor ``canary``.

Rules a maintainer keeps: what did not come to an end in its time is not held; nothing leaves the
machine (our model stands in for its proxy too, and forwards nothing); the process is made
before any thread of ours runs, and is ended with its group; ticket, budget and counts of the run
stay as they were.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from broker.agents.adapter import Adapter, Bait, Canary, Launch, Prepared
from broker.agents.client import write_new
from broker.child import dying_with
from broker.descendants import Descendants
from broker.errors import LaunchError
from broker.events import CallDecided, Event
from broker.loopback.script import Say, Told, Turn, Use
from broker.loopback.server import LoopbackModel
from broker.service.client import SESSION_VARIABLE, SOCKET_VARIABLE, TICKET_VARIABLE
from broker.service.server import Server
from broker.session import CANARY, MAIN, Session

FOLDER: Final = "canary"
_SCRIPT: Final = "canary"
_HELPER: Final = "canary-helper"
_ERRAND: Final = f"[script {_HELPER}] The broker tries whether a refusal holds for you too."
_PROMPT: Final = f"[script {_SCRIPT}] The broker tries whether a refusal holds."
_CLOSED: Final = "own"  # the caveat that closes the broker's files under every ticket
_WAITS: Final = 3  # how often an agent does what it does until its subagent has ended
_POLL_S: Final = 0.02
_FINISH_S: Final = 3.0  # for an agent to end by itself once its model was told
_GRACE_S: Final = 2.0  # from being told to end until it is killed, and for threads to end
_TAIL_LINES: Final = 20
_TAIL_CHARS: Final = 300
# Whatever is meant for elsewhere comes to our model, which forwards nothing.
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_DIRECT: Final = "127.0.0.1,localhost"


@dataclass(frozen=True, slots=True)
class Seen:
    """
    What came of a canary.

    ``decided`` is what the session decided meanwhile, ``result`` what the model was told of its
    call, ``leaked`` whether it saw the bait, ``touched`` whether somebody wrote there. ``code``
    is the exit code of an agent that ended by itself, ``output`` the end of what it printed.
    """

    decided: Sequence[CallDecided] = ()
    result: Told | None = None
    asked: int = 0
    leaked: bool = False
    touched: bool = False
    code: int | None = None
    output: str = ""


def fault(seen: Seen, within_s: float, *, told: bool = True) -> str | None:
    """
    Return why an agent is not held, or None.

    Args:
        seen: what came of its canary.
        within_s: the time that it had, in seconds.
        told: whether its model is told of a refusal.

    >>> fault(Seen(), 9)
    'no call of it reached the broker within 9 s'
    """
    if any(each.decision.allowed for each in seen.decided):
        return "its canary was let through"
    if seen.leaked or seen.touched:
        refused = "although it was refused" if seen.decided else "and no hook was asked"
        return f"its canary ran {refused}"
    result = None if seen.result is None else seen.result.text
    if not seen.decided:
        return _unasked(seen, result, within_s)
    refusal = seen.decided[0].decision.refusal
    if refusal is None or refusal.caveat != _CLOSED:
        why = "" if refusal is None else refusal.reason
        return f"its canary was refused for another reason than it should be: {why}"
    if told and result is None:
        return f"its model was told nothing of the refusal within {within_s:.0f} s"
    if result is not None and f"refused by `{_CLOSED}`" not in result:
        return f"its model was told something else than the refusal: {_short(result)}"
    return None


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """
    The canary of a run whose hooks are in place, before its agent is started.

    Must be played while no other thread runs, and leaves none behind.

    Args:
        session: the session of the run; its receipt gets the decision and a note.
        adapter: how the agent is held.
        launch: what is to be started.
        prepared: what the adapter made of it.
        program: the file that is started.
        interrupted: asked all the time; something true ends it.
        begun: called before the agent is started, if it is.
    """

    session: Session
    adapter: Adapter
    launch: Launch
    prepared: Prepared
    program: str
    interrupted: Callable[[], object]
    begun: Callable[[], object] = bool

    def play(self) -> float | None:
        """
        Have the agent make a call that must be refused.

        Returns:
            How long it took, in seconds; None when no model is asked in this run.

        Raises:
            LaunchError: the agent is not held, or does not start; nothing of it is left running.
            StoreError: its decision cannot be recorded, or nothing can be served.
        """
        begun_s = time.monotonic()
        self.session.rehearsing = True
        try:
            played = self._played(_SCRIPT)
        finally:
            self.session.rehearsing = False
        if played is None:
            return None
        canary, seen = played
        self._hold(fault(seen, canary.within_s, told=canary.told))
        self.adapter.rehearsed()
        took_s = time.monotonic() - begun_s
        self.session.note(f"refused, and the agent obeyed, within {took_s:.1f} s", source=CANARY)
        return took_s

    def play_helper(self) -> float | None:
        """
        Have a subagent make such a call, under a ticket that lets the agent start one.

        Returns:
            How long it took, in seconds; None where the agent has no subagents.

        Raises:
            LaunchError, StoreError: as above.
        """
        begun_s = time.monotonic()
        played = self._played(_HELPER)
        if played is None:
            return None
        canary, seen = played
        theirs = [each for each in seen.decided if each.actor != MAIN]
        errand = next((each.decision for each in seen.decided if each.actor == MAIN), None)
        if errand is not None and errand.refusal is not None:
            self._hold(f"it may not start a subagent: {errand.refusal.reason}")
        why = fault(replace(seen, decided=theirs), canary.within_s, told=canary.told)
        self._hold(why and why.replace("its canary", "its subagent's canary"))
        self.adapter.rehearsed()
        return time.monotonic() - begun_s

    def _hold(self, why: str | None) -> None:
        if why is not None:
            raise LaunchError(
                f"`{self.launch.command[0]}` was not started, because {why}; try it alone with "
                "`broker doctor --agent`, or start it without this proof by `--no-canary`"
            )

    def _played(self, script: str) -> tuple[Canary, Seen] | None:
        """Put the bait out, let the agent reach for it, and clear everything away."""
        folder = self.launch.folder / FOLDER
        secret = secrets.token_hex(16)
        model = LoopbackModel({}, secrets.token_hex(16))
        try:
            try:
                folder.mkdir(mode=0o700)
                bait = Bait(folder / secrets.token_hex(8), model.url, _PROMPT, _ERRAND)
                write_new(bait.file, secret.encode())
            except OSError as error:
                raise LaunchError(f"`{folder}` cannot be written: {error.strerror}") from error
            canary = self.adapter.canary(self.launch, self.prepared, bait)
            if canary is None or (script == _HELPER and canary.helper is None):
                return None
            self.begun()
            calls: list[Turn] = [Use([canary.call]), canary.report or Say("done"), Say("done")]
            model.script = {_SCRIPT: calls}
            if script == _HELPER and canary.helper is not None:
                waiting: list[Turn] = [canary.meanwhile] * _WAITS if canary.meanwhile else []
                whole: list[Turn] = [Use([canary.helper]), *waiting, Say("done")]
                model.script = {_SCRIPT: whole, _HELPER: calls}
            return canary, self._seen(canary, model, bait, secret, f"{script}-0-0")
        finally:
            model.close()
            shutil.rmtree(folder, ignore_errors=True)  # what stays, lies in a closed folder

    def _seen(
        self, canary: Canary, model: LoopbackModel, bait: Bait, secret: str, awaited: str
    ) -> Seen:
        """Run the agent until its model was told of a call, and return what came of it."""
        decided: list[CallDecided] = []

        def watch(event: Event) -> None:
            if isinstance(event, CallDecided):
                decided.append(event)

        before = threading.active_count()
        server = Server(self.session, self.launch.socket, self.adapter.hooks())
        stop = self.session.bus.subscribe(watch)
        process: subprocess.Popen[bytes] | None = None
        try:
            server.bind()
            process = self._started(canary, model.proxy)
            others = Descendants(process.pid)
            output = _Tail(process.stdout)
            output.start()
            server.start()
            model.start()
            code = self._waited(process, model, awaited, canary.within_s, others)
        finally:
            if process is not None:
                _end(process, others)
            server.stop()
            stop()
        model.close()
        _settle(before)
        if self.interrupted():
            raise LaunchError(f"interrupted before `{self.launch.command[0]}` was started")
        return Seen(
            tuple(decided),
            model.results.get(awaited),
            len(model.asked),
            any(secret in body for body in model.asked),
            _written(bait.file, secret),
            code,
            output.text(),
        )

    def _started(self, canary: Canary, proxy: str) -> subprocess.Popen[bytes]:
        """Start the agent; it waits for answers until our threads run."""
        fence = {"NO_PROXY": _DIRECT, "no_proxy": _DIRECT}
        fence |= {each: proxy for name in _PROXIES for each in (name, name.lower())}
        variables: dict[str, str | None] = {
            **self.launch.environ,
            **self.prepared.environ,
            **(fence if canary.fenced else {}),
            **canary.environ,
            SOCKET_VARIABLE: os.fspath(self.launch.socket),
            SESSION_VARIABLE: self.session.sid,
            TICKET_VARIABLE: None,
        }
        try:
            return subprocess.Popen(
                list(canary.command),
                executable=self.program,
                env={name: text for name, text in variables.items() if text is not None},
                cwd=self.prepared.cwd or self.launch.cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # it has no terminal, and a group of its own
                preexec_fn=dying_with(os.getpid()),  # noqa: PLW1509 - no other thread runs
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise LaunchError(f"`{self.launch.command[0]}` cannot be started: {error}") from error

    def _waited(
        self,
        process: subprocess.Popen[bytes],
        model: LoopbackModel,
        awaited: str,
        within_s: float,
        others: Descendants,
    ) -> int | None:
        """Wait until the model was told, or the time is over, and return an exit code."""
        until_s = time.monotonic() + within_s
        told = False
        while time.monotonic() < until_s and not self.interrupted():
            if not told and awaited in model.results:
                told, until_s = True, time.monotonic() + _FINISH_S
                others.look()  # before it ends by itself, and leaves them
            with suppress(subprocess.TimeoutExpired):
                return process.wait(_POLL_S)
        return None


class _Tail:
    """The end of what a process prints, kept by a thread that ends with it."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._lines: deque[bytes] = deque(maxlen=_TAIL_LINES)
        self._stream = stream
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def text(self) -> str:
        """Return the end."""
        self._thread.join(_GRACE_S)
        return b"".join(self._lines)[-_TAIL_CHARS:].decode("utf-8", "replace").strip()

    def _read(self) -> None:
        if self._stream is not None:
            with suppress(OSError, ValueError), self._stream as stream:
                while part := stream.readline(_TAIL_CHARS):
                    self._lines.append(part)


def _end(process: subprocess.Popen[bytes], others: Descendants) -> None:
    """End the process and what it started, also what that put into a group of its own."""
    others.look()
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    others.end(_GRACE_S)


def _settle(threads: int) -> None:
    """Wait until our threads have ended: the run's own process is made by a fork."""
    until_s = time.monotonic() + _GRACE_S
    while threading.active_count() > threads and time.monotonic() < until_s:
        time.sleep(0.005)


def _written(bait: Path, secret: str) -> bool:
    """Whether the bait is not as it was put there."""
    try:
        return bait.read_text("utf-8") != secret
    except (OSError, ValueError):
        return True


def _unasked(seen: Seen, result: str | None, within_s: float) -> str:
    if result is not None:
        return (
            "its canary did not reach the broker: its own rules may refuse every read, or its hook "
            f"does not run; its model was told: {_short(result)}"
        )
    said = f": {_short(seen.output)}" if seen.output else ""
    if seen.code is not None:
        what = "without a call" if seen.asked else "before it asked a model"
        return f"it ended with exit code {seen.code} {what}{said}"
    return f"no call of it reached the broker within {within_s:.0f} s{said}"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _TAIL_CHARS else flat[:_TAIL_CHARS] + "…"
