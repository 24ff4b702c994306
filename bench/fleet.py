"""
How fast a fleet's receipts are verified out of a mirror: in this process, and in two.

`python bench/fleet.py` makes sessions of one machine, mirrors them into a folder, and verifies all
of them by the public key, as `broker receipt --verify --all URL` does: ledger, listings, fetching
and every line of every session. It prints receipts and lines a second, the median of a few rounds.
Two processes pay for their start, so a fleet of few sessions gains nothing by them.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from broker.fleet.mirror import Mirror
from broker.fleet.target import Target
from broker.fleet.verifying import Job, Judged, installations, jobs_of
from broker.fleet.workers import here, in_processes
from broker.home import Home
from broker.receipt.keyring import public_key
from broker.session import Session

SESSIONS = 200
LINES = 500  # of each, beside the few of its beginning and its end
ROUNDS = 3

Way = Callable[[Iterable[Job]], Iterable[Judged]]


def fill(root: Path) -> tuple[Home, str]:
    """Make the sessions, and mirror them."""
    home, workspace = Home.find({"BROKER_HOME": str(root / "home")}), root / "ws"
    (workspace / "src").mkdir(parents=True)
    for _ in range(SESSIONS):
        session = Session.open(("tools=Read",), workspace=workspace, home=home, agent="bench")
        session.decide("Read", {"file_path": "src/a.py"})
        for n in range(LINES):
            session.note(f"what somebody said of call {n}, in the usual length", source="bench")
        session.seal()
    url = f"file://{root}/mirror"
    faults = [put.fault for put in Mirror(home, Target(url)).push() if put.fault]
    assert not faults, faults
    return home, url


def measure(home: Home, url: str, way: Way) -> tuple[float, int]:
    """Return the seconds that one verification of everything takes, and the lines it read."""
    began = time.perf_counter()
    target = Target(url)
    lines = 0
    for name in installations(target):
        ledger, jobs = jobs_of(target, name, [public_key(home)])
        for found in (ledger, *way(jobs)):
            assert not found.why, found
            lines += found.lines
    return time.perf_counter() - began, lines


def main() -> None:
    """Print one row for each way."""
    print(f"{SESSIONS} receipts of {LINES} lines, mirrored in a folder; {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder:
        home, url = fill(Path(folder))
        ways: dict[str, Way] = {"1 process": here, "2 processes": partial(in_processes, 2)}
        taken: dict[str, list[float]] = {name: [] for name in ways}
        lines = 0
        for _ in range(ROUNDS):
            for name, way in ways.items():
                seconds, lines = measure(home, url, way)
                taken[name].append(seconds)
    for name, found in taken.items():
        seconds = statistics.median(found)
        print(f"{name:<12} {SESSIONS / seconds:8,.0f} receipts/s {lines / seconds:12,.0f} lines/s")


if __name__ == "__main__":
    main()
