"""
`broker run` and `broker check` on a system that fails: no receipt, no action.

An agent acts whenever it is allowed to, and notes that it did. Whatever befalls its broker then,
each act has its line in a receipt that verifies; the next start mends what was left; and a person
who asks is told.
"""

from __future__ import annotations

import errno
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from broker.cli.door import run as command
from broker.errors import BrokerError
from broker.home import Home
from broker.receipt.verify import read_entries
from broker.session import Session
from tests.console import COMMAND, Said, process
from tests.crash.test_receipt_crash import tiny
from tests.faultkit import attached, failing_at, killed_at, tracing
from tests.sessionkit import Bench

__all__ = ["tiny"]

# Asks three times by the command, and acts whenever that answers 0.
ASKS = """
echo $BROKER_SESSION > ready.new
mv ready.new ready
read go < go
for i in 1 2 3; do
  "$@" check Read file_path=src/a.py >> said 2>&1
  code=$?
  echo $code >> codes
  [ $code = 0 ] && echo $i >> acted
done
true
"""

# Acts as fast as it is allowed to, and ends when it was refused three times.
ACTS = """
import os, sys
from broker.service.client import SessionClient
client = SessionClient.find(os.environ)
acted = os.open("acted", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
with open("ready.new", "w") as file:
    file.write(os.environ["BROKER_SESSION"])
os.rename("ready.new", "ready")
open("go").read()
refused = 0
for n in range(int(sys.argv[1])):
    if client.decide("Read", {"file_path": "src/a.py"}, call_id=f"c{n}", cwd=os.getcwd()).allowed:
        os.write(acted, f"c{n}\\n".encode())
    elif (refused := refused + 1) == 3:
        break
"""


@dataclass
class Run:
    """A `broker run` whose agent waits for a word, and what came of it."""

    home: Home
    place: Path
    broker: subprocess.Popen[str]
    sid: str
    env: dict[str, str]
    code: int = 0
    err: str = ""

    def lines(self, name: str) -> list[str]:
        """Return what the agent noted."""
        path = self.place / name
        return path.read_text().splitlines() if path.exists() else []

    def go(self) -> None:
        """Let the agent ask, and wait until the run has ended."""
        (self.place / "go").write_text("go\n")
        _, self.err = self.broker.communicate(timeout=60)
        self.code = self.broker.returncode

    def asked(self, *words: str) -> Said:
        """Run a command in the same home; what only reads, in this process."""
        if words[0] == "run":
            return process(*words, env=self.env, cwd=self.place)
        said, told = io.StringIO(), io.StringIO()
        with patch.dict(os.environ, self.env), redirect_stdout(said), redirect_stderr(told):
            code = command(words)
        return Said(code, said.getvalue(), told.getvalue())


