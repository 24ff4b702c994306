"""Where each real agent stands in a test: its configuration, its command and its environment."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.server import LoopbackModel
from tests.agents.stage import Script, Stage
from tests.unit.test_cli_project import at_terminal

NOTES = Path(__file__).with_name("notes_server.py")
NOTES_STARTED: Mapping[str, object] = {"command": sys.executable, "args": [str(NOTES)]}


class ClaudeStage(Stage):
    """A stage with Claude Code on it."""

    def __init__(self, root: Path, program: str) -> None:
        super().__init__(root, program)
        (self.user / ".claude").mkdir()

    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run."""
        command = [self.program, "-p", "[script main] go", "--model", "claude-sonnet-4-5"]
        mode = more.get("mode", "bypassPermissions")
        return [*command, "--permission-mode", mode, *arguments]

    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return the variables of a run."""
        return {
            "TMPDIR": str(self.root),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "IS_SANDBOX": "1",
        }


class CodexStage(Stage):
    """A stage with Codex on it; ``slug`` of a run is its model."""

    FUNCTIONS, CODE = "gpt-5.5", "gpt-6.2-sol"  # models whose tools are functions, or JavaScript
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

    def __init__(self, root: Path, program: str) -> None:
        super().__init__(root, program)
        self.folder = self.user / ".codex"
        self.folder.mkdir()

    def ready(self, model: LoopbackModel) -> None:
        """Name the scripted model in the configuration."""
        config = self.folder / "config.toml"
        kept = config.read_text() if config.exists() else ""
        config.write_text(self.CONFIG.format(url=model.url) + kept)

    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run."""
        slug = more.get("slug", self.FUNCTIONS)
        command = [self.program, "exec", "--json", "--skip-git-repo-check", "-m", slug]
        return [*command, *arguments, "[script main] go"]

    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return the variables of a run."""
        return {"CODEX_HOME": str(self.folder), "SCRIPTED_KEY": "none"}


class GeminiStage(Stage):
    """A stage with Gemini CLI on it; ``more`` of a run are variables."""

    SETTINGS: Mapping[str, object] = {
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    }

    def __init__(self, root: Path, program: str) -> None:
        super().__init__(root, program)
        (self.workspace / ".gemini").mkdir()
        self.own = self.write(self.user / ".gemini/settings.json", self.SETTINGS)

    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run."""
        command = [self.program, "-m", "gemini-2.5-pro", "-o", "stream-json", "--yolo"]
        return [*command, *arguments, "-p", "[script main] go"]

    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return the variables of a run."""
        return {
            "GOOGLE_GEMINI_BASE_URL": model.url,
            "GEMINI_API_KEY": "none",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            **more,
        }


class QwenStage(Stage):
    """A stage with Qwen Code on it; ``more`` of a run are variables."""

    SETTINGS: Mapping[str, object] = {
        "$version": 4,
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "security": {"auth": {"selectedType": "openai"}},
    }

    def __init__(self, root: Path, program: str) -> None:
        super().__init__(root, program)
        self.own = self.write(self.user / ".qwen/settings.json", self.SETTINGS)

    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run."""
        command = [self.program, "--auth-type", "openai", "-m", "scripted", *arguments]
        return [*command, "-o", "stream-json", "--yolo", "[script main] go"]

    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return the variables of a run."""
        return {
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "none",
            "OPENAI_MODEL": "scripted",
            "NO_BROWSER": "1",
            **more,
        }


class CopilotStage(Stage):
    """A stage with GitHub Copilot CLI on it; ``wire`` of a run is how its model is reached."""

    CLAUDE = ("anthropic", "", "claude-sonnet-4.6", "completions")
    GPT = ("openai", "/v1", "gpt-5.4", "responses")

    def __init__(self, root: Path, program: str) -> None:
        super().__init__(root, program)
        (self.user / ".copilot").mkdir()

    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run."""
        command = [self.program, "--allow-all", "--no-ask-user", "--no-auto-update"]
        return [*command, "--output-format", "json", *arguments, "-p", "[script main] go"]

    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return the variables of a run."""
        kind, path, slug, api = more.get("wire", self.CLAUDE)
        return {
            "COPILOT_HOME": str(self.user / ".copilot"),
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_PROVIDER_BASE_URL": f"{model.url}{path}",
            "COPILOT_PROVIDER_TYPE": kind,
            "COPILOT_PROVIDER_WIRE_API": api,
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": slug,
        }


def nothing_to_install(folder: Path) -> None:
    """
    Have opencode take a folder of its configuration for one that its packages lie in already.

    Else it fetches some thirty of them for each test, before anything else, and waits for a
    registry that may be slow. Nothing of them is needed: our plugins import none.
    """
    (folder / "node_modules").mkdir(parents=True, exist_ok=True)
    had = {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}
    (folder / "package-lock.json").write_text(json.dumps({"packages": had}))


class OpencodeStage(Stage):
    """A stage with opencode on it; ``settings`` are added to the person's."""

    def __init__(self, root: Path, program: str) -> None:
        super().__init__(root, program)
        self.settings: dict[str, object] = {}

    def ready(self, model: LoopbackModel) -> None:
        """Name the scripted model in the person's settings."""
        row = {"name": "scripted", "tool_call": True, "limit": {"context": 200000, "output": 8000}}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": {"baseURL": f"{model.url}/v1", "apiKey": "none"},
            "models": {"scripted": row},
        }
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "model": "scripted/scripted",
            "small_model": "scripted/scripted",
            "provider": {"scripted": provider},
            "enabled_providers": ["scripted"],
            "permission": "allow",
            **self.settings,
        }
        file = self.write("user/CONFIG/opencode/opencode.json", settings)
        nothing_to_install(file.parent)

    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run."""
        return [self.program, "run", "--format", "json", *arguments, "[script main] go"]

    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return an environment with nothing of the machine's own settings."""
        folders = {
            f"XDG_{n}_HOME": f"{self.user}/{n}" for n in ("CONFIG", "DATA", "CACHE", "STATE")
        }
        off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
        return {**folders, **{f"OPENCODE_DISABLE_{name}": "1" for name in off}, **more}


