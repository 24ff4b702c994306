"""
Measure writing and verifying receipts, and print each figure beside its target.

Times are CPU times, of this process and its children, so that load on the machine falls out of
them as far as it can. Load still slows a CPU down, and machines differ; so beside each figure
stands its ratio to a floor that was measured in turn with it: the smallest program that writes,
or checks, one line of JSON with one HMAC. With the benchmark folder of the shared test data at
hand, the peers are measured too, each in a process of its own.

    python bench/receipts.py             a million lines, and every peer
    python bench/receipts.py --quick     a tenth of the lines, and no peers
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from hmac import digest
from pathlib import Path

from broker.home import Home
from broker.receipt.chain import TAIL_BYTES, Chain
from broker.receipt.disk import Disk
from broker.receipt.entry import encode_data, format_at
from broker.receipt.keys import Key
from broker.receipt.scan import scan
from broker.receipt.store import Receipts
from broker.receipt.verify import verify

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".bench"
KEY = Key.of(bytes(range(32)))
AT = 1_796_025_600_000_000_000
MILLISECOND = 1_000_000
OURS = "capability-broker"


def record(i: int) -> dict[str, object]:
    """Return a decision as the peers' benchmark writes it."""
    return {
        "ticket": f"t-{i * 2654435761:016x}",
        "agent": f"agent-{i % 17}",
        "tool": ("read_file", "grep", "edit_file")[i % 3],
        "path": f"src/pkg/mod_{i % 97}/file_{i % 1009}.py",
        "decision": "deny" if i % 23 == 0 else "allow",
        "reason": "ok",
        "calls_left": i % 100,
    }


def cpu_s() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


class Floor:
    """The least that a signed log costs: JSON, one HMAC, one write; no lock, no tree, no head."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode

    def write(self, lines: int) -> None:
        """Write so many lines."""
        last = "0" * 64
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        for i in range(lines):
            entry = {**record(i), "seq": i, "ts": time.time(), "prev": last}
            body = self.encode(entry).encode()[:-1]
            last = digest(KEY.secret, body, "sha256").hex()
            os.write(fd, body + b',"mac":"' + last.encode() + b'"}\n')
        os.close(fd)

    def check(self) -> None:
        """Check every line's HMAC and link, and nothing else."""
        last = b"0" * 64
        with self.path.open("rb") as file:
            for line in file:
                tag = digest(KEY.secret, line[:-75], "sha256").hex().encode()
                if tag != line[-67:-3] or line[-140:-76] != last:
                    raise RuntimeError("the floor does not verify")
                last = tag


def hash_lines(path: Path) -> None:
    """Make every line's tag and link and look at neither: no check in Python can cost less."""
    mac, shut = KEY.mac("receipt/1 line", "s1"), b"}"
    with path.open("rb") as file:
        for line in file:
            inner = mac.inner()
            inner.update(line[: -TAIL_BYTES - 1] + shut)
            outer = mac.outer()
            outer.update(inner.digest())
            outer.hexdigest()
            sha256(line).hexdigest()


