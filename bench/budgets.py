"""
Measure what a decision costs where its calls are counted with those of others.

Each figure is of whole decisions of a subagent's ticket (two links), one after another in one
process: judged, reserved in the store, answered; a receipt comes on top. The servers are real ones
on loopback, set to keep what they answer, each started here in a folder of its own; one that is not
installed is left out. What a disk takes to keep a change differs between machines by a hundred
times, so each store is measured with its files in memory, and again with them on this disk, beside
what one sync takes there. The last column is what four processes on one tree reach together.

    python bench/budgets.py             some seconds a store
    python bench/budgets.py --quick     a tenth of the calls
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from broker.budget import Budget, MemoryBudget  # noqa: E402
from broker.budgets.opening import open_store  # noqa: E402
from broker.budgets.setting import BudgetSetting  # noqa: E402
from broker.budgets.shared import SharedBudget  # noqa: E402
from broker.calls import Call  # noqa: E402
from broker.caveats import calls  # noqa: E402
from broker.guard import TicketGuard  # noqa: E402
from broker.ticket import mint  # noqa: E402
from tests.serverkit import postgres_server, redis_server  # noqa: E402

TARGET_MS = 1.0
RAM = Path("/dev/shm")
PROCESSES = 4
WARM = 50
CALL = Call("read")


def guard_on(budget: Budget, *, begin: bool) -> TicketGuard:
    """Return the guard of a ticket with two links and room for all calls."""
    root = mint([calls(10**6)], key=bytes(32), sid="bench", minted_at=0)
    if begin:
        budget.begin(root.id)
    return TicketGuard(root, budget, randomness=bytes).narrowed(calls(10**6))


def times_ms(guard: TicketGuard, count: int) -> list[float]:
    """Return how long each decision took."""
    found = []
    for _ in range(WARM + count):
        began = time.perf_counter()
        allowed = guard.check(CALL, 0).allowed
        found.append((time.perf_counter() - began) * 1e3)
        assert allowed
    return found[WARM:]


def together(url: str, count: int) -> float:
    """Return how many decisions a second several processes on one tree reach together."""
    command = [sys.executable, __file__, "--worker", url, str(count)]
    started = [
        subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE) for n in range(PROCESSES)
    ]
    spans = [json.loads(process.communicate()[0]) for process in started]
    return PROCESSES * count / (max(b for _, b in spans) - min(a for a, _ in spans))


def worker(url: str, count: int, name: str) -> None:
    """Make the calls of one of the processes, and print when it began and ended."""
    root = mint([calls(10**6)], key=bytes(32), sid="bench", minted_at=0)
    budget = SharedBudget(open_store(BudgetSetting(url), {}), f"w{name}", trees=(root.id,))
    guard = guard_on(budget, begin=False)
    began = time.time()
    times_ms(guard, count)
    print(json.dumps([began, time.time()]))


@contextmanager
def stores(within: Path | None) -> Iterator[list[tuple[str, str]]]:
    """Yield the name and the address of each store that there is, with its files in a folder."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=within))
        found = [("sqlite", f"sqlite://{folder}/counts")]
        for name, start in (("redis", redis_server), ("postgres", postgres_server)):
            try:
                found.append((name, stack.enter_context(start(within=within)).url))
            except pytest.skip.Exception as error:
                print(f"{name}: left out, {error}")
        yield found


def sync_ms(count: int) -> tuple[float, float]:
    """Return how long this disk takes to keep a few bytes: a tenth is quicker, a tenth slower."""
    took = []
    with tempfile.NamedTemporaryFile(buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(b"x" * 100)
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1e3)
    tenths = statistics.quantiles(took, n=10)
    return tenths[0], tenths[-1]


def measured(within: Path | None, count: int) -> dict[str, float]:
    """Measure every store with its files in a folder, print a line each, return the medians."""
    medians = {}
    with stores(within) as found:
        for name, url in found:
            budget = SharedBudget(open_store(BudgetSetting(url), {}), "one")
            took = times_ms(guard_on(budget, begin=True), count)
            budget.close()
            medians[name] = statistics.median(took)
            rate = together(url, count // 2)
            print(f"{name:<10} {medians[name]:>7.3f} ms {p99(took):>7.3f} ms {rate:>12,.0f} /s")
    return medians


def main() -> int:
    """Measure, print, and return 1 where a server's median is above the target."""
    parser = argparse.ArgumentParser(description="Measure shared counts.")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--worker", nargs=3, metavar=("URL", "CALLS", "NAME"))
    given = parser.parse_args()
    if given.worker:
        worker(given.worker[0], int(given.worker[1]), given.worker[2])
        return 0
    count = 200 if given.quick else 2_000
    print(f"{'counts in':<10} {'median':>10} {'p99':>10} {f'{PROCESSES} processes':>15}")
    alone = times_ms(guard_on(MemoryBudget(), begin=True), count)
    print(f"{'memory':<10} {statistics.median(alone):>7.3f} ms {p99(alone):>7.3f} ms {'-':>15}")
    late = []
    if RAM.is_dir():
        print(f"files in {RAM}, where keeping them takes no time:")
        medians = measured(RAM, count)
        late = [n for n in ("redis", "postgres") if medians.get(n, 0.0) > TARGET_MS]
    quick, slow = sync_ms(count)
    print(f"files on this disk, where one sync takes {quick:.1f} to {slow:.1f} ms:")
    measured(None, count)
    print(f"target: {TARGET_MS:.0f} ms at the median for a server on loopback, but for its disk")
    return 1 if late else 0


def p99(times: list[float]) -> float:
    """Return what one of a hundred is slower than."""
    return sorted(times)[len(times) * 99 // 100]


if __name__ == "__main__":
    raise SystemExit(main())