class PiStage(Stage):
    """A stage with pi on it."""

    def ready(self, model: LoopbackModel) -> None:
        """Name the scripted model in the person's models."""
        row = {"baseUrl": f"{model.url}/v1", "api": "openai-completions", "apiKey": "none"}
        providers = {"scripted": {**row, "models": [{"id": "scripted"}]}}
        self.write("user/models.json", {"providers": providers})

    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run."""
        command = [self.program, "-p", "--mode", "json", "--provider", "scripted"]
        command += ["--model", "scripted", "--tools", "read,bash,edit,write,ls", *arguments]
        return [*command, "[script main] go"]

    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return the variables of a run."""
        return {"PI_CODING_AGENT_DIR": str(self.user), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}


class ClineStage(Stage):
    """A stage with Cline CLI on it; ``more`` of a run are variables."""

    QUIET: Mapping[str, str] = {
        "CLINE_TELEMETRY_DISABLED": "1",
        "DO_NOT_TRACK": "1",
        "CLINE_NO_AUTO_UPDATE": "1",
    }
    MODEL = ("-P", "openai-compatible", "-m", "fake-model")

    def __init__(self, root: Path, program: str) -> None:
        super().__init__(root, program)
        if shutil.which("node") is None:
            pytest.skip("Cline CLI runs plugins with Node, and it is not installed")
        self.own = self.user / ".cline"
        (self.own / "data/settings").mkdir(parents=True)

    def ready(self, model: LoopbackModel) -> None:
        """Write what `cline auth` would, which takes a start of Cline's."""
        kind, name = self.MODEL[1], self.MODEL[3]
        chosen = {"provider": kind, "apiKey": "none", "model": name, "baseUrl": f"{model.url}/v1"}
        row = {"settings": chosen, "updatedAt": "2020-01-01T00:00:00.000Z", "tokenSource": "manual"}
        settings = {"version": 1, "lastUsedProvider": kind, "providers": {kind: row}}
        self.write(self.own / "data/settings/providers.json", settings)

    def command(self, model: LoopbackModel, arguments: Sequence[str], **more: Any) -> list[str]:
        """Return the command of a headless run."""
        return [self.program, "--json", *self.MODEL, *arguments, "[script main] go"]

    def environ(self, model: LoopbackModel, **more: Any) -> dict[str, str]:
        """Return the variables of a run."""
        return {**self.QUIET, **more}

    def at_terminal(self, script: Script, scope: Sequence[str], **environ: str) -> tuple[str, int]:
        """Run Cline once on a terminal of its own; return all that was shown, and the exit code."""
        texts = [word for text in scope for word in ("--scope", text)]
        with LoopbackModel(script) as model:
            self.ready(model)
            ended = at_terminal(
                *("run", *texts, "--workspace", str(self.workspace), "--"),
                *(self.program, *self.MODEL, "[script main] go"),
                answers=[],
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.user),
                    "BROKER_HOME": str(self.bench.home.state.parent),
                    "TERM": "xterm",
                    **self.QUIET,
                    **environ,
                },
            )
            self.results = model.results
            return ended
