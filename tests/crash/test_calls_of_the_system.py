"""
Every single system call of a begin, an append, a seal and a resume as the last one, or failing.

Real calls of a real process: `strace` kills it instead of the N-th one, or lets that one fail. The
law is the same in each case. No receipt, no action: what was acknowledged is on disk. Nothing of
that is lost. An error is one of the broker's, and says what it is. The next start mends what was
left, or says why not, and the receipt then verifies.
"""

from __future__ import annotations

import errno
import itertools
import os
import resource
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from broker.receipt.writer import Receipt
from tests.crash.test_receipt_crash import (
    acknowledged_in,
    check_law,
    check_ledger,
    sealed_kind,
)
from tests.faultkit import (
    REFUSED,
    Act,
    calls_of,
    failing_at,
    killed_at,
    trace,
    tracing,
)
from tests.forwardkit import fill_forward
from tests.receiptkit import AT, Scene, decision, fill, new_receipts, outcome

NEVER_BEGAN = {"store.never_began", "unverifiable.missing", "unverifiable.nothing"}
NEVER_INTERRUPTED = {"rename", "unlink", "mkdir"}  # unless a file system breaks its word
BROKEN_DISK = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT, errno.EACCES)


def log_of(place: Path) -> Path:
    """Return where a child notes what was acknowledged."""
    return place.parent / f"{place.name}.log"


def before_nothing(place: Path) -> None:
    """An installation that was never used."""


def before_another(place: Path) -> None:
    """One that has a session already, and so a ledger."""
    fill(new_receipts(place), "s0", 1).close()


def before_three(place: Path, begin: Callable[..., Receipt] = fill) -> None:
    """A session of three lines."""
    begin(new_receipts(place), "s1", 2).close()


def before_torn(place: Path) -> None:
    """A session that was cut off within a line, with lines beyond its head and no row for them."""
    before_three(place)
    scene = Scene(new_receipts(place))
    head = scene.head("s1").read_bytes()
    ledger = scene.receipts.ledger
    rows = {path: path.read_bytes() for path in (ledger.path, ledger.head_path)}
    scene.receipts.resume("s1", at=AT).append("note", {}, at=AT)
    for path, content in ({scene.head("s1"): head} | rows).items():
        path.write_bytes(content)
    with scene.path("s1").open("ab") as file:
        file.write(b'{"at":"2026')


def note(log: int, n: int, digest: str) -> None:
    """Note what was acknowledged, by a call that no test counts."""
    os.writev(log, [f"\n{n} {digest}\n".encode()])


def at_rest(place: Path) -> tuple[int, None]:
    """Open the log alone."""
    return os.open(log_of(place), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), None


def at_work(place: Path) -> tuple[int, Receipt]:
    """Resume the session too, as a running one has it open."""
    return at_rest(place)[0], new_receipts(place).resume("s1", at=AT)


def begin(place: Path, log: int, _: Receipt | None) -> None:
    """Begin a session, and say that line 0 is there."""
    receipt = new_receipts(place).create("s1", opening={"agent": "x"}, at=AT)
    note(log, 0, receipt.last[1])


def append(place: Path, log: int, receipt: Receipt | None) -> None:
    """Append a line that waits, and a decision that does not."""
    receipt = receipt or new_receipts(place).resume("s1", at=AT)
    receipt.append("note", {}, at=AT, durable=False)
    entry = receipt.append("decision", decision(7), at=AT)
    note(log, entry.n, entry.hash)


def seal(place: Path, log: int, receipt: Receipt | None) -> None:
    """Seal."""
    receipt = receipt or new_receipts(place).resume("s1", at=AT)
    entry = receipt.seal("complete", at=AT)
    note(log, entry.n, entry.hash)


ACTS = {
    "the first begin": (before_nothing, Act("begin", at_rest, begin)),
    "a begin": (before_another, Act("begin", at_rest, begin)),
    "an append": (before_three, Act("append", at_work, append)),
    "a seal": (before_three, Act("seal", at_work, seal)),
    "a resume": (before_torn, Act("resume", at_rest, append)),
    "an append, forward-secure": (
        partial(before_three, begin=fill_forward),
        Act("append", at_work, append),
    ),
    "a seal, forward-secure": (
        partial(before_three, begin=fill_forward),
        Act("seal", at_work, seal),
    ),
}
# The first begin makes every call of a later one, and some more.
MOST = [pytest.param(n, marks=pytest.mark.deep) if n == "a begin" else n for n in ACTS]


