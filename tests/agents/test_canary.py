"""
The canary of each agent that is installed, and what it finds where a hook does nothing.

An agent is found on the path, or where ``BROKER_CLAUDE``, ``BROKER_CODEX``, … say. Neither an
account nor a network is needed.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from broker.agents.adapter import PROGRAMS
from broker.agents.canary import _PROMPT
from broker.agents.examining import examine, known
from broker.agents.plugin import Plugged
from broker.loopback.script import Say
from broker.loopback.server import LoopbackModel
from tests.agents.stage import installed
from tests.agents.stages import nothing_to_install
from tests.runkit import finished, start
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

pytestmark = [pytest.mark.agent, pytest.mark.alone, pytest.mark.timeout(600)]

SAID = "[script main] go"


@pytest.fixture(params=known())
def agent(request: pytest.FixtureRequest) -> str:
    """Each agent's program, or a skip."""
    name: str = request.param
    return installed(f"BROKER_{name.upper()}", name)


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The home of a person who has set up nothing."""
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


def environ_of(user: Path) -> dict[str, str]:
    """Return an environment with nothing of the machine's own."""
    return {"HOME": str(user), "PATH": os.environ["PATH"]}


def claude(url: str, _: Path) -> tuple[list[str], dict[str, str]]:
    """Return the rest of a command line of Claude Code, and its environment."""
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    return (
        ["-p", SAID, "--model", "claude-sonnet-4-5", "--no-session-persistence"],
        {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", **quiet},
    )


def codex(url: str, user: Path) -> tuple[list[str], dict[str, str]]:
    """Return the rest of a command line of Codex, and its environment."""
    fields = f'name="s",base_url="{url}/v1",wire_api="responses",env_key="SCRIPTED_KEY"'
    settings = [
        f"model_providers.s={{{fields},supports_websockets=false}}",
        'model_provider="s"',
        "check_for_update_on_startup=false",
    ]
    (user / ".codex").mkdir()
    words = [word for setting in settings for word in ("-c", setting)]
    return (
        ["exec", "--ephemeral", "--skip-git-repo-check", *words, "-m", "gpt-5.5", SAID],
        {"SCRIPTED_KEY": "none"},
    )


def gemini(url: str, user: Path) -> tuple[list[str], dict[str, str]]:
    """Return the rest of a command line of Gemini CLI, and its environment."""
    (user / ".gemini").mkdir()
    auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (user / ".gemini/settings.json").write_text(json.dumps(auth))
    return (
        ["-m", "gemini-2.5-pro", "--skip-trust", "-p", SAID],
        {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "none"},
    )


def qwen(url: str, _: Path) -> tuple[list[str], dict[str, str]]:
    """Return the rest of a command line of Qwen Code, and its environment."""
    given = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "scripted"}
    return ["--auth-type", "openai", "-m", "scripted", "--chat-recording=false", SAID], given


def copilot(url: str, _: Path) -> tuple[list[str], dict[str, str]]:
    """Return the rest of a command line of Copilot CLI, and its environment."""
    return (
        ["--allow-all", "--no-ask-user", "--no-auto-update", "-p", SAID],
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_PROVIDER_BASE_URL": url,
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "claude-sonnet-4.6",
        },
    )


