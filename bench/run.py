"""
Measure the broker beside its peers, and print the table with the targets.

The peers and the neutral policy come from the benchmark folder of the shared test data; their
packages are installed once into ``.bench/venv``. Without that folder only the figures that need
no peer are printed.

    python bench/run.py             every peer, five rounds (about fifteen minutes)
    python bench/run.py --quick     the three fastest peers, three rounds
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".bench"
OURS = "capability-broker"
FAST_PEERS = "capability-broker,FLOOR,common-expression-language,tenuo,regopy,runes"
US = 1e3  # nanoseconds in a microsecond


def harness() -> Path | None:
    """Return a writable copy of the peer benchmark with its packages installed, or None."""
    source = Path(os.environ.get("BROKER_SHARED", ROOT.parent / "shared")) / "bench"
    if not source.is_dir():
        return None
    place = WORK / "harness"
    if not place.is_dir():
        shutil.copytree(source, place)
        for path in (place, *place.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)
    python = WORK / "venv" / "bin" / "python"
    if not (WORK / "ready").exists():
        print("installing the peers, once: this takes some minutes", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", WORK / "venv"], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        requirements = place / "requirements.txt"
        subprocess.run([*pip, "--no-deps", "-r", requirements], check=True)
        side = place / "side" / "casbin1"
        subprocess.run([*pip, "--no-deps", "--target", side, "casbin==1.43.0"], check=True)
        (WORK / "ready").touch()
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-e", ROOT],
        check=True,
    )
    return place


def measure_peers(place: Path, rounds: int, only: str | None) -> dict:
    """Run the peer benchmark with this project as a plug-in, and return its results."""
    out = WORK / "tokens.json"
    command = [WORK / "venv" / "bin" / "python", "bench.py", "--no-import"]
    command += ["--plugin", ROOT / "bench" / "engine_broker.py", "--rounds", str(rounds)]
    command += ["--out", out]
    if only:
        command += ["--only", only]
    subprocess.run(command, cwd=place, check=True)
    return json.loads(out.read_text())["engines"]


def middle(engine: dict, name: str) -> float | None:
    """Return the median over rounds of one figure, in nanoseconds (or a ratio)."""
    values = engine["t"].get(name)
    return statistics.median(values) if values else None


def real_peers(engines: dict) -> dict:
    """Leave out this project and the reference floors: what remains are products."""
    return {n: e for n, e in engines.items() if n != OURS and e["family"] != "ref"}


def print_peers(engines: dict) -> None:
    """Print the peer table, fastest first, and then the targets."""
    rows = []
    for name, engine in engines.items():
        warm = middle(engine, "warm_allow")
        if warm is not None:
            rows.append((warm, name, engine))
    shown = f"{'engine':32}{'warm allow':>12}{'x floor':>9}{'cold':>10}{'attenuate':>11}"
    print(f"\n{shown}{'chain 20':>10}{'+ record':>10}{'traps missed':>14}   (us, median)")
    for warm, name, engine in sorted(rows, key=lambda row: row[0]):
        cells = [f"{warm / US:12.3f}", f"{middle(engine, 'warm_allow/floor') or 0:9.1f}"]
        for key, width in (("cold", 10), ("attenuate", 11), ("chain20", 10), ("e2e", 10)):
            value = middle(engine, key)
            cells.append(f"{'-' if value is None else f'{value / US:.1f}':>{width}}")
        missed = engine["check"].get("trap_fail")
        cells.append(f"{'-' if missed is None else len(missed):>14}")
        print(f"{name:32}" + "".join(cells))


def print_targets(engines: dict) -> None:
    """Print each target beside what was measured in this run."""
    ours = engines[OURS]
    peers = [w for e in real_peers(engines).values() if (w := middle(e, "warm_allow"))]
    fastest = min(peers) / US if peers else float("nan")
    held = [h["bytes_each"] for h in ours.get("hold", []) if h.get("n")]
    rows = [
        ("warm decision, us: below the fastest peer", middle(ours, "warm_allow"), US, fastest),
        ("warm decision, x a dict lookup and a call", middle(ours, "warm_allow/floor"), 1, 10),
        ("traps missed, of 12", float(len(ours["check"].get("trap_fail", [1] * 12))), 1, 0),
        ("attenuate, us", middle(ours, "attenuate"), US, 6),
        ("verify a chain of 20 from the wire, us", middle(ours, "chain20"), US, 50),
        ("signed text to first decision, us", middle(ours, "cold"), US, 15),
        ("a held ticket, bytes", statistics.median(held) if held else None, 1, 1000),
        ("decision and one appended record, us", middle(ours, "e2e"), US, 10),
    ]
    print(f"\n{'figure':48}{'measured':>10}{'target':>10}")
    for name, value, unit, target in rows:
        if value is None:
            print(f"{name:48}{'-':>10}{target:>10.3g}   not measured")
            continue
        mark = "" if value / unit <= target else "   over"
        print(f"{name:48}{value / unit:>10.3g}{target:>10.3g}{mark}")


def main() -> int:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="few peers, three rounds")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    place = harness()
    if place is None:
        print("the peer benchmark is not beside the project: own figures only")
    else:
        only = FAST_PEERS if chosen.quick else None
        engines = measure_peers(place, 3 if chosen.quick else chosen.rounds, only)
        print_peers(engines)
        print_targets(engines)
    return subprocess.call([sys.executable, ROOT / "bench" / "starts.py"])


if __name__ == "__main__":
    sys.exit(main())
