"""
Measure the sandbox beside another one: starting, the catalogue of ways out, a build on one core.

    python bench/walls.py [--srt PROGRAM] [--speed]

The other one is `srt` of `@anthropic-ai/sandbox-runtime` (npm), which also stands on bubblewrap;
without it only ours is measured. Both get the same world: one folder to write, the same places to
hide, no host; and ours records nothing, as theirs. Figures of one run stand side by side, each
round in turn, so that load on the machine falls on all; what it was is printed. Ends with 1 where
theirs holds an attempt that ours does not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import sandboxkit  # noqa: E402
from tests.sandbox.catalogue import ALL, BY_LANDLOCK, untried  # noqa: E402
from tests.sandbox.test_escapes import DRIVER, SCOPE, Outside, escaped, lives  # noqa: E402

ROUNDS = 15
BUILD_ROUNDS = 9
OURS = "broker run --sandbox require"
# Each engine by itself, and both, as `tests.sandboxkit` names them.
ENGINES = {
    "bubblewrap and Landlock": "bubblewrap",
    "bubblewrap alone": "bubblewrap alone",
    "Landlock alone": "landlock",
}
Starts = Callable[[list[str]], subprocess.Popen[str]]
# Started in a process of its own, it times what `Sandbox.start` adds to starting a program.
TIMED = """
import sys, time
from pathlib import Path
import broker.launch as launch
from broker.sandbox.launching import Sandbox, Wanted
plain = Sandbox.start
def start(self, *given):
    begun = time.perf_counter()
    plain(self, *given)
    print((time.perf_counter() - begun) * 1000)
Sandbox.start = start
sys.exit(launch.run(sys.argv[2:], texts=["tools=Bash", "paths=src/**"], quiet=True,
                    workspace=Path(sys.argv[1]), sandbox=Wanted.read("require"),
                    record=False))
"""
# What a build uses of the processor, in seconds: on a busy machine the wall's clock says little.
# Three builds in one start, of which the quickest counts: the first finds nothing in its caches.
CPU_TIME = """
import resource, subprocess
used = [0.0]
for _ in range(3):
    subprocess.run(["sh", "src/build.sh"], check=True)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    used.append(now.ru_utime + now.ru_stime)
print(min(b - a for a, b in zip(used, used[1:])))
"""
BUILD = "for n in 1 2; do cc -O2 -c -o src/out$n.o src/big.c || exit 1; done"


def once_ms(command: Sequence[str], cwd: Path) -> float:
    """Return the time of a whole process, in milliseconds."""
    begun = time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)
    return (time.perf_counter() - begun) * 1000


def walls_ms(workspace: Path, home: Path) -> float:
    """Return the time from wanting walls to the agent's word to go, in milliseconds."""
    done = subprocess.run(
        [sys.executable, "-c", TIMED, str(workspace), "true"],
        env={**os.environ, "BROKER_HOME": str(home)},
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout.split()[0])


def ours(workspace: Path, *scope: str) -> list[str]:
    """Return the words before a command of ours."""
    broker = shutil.which("broker", path=str(Path(sys.executable).parent)) or "broker"
    texts = [word for text in scope for word in ("--scope", text)]
    return [
        broker,
        "run",
        "--quiet",
        "--no-record",
        "--sandbox",
        "require",
        "--workspace",
        str(workspace),
        *texts,
        "--",
    ]


def unwalled(words: Sequence[str]) -> list[str]:
    """Return the same words without the sandbox."""
    at = words.index("--sandbox")
    return [*words[:at], *words[at + 2 :]]


def theirs(srt: str, outside: Outside, folder: Path) -> list[str]:
    """Return the words before a command of theirs, told the same as a ticket says."""
    deny = [outside.out, outside.person, outside.bench.home.state.parent, outside.ws / "key"]
    settings = folder / "srt.json"
    files = {"denyRead": [str(p) for p in deny], "denyWrite": []}
    told = {
        "network": {"allowedDomains": [], "deniedDomains": []},
        "filesystem": {**files, "allowWrite": [str(outside.ws / "src")]},
    }
    settings.write_text(json.dumps(told), encoding="utf-8")
    return [srt, "--settings", str(settings)]


def ways_out(start: Starts, outside: Outside) -> list[str]:
    """Return the names of the attempts that get out."""
    process = start([sys.executable, "src/driver.py", "src/attempts.json"])
    assert process.stdin is not None
    assert process.stdout is not None
    named, out, tried = {a.name: a for a in ALL}, [], 0
    for line in process.stdout:
        if not line.startswith("["):
            continue
        name, said = json.loads(line)
        tried += 1
        if escaped(outside, named[name], said):
            out.append(name)
        process.stdin.write("\n")
        process.stdin.flush()
    process.wait(60)
    if tried != len(ALL):
        raise SystemExit(f"only {tried} of {len(ALL)} attempts were made")
    if lives("77123"):
        out.append("outlive the run")
    return out


