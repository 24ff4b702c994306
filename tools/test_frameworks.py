"""
Tests each adapter of an agent framework in an environment of its own, and writes the table.

``tests/frameworks/NAME.txt`` pins what the framework's test needs; its first line names the extra
of ``pyproject.toml`` that brings the framework, and the package whose version the table shows.
The environment lies in ``.venv/frameworks/NAME`` and is renewed when what it needs changes.
Frameworks are kept apart, since what they require of others does not go together.

``python tools/test_frameworks.py [--check] [NAME ...]``: tests these, or all, and prints the table;
without names the table is also put into ``docs/frameworks.md``, or with ``--check`` compared.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

ROOT: Final = Path(__file__).resolve().parent.parent
PINS: Final = ROOT / "tests" / "frameworks"
PLACE: Final = ROOT / ".venv" / "frameworks"
PAGE: Final = ROOT / "docs" / "frameworks.md"
HEAD: Final = re.compile(r"# extra: (\S+) +package: (\S+)\n")
TABLE: Final = re.compile(r"(<!-- table: .*? -->\n)(.*?)(<!-- end of the table -->)", re.DOTALL)
# What a column of the table means: the cases that show it.
COLUMNS: Final = {
    "async": ("test_an_allowed_call_runs[async]", "test_a_refused_call_never_runs[async]"),
    "sync": ("test_an_allowed_call_runs[sync]", "test_a_refused_call_never_runs[sync]"),
    "streamed": ("test_an_allowed_call_runs[stream]", "test_a_refused_call_never_runs[stream]"),
    "parallel": ("test_parallel_calls_share_a_budget",),
    "cancelled": ("test_a_cancelled_call_runs_nothing",),
    "delegates": ("test_a_helper_is_held_to_less", "test_a_helper_never_gets_more"),
}


@dataclass(frozen=True, slots=True)
class Found:
    """What came of one framework's tests: the cases that it shows, and why some were skipped."""

    name: str
    package: str
    version: str
    passed: int
    failed: int
    skipped: tuple[str, ...]
    shown: frozenset[str]

    def row(self) -> str:
        """Return the framework's line of the table."""
        cells = ["yes" if self.shown.issuperset(cases) else "–" for cases in COLUMNS.values()]
        return f"| {self.package} | {self.version} | {self.passed} | {' | '.join(cells)} |"


def main(arguments: list[str]) -> int:
    """Test what is asked for, print the table, and write or compare it."""
    check = "--check" in arguments
    names = [each for each in arguments if not each.startswith("-")]
    known = sorted(path.stem for path in PINS.glob("*.txt"))
    if unknown := sorted(set(names) - set(known)):
        print(f"no framework `{unknown[0]}`; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    found = [tested(name) for name in names or known]
    table = rendered(found)
    print(table, end="")
    if any(each.failed for each in found):
        return 1
    return 0 if names else placed(table, check=check)


def tested(name: str) -> Found:
    """Make the environment of a framework where it is not there, and run its tests in it."""
    pins = PINS / f"{name}.txt"
    head = HEAD.match(pins.read_text(encoding="utf-8"))
    if head is None:
        raise SystemExit(f"{pins.relative_to(ROOT)}: begin it with `# extra: … package: …`")
    extra, package = head.groups()
    python = made(PLACE / name, pins, extra)
    report = PLACE / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [python, "-m", "pytest", "-q", "-m", "framework", f"--junitxml={report}"]
    subprocess.run([*command, f"tests/frameworks/test_{name}.py"], cwd=ROOT, check=False)
    if not report.is_file():
        raise SystemExit(f"the tests of {name} did not run")
    code = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return read_report(name, package, done.stdout.strip(), report.read_text(encoding="utf-8"))


def made(place: Path, pins: Path, extra: str) -> str:
    """Return the Python of an environment that has what the pins and the extra name."""
    python = str(place / "bin" / "python")
    mark = place / ".ready"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"][extra]]
    wanted = "\n".join([pins.read_text(encoding="utf-8"), *needed, ""])
    if not mark.is_file() or mark.read_text(encoding="utf-8") != wanted:
        print(f"setting up {place.relative_to(ROOT)}", file=sys.stderr)
        venv.create(place, clear=True, with_pip=True)
        pip = [python, "-m", "pip", "-qq", "--disable-pip-version-check", "--no-input", "install"]
        subprocess.run([*pip, "-e", f"{ROOT}[{extra}]", "-r", os.fspath(pins)], check=True)
        mark.write_text(wanted, encoding="utf-8")
    return python


def read_report(name: str, package: str, version: str, text: str) -> Found:
    """Return what a report of pytest says."""
    cases = ElementTree.fromstring(text).iter("testcase")
    skipped: list[str] = []
    shown: set[str] = set()
    broken: set[str] = set()
    counts: Counter[str] = Counter()
    for case in cases:
        title = case.get("name", "")
        if (skip := case.find("skipped")) is not None:
            skipped.append(skip.get("message", ""))
        elif case.find("failure") is not None or case.find("error") is not None:
            counts["failed"] += 1
            broken.add(title)  # a framework with two suites shows what holds in both
        else:
            counts["passed"] += 1
            shown.add(title)
    if not counts["passed"]:
        counts["failed"] += 1  # a run of nothing shows nothing
    passed, failed = counts["passed"], counts["failed"]
    cells = frozenset(shown - broken)
    return Found(name, package, version, passed, failed, tuple(skipped), cells)


def rendered(found: list[Found]) -> str:
    """Return the table, and below it what was left out and why."""
    lines = [
        f"| framework | version | cases | {' | '.join(COLUMNS)} |",
        "|" + "---|" * (3 + len(COLUMNS)),
        *(each.row() for each in found),
    ]
    for each in found:
        for reason, count in sorted(Counter(each.skipped).items()):
            lines += ["", f"{each.package}, {count} left out: {reason}."]
    return "\n".join(lines) + "\n"


def placed(table: str, *, check: bool) -> int:
    """Put the table into the page, or compare it with what stands there."""
    page = PAGE.read_text(encoding="utf-8")
    held = TABLE.search(page)
    if held is None:
        print(f"{PAGE.relative_to(ROOT)} has no place for the table", file=sys.stderr)
        return 2
    if held.group(2).strip() == table.strip():
        return 0
    if check:
        print(f"{PAGE.relative_to(ROOT)} has another table", file=sys.stderr)
        return 1
    PAGE.write_text(
        page[: held.start(2)] + "\n" + table + "\n" + page[held.end(2) :], encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
