"""
What scopes stop of AgentDojo's attacks, and what they cost: without a model, in about a minute.

    python bench/agentdojo/run.py                            everything
    python bench/agentdojo/run.py --suite banking --level names --level links
    python bench/agentdojo/run.py --json figures.json --check

The tasks are read from the installed package (`pip install 'capability-broker[bench]'`) or from a
copy beside the project, whose folder BROKER_SHARED names; AgentDyn's and DRIFT's recorded runs and
tau-bench's tasks are read from there too, and left out where it is not. docs/agentdojo.md says what
the columns mean.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.agentdojo import naive, table  # noqa: E402 - the folder is made known first
from bench.agentdojo.isolation import Isolation, isolation  # noqa: E402 - as above
from bench.agentdojo.limits import LEVELS, Level, Limits  # noqa: E402 - as above
from bench.agentdojo.replay import Figures, measure  # noqa: E402 - as above
from bench.agentdojo.runs import RunFigures, recorded, replayed  # noqa: E402 - as above
from bench.agentdojo.spelling import CATALOGS, Bench  # noqa: E402 - as above
from bench.agentdojo.tasks import (  # noqa: E402 - as above
    SUITES,
    Asked,
    Missing,
    Suite,
    dojo_suites,
    suites_of,
)

ON_RUNS = ("tools", "names", "@reads, names", "in intent", "in intent, links")
RECORDED = (("DRIFT", "drift", "agentdojo"), ("AgentDyn", "agentdyn", "agentdyn"))


def shared() -> Path | None:
    """Return the folder of tasks beside the project, where there is one."""
    found = Path(os.environ.get("BROKER_SHARED", ROOT.parent / "shared")) / "agentdojo"
    return found if found.is_dir() else None


def told(text: str) -> None:
    """Say on a terminal what is being done, over what was said before."""
    if sys.stderr.isatty():
        print(f"\r{text:70}", end="", file=sys.stderr, flush=True)


class Check:
    """Holds each decision under one catalog against the naive one, and keeps those that differ."""

    def __init__(self, catalog: str) -> None:
        self.calls = 0
        self.differing: list[tuple[Asked, bool, str]] = []
        self._tools = naive.roles(CATALOGS / f"{catalog}.toml")

    def seen(self, limits: Limits, line: str, call: Asked, spent: int, allowed: bool) -> None:
        """Compare one decision."""
        self.calls += 1
        if naive.allowed(limits, call, line, spent, self._tools) != allowed:
            self.differing.append((call, allowed, line))


def levels_of(names: Iterable[str] | None) -> dict[str, Level]:
    """Return the levels by name, in their order."""
    return {level.key: level for level in LEVELS if names is None or level.key in names}


def dojo(
    suites: Mapping[str, Suite], levels: Mapping[str, Level], bench: Bench
) -> dict[str, dict[str, Figures]]:
    """Return AgentDojo's figures by level and suite."""
    found: dict[str, dict[str, Figures]] = {}
    for key, level in levels.items():
        found[key] = {}
        for name, suite in suites.items():
            told(f"AgentDojo, {key}: {name}")
            found[key][name] = measure(level, suite, bench)
    return found


def runs(
    beside: Path, file: str, catalog: str, levels: Mapping[str, Level], bench: Bench
) -> dict[str, dict[str, RunFigures]]:
    """Return the figures of a file of recorded runs, by level and suite."""
    suites = suites_of(beside / f"{catalog}.json")
    all_runs = list(recorded(beside / f"{file}_traces.jsonl.gz"))
    found: dict[str, dict[str, RunFigures]] = {}
    for key, level in levels.items():
        if key in ON_RUNS:
            told(f"{len(all_runs)} recorded runs, {key}")
            found[key] = replayed(level, all_runs, suites, bench)
    return found