class Stage:
    """Copies of one prepared place, so that each call is met in the same state."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.before, self.act = ACTS[name]
        self._numbers = itertools.count()
        self.before(root / "model")
        warm = self.place("warm")
        self.act.act(warm, *self.act.prepare(warm))  # what is imported late is imported here

    def place(self, name: str = "") -> Path:
        """Return a fresh copy."""
        place = self.root / (name or str(next(self._numbers)))
        if (self.root / "model").exists():
            shutil.copytree(self.root / "model", place)
        return place

    def calls(self) -> list[tuple[str, int]]:
        """Return every call that the act makes."""
        return calls_of(self.act, self.place())


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Stage:
    """The act that the test names."""
    tracing()
    return Stage(tmp_path, request.param)


def check_next_start(place: Path, *, finished: bool) -> None:
    """See that the law holds for what is left, and that the next start makes it whole."""
    scene = Scene(new_receipts(place))
    log = log_of(place)
    acknowledged = acknowledged_in(log) if log.exists() else {}
    assert bool(acknowledged) >= finished
    check_law(scene, "s1", acknowledged)
    check_ledger(scene, acknowledged)
    answer = outcome(partial(sealed_kind, scene))
    if answer in NEVER_BEGAN:
        assert not acknowledged
        fill(scene.receipts, "s2", 1).seal("complete", at=AT)
    else:
        assert answer in {"seal", "store.sealed"}
        check_law(scene, "s1", acknowledged)
        assert scene.outcome("s1") in {"SEALED", "INTERRUPTED"}
        assert scene.receipts.ledger.read().sessions["s1"].end is not None
    check_ledger(scene, acknowledged)


@pytest.mark.parametrize("stage", MOST, indirect=True)
def test_killed_instead_of_any_call(stage: Stage) -> None:
    """With `kill -9` at each call, nothing acknowledged is lost, and the next start mends."""
    calls = stage.calls()
    assert {"write", "pwrite64", "fdatasync", "flock"} <= {name for name, _ in calls}
    for name, n in calls:
        place = stage.place()
        assert trace(stage.act, place, *killed_at(name, n)) == -signal.SIGKILL, (name, n)
        check_next_start(place, finished=False)


# What a kind of call is most likely to meet; the long run tries everything everywhere.
MEETS = {
    "openat": errno.EROFS,
    "write": errno.ENOSPC,
    "pwrite64": errno.EIO,
    "fdatasync": errno.EIO,
    "ftruncate": errno.EIO,
    "flock": errno.ENOLCK,
    "rename": errno.EROFS,
    "unlink": errno.EROFS,
    "mkdir": errno.ENOSPC,
}


def fail_each(stage: Stage, meets: Callable[[str], tuple[int, ...]]) -> None:
    """Let each call fail in each way; the law holds."""
    for name, n in stage.calls():
        for number in meets(name):
            place = stage.place()
            ended = trace(stage.act, place, *failing_at(name, n, number))
            assert ended in {0, REFUSED}, (name, n, errno.errorcode[number], ended)
            check_next_start(place, finished=ended == 0)


@pytest.mark.parametrize("stage", MOST, indirect=True)
def test_any_call_fails(stage: Stage) -> None:
    """A call that fails is told as an error of the broker's, releases nothing, and is mended."""
    fail_each(stage, lambda name: (MEETS[name],))


@pytest.mark.parametrize("stage", ["an append", "a seal", "a resume"], indirect=True)
def test_any_call_is_interrupted(stage: Stage) -> None:
    """A call that a signal interrupts is made again: everything goes on as if nothing was."""
    for name, n in stage.calls():
        place = stage.place()
        ended = trace(stage.act, place, *failing_at(name, n, errno.EINTR))
        assert ended == 0 or (ended == REFUSED and name in NEVER_INTERRUPTED), (name, n, ended)
        check_next_start(place, finished=ended == 0)


@pytest.mark.deep
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("stage", ACTS, indirect=True)
def test_any_call_fails_in_any_way(stage: Stage) -> None:
    """The same for every call with every error of a disk."""
    fail_each(stage, lambda name: BROKEN_DISK)


# Files end within a head slot, a line, a row, or the space that is held back.
LIMITS = (0, 1, 100, 511, 512, 600, 1_023, 1_024, 1_100, 1_500, 2_000, 3_000, 5_000, 60_000)


@pytest.mark.parametrize("name", ACTS)
def test_files_cannot_grow(name: str, tmp_path: Path) -> None:
    """Writes that are cut short by a limit are told, release nothing, and are mended."""
    stage = Stage(tmp_path, name)
    ends = set()
    for limit in LIMITS:

        def act(place: Path, *prepared: object, limit: int = limit) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            stage.act.act(place, *prepared)

        place = stage.place()
        ended = trace(Act(name, stage.act.prepare, act), place)
        assert ended in {0, REFUSED}, limit
        check_next_start(place, finished=ended == 0)
        ends.add(ended)
    assert REFUSED in ends
