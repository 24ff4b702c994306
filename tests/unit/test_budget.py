"""Counting calls: in one process, and in many that share a file."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.budget import Budget, Counts, FileBudget, Judge, MemoryBudget, rebuilt
from broker.calls import ALLOW, Decision, Refusal
from broker.errors import StoreError

A, B, C = "a" * 16, "b" * 16, "c" * 16


def up_to(*limits: int) -> Judge:
    """Judge as a ticket does whose links have these limits."""

    def judge(counts: Counts) -> Decision:
        if counts is None:
            return Decision(Refusal("calls", "?", "could not be decided"))
        over = any(n >= limit for n, limit in zip(counts, limits, strict=True))
        return Decision(Refusal("calls", "", "used up")) if over else ALLOW

    return judge


def careless(_: Counts) -> Decision:
    """Allow whatever the counts are, even unknown."""
    return ALLOW


@pytest.fixture(params=["memory", "file"])
def budget(request: pytest.FixtureRequest, tmp_path: Path) -> Budget:
    """Each kind of budget."""
    return MemoryBudget() if request.param == "memory" else FileBudget.create(tmp_path / "b")


def test_a_call_debits_its_whole_line(budget: Budget) -> None:
    """A child's call counts for the child and for every ancestor, and a sibling sees only those."""
    assert budget.settle((A, B), 1, up_to(9, 9)).allowed
    assert budget.settle((A, C), 2, up_to(9, 9)).allowed
    assert budget.spent((A, B, C)) == (3, 1, 2)


def test_a_refused_call_costs_nothing(budget: Budget) -> None:
    """What was refused is not counted, at any link."""
    assert budget.settle((A,), 1, up_to(1)).allowed
    assert not budget.settle((A, B), 1, up_to(1, 5)).allowed
    assert budget.spent((A, B)) == (1, 0)


def test_threads_share_one_count(budget: Budget) -> None:
    """Eight threads on a budget of 100 make exactly 100 calls."""
    allowed: list[bool] = []

    def work() -> None:
        for _ in range(40):
            allowed.append(budget.settle((A,), 1, up_to(100)).allowed)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert allowed.count(True) == 100
    assert budget.spent((A,)) == (100,)


def forked(work: Callable[[], int]) -> int:
    """Return what ``work`` returns in a forked process."""
    child = os.fork()
    if child == 0:
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_gets_no_copy_of_counts_in_memory() -> None:
    """A forked process cannot spend the budget a second time, even under a careless judge."""
    budget = MemoryBudget()
    assert forked(lambda: int(budget.settle((A,), 1, careless).allowed)) == 0
    assert forked(lambda: int(budget.spent((A,)) is not None)) == 0


def test_a_fork_shares_counts_in_a_file(tmp_path: Path) -> None:
    """A forked process goes on counting where its parent was, and the parent sees it."""
    budget = FileBudget.create(tmp_path / "b")
    assert budget.settle((A,), 1, up_to(2)).allowed
    assert forked(lambda: int(budget.settle((A,), 1, up_to(2)).allowed)) == 1
    assert not budget.settle((A,), 1, up_to(2)).allowed


def test_a_fork_amid_a_settlement_does_not_hang(tmp_path: Path) -> None:
    """A lock that another thread holds while this process is forked does not lock the child out."""
    budget = FileBudget.create(tmp_path / "b")
    inside, go = threading.Event(), threading.Event()

    def slow(_: Counts) -> Decision:
        inside.set()
        go.wait(10)
        return ALLOW

    thread = threading.Thread(target=lambda: budget.settle((A,), 1, slow))
    thread.start()
    inside.wait(10)
    child = os.fork()
    if child == 0:
        # The file's lock is the parent's until it settles; only the mutex must not be inherited.
        os._exit(int(budget.settle((B,), 1, up_to(1)).allowed))
    go.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_counts_survive_their_process(tmp_path: Path) -> None:
    """A later process that opens the file finds what was spent."""
    FileBudget.create(tmp_path / "b").settle((A,), 3, careless)
    assert FileBudget(tmp_path / "b").spent((A, B)) == (3, 0)