def arguments(given: list[str] | None) -> argparse.Namespace:
    """Return what was typed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", action="append", choices=SUITES, help="only this; repeatable")
    keys = [level.key for level in LEVELS]
    parser.add_argument("--level", action="append", choices=keys, metavar="LEVEL", help=(
        f"only this; repeatable; one of {', '.join(map(repr, keys))}"
    ))  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--check", action="store_true", help="hold every decision against a naive one"
    )
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Measure, print, and say whether the naive reading agrees: 0, 1 where not, 2 without tasks."""
    chosen = arguments(given)
    try:
        return measured_and_shown(chosen)
    except Missing as missing:
        print(f"bench: {missing}", file=sys.stderr)
    except (OSError, EOFError) as error:
        print(f"bench: {error}", file=sys.stderr)
    except (ValueError, KeyError, TypeError) as error:
        what = f"{type(error).__name__}: {error}"
        print(f"bench: a file of tasks in {shared()} is not understood ({what})", file=sys.stderr)
    return 2


def measured_and_shown(chosen: argparse.Namespace) -> int:
    """
    Measure what was chosen and print it.

    Raises:
        Missing: there are no tasks.
        OSError, ValueError, KeyError, TypeError: a file of tasks cannot be read or understood.
    """
    beside = shared()
    suites, where = dojo_suites(beside)
    suites = {n: s for n, s in suites.items() if chosen.suite is None or n in chosen.suite}
    levels = levels_of(chosen.level)
    kept: dict[str, object] = {"tasks": where}
    checks = {name: Check(name) for name in ("agentdojo", "agentdyn", "taubench") if chosen.check}
    with tempfile.TemporaryDirectory(prefix="agentdojo-") as made:

        def bench_of(catalog: str) -> Bench:
            return Bench.of(catalog, Path(made), checks[catalog].seen if checks else None)

        bench = bench_of("agentdojo")
        measured = dojo(suites, levels, bench)
        kept["agentdojo"] = _as_json(measured)
        suite = suites.get("banking") or next(iter(suites.values()))
        shown: list[Callable[[], Iterable[str]]] = [
            lambda: [f"AgentDojo, from {where}"],
            lambda: table.head(levels, measured),
            lambda: table.suites(measured),
            lambda: table.how(levels, suite.users[0], suite, bench.known),
        ]
        if beside is not None and chosen.suite is None:
            for name, file, catalog in RECORDED:
                if not (beside / f"{file}_traces.jsonl.gz").is_file():
                    continue
                found = runs(beside, file, catalog, levels, bench_of(catalog))
                if found:
                    kept[file] = _as_json(found)
                    shown.append(lambda n=name, f=found: table.recorded_runs(n, f))
            shop: dict[str, Isolation] = {}
            if (beside / "taubench.json").is_file():
                told("tau-bench")
                shop = isolation(beside / "taubench.json", bench_of("taubench"))
                kept["taubench"] = {n: asdict(f) for n, f in shop.items()}
                shown.append(lambda: table.shops(shop))
            if (beside / "agentdojo.json").is_file():  # the package's pairs are fewer
                shown.append(lambda: table.targets(measured, shop))
        told("")
        if sys.stderr.isatty():
            print("\r", end="", file=sys.stderr)
        print("\n\n".join("\n".join(part()) for part in shown))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return _checked(checks.values())


def _as_json(measured: Mapping[str, Mapping[str, Figures | RunFigures]]) -> dict[str, object]:
    return {k: {n: f.as_json() for n, f in by.items()} for k, by in measured.items()}


def _checked(checks: Collection[Check]) -> int:
    if not checks:
        return 0
    calls = sum(check.calls for check in checks)
    differing = [one for check in checks for one in check.differing]
    print(f"\nthe naive reading agrees on {calls - len(differing):,} of {calls:,} decisions")
    for call, allowed, line in differing[:20]:
        said = "allowed" if allowed else "refused"
        print(f"differs: {said} {call.tool} {dict(call.arguments)} under {line!r}")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
