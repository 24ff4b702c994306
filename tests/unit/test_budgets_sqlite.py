"""Shared counts in a file."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from broker.budgets.shared import SharedBudget
from broker.budgets.sqlite import SqliteStore
from broker.budgets.store import UNREACHABLE, Revoked
from broker.errors import StoreError, UnverifiableError
from tests.budgetkit import up_to

SPEND = """
import sys
from pathlib import Path
from broker.budgets.shared import SharedBudget
from broker.budgets.sqlite import SqliteStore
from tests.budgetkit import up_to
budget = SharedBudget(SqliteStore(Path(sys.argv[1]), 5.0), sys.argv[2], trees=("r",), deadline_s=30)
print(sum(budget.settle(("r",), 1, up_to(60), limits=(60,)).allowed for _ in range(40)))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is to be."""
    return tmp_path / "counts" / "file"


def test_processes_share_one_budget(path: Path) -> None:
    """Two processes of 40 calls each on a budget of 60 make exactly 60."""
    store = SqliteStore(path, 5.0)
    store.begin("r", "test")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SPEND, path, f"h{n}"],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        for n in range(2)
    ]
    assert sum(int(process.communicate(timeout=90)[0]) for process in started) == 60
    assert store.counts(("r",)) == (60,)


def test_counts_and_revocations_outlive_the_process(path: Path) -> None:
    """Opened anew, the file has what was counted and revoked, and the holder goes on."""
    store = SqliteStore(path, 1.0)
    budget = SharedBudget(store, "h")
    budget.begin("r")
    assert budget.settle(("r", "a"), 2, up_to(5, 5), limits=(5, 5)).allowed
    assert store.revoke(Revoked("a", "enough", 7))
    budget.close()
    again = SqliteStore(path, 1.0)
    assert again.counts(("r", "a", "b")) == (2, 2, 0)
    assert not again.revoke(Revoked("a", "again", 8))
    assert again.revoked(("r", "a")) == Revoked("a", "enough", 7)
    assert again.begin("r", "h")
    assert not again.begin("r", "other")


def test_a_file_that_is_locked_for_too_long_refuses(path: Path) -> None:
    """Where another process holds the file, the call is refused within the deadline."""
    store = SqliteStore(path, 0.05)
    budget = SharedBudget(store, "h", deadline_s=0.1)
    budget.begin("r")
    holding, done = threading.Event(), threading.Event()

    def hold() -> None:
        other = SqliteStore(path, 1.0)
        with other._step():
            holding.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(20)
    refusal = budget.settle(("r",), 1, up_to(5), limits=(5,)).refusal
    done.set()
    thread.join()
    assert refusal is not None
    assert (refusal.caveat, "cannot be asked" in refusal.reason) == ("session", True)
    assert budget.settle(("r",), 1, up_to(5), limits=(5,)).allowed


def test_a_file_that_others_could_change_is_refused(path: Path) -> None:
    """A file or folder that others can write, and a link, are not believed."""
    SqliteStore(path, 1.0).close()
    path.chmod(0o644)
    with pytest.raises(UnverifiableError):
        SqliteStore(path, 1.0)
    path.chmod(0o600)
    path.rename(path.with_name("real"))
    path.symlink_to(path.with_name("real"))
    with pytest.raises(UnverifiableError):
        SqliteStore(path, 1.0)
    path.unlink()
    path.parent.chmod(0o777)
    with pytest.raises(UnverifiableError):
        SqliteStore(path, 1.0)


def test_a_file_of_something_else_is_refused(path: Path) -> None:
    """A file that is no database is an error and not a fresh set of counts."""
    path.parent.mkdir(mode=0o700)
    path.write_text("something else altogether\n" * 99, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(UnverifiableError, match="no file of shared counts"):
        SqliteStore(path, 1.0)


def test_a_file_that_was_closed_cannot_be_asked(path: Path) -> None:
    """After `close` every request is one that another try might mend, and none is an allowance."""
    store = SqliteStore(path, 1.0)
    store.close()
    with pytest.raises(StoreError) as raised:
        store.counts(("r",))
    assert raised.value.code == UNREACHABLE