def opencode(url: str, user: Path) -> tuple[list[str], dict[str, str]]:
    """Return the rest of a command line of opencode, and its environment."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"s": {"tool_call": True}},
    }
    settings = {"provider": {"s": provider}, "enabled_providers": ["s"], "model": "s/s"}
    folder = user / ".config/opencode"
    nothing_to_install(folder)
    (folder / "opencode.json").write_text(json.dumps(settings))
    return ["run", "--title", "x", SAID], {"OPENCODE_DISABLE_MODELS_FETCH": "1"}


def cline(url: str, user: Path) -> tuple[list[str], dict[str, str]]:
    """Return the rest of a command line of Cline CLI, and its environment."""
    chosen = {"provider": "openai-compatible", "apiKey": "none", "baseUrl": f"{url}/v1"}
    row = {"settings": {**chosen, "model": "s"}, "updatedAt": "2020-01-01T00:00:00.000Z"}
    (user / ".cline/data/settings").mkdir(parents=True)
    (user / ".cline/data/settings/providers.json").write_text(
        json.dumps({"version": 1, "providers": {"openai-compatible": row}})
    )
    return ["--json", "-P", "openai-compatible", "-m", "s", SAID], {"CLINE_NO_AUTO_UPDATE": "1"}


def pi(url: str, user: Path) -> tuple[list[str], dict[str, str]]:
    """Return the rest of a command line of pi, and its environment."""
    row = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "none"}
    models = {"providers": {"s": {**row, "models": [{"id": "s"}]}}}
    (user / ".pi/agent").mkdir(parents=True)
    (user / ".pi/agent/models.json").write_text(json.dumps(models))
    return ["-p", "--provider", "s", "--model", "s", "--no-session", SAID], {"PI_OFFLINE": "1"}


SET_UP: Mapping[str, Callable[[str, Path], tuple[list[str], dict[str, str]]]] = {
    each.__name__: each for each in (claude, codex, gemini, qwen, copilot, opencode, pi, cline)
}


def test_it_comes_before_the_run(agent: str, bench: Bench, user: Path) -> None:
    """The receipt begins with its refusal, then the run goes its way; no history knows of it."""
    with LoopbackModel({"main": [Say("done")]}) as model:
        arguments, more = SET_UP[Path(agent).name](model.url, user)
        run = start(
            [agent, *arguments],
            home=bench.home.state.parent,
            workspace=bench.workspace,
            texts=("tools=none", "calls=1"),
            environ={**environ_of(user), **more},
            canary=True,
        )
        code, _, err = finished(run, 550)
        assert code == 0, err
        assert any(SAID in body for body in model.asked)
        assert not any(_PROMPT in body for body in model.asked)
    (info,) = bench.receipts().sessions()
    assert bench.verdict(info.sid).state == "SEALED"
    found = [data for kind, data in bench.entries(info.sid) if kind == "decision"]
    assert [(d["actor"], d["decision"], d["caveat"]) for d in found] == [
        ("canary", "refuse", "own")
    ]
    kept = [path for path in user.rglob("*") if path.is_file() and "node_modules" not in path.parts]
    assert [path for path in kept if _PROMPT.encode() in path.read_bytes()] == []


def test_a_hook_that_does_nothing_is_noticed(
    agent: str, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the hook or the plugin lets everything pass unasked, the agent is not held."""
    room = importlib.import_module(PROGRAMS[Path(agent).name].partition(":")[0])
    if hasattr(room, "hook_command"):
        monkeypatch.setattr(room, "hook_command", lambda *_, **__: "true")
    idle = {
        "broker-cline.js": "export default { name: 'x', manifest: { capabilities: ['hooks'] }, "
        "hooks: { beforeTool: () => ({ policy: { autoApprove: true } }) } }",
        "broker-pi.mjs": "export default async function () {}",
        "broker-opencode.mjs": "export const Broker = async () => "
        '({ config: async (config) => { delete config.permission["**"] } })',
    }

    def put(self: Plugged, package: str, name: str, folder: Path) -> Path:
        (folder / name).write_text(idle[name])
        return folder / name

    monkeypatch.setattr(Plugged, "put", put)
    found = examine(agent, environ_of(user))
    assert found.answer == "not held", found
    assert "was not started, because" in found.text
    assert found.version


def test_it_is_tried_alone(agent: str, user: Path) -> None:
    """Tried as it is set up, each agent is held, and nobody but our model was asked."""
    found = examine(agent, environ_of(user))
    assert found.answer == "held", found
    assert found.took_s is not None
