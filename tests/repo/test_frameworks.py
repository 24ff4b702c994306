"""What is said of agent frameworks: pins, extras, the page and its table go together."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import test_frameworks as tool  # noqa: E402 - it is a script, not a package

REPORT = """<testsuites><testsuite>
<testcase classname="T" name="test_an_allowed_call_runs[async]"/>
<testcase classname="T" name="test_a_refused_call_never_runs[async]"/>
<testcase classname="T" name="test_a_refused_call_never_runs[stream]"/>
<testcase classname="T" name="test_an_allowed_call_runs[stream]"><failure/></testcase>
<testcase classname="T" name="test_x"><skipped message="the SDK sings"/></testcase>
<testcase classname="T" name="test_y"><skipped message="the SDK sings"/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_read() -> None:
    """A column says yes only where all of its cases passed; each skip is told with its reason."""
    found = tool.read_report("x", "x-sdk", "1.2", REPORT)
    assert (found.passed, found.failed, len(found.skipped)) == (3, 1, 2)
    assert found.row() == "| x-sdk | 1.2 | 3 | yes | – | – | – | – | – |"
    assert tool.rendered([found]).endswith("\nx-sdk, 2 left out: the SDK sings.\n")
    assert tool.read_report("x", "x", "1", "<testsuites/>").failed == 1


def test_every_framework_is_on_the_page() -> None:
    """Each framework has a test, an adapter, an extra whose range holds its pin, and a row."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    held = tool.TABLE.search(tool.PAGE.read_text(encoding="utf-8"))
    assert held is not None
    for pins in sorted(tool.PINS.glob("*.txt")):
        text = pins.read_text(encoding="utf-8")
        head = tool.HEAD.match(text)
        assert head is not None, pins.name
        extra, package = head.groups()
        version = re.search(rf"^{re.escape(package)}==(\S+)$", text, re.MULTILINE)
        assert version is not None, f"{pins.name} pins no {package}"
        asked = [Requirement(each) for each in extras[extra]]
        assert any(r.name == package and version[1] in r.specifier for r in asked), pins.name
        assert (tool.PINS / f"test_{pins.stem}.py").is_file()
        assert f"| {package} | {version[1]} |" in held.group(2), f"no row for {package}"
