"""`broker policy` names scopes, shows them, and runs their own tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.console import Console

TEAM = """# What our team lets an agent do.
tools = read_file, edit_file
paths = src/**
expect allow  read_file(path="src/a.py")
expect refuse read_file(path="b.py")  # paths
"""


@pytest.fixture
def policies(broker_home: Path) -> Path:
    """The person's own policies."""
    folder = broker_home / "config" / "policies"
    folder.mkdir(parents=True)
    return folder


def test_list(broker: Console, policies: Path) -> None:
    """Shipped and own policies are listed with what they are for."""
    (policies / "team.scope").write_text(TEAM)
    said = broker("policy", "list")
    assert said.code == 0
    assert any(line.startswith("@review ") for line in said.out.splitlines())
    assert "What our team lets an agent do." in said.out
    names = [p["name"] for p in broker("policy", "list", "--json").json()]
    assert names == sorted(names)
    assert {"team", "fix-tests"} <= set(names)


def test_show(broker: Console, policies: Path) -> None:
    """A policy is shown with its texts and its expectations."""
    (policies / "team.scope").write_text(TEAM)
    said = broker("policy", "show", "team")
    assert said.code == 0
    assert "    paths=src/**" in said.out.splitlines()
    assert broker("policy", "show", "@team").out == said.out
    shown = broker("policy", "show", "team", "--json").json()
    assert len(shown["expects"]) == 2
    missing = broker("policy", "show", "tean")
    assert (missing.code, missing.out) == (2, "")
    assert "no policy is called `tean`" in missing.err


def test_check_holds(broker: Console) -> None:
    """Every shipped policy keeps its own expectations."""
    said = broker("policy", "check")
    assert (said.code, said.err) == (0, "")
    assert all(line.startswith("holds") for line in said.out.splitlines())


def test_check_a_file(broker: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is checked by its path or its name, and a failed expectation is 1 and named."""
    monkeypatch.chdir(tmp_path)
    Path("team.scope").write_text(TEAM)
    for name in ("team.scope", "./team.scope", str(tmp_path / "team.scope")):
        assert broker("policy", "check", name).code == 0
    Path("team.scope").write_text(TEAM + 'expect allow edit_file(path="b.py")\n')
    said = broker("policy", "check", "team.scope")
    assert said.code == 1
    assert "1 of 3 expectations" in said.out
    assert "team.scope:6: `expect allow edit_file" in said.out
    Path("team.scope").write_text("# Bad.\npath = src\n")
    said = broker("policy", "check", "team.scope")
    assert (said.code, said.out) == (2, "")
    assert "team.scope:2: no such key `path`" in said.err


def test_check_is_apart_from_the_workspace(
    broker: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the current folder plays no part, save for its catalogs, and nothing stays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "src").symlink_to("/etc")
    catalogs = tmp_path / ".broker" / "catalogs"
    catalogs.mkdir(parents=True)
    (catalogs / "ours.toml").write_text(
        '[tools.our_tool]\neffect = "read"\narguments = { place = "path-read" }\n'
    )
    Path("team.scope").write_text(TEAM.replace("read_file,", "read_file, our_tool,"))
    assert broker("policy", "check", "team.scope").code == 0
    assert os.listdir(tmp_path / "tmp") == []


def test_expectations_look_into_arguments(
    broker: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An expectation says what was typed where a rule looks into it; without that it refuses."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pay.scope").write_text(
        "# Pay whom I name.\n"
        "tools = pay(to in intent, amount<=50)\n"
        'expect allow  pay(to="A", amount=5) given "pay A"\n'
        'expect refuse pay(to="A", amount=5) given "pay B"  # tools\n'
        'expect refuse pay(to="A", amount=51) given "pay A"  # tools\n'
        'expect refuse pay(to="A", amount=5)  # tools\n',
        encoding="utf-8",
    )
    said = broker("policy", "check", "./pay.scope")
    assert (said.code, said.out) == (0, "holds   @pay: 4 expectations\n")
