"""`broker policy test` runs expectations, and recorded sessions, against a policy."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from broker.home import Home
from tests.console import Console
from tests.sessionkit import Bench

TEAM = """# What our team lets an agent do.
tools = Read, Edit
paths = src/**
expect allow  Read(file_path="src/a.py")
expect refuse Read(file_path="b.py")  # paths
"""


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broker_home: Path) -> Path:
    """A policy's file, where the person stands."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "team.scope"
    path.write_text(TEAM)
    return path


@pytest.fixture
def sid(tmp_path: Path, broker_home: Path) -> str:
    """A session that read, edited, and was refused twice."""
    kept = Bench(tmp_path / "b", Home.find({"BROKER_HOME": str(broker_home)}))
    session = kept.open(["tools=Read,Edit,Bash", "writes=src/**", "calls=9"])
    edit = {"old_string": "a", "new_string": "b"}
    for tool, arguments in (
        ("Read", {"file_path": "src/a.py"}),
        ("Edit", {"file_path": "src/a.py", **edit}),
        ("Edit", {"file_path": "c.py", **edit}),
        ("Write", {"file_path": "src/a.py", "content": ""}),
        ("Bash", {"command": "ls"}),
    ):
        session.decide(tool, arguments, cwd=str(kept.workspace))
    session.seal()
    return session.sid


def test_expectations_hold_or_fail(broker: Console, team: Path) -> None:
    """Each expectation is a test, and one that fails is told with its line."""
    said = broker("policy", "test", "./team.scope")
    assert (said.code, said.err) == (0, "")
    assert said.out == "holds   @team: 2 tests\n"
    team.write_text(TEAM.replace("refuse Read", "allow Read").replace("  # paths", ""))
    said = broker("policy", "test", "./team.scope")
    assert said.code == 1
    assert "team.scope:5: was refused by `paths`" in said.out


def test_every_shipped_policy_holds(broker: Console) -> None:
    """Without a name all are tested."""
    said = broker("policy", "test", "--json")
    assert said.code == 0
    suites: Any = said.json()
    assert {"review", "fix-tests"} <= {suite["policy"] for suite in suites}
    assert all(suite["tests"] >= 5 and not suite["failed"] for suite in suites)


def test_a_recorded_session_is_decided_once_more(broker: Console, team: Path, sid: str) -> None:
    """A policy that answers otherwise than the session did fails, call by call."""
    (suite,) = broker("policy", "test", "./team.scope", "--session", sid[:8], "--json").json()
    recorded = [case for case in suite["cases"] if "session" in case["group"]]
    outcomes = [(case["outcome"], case["why"]) for case in recorded]
    assert outcomes == [
        ("passed", ""),
        ("passed", ""),
        ("passed", ""),
        ("passed", ""),
        ("failed", "was allowed, and is refused by `tools`"),
    ]
    wider = team.with_name("wide.scope")
    wider.write_text("# Wide.\ntools = Read, Edit, Write, Bash\n")
    said = broker("policy", "test", "wide.scope", "--session", sid)
    assert said.code == 1
    assert "was refused by `writes`, and is allowed" in said.out
    assert "was refused by `tools`, and is allowed" in said.out


def test_what_a_receipt_does_not_tell_is_skipped(broker: Console, team: Path, sid: str) -> None:
    """Arguments are not kept, so a rule about them is not tried, and that is said."""
    team.write_text('# Rules.\ntools = Edit, Bash, Write, Read(file_path under "src/")\n')
    said = broker("policy", "test", "team.scope", "--session", sid)
    assert "skipped 1: the policy looks into its arguments" in said.out


def test_calls_are_counted_as_the_policy_would(broker: Console, team: Path, sid: str) -> None:
    """The budget of the policy is spent by what it allows, in order."""
    team.write_text("# Few.\ncalls = 1\ntools = Read, Edit, Bash\nwrites = src/**\n")
    said = broker("policy", "test", "team.scope", "--session", sid)
    assert "2 failed" in said.out
    assert said.out.count("is refused by `calls`") == 2


def test_junit_is_written_and_read_back(broker: Console, team: Path, sid: str) -> None:
    """A CI gets one case for each test, with the failures and why others were skipped."""
    report = team.with_name("report.xml")
    said = broker(
        "policy", "test", "team.scope", "review", "--session", sid, "--junit", "report.xml"
    )
    assert said.code == 1
    root = ET.parse(report).getroot()
    assert [suite.get("name") for suite in root] == ["@team", "@review"]
    assert root.get("failures") == str(len(list(root.iter("failure")))) != "0"
    missing = broker("policy", "test", "team.scope", "--junit", "no/such/report.xml")
    assert missing.code == 2
    assert "cannot be written" in missing.err


def test_bad_input(broker: Console, team: Path) -> None:
    """No such policy, or no such session."""
    assert broker("policy", "test", "no-such").code == 2
    said = broker("policy", "test", "review", "--session", "zzzz")
    assert (said.code, said.out) == (2, "")
