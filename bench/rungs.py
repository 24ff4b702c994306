"""
How well replays met their recordings: the share of requests on each rung, over a folder of runs.

    python bench/rungs.py [RUNS]

RUNS is a folder of recorded runs, by default the person's own. Counted are the replays among them
(runs that name a parent, and no fork point), by the agent that was played. The share on rung 1 says
how much of what agents send is understood: a new version of an agent that sends something new in
every run brings it down.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from broker.home import Home
from broker.replay.figures import figures_of
from broker.trace.reader import RunReader
from broker.trace.runs import names


def main() -> None:
    """Print a row for each agent, and one for all."""
    runs = Path(sys.argv[1]) if len(sys.argv) > 1 else Home.find(os.environ).runs
    rows: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name in names(runs):
        reader = RunReader.open(runs / name)
        manifest = reader.manifest
        if not manifest.parent_run or manifest.fork_point is not None:
            continue
        figures = figures_of(reader.stream())
        counted = {"replays": 1, "requests": figures.requests, "rung 1": figures.same}
        counted |= {f"rung {rung}": figures.rungs.get(rung, 0) for rung in (2, 3, 4)}
        for agent in (str(manifest.adapter.get("id")), "all"):
            rows[agent].update(counted)
    heads = ("replays", "requests", "rung 1", "rung 2", "rung 3", "rung 4")
    print(f"{'agent':<12}", *(f"{head:>9}" for head in heads), f"{'share':>7}")
    for agent in sorted(rows, key=lambda name: (name == "all", name)):
        row = rows[agent]
        share = f"{row['rung 1'] / row['requests']:.1%}" if row["requests"] else "-"
        print(f"{agent:<12}", *(f"{row[head]:>9}" for head in heads), f"{share:>7}")


if __name__ == "__main__":
    main()
