"""
The real Codex under a ticket, against a scripted model on loopback.

Runs where Codex is installed (``BROKER_CODEX`` names its program, else ``codex`` on the path) and
needs neither an account nor a network.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Text, Use
from broker.loopback.server import LoopbackModel
from tests.agents import stage as stages
from tests.agents.stage import broker_gone, installed

pytestmark = [pytest.mark.agent, pytest.mark.timeout(180)]

FUNCTIONS, CODE = "gpt-5.5", "gpt-6.2-sol"  # models whose tools are functions, or JavaScript
PATCH = "*** Begin Patch\n*** Add File: {}\n+hello\n*** End Patch\n"
HOOK = """
[[hooks.PreToolUse]]
[[hooks.PreToolUse.hooks]]
type = "command"
command = "{}"
"""
CONFIG = """
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
supports_websockets = false
request_max_retries = 1
stream_max_retries = 1
"""


@pytest.fixture(scope="session")
def codex() -> str:
    """The program, or a skip."""
    return installed("BROKER_CODEX", "codex")


class Stage(stages.Stage):
    """A stage with Codex on it."""

    def __init__(self, root: Path, program: str) -> None:
        super().__init__(root, program)
        (self.user / ".codex").mkdir()

    def ready(self, model: LoopbackModel) -> None:
        """Name the scripted model in the configuration."""
        config = self.user / ".codex" / "config.toml"
        kept = config.read_text() if config.exists() else ""
        config.write_text(CONFIG.format(url=model.url) + kept)

    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run."""
        slug = more.get("slug", FUNCTIONS)
        command = [self.program, "exec", "--json", "--skip-git-repo-check", "-m", slug]
        return [*command, *arguments, "[script main] go"]

    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return the variables of a run."""
        return {"CODEX_HOME": str(self.user / ".codex"), "SCRIPTED_KEY": "none"}


@pytest.fixture
def stage(tmp_path: Path, codex: str) -> Stage:
    """A stage of this test's own."""
    return Stage(tmp_path, codex)


def shell(command: str) -> tuple[str, Mapping[str, object]]:
    """Return a call of the shell."""
    return "exec_command", {"cmd": command}


def patch(name: str) -> tuple[str, Text]:
    """Return a call that makes a file."""
    return "apply_patch", Text(PATCH.format(name))


def script(code: str) -> Use:
    """Return a turn of a model whose one tool runs JavaScript."""
    caught = f"try {{ {code} }} catch (error) {{ text('caught: ' + error) }}"
    return Use([("functions/exec", Text(caught))])


def test_calls_inside_and_outside_the_scope(stage: Stage) -> None:
    """A patch inside passes, one outside and a shell that nobody named are refused by name."""
    code, _, err = stage.run(
        {
            "main": [
                Use([patch("src/new.txt")]),
                Use([patch("outside.txt")]),
                Use([shell("echo hi > shell.txt")]),
                Say("done"),
            ]
        },
        scope=["tools=apply_patch", "paths=src/**"],
    )
    assert code == 0, err
    assert stage.decisions() == [
        ("apply_patch", "allow", ""),
        ("apply_patch", "refuse", "paths"),
        ("Bash", "refuse", "tools"),
    ]
    assert (stage.workspace / "src/new.txt").read_text() == "hello\n"
    assert not (stage.workspace / "outside.txt").exists()
    assert not (stage.workspace / "shell.txt").exists()
    told = stage.results["main-1-0"].text
    assert "refused by `paths`" in told
    assert "ask the person" in told
    intent = next(data for kind, data in stage.entries() if kind == "intent")
    assert intent["line"] == "[script main] go"


def test_calls_inside_javascript_are_held_too(stage: Stage) -> None:
    """A model that calls tools from code meets the same refusals, and code may not outlive them."""
    quoted = json.dumps(PATCH.format("outside.txt"))
    code, _, err = stage.run(
        {
            "main": [
                script("text(await tools.exec_command({cmd: 'echo hi > src/made.txt'}))"),
                script(f"text(await tools.apply_patch({quoted}))"),
                Say("done"),
            ]
        },
        slug=CODE,
        scope=["tools=Bash,apply_patch", "paths=src/**", "calls=5"],
    )
    assert code == 0, err
    assert stage.decisions() == [("Bash", "allow", ""), ("apply_patch", "refuse", "paths")]
    assert (stage.workspace / "src/made.txt").exists()
    assert not (stage.workspace / "outside.txt").exists()


