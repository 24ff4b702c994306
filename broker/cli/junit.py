"""
Test results as JUnit XML, which every CI reads.

Decided here: the elements and attributes, those that the common schema (Jenkins' ``junit-10.xsd``)
has, in its order. Not decided here: what a test is.

Rule a maintainer keeps: a text that XML cannot hold is escaped, never dropped, and two runs over
the same input give the same bytes: no instant, no host name, no duration that was not measured.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from broker.cli.output import printable

Outcome = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Case:
    """One test: its name, where it stands, how it ended, and why."""

    name: str
    group: str
    outcome: Outcome = "passed"
    why: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one policy; ``took_s`` is how long they took, in seconds."""

    name: str
    cases: tuple[Case, ...]
    took_s: float = 0.0

    def count(self, outcome: Outcome) -> int:
        """Return how many tests ended so."""
        return sum(case.outcome == outcome for case in self.cases)


def junit(suites: Sequence[Suite]) -> bytes:
    """
    Return the results as one XML document.

    >>> print(junit([Suite("a", (Case("read()", "a", "failed", "was <refused>"),))]).decode())
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="broker policy test" tests="1" failures="1" errors="0" time="0.000">
    ...
          <failure message="was &lt;refused&gt;" type="expectation" />
    ...
    """
    root = ET.Element("testsuites", {"name": "broker policy test", **_counts(suites)})
    for suite in suites:
        given = {"name": printable(suite.name), **_counts([suite])}
        given["skipped"] = str(suite.count("skipped"))
        element = ET.SubElement(root, "testsuite", given)
        for case in suite.cases:
            told = ET.SubElement(
                element, "testcase", name=printable(case.name), classname=printable(case.group)
            )
            if case.outcome == "failed":
                ET.SubElement(told, "failure", message=printable(case.why), type="expectation")
            elif case.outcome == "skipped":
                ET.SubElement(told, "skipped", message=printable(case.why))
    ET.indent(root)
    text: bytes = ET.tostring(root, "utf-8")
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + text + b"\n"


def _counts(suites: Sequence[Suite]) -> dict[str, str]:
    return {
        "tests": str(sum(len(suite.cases) for suite in suites)),
        "failures": str(sum(suite.count("failed") for suite in suites)),
        "errors": "0",
        "time": f"{sum(suite.took_s for suite in suites):.3f}",
    }
