"""
Measure the decision service under load from a second process, and hold it against its targets.

`wrk` (a package of Debian's) asks `broker serve` over loopback, each request a new decision that is
durable before it is answered. Whatever else runs on the machine takes from the figures; so the time
of processor that each decision takes stands beside them, and that of the machine's disk, on which
every group waits.

    python bench/serve.py                  twenty seconds for each figure
    python bench/serve.py --seconds 60     longer, to see that memory stays flat
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.servekit import EVALUATOR, Served, served  # noqa: E402 - the path comes first

SUBJECTS = """
[[ticket]]
for = ["user:ana"]
scope = ['tools=can_read,can_update(type="todo", id, owner="ana")']
"""
BODY = {
    "subject": {"type": "user", "id": "ana"},
    "action": {"name": "can_update"},
    "resource": {"type": "todo", "id": "7", "properties": {"owner": "ana"}},
}
BATCH = 64  # evaluations of one request
CONNECTIONS = 128
RATE = 5_000  # decisions a second, the target
P99_MS = 20.0
GROWTH_MIB = 8.0  # of memory, between the first second and the last


@dataclass(frozen=True)
class Used:
    """What the service has used so far: seconds of processor, and resident MiB."""

    cpu_s: float
    rss_mib: float


def used(pid: int) -> Used:
    """Return what a process has used; Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return Used(cpu, pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


def disk_ms(folder: Path) -> float:
    """Return how long this machine's disk takes to make a few KiB durable: the median."""
    spent = []
    with (folder / "probe").open("ab", buffering=0) as stream:
        for _ in range(40):
            stream.write(b"x" * 32_768)
            began = time.perf_counter()
            os.fdatasync(stream.fileno())
            spent.append((time.perf_counter() - began) * 1_000)
    return statistics.median(spent)


def script(folder: Path, body: object) -> Path:
    """Write what `wrk` asks."""
    path = folder / "ask.lua"
    text = json.dumps(json.dumps(body))
    path.write_text(
        'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\n'
        f'wrk.headers["Authorization"] = "Bearer {EVALUATOR}"\nwrk.body = {text}\n'
    )
    return path


def milliseconds(text: str) -> float:
    """
    Return a time as `wrk` spells it.

    >>> milliseconds("1.50s"), milliseconds("900.00us")
    (1500.0, 0.9)
    """
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": 0.001, "ms": 1.0, "s": 1_000.0, "m": 60_000.0}[unit]


def load(pdp: Served, path: str, asked: Path, seconds: int, each: int) -> tuple[float, list[str]]:
    """Ask for some seconds; return decisions a second, and what to print."""
    before = used(pdp.process.pid)
    address = f"http://127.0.0.1:{pdp.port}{path}"
    connections = max(2, CONNECTIONS // each)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency"]
    command += ["-s", str(asked)]
    done = subprocess.run([*command, address], capture_output=True, text=True, check=True).stdout
    after = used(pdp.process.pid)
    asked_for = int(re.search(r"(\d+) requests in", done).group(1))
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", done).group(1)) * each
    median, tail = (
        milliseconds(re.search(rf"(?m)^ +{quantile}%\s+(\S+)", done).group(1))
        for quantile in (50, 99)
    )
    failed = re.search(r"Non-2xx[^\d]*(\d+)", done)
    cpu_us = (after.cpu_s - before.cpu_s) / (asked_for * each) * 1e6
    grown = after.rss_mib - before.rss_mib
    told = [
        f"  {rate:10,.0f} decisions/s",
        f"  {cpu_us:10,.0f} µs of the service's processor for each",
        f"  {median:10.1f} ms at the median, {tail:.1f} ms at the 99th percentile",
        f"  {after.rss_mib:10.0f} MiB resident, {grown:+.1f} since the beginning",
    ]
    if failed:
        told.append(f"  {failed.group(1)} requests failed")
    return rate, told


def main() -> int:
    """Measure and print; 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--seconds", type=int, default=20, help="for each figure")
    seconds = parser.parse_args().seconds
    if shutil.which("wrk") is None:
        print("wrk is not installed: `apt-get install wrk`", file=sys.stderr)
        return 2
    missed = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        place = Path(folder)
        environ = {"BROKER_HOME": f"{folder}/home"}
        print(f"this disk makes 32 KiB durable in {disk_ms(place):.2f} ms at the median")
        print(f"load of this machine before: {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")
        with served(place, subjects=SUBJECTS, environ=environ) as pdp:
            asked = script(place, BODY)
            load(pdp, "/access/v1/evaluation", asked, 3, 1)  # until everything is warm
            rate, told = load(pdp, "/access/v1/evaluation", asked, seconds, 1)
            print(f"one decision a request, {CONNECTIONS} connections", *told, sep="\n")
            tail = float(re.search(r"([\d.]+) ms at the 99th", told[2]).group(1))
            grown = float(re.search(r"([+-][\d.]+) since", told[3]).group(1))
            missed += [f"under {RATE} decisions/s"] if rate < RATE else []
            missed += [f"99th percentile over {P99_MS} ms"] if tail > P99_MS else []
            missed += ["memory grows"] if grown > GROWTH_MIB else []
            several = script(place, {**BODY, "evaluations": [{}] * BATCH})
            _, told = load(pdp, "/access/v1/evaluations", several, seconds, BATCH)
            print(f"{BATCH} decisions a request", *told, sep="\n")
            code = pdp.end()
            last = pdp.events()[-1]
            print(f"sealed with exit code {code}: {last['allowed']:,} decisions recorded")
            missed += ["the service did not end well"] if code else []
    print("missed: " + "; ".join(missed) if missed else "every target is met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
