"""
What recording the world around an agent costs: `python bench/world.py`.

Snapshots of a workspace with many small files (the first, one of a tree that has not changed, and
one with a file changed), and a shell behind its shim beside the same shell without one.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from broker.capabilities.clock import SystemClock
from broker.capture.door import Door
from broker.capture.shims import Shims
from broker.capture.snapper import Snapper
from broker.capture.treestore import git_program
from broker.trace.about import About, StartedBy
from broker.trace.writer import RunWriter

FOLDERS, FILES = 2_500, 20
TEXT = "def f(x: int) -> int:\n    return x + NUMBER\n" * 8


def main() -> None:
    """Measure, and print one line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folders", type=int, default=FOLDERS, help=f"of {FILES} files each")
    parser.add_argument("--runs", type=int, default=40, help="of each shell")
    asked = parser.parse_args()
    print("time in ms: by the clock, the least and the middle; and of the processor, the least")
    with tempfile.TemporaryDirectory(prefix="broker-bench-") as place:
        _snapshots(Path(place), asked.folders)
        _shells(Path(place), asked.runs)


def _snapshots(place: Path, folders: int) -> None:
    space = place / "space"
    for folder in range(folders):
        inner = space / str(folder % 50) / str(folder)
        inner.mkdir(parents=True)
        for name in range(FILES):
            text = TEXT.replace("NUMBER", str(folder * name))
            (inner / f"{name}.py").write_text(text, encoding="utf-8")
    order = {"root": str(space), "store": str(place / "fs"), "closed": [], "salt": "00"}
    snapper = Snapper({**order, "git": git_program() or "git"})

    def take() -> None:
        snapper.take("bench", 1)

    def change() -> None:
        (space / "0" / "0" / "0.py").write_text(f"x = {time.monotonic_ns()}\n", encoding="utf-8")
        take()

    _print(f"first snapshot of {folders * FILES:,} files", [_took(take)])
    time.sleep(0.1)
    take()  # what was written shortly before the first is read once more
    _print("snapshot of the same, unchanged", [_took(take) for _ in range(9)])
    _print("snapshot with one file changed", [_took(change) for _ in range(5)])
    snapper.close()


def _shells(place: Path, runs: int) -> None:
    about = About(StartedBy("bench"), ["bench"], str(place))
    run = RunWriter.create(place / "runs", about, clock=SystemClock(), randomness=os.urandom)
    shims = Shims(place, os.environ)
    shims.make()
    door = Door(run, place / "door")
    door.bind()
    door.start()
    environ = {**os.environ, **shims.environ(), "BROKER_RECORDER": str(door.path)}
    shells = {"without": shims.shells()["sh"], "behind": str(shims.folder / "sh")}

    def work(shell: str, script: str) -> Callable[[], object]:
        words = [shell, "-c", script]
        return lambda: subprocess.run(words, env=environ, stdout=subprocess.PIPE, check=True)

    took: dict[str, list[tuple[float, float]]] = {name: [] for name in shells}
    for _ in range(runs):  # by turns, so that both meet the same machine
        for name, shell in shells.items():
            took[name].append(_took(work(shell, "true")))
    for name, times in took.items():
        _print(f"`sh -c true` {name} its shim", times)
    for name, shell in shells.items():
        _print(f"500 MB of output {name} its shim", [_took(work(shell, BIG)) for _ in range(3)])
    door.stop()


BIG = "head -c 500000000 /dev/zero"


def _took(work: Callable[[], object]) -> tuple[float, float]:
    """Return how long something took by the clock, and of the processor, children's part too."""
    before, began = _used(), time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1_000, (_used() - before) * 1_000


def _used() -> float:
    mine, theirs = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime


def _print(what: str, times: Sequence[tuple[float, float]]) -> None:
    clock = [each[0] for each in times]
    used = min(each[1] for each in times)
    print(f"{what:<36} {min(clock):9.1f} {statistics.median(clock):9.1f} {used:9.1f}", flush=True)


if __name__ == "__main__":
    main()
