"""The real agents within the walls, against a scripted model on loopback."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Use
from tests import runkit
from tests.agents import test_claude_code as claude
from tests.agents.stages import CodexStage
from tests.agents.tongues import CLINE, CODEX, COPILOT, GEMINI, OPENCODE, PI, QWEN, Tongue
from tests.sandboxkit import needed

pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

OTHERS = (GEMINI, QWEN, COPILOT, OPENCODE, PI, CLINE)
SCOPE = ("tools=Bash,Read,Write", "paths=src/**")
SCRIPT = "echo made > src/made.txt; cat {key}; cat {secret}; echo x > {secret}; curl -s http://a.example/"


@pytest.fixture(params=[False, True], ids=["", "after a canary"])
def walled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Have the runs of the agents' own stages require walls; whether a canary comes before."""
    needed("bubblewrap")
    tried = bool(request.param)
    started = 'workspace=Path(given["workspace"])'
    assert started in runkit._RUN
    walls = f"{started}, sandbox=Wanted.read('require')"
    text = "from broker.sandbox.launching import Wanted\n" + runkit._RUN.replace(started, walls)
    assert 'canary=given["canary"]' in text
    text = text.replace('canary=given["canary"]', f"canary={tried}")
    monkeypatch.setattr(runkit, "_RUN", text)
    return tried


def outside(root: Path) -> tuple[Path, str]:
    """Make a file outside, and return it with a script that tries what the scope does not name."""
    secret = root / "secret.txt"
    secret.write_text("SECRET\n")
    return secret, SCRIPT.format(key=root / "home/data/keys/*", secret=secret)


def check(
    told: str, root: Path, entries: list[tuple[str, dict[str, Any]]], shell: str = "Bash"
) -> None:
    """Check that the shell worked inside, reached nothing outside, and was held by the kernel."""
    assert (root / "ws/src/made.txt").read_text() == "made\n"
    assert (root / "secret.txt").read_text() == "SECRET\n"
    assert "SECRET" not in told
    assert "refused (hosts)" in told
    decisions = [d for kind, d in entries if kind == "decision" and d["tool"] == shell]
    assert [d["enforcement"] for d in decisions] == ["kernel"]


def test_claude_code(tmp_path: Path, walled: bool) -> None:
    """Claude Code works, talks to its model, and its shell is held to the ticket by the kernel."""
    program = os.environ.get("BROKER_CLAUDE") or shutil.which("claude")
    if not program:
        pytest.skip("Claude Code is not installed")
    stage = claude.Stage(tmp_path, program)
    _, script = outside(tmp_path)
    run = stage.play({"main": [Use([claude.bash(script)]), Say("done")]}, scope=SCOPE)
    assert run.code == 0, run.err
    check(run.result("main-0-0").text, tmp_path, run.entries())
    # What is made within the walls is gone with the run; the canary is outside of them.
    assert walled or list((stage.user / ".claude").iterdir()) == []


@pytest.mark.usefixtures("walled")
def test_claude_code_keeps_its_settings(tmp_path: Path) -> None:
    """A shell cannot change the settings that another run would start with; talks are kept."""
    program = os.environ.get("BROKER_CLAUDE") or shutil.which("claude")
    if not program:
        pytest.skip("Claude Code is not installed")
    stage = claude.Stage(tmp_path, program)
    settings = stage.user / ".claude/settings.json"
    settings.write_text("{}")
    (stage.user / ".claude/projects").mkdir()
    script = f"echo x > {settings}; mkdir -p {settings.parent}/plugins/mine; echo x > ~/.bashrc"
    run = stage.play({"main": [Use([claude.bash(script)]), Say("done")]}, scope=SCOPE)
    assert run.code == 0, run.err
    assert settings.read_text() == "{}"
    assert not (stage.user / ".claude/plugins/mine").exists()
    assert not (stage.user / ".bashrc").exists()
    assert list((stage.user / ".claude/projects").iterdir())


@pytest.mark.usefixtures("walled")
def test_codex(tmp_path: Path) -> None:
    """Codex works, talks to its model, and its shell is held to the ticket by the kernel."""
    program = os.environ.get("BROKER_CODEX") or shutil.which("codex")
    if not program:
        pytest.skip("Codex is not installed")
    stage = CodexStage(tmp_path, program)
    _, script = outside(tmp_path)
    code, _, err = stage.run({"main": [Use([CODEX.shell(script)]), Say("done")]}, scope=SCOPE)
    assert code == 0, err
    check(stage.results["main-0-0"].text, tmp_path, stage.entries())
    config = (stage.user / ".codex/config.toml").read_text()
    assert config.startswith("\nmodel_provider")


@pytest.mark.parametrize("tongue", OTHERS, ids=lambda tongue: tongue.name)
def test_the_others(tmp_path: Path, walled: bool, tongue: Tongue) -> None:
    """Each works, talks to its model, and its shell is held to the ticket by the kernel."""
    stage = tongue.on(tmp_path)
    _, script = outside(tmp_path)
    code, out, err = stage.run(
        {"main": [Use([tongue.shell(script)]), Say("done")]},
        *tongue.options(str(stage.workspace)),
        scope=[tongue.scope("read", "write", "shell"), "paths=src/**"],
    )
    assert code == 0, out + err
    check(stage.told("main-0-0"), tmp_path, stage.entries(), tongue.names["shell"])