@contextmanager
def running(place: Path, home: Path, *agent: str) -> Iterator[Run]:
    """Start a run, and wait until its agent is ready to ask."""
    (place / "src").mkdir(parents=True)
    (place / "src" / "a.py").write_text("a = 1\n")
    os.mkfifo(place / "go")
    env = {"BROKER_HOME": str(home)}
    broker = subprocess.Popen(
        [*COMMAND, "run", "--scope", "tools=Read", "--", *agent],
        env={**os.environ, **env},
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        given_up = time.monotonic() + 30
        while not (place / "ready").exists():
            assert broker.poll() is None, broker.communicate()[1]
            assert time.monotonic() < given_up
            time.sleep(0.01)
        yield Run(Home.find(env), place, broker, (place / "ready").read_text().strip(), env)
    finally:
        if broker.poll() is None:
            broker.kill()
        broker.communicate()


def asking(tmp_path: Path, home: Path | None = None) -> Any:
    """Start the agent that asks by the command."""
    return running(tmp_path / "ws", home or tmp_path / "home", "sh", "-c", ASKS, "sh", *COMMAND)


def acting(tmp_path: Path, home: Path | None = None, times: int = 20_000) -> Any:
    """Start the agent that acts fast."""
    words = (sys.executable, "-c", ACTS, str(times))
    return running(tmp_path / "ws", home or tmp_path / "home", *words)


def recorded(run: Run) -> int:
    """Return how many allowed calls the receipt holds; it must verify, or say why it cannot."""
    said = run.asked("receipt", run.sid, "--json")
    document: Any = said.json()
    entries = document["entries"]
    if said.code == 1:  # a full disk took the seal, and not the checkpoint of it any more
        assert document["break"]["reason"] == "checkpoint_old"
        assert entries[-1]["data"]["reason"] == "disk-full"
    else:
        assert (said.code, document["error"]) == (0, None)
    return sum(
        entry["kind"] == "decision" and entry["data"]["decision"] == "allow" for entry in entries
    )


def check_law(run: Run) -> None:
    """See that each act is on record, before and after the next start, which mends all."""
    acted = len(run.lines("acted"))
    assert acted <= recorded(run)
    sid = run.sid
    again = run.asked("run", "--scope", "tools=Read", "--", "true")
    assert (again.code, "warning" in again.err) == (0, False), again.err
    said = run.asked("receipt", sid, "--verify", "--require-seal")
    assert said.code == 0, said.out
    assert run.asked("receipt", "--verify", "--all").code == 0


# ── single calls of the running broker ──

WHERE = [("write", 1), ("pwrite64", 1), ("fdatasync", 1), ("fdatasync", 2), ("sendto", 1)]


@pytest.mark.parametrize(("name", "n"), WHERE, ids=str)
def test_the_broker_is_killed(name: str, n: int, tmp_path: Path) -> None:
    """Killed at a call of the first decision: the agent never acts without a line."""
    tracing()
    with asking(tmp_path) as run:
        with attached(run.broker.pid, *killed_at(name, n)):
            run.go()
        assert run.code == -signal.SIGKILL
        assert run.lines("acted") == []
        check_law(run)


FAILS = [
    ("write", 1, errno.ENOSPC, "the disk is full"),
    ("write", 1, errno.EROFS, "cannot be written"),
    ("pwrite64", 1, errno.ENOSPC, "could not be made durable"),
    ("fdatasync", 1, errno.EIO, "could not be made durable"),
    ("fdatasync", 2, errno.EIO, "could not be made durable"),
]


@pytest.mark.parametrize(("name", "n", "number", "told"), FAILS, ids=str)
def test_a_call_of_the_broker_fails(
    name: str, n: int, number: int, told: str, tmp_path: Path
) -> None:
    """A call that fails while a decision is recorded: all is refused from then on, with why."""
    tracing()
    with asking(tmp_path) as run:
        with attached(run.broker.pid, *failing_at(name, n, number)):
            run.go()
        assert run.code == 0
        assert (run.lines("acted"), run.lines("codes")) == ([], ["1"] * 3)
        assert told in "".join(run.lines("said"))
        # Where every first write fails, the broker's own line to the person is one of them.
        assert told in run.err or name == "write"
        check_law(run)


def test_calls_of_the_broker_are_interrupted(tmp_path: Path) -> None:
    """Calls that a signal interrupts are made again: every act happens, and has its line."""
    tracing()
    with asking(tmp_path) as run:
        names = ("write", "pwrite64", "fdatasync", "flock")
        each = [f"inject={name}:error=EINTR:when=1" for name in names]
        with attached(run.broker.pid, f"trace={','.join(names)}", *each):
            run.go()
        assert (run.code, run.lines("codes")) == (0, ["0"] * 3)
        assert recorded(run) == len(run.lines("acted")) == 3
        check_law(run)


# ── a disk, a file system, a file that gives out ──


def test_a_file_that_cannot_grow(tmp_path: Path) -> None:
    """A line that is written in part releases nothing, and the next start mends it."""
    with asking(tmp_path) as run:
        size = (run.home.sessions / run.sid / "receipt.jsonl").stat().st_size
        resource.prlimit(run.broker.pid, resource.RLIMIT_FSIZE, (size + 50, size + 50))
        run.go()
        assert (run.code, run.lines("codes")) == (0, ["1"] * 3)
        assert "a line was written in part" in run.err
        assert "state TORN" in run.err or recorded(run) == 0
        check_law(run)


def test_a_disk_that_fills_up(tiny: Path, tmp_path: Path) -> None:
    """On a small file system an agent acts until it is full, and never without a line."""
    with acting(tmp_path, tiny / "home") as run:
        run.go()
        assert run.code == 0
        assert "the disk is full" in run.err
        acted = len(run.lines("acted"))
        assert acted > 50
        assert acted == recorded(run)
        said = run.asked("receipt", run.sid, "--verify", "--require-seal")
        assert "verified: INTERRUPTED" in said.out
        assert run.asked("run", "--", "true").code == 2  # no receipt, no run
        subprocess.run(["mount", "-o", "remount,size=2m", str(tiny)], check=True)
        check_law(run)


def test_a_read_only_file_system(tiny: Path, tmp_path: Path) -> None:
    """Where nothing can be written no run begins; what was recorded there verifies."""
    mount = shutil.which("mount")
    assert mount is not None
    with acting(tmp_path, tiny / "home", times=5) as run:
        run.go()
        subprocess.run([mount, "-o", "remount,ro", str(tiny)], check=True)
        assert recorded(run) == len(run.lines("acted")) == 5
        again = run.asked("run", "--", "touch", "acted-again")
        assert (again.code, "read-only" in again.err) == (2, True), again.err
        assert not (run.place / "acted-again").exists()
        subprocess.run([mount, "-o", "remount,rw", str(tiny)], check=True)
        check_law(run)


# ── files taken away ──


def without_head(run: Run) -> None:
    """Remove the head, which is the lock."""
    (run.home.heads / run.sid).unlink()


def without_receipt(run: Run) -> None:
    """Remove the receipt."""
    (run.home.sessions / run.sid / "receipt.jsonl").unlink()


def with_another_head(run: Run) -> None:
    """Put a copy in the head's place."""
    head = run.home.heads / run.sid
    content = head.read_bytes()
    head.rename(run.place / "aside")
    head.write_bytes(content)


TAKEN = [
    (without_head, "no_head"),
    (without_receipt, "missing"),
    (with_another_head, ""),
]


@pytest.mark.parametrize(("take", "reason"), TAKEN, ids=lambda each: getattr(each, "__name__", ""))
def test_a_file_is_taken_away(take: Callable[[Run], None], reason: str, tmp_path: Path) -> None:
    """With its lock or receipt gone a run refuses everything; the next start names what is gone."""
    with asking(tmp_path) as run:
        sid = run.sid
        take(run)
        run.go()
        assert (run.code, run.lines("codes")) == (0, ["1"] * 3)
        assert run.lines("acted") == []
        assert "not in its place" in run.err or "took the place" in run.err
        again = run.asked("run", "--", "true")
        assert again.code == 0
        said = run.asked("receipt", sid, "--verify")
        if reason:
            assert sid in again.err
            assert said.code == 1
            assert f"not verified ({reason})" in said.out
        else:
            assert said.code == 0


# ── two brokers, and a clock ──


def test_two_runs_in_one_home(tmp_path: Path) -> None:
    """Two runs at once keep apart, and tell one ledger of both."""
    home = tmp_path / "home"
    with (
        acting(tmp_path / "one", home, times=40) as one,
        acting(tmp_path / "two", home, times=40) as two,
    ):
        for run in (one, two):
            (run.place / "go").write_text("go\n")
        for run in (one, two):
            run.broker.communicate(timeout=60)
            assert run.broker.returncode == 0
            assert len(run.lines("acted")) == 40
        assert one.asked("receipt", "--verify", "--all").code == 0
        assert len(list(one.home.sessions.iterdir())) == 2


def test_a_second_broker_for_one_session(tmp_path: Path) -> None:
    """While a broker runs a session, no other one takes it up, and no start seals it."""
    with asking(tmp_path) as run:
        with pytest.raises(BrokerError):
            Session.resume(run.sid, home=run.home)
        assert run.asked("run", "--", "true").code == 0
        assert "OPEN" in run.asked("receipt", run.sid, "--verify").out
        run.go()
        assert run.lines("codes") == ["0"] * 3
        check_law(run)


def test_a_clock_that_is_set_back(tmp_path: Path) -> None:
    """A clock set back by a day between two decisions changes neither order nor instants."""
    bench = Bench(tmp_path)
    session = bench.open()
    session.decide("Read", {"file_path": "src/a.py"})
    before = bench.clock.at
    bench.clock.at -= 86_400 * 1_000_000_000
    assert session.decide("Read", {"file_path": "src/a.py"}).allowed
    session.seal()
    receipts = bench.receipts()
    path, head = receipts.path(session.sid), receipts.head_path(session.sid)
    times = [entry.at for entry in read_entries(path, bench.key(), head)]
    assert times == sorted(times)
    assert times[-1] >= before // 1_000_000 * 1_000_000
    env = {"BROKER_HOME": str(bench.home.state.parent)}
    for words in ((session.sid, "--verify", "--require-seal"), ("--verify", "--all")):
        assert process("receipt", *words, env=env).code == 0
