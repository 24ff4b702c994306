"""
Snapshots of the workspace: when they are taken, and what the trace says of them.

Decided here: a tree belongs to the **start of its turn**: it is what the model's answer of that
turn will change, and what a fork from that turn begins with. The last one, told by ``at: end``, is
what the run left behind. Not decided here: how they are taken (``broker.capture.snapper``, a
process of its own), and how one is laid out again (``broker.capture.restoring``).

A turn waits for its snapshot no longer than HOLD_S, and only who writes the trace waits, not the
agent. A turn that begins while the one before is still being looked at takes its place; the next
snapshot then says how many it stands for.

Rules a maintainer keeps: what fails here ends the snapshots, with one event that says so, and
nothing else; the process that takes them is gone when ``end`` returns.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from broker.capabilities.clock import NS_PER_S, Clock
from broker.capture.treestore import git_program
from broker.errors import TraceError
from broker.trace.hiding import ABSENT
from broker.trace.writer import RunWriter

STORE: Final = "fs"
HOLD_S: Final = 0.25  # how long whoever writes the trace waits for a turn's snapshot
END_S: Final = 20.0  # for the last one
CLOSE_S: Final = 5.0  # for the process to go
_DIFF_KIND: Final = "text/x-diff"


class Snapshots:
    """
    The snapshots of one run. ``begin``, then ``start``, ``turned`` for each turn, and ``end``.

    Args:
        run: the run, which the store lies in.
        workspace: the folder that is looked at.
        closed: folders within it that are not looked into: the broker's own.
        clock: what tells the time.
    """

    def __init__(
        self, run: RunWriter, workspace: Path, closed: Iterable[str], clock: Clock
    ) -> None:
        self.off = ""  # why there are none
        self.taken = 0
        self._run = run
        self._workspace = os.path.realpath(workspace)
        self._closed = [os.path.realpath(place) for place in closed]
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._wanted: _Wish | None = None
        self._asked: _Wish | None = None
        self._over = False

    def begin(self) -> None:
        """Start the process, and have it look at once. No thread is started."""
        git = git_program()
        if git is None:
            self.off = "there is no `git` to keep them with"
            return
        order = {
            "root": self._workspace,
            "store": os.fspath(self._run.folder / STORE),
            "closed": self._closed,
            "git": git,
            "salt": self._run.hiding.salt.hex(),
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "broker.capture.snapper"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self._run.folder,
                start_new_session=True,  # a signal from the terminal is not for it
            )
            self._send(order)
            self._ask(_Wish(0, "start"))
        except OSError as error:
            self.off = f"the process that takes them cannot be started: {error.strerror or error}"

    def looked(self) -> None:
        """Wait until the first look is over, so that the agent changes nothing before; a moment."""
        if self._process is not None:
            select.select([self._pipes()[1]], [], [], HOLD_S)

    def start(self) -> None:
        """Begin to write what it answers, in a thread of its own."""
        if self._process is not None:
            self._thread = threading.Thread(target=self._serve, name="snapshots", daemon=True)
            self._thread.start()

    def turned(self, turn: int) -> None:
        """Have a snapshot taken for a turn that begins, and wait for it a little."""
        wish = _Wish(turn, "start")
        if self._want(wish):
            wish.done.wait(HOLD_S)

    def end(self) -> None:
        """Take the last one, and let the process go."""
        wish = _Wish(self._run.turn, "end")
        if self._want(wish):
            wish.done.wait(END_S)
        with self._changed:
            self._over = True
            self._changed.notify_all()
        if self._process is not None:
            self._let_go(self._process)
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _want(self, wish: _Wish) -> bool:
        with self._changed:
            if self._over or self._thread is None:
                return False
            if self._wanted is not None:
                wish.skipped = self._wanted.skipped + 1
                self._wanted.done.set()
            self._wanted = wish
            self._changed.notify_all()
        return True

    def _let_go(self, process: subprocess.Popen[bytes]) -> None:
        # Its input ends, and so does it; what it is about is not worth more than a moment.
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    # ── in the thread ──

    def _serve(self) -> None:
        try:
            while self._asked is not None:
                found = self._answer()
                self._write(self._asked, found)
                self._asked.done.set()
                self._next()
        except (OSError, ValueError) as error:
            self._fail(str(error))
        except TraceError:
            pass  # the trace itself takes no more, and says so
        finally:
            with self._changed:
                self._over = True
                for wish in (self._asked, self._wanted):
                    if wish is not None:
                        wish.done.set()

    def _next(self) -> None:
        """Wait for a wish, and ask for it."""
        with self._changed:
            while self._wanted is None and not self._over:
                self._changed.wait()
            wish, self._wanted = self._wanted, None
        self._asked = None
        if wish is not None:
            self._ask(wish)

    def _ask(self, wish: _Wish) -> None:
        when = (
            "before the first turn" if wish.turn == 0 else f"at the {wish.at} of turn {wish.turn}"
        )
        self._send({"message": when, "at_s": self._clock.now_ns() // NS_PER_S})
        self._asked = wish

    def _send(self, said: Mapping[str, object]) -> None:
        stream = self._pipes()[0]
        stream.write(json.dumps(said).encode() + b"\n")
        stream.flush()

    def _answer(self) -> Mapping[str, object]:
        line = self._pipes()[1].readline()
        found = json.loads(line) if line else {"error": "the process that takes them ended"}
        if "error" in found:
            raise ValueError(found["error"])
        assert isinstance(found, dict)  # noqa: S101 - our own process wrote it
        return found

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        process = self._process
        assert process is not None  # noqa: S101 - begin comes first
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        return process.stdin, process.stdout

    def _fail(self, why: str) -> None:
        if self._over:
            return  # it was let go
        self.off = why
        with suppress(TraceError):
            self._run.event("error", "orca", attrs={"kind": "snapshots", "message": why})

    def _write(self, wish: _Wish, found: Mapping[str, object]) -> None:
        attrs: dict[str, object] = {
            "tree": found["tree"],
            "files": found["files"],
            "at": wish.at,
            "duration_ms": found["took_ms"],
            "left_out": found["left_out"],
        }
        more = ("hidden", "torn", "empty_folders")
        attrs |= {key: found[key] for key in more if found[key]}
        if wish.skipped:
            attrs["turns_before_without_one"] = wish.skipped
        if found["ignores"] is not True:
            attrs["ignores"] = "git could not be asked what is ignored"
        seq = self._run.event("fs.snapshot", "orca", turn=wish.turn, attrs=attrs)
        self.taken += 1
        changes = found["changes"]
        assert isinstance(changes, list)  # noqa: S101 - our own process wrote it
        if not changes and found["changed"]:
            many = {"kind": "many changes", "files": found["changed"]}
            self._run.event("note", "orca", turn=wish.turn, causes=[seq], attrs=many)
        for change in changes:
            diff = change.pop("diff")
            attrs = {key: value for key, value in change.items() if value is not None}
            if change["insertions"] is None:
                attrs["binary"] = True
            elif not diff:
                attrs["left_out"] = "the difference is too long"
            self._run.event(
                "fs.change",
                "orca",
                turn=wish.turn,
                causes=[seq],
                attrs=attrs,
                payload=diff or ABSENT,
                media_type=_DIFF_KIND,
            )


class _Wish:
    """A snapshot that is asked for; ``skipped`` earlier ones have given way to it."""

    def __init__(self, turn: int, at: str) -> None:
        self.turn = turn
        self.at = at
        self.skipped = 0
        self.done = threading.Event()