class Bench:
    """Figures of one run, in the order in which they were taken."""

    def __init__(self, folder: Path, lines: int, rounds: int) -> None:
        self.folder = folder
        self.lines = lines
        self.rounds = rounds
        self.floor = Floor(folder / "floor.jsonl")

    def row(
        self, name: str, value: float, target: float | None, ratio: float | None = None
    ) -> None:
        """Print one figure."""
        cells = f"{name:58}{value:>10.2f}{'-' if target is None else f'{target:g}':>10}"
        cells += f"{'-' if ratio is None else f'{ratio:.2f}':>10}"
        over = target is not None and value > target
        print(cells + ("   over" if over else ""), flush=True)

    def paired(
        self, name: str, target: float | None, ours: Callable[[], int], floor: Callable[[], int]
    ) -> None:
        """Print the median CPU time a line, in microseconds, and its ratio to the floor's."""
        times, ratios = [], []
        for _ in range(self.rounds):
            per_line = []
            for act in (ours, floor):
                started = cpu_s()
                lines = act()
                per_line.append((cpu_s() - started) / lines * 1e6)
            times.append(per_line[0])
            ratios.append(per_line[0] / per_line[1])
        self.row(name, statistics.median(times), target, statistics.median(ratios))

    # ── verifying ──

    def write_receipts(self) -> None:
        """Write one sealed receipt of so many lines, and the same without its seal."""
        chain = Chain("s1", KEY)
        path = self.folder / "open.jsonl"
        with path.open("wb") as file:
            for i in range(self.lines):
                kind = "decision" if i else "open"
                text = encode_data(record(i) if i else {"format": "receipt/1"})
                line = chain.compose(kind, text, format_at(AT + i * MILLISECOND))
                chain.push(kind, format_at(AT + i * MILLISECOND), line)
                file.write(line + b"\n")
                if i == self.lines - 1_001:
                    self.state = chain.state()
        shutil.copy(path, self.folder / "sealed.jsonl")
        with (self.folder / "sealed.jsonl").open("ab") as file:
            text = encode_data(chain.seal_data("complete"))
            file.write(chain.compose("seal", text, chain.at) + b"\n")

    def scan(self, name: str, *, tree: bool, quick: bool = False, jobs: int = 1) -> int:
        """Verify a file once, and return how many lines it has."""
        chain = Chain("s1", KEY, tree=tree)
        with (self.folder / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            scan(file.fileno(), size, chain, None, quick=quick, jobs=jobs)
        return chain.n

    def verifying(self) -> None:
        """Measure verifying, at both levels, with and without a seal's tree."""
        self.write_receipts()
        self.floor.write(self.lines)

        def floor() -> int:
            self.floor.check()
            return self.lines

        def hashes() -> int:
            hash_lines(self.folder / "open.jsonl")
            return self.lines

        size = (self.folder / "open.jsonl").stat().st_size
        print(f"\n{f'verify {self.lines:,} lines, {size:,} bytes':58}{'measured':>10}", end="")
        print(f"{'target':>10}{'x floor':>10}")
        self.paired(
            "every check, no seal, us CPU a line", 2.5,
            lambda: self.scan("open.jsonl", tree=False), floor,
        )  # fmt: skip
        self.paired(
            "    of which three SHA-256 a line, for tag and link", None, hashes, floor,
        )  # fmt: skip
        self.paired(
            "every check and the seal's tree, us CPU a line", 2.5,
            lambda: self.scan("sealed.jsonl", tree=True), floor,
        )  # fmt: skip
        self.paired(
            "quick: every link, and the tags over them, us CPU a line", 1.05,
            lambda: self.scan("open.jsonl", tree=False, quick=True), floor,
        )  # fmt: skip
        for jobs in sorted({1, len(os.sched_getaffinity(0))}):
            started = time.perf_counter()
            self.scan("sealed.jsonl", tree=True, jobs=jobs)
            self.row(f"with the tree, s of wall time, {jobs} processes",
                     time.perf_counter() - started, None)  # fmt: skip
        self.row("most memory so far, MiB",
                 resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, None)  # fmt: skip
        times = []
        for _ in range(self.rounds):
            started = time.perf_counter()
            chain = Chain.resumed(self.state, "s1", KEY)
            with (self.folder / "open.jsonl").open("rb") as file:
                scan(file.fileno(), size, chain, None)
            times.append((time.perf_counter() - started) * 1e3)
        self.row("the last 1,000 lines from a state, ms", statistics.median(times), 50)

    # ── writing ──

    def appending(self) -> None:
        """Measure appends that are not synced, in one process and in two by turns."""
        lines = min(self.lines, 50_000)
        unsynced = replace(Disk(), sync=lambda _fd: None)
        made = iter(range(1_000_000))

        def ours(writers: int) -> int:
            home = Home.find({**os.environ, "BROKER_HOME": str(self.folder / str(next(made)))})
            receipts = Receipts(home, KEY, system=unsynced)
            both = [receipts.create("s1", opening={}, at=AT)]
            both += [receipts.resume("s1", at=AT) for _ in range(writers - 1)]
            for i in range(lines):
                both[i % writers].append(
                    "decision", record(i), at=AT + i * MILLISECOND, durable=False
                )
            for receipt in both:
                receipt.close()
            return lines

        def floor() -> int:
            self.floor.write(lines)
            return lines

        title = f"append {lines:,} lines, no sync, safe among processes"
        print(f"\n{title:58}{'measured':>10}{'target':>10}{'x floor':>10}")
        self.paired("one writer, us CPU a line", 8, lambda: ours(1), floor)
        self.paired("two by turns, each verifies the other's, us CPU", 14, lambda: ours(2), floor)

    def durable(self) -> None:
        """Measure durable appends beside bare writes and syncs on the same disk."""
        home = Home.find({**os.environ, "BROKER_HOME": str(self.folder / "durable")})
        receipts = Receipts(home, KEY)
        receipt = receipts.create("s1", opening={}, at=AT)
        log = os.open(self.folder / "bare.log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        head = os.open(self.folder / "bare.head", os.O_RDWR | os.O_CREAT, 0o600)
        line, slot = b"x" * 400, b"y" * 512
        ours, bare = [], []
        for i in range(300):
            started = time.perf_counter()
            receipt.append("decision", record(i), at=AT)
            ours.append(time.perf_counter() - started)
            started = time.perf_counter()
            os.write(log, line)
            os.fdatasync(log)
            os.pwrite(head, slot, 512 * (i % 2))
            os.fdatasync(head)
            bare.append(time.perf_counter() - started)
        print(f"\n{'durable':58}{'measured':>10}{'target':>10}")
        self.row("a durable append, x bare writes and syncs",
                 statistics.median(ours) / statistics.median(bare), 1.3)  # fmt: skip
        self.row("    in us of wall time", statistics.median(ours) * 1e6, None)
        count, started = 6_400, time.perf_counter()
        for i in range(count):
            receipt.append("note", record(i), at=AT + i * MILLISECOND, durable=False)
        receipt.flush()
        rate = count / (time.perf_counter() - started)
        print(f"{'durable lines a second, in groups (at least)':58}{rate:>10.0f}{5000:>10}"
              + ("" if rate >= 5_000 else "   under"))  # fmt: skip
        receipt.close()
        verify(receipts.path("s1"), key=KEY, head=receipts.head_path("s1"))


def peers(rounds: int) -> None:
    """Run the peers' benchmark with this project as a plug-in, and print its table."""
    source = Path(os.environ.get("BROKER_SHARED", ROOT.parent / "shared")) / "bench"
    if not source.is_dir():
        print("\nthe peer benchmark is not beside the project: own figures only")
        return
    place = WORK / "logs"
    if not (place / "ready").exists():
        print("installing the peers, once: this takes some minutes", flush=True)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(source, place)
        for path in (place, *place.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)
        for venv, listed in (("venv-log", "requirements-log.txt"), ("venv", "requirements.txt")):
            subprocess.run([sys.executable, "-m", "venv", place / venv], check=True)
            pip = [place / venv / "bin" / "python", "-m", "pip", "install", "--quiet"]
            pip += ["--disable-pip-version-check"]
            subprocess.run([*pip, "--no-deps", "-r", place / listed], check=True)
        (place / "ready").touch()
    python = place / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-e", ROOT]
    subprocess.run(pip, check=True)
    (place / "results").mkdir(exist_ok=True)
    command = [python, "bench_logpeers.py", "--plugin", ROOT / "bench" / "log_broker.py"]
    done = subprocess.run(
        command, cwd=place, check=True, env={**os.environ, "ROUNDS": str(rounds)},
        capture_output=True, text=True,
    )  # fmt: skip
    del done  # its own table has the same figures, in another form
    results = json.loads((place / "results" / "logpeers.json").read_text())
    rows = []
    for name, peer in results.items():
        if peer["runs"]:
            middle = [statistics.median(run[key] for run in peer["runs"])
                      for key in ("append_cpu_us", "verify_cpu_us")]  # fmt: skip
            missed = [what for what, seen in peer.get("tamper", {}).items() if not seen]
            rows.append((middle[1], name, middle[0], missed if "tamper" in peer else None))
    print(f"\n{'log':34}{'append':>10}{'verify':>10}   accepts   (us CPU a line, median)")
    for checked, name, appended, missed in sorted(rows, key=lambda row: row[0]):
        accepts = "not tried" if missed is None else ", ".join(missed) or "nothing"
        print(f"{name:34}{appended:>10.1f}{checked:>10.2f}   {accepts}")
    for name, peer in results.items():
        if not peer["runs"]:
            print(f"{name:34}{'does not run here':>20}")


def main() -> int:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the lines, no peers")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="broker-receipts-") as folder:
        bench = Bench(Path(folder), 100_000 if chosen.quick else 1_000_000, chosen.rounds)
        bench.verifying()
        bench.appending()
        bench.durable()
    if not chosen.quick:
        peers(chosen.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