def by_engine(outside: Outside, engine: str) -> Starts:
    """Return what starts a command within our walls, by an engine that is named."""

    def start(command: list[str]) -> subprocess.Popen[str]:
        return sandboxkit.start(
            outside.bench,
            command,
            *SCOPE,
            "hosts=none",
            engine=engine,
            environ=outside.environ(),
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    return start


def by_words(outside: Outside, before: Sequence[str]) -> Starts:
    """Return what starts a command behind other words."""

    def start(command: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*before, *command],
            cwd=outside.ws,
            env={**os.environ, **outside.environ()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    return start


def world(folder: Path) -> Outside:
    """Return a fresh world beyond the walls, with the driver in it."""
    outside = Outside(folder)
    table = [[a.name, a.how, a.whole] for a in ALL]
    (outside.ws / "src/attempts.json").write_text(json.dumps(table), encoding="utf-8")
    (outside.ws / "src/driver.py").write_text(DRIVER, encoding="utf-8")
    outside.before = outside.state()
    os.environ["BROKER_HOME"] = str(outside.bench.home.state.parent)
    return outside


def starting(workspace: Path, folder: Path, rows: dict[str, Sequence[str]]) -> None:
    """Print what starting `true` takes."""
    walls = "our walls, within a run"
    times: dict[str, list[float]] = {walls: [], **{name: [] for name in rows}}
    for _ in range(ROUNDS):
        times[walls].append(walls_ms(workspace, folder / "home"))
        for name, before in rows.items():
            times[name].append(once_ms([*before, "true"], workspace))
    print(f"start, {ROUNDS} rounds in turn (least, median):")
    for name, found in times.items():
        print(f"  {name:<34}{min(found):7.0f} ms{statistics.median(found):7.0f} ms")


def building(workspace: Path, rows: dict[str, Sequence[str]]) -> None:
    """Print what a build uses of the processor within walls, beside the same without."""
    body = "\n".join(
        f"int f{n}(int x){{int s=0;for(int i=0;i<x;i++)s+=i*{n};return s;}}" for n in range(100)
    )
    (workspace / "src/big.c").write_text(body, encoding="utf-8")
    (workspace / "src/used.py").write_text(CPU_TIME, encoding="utf-8")
    (workspace / "src/build.sh").write_text(BUILD, encoding="utf-8")
    timed = [sys.executable, "src/used.py"]

    def once(before: Sequence[str]) -> float:
        done = subprocess.run(
            [*before, *timed], cwd=workspace, check=True, capture_output=True, text=True
        )
        return float(done.stdout.split()[-1]) * 1000

    times: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(BUILD_ROUNDS):
        for name, before in rows.items():
            times[name].append(once(before))
    bare = times["without walls"]
    print(f"build, processor time, {BUILD_ROUNDS} rounds in turn (least, and median of the pairs):")
    for name, found in times.items():
        pairs = [100 * (a / b - 1) for a, b in zip(found, bare, strict=True)]
        least = 100 * (min(found) / min(bare) - 1)
        middle = statistics.median(pairs)
        print(f"  {name:<34}{min(found):7.0f} ms{least:+7.1f} %{middle:+7.1f} %")


def in_folder(work: Callable[[Path], None]) -> None:
    """Do something in a folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="walls-"))
    try:
        work(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description="Measure the sandbox.")
    parser.add_argument("--srt", help="the program `srt`, to measure beside ours")
    parser.add_argument("--speed", action="store_true", help="leave the ways out alone")
    typed = parser.parse_args()
    srt = typed.srt

    def speed(folder: Path) -> None:
        outside = world(folder)
        rows: dict[str, Sequence[str]] = {"without walls": []}
        rows[OURS] = ours(outside.ws, *SCOPE, "hosts=none")
        if srt:
            rows["srt"] = theirs(srt, outside, folder)
        starting(outside.ws, folder, {**rows, "broker run": unwalled(rows[OURS])})
        building(outside.ws, rows)
        outside.end()

    found: dict[str, list[str]] = {}

    def attempts(name: str, folder: Path) -> None:
        outside = world(folder)
        if name == "srt":
            start = by_words(outside, theirs(srt, outside, folder))
        elif name == OURS:
            start = by_words(outside, ours(outside.ws, *SCOPE, "hosts=none"))
        else:
            start = by_engine(outside, ENGINES[name])
        found[name] = ways_out(start, outside)
        outside.end()
        names = f": {', '.join(found[name])}" if found[name] else ""
        print(f"  {name:<34}{len(found[name]):4} get out{names}")

    print(f"load before: {load()}")
    in_folder(speed)
    print(f"load after that: {load()}")
    if typed.speed:
        return 0
    print(f"attempts: {len(ALL)}, of which {len(untried())} cannot be made here")
    for name, why in untried().items():
        print(f"  not made: {name}: {why}")
    for name in (OURS, *ENGINES, *(["srt"] if srt else [])):
        in_folder(partial(attempts, name))
    print(f"load after: {load()}")
    worse = set(found[OURS]) - set(found.get("srt", found[OURS]))
    wild = set(found["Landlock alone"]) - set(BY_LANDLOCK)
    for name in sorted(worse | wild):
        print(f"not held by ours, and not known: {name}")
    return bool(worse or wild)


def load() -> str:
    """Return the machine's load of the last minutes."""
    return ", ".join(f"{each:.1f}" for each in os.getloadavg())


if __name__ == "__main__":
    sys.exit(main())
