"""Trying one agent of this machine, in a place of its own."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from broker.agents.adapter import PROGRAMS
from broker.agents.examining import Examined, examine, known, version_of
from tests.canarykit import fake_claude

pytestmark = pytest.mark.alone


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a person whose folder of programs holds one agent."""
    fake_claude(tmp_path / "bin")
    (tmp_path / "user").mkdir()
    return {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path / "user")}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made, so that a test sees whether one stays."""
    place = Path(tempfile.mkdtemp(prefix="t-", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def test_an_agent_that_obeys(environ: dict[str, str], tmp_path: Path, places: Path) -> None:
    """It is held, its version and what holds it are told, and nothing that was made stays."""
    found = examine("claude", environ)
    assert (found.answer, found.text) == (
        *("held", "it obeyed a refusal, and so did its subagent"),
    )
    assert (found.agent, found.version) == ("claude-code", "0.0.0 (fake)")
    assert found.program == str(tmp_path / "bin/claude")
    assert found.tested
    assert "PreToolUse" in found.point
    assert found.took_s is not None
    assert found.helper_s is not None
    assert min(found.took_s, found.helper_s) > 0
    assert list(places.iterdir()) == []
    assert list((tmp_path / "user").iterdir()) == []


@pytest.mark.parametrize("how", ["passes over the refusal", "has no hook", "crashes"])
def test_an_agent_that_does_not(environ: dict[str, str], places: Path, how: str) -> None:
    """What lets the call run, or never makes it, is not held, and the reason is told."""
    found = examine("claude", {**environ, "FAKE_CLAUDE": how})
    assert found.answer == "not held"
    assert "was not started, because" in found.text
    assert found.took_s is None
    assert list(places.iterdir()) == []


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("its subagent passes over the refusal", "its subagent's canary ran although"),
        ("its subagent has no hook", "its subagent's canary ran"),
        ("its subagent does not say why", "something else than the refusal"),
        ("starts no subagent", "exit code 0 without a call"),
    ],
)
def test_a_subagent_that_does_not(environ: dict[str, str], how: str, said: str) -> None:
    """An agent that obeys, and whose subagent does not, is not held."""
    found = examine("claude", {**environ, "FAKE_CLAUDE": how})
    assert found.answer == "not held"
    assert said in found.text


def test_what_cannot_be_held_is_not_held(environ: dict[str, str], tmp_path: Path) -> None:
    """Settings that switch hooks off are found before anything is started."""
    settings = tmp_path / "user/.claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"disableAllHooks": true}')
    found = examine("claude", environ)
    assert found.answer == "not held"
    assert "disableAllHooks" in found.text


def test_what_cannot_be_told(environ: dict[str, str]) -> None:
    """What is not installed, and what has no hook at all, is neither held nor not held."""
    assert examine("codex", {**environ, "PATH": "/nowhere"}).text == "it is not installed"
    found = examine("true", environ)
    assert (found.answer, found.agent) == ("not known", "true")
    assert "no hook" in found.text
    assert Examined("x").answer == "not known"


def test_where_nothing_can_be_served(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A temporary folder whose name is too long for a socket is a reason not to know."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    found = examine("claude", environ)
    assert found.answer == "not known"
    assert "too long" in found.text


@pytest.mark.parametrize(
    ("script", "version"),
    [("echo 1.2; echo more", "1.2"), ("echo 1.3 >&2", "1.3"), ("exit 1", ""), ("", "")],
)
def test_a_version(tmp_path: Path, script: str, version: str) -> None:
    """The first line is the version, wherever it is printed; a program may have none."""
    program = tmp_path / "x"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert version_of(str(program), {"PATH": os.environ["PATH"]}) == version
    assert version_of(str(tmp_path / "none"), {}) == ""


def test_every_program_is_known() -> None:
    """Each agent is listed once, by the name that is typed."""
    assert set(known()) == {name for name in PROGRAMS if "." not in name}