def test_parallel_calls_share_the_budget(stage: Stage) -> None:
    """Of ten calls at once under a budget of four, four run."""
    calls = [shell(f"echo x > src/{n}.txt") for n in range(10)]
    code, _, err = stage.run({"main": [Use(calls), Say("done")]}, scope=["tools=Bash", "calls=4"])
    assert code == 0, err
    found = [decision for _, decision, _ in stage.decisions()]
    assert (found.count("allow"), found.count("refuse")) == (4, 6)
    assert len(list((stage.workspace / "src").glob("?.txt"))) == 4


def test_a_ticket_that_ends_during_the_run(stage: Stage) -> None:
    """What came before the end passed, what comes after it is refused."""
    stage.run(
        {"main": [Use([shell("sleep 6")]), Use([shell("echo x > late.txt")]), Say("done")]},
        scope=["tools=Bash", "until=5s"],
    )
    assert stage.decisions()[-1] == ("Bash", "refuse", "until")
    assert not (stage.workspace / "late.txt").exists()


def test_a_link_that_leads_outside(stage: Stage, tmp_path: Path) -> None:
    """A patch through a link that an earlier call made is judged by where it leads."""
    (tmp_path / "elsewhere").mkdir()
    stage.run(
        {
            "main": [
                Use([shell(f"ln -s {tmp_path / 'elsewhere'} src/link")]),
                Use([patch("src/link/new.txt")]),
                Say("done"),
            ]
        },
        scope=["tools=Bash,apply_patch", "paths=src/**"],
    )
    assert stage.decisions()[-1] == ("apply_patch", "refuse", "paths")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_subagents_are_told_apart(stage: Stage) -> None:
    """A subagent's calls are its own in the receipt, and are held to the same ticket."""
    stage.run(
        {
            "main": [
                Use([("multi_agent_v1/spawn_agent", {"message": "[script sub] look"})]),
                Use([shell("sleep 4")]),
                Say("done"),
            ],
            "sub": [Use([patch("outside.txt")]), Say("nothing")],
        },
        scope=["tools=Bash,apply_patch,spawn_agent", "paths=src/**"],
    )
    actors = {
        data["actor"].partition(":")[0]: data["decision"]
        for kind, data in stage.entries()
        if kind == "decision" and data["tool"] == "apply_patch"
    }
    assert actors == {"agent": "refuse"}
    assert not (stage.workspace / "outside.txt").exists()


def test_the_users_own_hooks_stay_and_nothing_is_edited(stage: Stage, tmp_path: Path) -> None:
    """The configuration is byte for byte what it was, and no hook of it became trusted."""
    seen = tmp_path / "seen"
    hook = HOOK.format(f"touch {seen}")
    (stage.user / ".codex" / "config.toml").write_text(hook)
    code, _, err = stage.run({"main": [Use([shell("true")]), Say("done")]}, scope=["tools=Bash"])
    assert code == 0, err
    config = (stage.user / ".codex" / "config.toml").read_text()
    assert config.endswith(hook)
    assert "trusted_hash" not in config
    assert not seen.exists()


def test_a_workspace_cannot_switch_the_hook_off(stage: Stage) -> None:
    """Settings of the workspace, trusted by the person or not, leave the hook where it is."""
    folder = stage.workspace / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text("[features]\nhooks = false\n")
    trust = f'[projects."{stage.workspace}"]\ntrust_level = "trusted"\n'
    (stage.user / ".codex" / "config.toml").write_text(trust)
    stage.run(
        {"main": [Use([shell("echo x > shell.txt")]), Say("done")]}, scope=["tools=apply_patch"]
    )
    assert not (stage.workspace / "shell.txt").exists()
    assert stage.decisions() == [("Bash", "refuse", "tools")]


def test_hooks_of_a_trusted_workspace_stay_unreviewed(stage: Stage, tmp_path: Path) -> None:
    """A hook that a workspace brings along does not run because ours do."""
    seen = tmp_path / "seen"
    folder = stage.workspace / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(HOOK.format(f"touch {seen}"))
    trust = f'[projects."{stage.workspace}"]\ntrust_level = "trusted"\n'
    (stage.user / ".codex" / "config.toml").write_text(trust)
    stage.run({"main": [Use([shell("true")]), Say("done")]}, scope=["tools=Bash"])
    assert stage.decisions() == [("Bash", "allow", "")]
    assert not seen.exists()


@pytest.mark.parametrize("how", ["killed", "stopped", "socket"])
def test_a_broker_that_is_gone_refuses(stage: Stage, how: str) -> None:
    """Killed, hung or without its socket: the call after that is refused or never made."""
    broker_gone(stage, how, shell, ["tools=Bash"])