def _spend(path: Path, tries: int, limit: int, counted: multiprocessing.Queue[int]) -> None:
    budget = FileBudget(path)
    counted.put(sum(budget.settle((A,), 1, up_to(limit)).allowed for _ in range(tries)))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_share_one_count(tmp_path: Path, start: str) -> None:
    """Eight processes of 200 calls each on a budget of 500 make exactly 500."""
    FileBudget.create(tmp_path / "b")
    context = multiprocessing.get_context(start)
    counted = context.Queue()
    workers = [
        context.Process(target=_spend, args=(tmp_path / "b", 200, 500, counted)) for _ in range(8)
    ]
    for worker in workers:
        worker.start()
    total = sum(counted.get(timeout=60) for _ in workers)
    for worker in workers:
        worker.join()
    assert total == 500


BROKEN: list[tuple[str, Callable[[Path], object]]] = [
    ("gone", lambda p: p.unlink()),
    ("empty", lambda p: p.write_bytes(b"")),
    ("another header", lambda p: p.write_bytes(b"budget/2\n")),
    ("a torn line", lambda p: p.write_bytes(b"budget/1\n1 " + b"a" * 15)),
    ("no newline", lambda p: p.write_bytes(b"budget/1\n1 " + b"a" * 16)),
    ("a negative cost", lambda p: p.write_bytes(b"budget/1\n-1 " + b"a" * 16 + b"\n")),
    ("a cost of nothing", lambda p: p.write_bytes(b"budget/1\n0 " + b"a" * 16 + b"\n")),
    ("junk in between", lambda p: p.write_bytes(b"budget/1\nx\n1 " + b"a" * 16 + b"\n")),
    ("no ids", lambda p: p.write_bytes(b"budget/1\n1\n")),
    ("open to others", lambda p: p.chmod(0o644)),
    ("two names", lambda p: os.link(p, p.with_name("other"))),
    ("a folder", lambda p: (p.unlink(), p.mkdir())),
    ("a link", lambda p: (p.rename(p.with_name("real")), p.symlink_to(p.with_name("real")))),
    ("a pipe", lambda p: (p.unlink(), os.mkfifo(p, 0o600))),
]


@pytest.mark.parametrize("breaks", [b for _, b in BROKEN], ids=[n for n, _ in BROKEN])
def test_a_file_that_cannot_be_read_refuses(
    tmp_path: Path, breaks: Callable[[Path], object]
) -> None:
    """Counts that cannot be told refuse by `calls`, also for a judge that would allow."""
    FileBudget.create(tmp_path / "b")
    breaks(tmp_path / "b")
    fresh = FileBudget(tmp_path / "b")
    decision = fresh.settle((A,), 1, careless)
    assert decision.refusal is not None
    assert decision.refusal.caveat == "calls"
    assert "could not be decided" in decision.refusal.reason
    assert fresh.spent((A,)) is None


def test_a_file_that_got_shorter_or_was_replaced_refuses(tmp_path: Path) -> None:
    """Calls cannot be won back by cutting the file or by putting another in its place."""
    path = tmp_path / "b"
    budget = FileBudget.create(path)
    budget.settle((A,), 1, careless)
    os.truncate(path, len(b"budget/1\n"))
    assert budget.spent((A,)) is None
    path.unlink()
    FileBudget.create(path)
    assert not budget.settle((A,), 1, careless).allowed


def test_a_debit_that_cannot_be_written_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk nothing is allowed, and the file stays whole."""
    budget = FileBudget.create(tmp_path / "b")
    real = os.write
    monkeypatch.setattr("broker.budget.os.write", lambda fd, text: real(fd, text[:5]))
    assert not budget.settle((A,), 1, careless).allowed
    monkeypatch.undo()
    assert budget.settle((A,), 1, careless).allowed
    assert budget.spent((A,)) == (1,)


def test_a_budget_is_made_once(tmp_path: Path) -> None:
    """Making a budget over an old one would give its calls back, so it is an error."""
    FileBudget.create(tmp_path / "b")
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600
    with pytest.raises(StoreError):
        FileBudget.create(tmp_path / "b")


def test_counts_are_rebuilt_from_debits() -> None:
    """Rebuilding adds up what settling would have counted."""
    budget = MemoryBudget()
    debits = [((A,), 1), ((A, B), 2), ((A, C), 1)]
    for line, cost in debits:
        budget.settle(line, cost, careless)
    counts = rebuilt(debits)
    assert MemoryBudget(counts).spent((A, B, C)) == budget.spent((A, B, C)) == (4, 2, 1)
