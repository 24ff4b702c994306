"""
Measure the sandbox beside another one: starting, the catalogue of ways out, a build on one core.

    python bench/walls.py [--srt PROGRAM]

The other one is `srt` of `@anthropic-ai/sandbox-runtime` (npm), which also stands on bubblewrap;
without it only ours is measured. Both get the same world: one folder to write, the same places to
hide, no host. Figures of one run stand side by side; load on the machine falls on all in turn.
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
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.sandbox.catalogue import ALL  # noqa: E402
from tests.sandbox.test_escapes import DRIVER, SCOPE, Outside, escaped, lives  # noqa: E402

ROUNDS = 9
BUILD_ROUNDS = 5
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
                    workspace=Path(sys.argv[1]), sandbox=Wanted.read("require")))
"""
# What a build uses of the processor, in seconds: on a busy machine the wall's clock says little.
CPU_TIME = """
import resource, subprocess
subprocess.run(["sh", "src/build.sh"], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""
BUILD = "for n in 1 2; do cc -O2 -c -o src/out$n.o src/big.c || exit 1; done"


def median_ms(command: Sequence[str], cwd: Path, rounds: int = ROUNDS) -> float:
    """Return the middle time of a whole process, in milliseconds."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        subprocess.run(command, cwd=cwd, check=True, capture_output=True)
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def walls_ms(workspace: Path, home: Path) -> float:
    """Return the middle time from wanting walls to the agent's word to go, in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        done = subprocess.run(
            [sys.executable, "-c", TIMED, str(workspace), "true"],
            env={**os.environ, "BROKER_HOME": str(home)},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        times.append(float(done.stdout.split()[0]))
    return statistics.median(times)


def ours(workspace: Path, *scope: str) -> list[str]:
    """Return the words before a command of ours."""
    broker = shutil.which("broker", path=str(Path(sys.executable).parent)) or "broker"
    texts = [word for text in scope for word in ("--scope", text)]
    return [
        broker,
        "run",
        "--quiet",
        "--sandbox",
        "require",
        "--workspace",
        str(workspace),
        *texts,
        "--",
    ]


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


def ways_out(command: Sequence[str], outside: Outside) -> list[str]:
    """Return the names of the attempts that get out."""
    process = subprocess.Popen(
        [*command, sys.executable, "src/driver.py", "src/attempts.json"],
        cwd=outside.ws,
        env={**os.environ, **outside.environ()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
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
    print(f"start (median of {ROUNDS}):")
    print(f"  {'our walls, within a run':<34}{walls_ms(workspace, folder / 'home'):7.0f} ms")
    for name, before in rows.items():
        print(f"  {name:<34}{median_ms([*before, 'true'], workspace):7.0f} ms")


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
    bare = min(times["without walls"])
    print(f"build (least processor time of {BUILD_ROUNDS}, in turn):")
    for name, found in times.items():
        print(f"  {name:<34}{min(found):7.0f} ms  {100 * (min(found) / bare - 1):+5.1f} %")


def in_folder(work: Callable[[Path], None]) -> None:
    """Do something in a folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="walls-"))
    try:
        work(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the sandbox.")
    parser.add_argument("--srt", help="the program `srt`, to measure beside ours")
    srt = parser.parse_args().srt

    def speed(folder: Path) -> None:
        outside = world(folder)
        rows: dict[str, Sequence[str]] = {"without walls": []}
        rows["broker run --sandbox require"] = ours(outside.ws, *SCOPE, "hosts=none")
        if srt:
            rows["srt"] = theirs(srt, outside, folder)
        starting(outside.ws, folder, rows)
        building(outside.ws, rows)
        outside.end()

    def attempts(folder: Path, name: str) -> None:
        outside = world(folder)
        mine = name == "ours"
        before = ours(outside.ws, *SCOPE, "hosts=none") if mine else theirs(srt, outside, folder)
        found = ways_out(before, outside)
        outside.end()
        names = f": {', '.join(found)}" if found else ""
        print(f"  {name:<10}{len(found):4} of {len(ALL)} get out{names}")

    in_folder(speed)
    print("attempts:")
    for name in ("ours", "srt") if srt else ("ours",):
        in_folder(lambda folder, name=name: attempts(folder, name))


if __name__ == "__main__":
    main()
