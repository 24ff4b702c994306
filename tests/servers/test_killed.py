"""Eight processes on one tree, while the server, and they, are killed and come again."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.budgets.opening import open_store
from broker.budgets.setting import BudgetSetting
from broker.budgets.shared import SharedBudget
from broker.errors import StoreError
from tests.serverkit import Server, postgres_server, redis_server

pytestmark = pytest.mark.server
PROCESSES = 8
PATIENCE_S = 1_500.0


@pytest.fixture(params=["redis", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A running server of each kind, for one test."""
    with (redis_server if request.param == "redis" else postgres_server)() as running:
        yield running


def test_a_tree_spends_one_budget_through_kills(server: Server, tmp_path: Path) -> None:
    """Of 8 x 200 calls on a budget of 1000 exactly 1000 are made, and exactly those are counted."""
    spend(server, tmp_path, calls=200, limit=1_000, kills=3, every_s=1.0)


@pytest.mark.deep
@pytest.mark.timeout(PATIENCE_S + 60)
def test_eighty_thousand_calls_through_kills(server: Server, tmp_path: Path) -> None:
    """Of 8 x 10,000 calls on a budget of 50,000 exactly 50,000 are made and counted."""
    spend(server, tmp_path, calls=10_000, limit=50_000, kills=12, every_s=4.0)


def spend(
    server: Server, folder: Path, *, calls: int, limit: int, kills: int, every_s: float
) -> None:
    """Let the processes spend while they and the server are killed, and then count by hand."""
    store = open_store(BudgetSetting(server.url), {})
    assert store.begin("root", "test")
    own = calls * 3 // 4  # so that some processes come to the end of their own number first
    workers = [Worker(server.url, folder / f"w{n}", calls, limit, own) for n in range(PROCESSES)]
    try:
        disturb(server, workers, kills, every_s)
    finally:
        for worker in workers:
            worker.end()
    made = [len(worker.written()) for worker in workers]
    # Whoever was killed has its last word: what it reserved and did not write is taken back.
    budget = None
    for worker in workers:
        last = int(worker.written()[-1]) if worker.written() else 0
        budget = settled(server, worker.ticket, last)
    assert budget is not None
    names = ("root", *[worker.ticket for worker in workers])
    assert budget.spent(names) == (sum(made), *made)
    assert sum(made) == limit
    assert max(made) <= own
    for worker in workers:
        numbers = list(map(int, worker.written()))
        assert numbers == sorted(set(numbers))


def disturb(server: Server, workers: list[Worker], kills: int, every_s: float) -> None:
    """Start the processes, kill them and the server some times, and wait until all have ended."""
    for worker in workers:
        worker.start()
    chance = random.Random(7)
    until = time.monotonic() + PATIENCE_S
    while any(worker.running() for worker in workers):
        assert time.monotonic() < until, "it does not come to an end"
        time.sleep(every_s)
        if kills:
            kills -= 1
            server.kill()
            chance.choice(workers).kill()
            time.sleep(0.3)
            server.start()


def settled(server: Server, ticket: str, last: int) -> SharedBudget:
    """Join once more as a holder; the server may have been started just now."""
    for _ in range(100):
        try:
            store = open_store(BudgetSetting(server.url), {})
            return SharedBudget(store, ticket, trees=("root",), at_least=last)
        except StoreError:
            time.sleep(0.1)
    raise AssertionError("the server does not answer")


class Worker:
    """A process of `tests.servers.worker`, which is started again when it was killed."""

    def __init__(self, url: str, file: Path, calls: int, limit: int, own: int) -> None:
        self.ticket = file.name
        self._file = file
        self._words = [url, "root", self.ticket, str(file), *map(str, (calls, limit, own))]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process."""
        command = [sys.executable, "-m", "tests.servers.worker", *self._words]
        self._process = subprocess.Popen(command, cwd=Path(__file__).parents[2])

    def kill(self) -> None:
        """Kill it in the midst of whatever it does, and start it again."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            self.start()

    def end(self) -> None:
        """End it, where it has not ended."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def running(self) -> bool:
        """Whether it goes on; one that gave up fails the test."""
        assert self._process is not None
        code = self._process.poll()
        assert code in (None, 0), f"{self.ticket} ended with {code}"
        return code is None

    def written(self) -> list[str]:
        """Return the numbers of the calls that it wrote down."""
        return self._file.read_text(encoding="ascii").split() if self._file.exists() else []
