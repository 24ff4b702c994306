"""How each agent is started for its canary: what every one of them has in common, and its own."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from broker.agents.adapter import PROGRAMS, Adapter, Bait, Canary, Launch, Prepared, adapter_for
from broker.agents.examining import known
from broker.catalogs import load_catalogs
from broker.errors import LaunchError
from broker.loopback.script import Text
from broker.resolve import Resolver
from tests.unit.test_agents_codex_trust import ANSWERS, pretend

URL = "http://127.0.0.1:9"
# A headless run, a run in a terminal, and what asks no model.
HEADLESS = {"cline": ["go"], "codex": ["exec", "go"], "qwen": ["go"], "opencode": ["run", "go"]}
QUIET = {
    "claude": [["--version"], ["mcp", "list"], ["doctor"]],
    "cline": [["--version"], ["help"]],
    "codex": [["--version"], ["login"]],
    "gemini": [["--version"], ["mcp", "list"]],
    "qwen": [["--version"], ["auth"]],
    "copilot": [["--version"], ["login"]],
    "opencode": [["--version"], ["models"]],
    "pi": [["--version"], ["list"]],
}


@dataclass
class Place:
    """The folders of a run, and the environment of a person."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("user", "ws", "session", "session/canary"):
            (self.root / name).mkdir()
        pretend(self.root, ANSWERS)
        self.environ |= {
            "HOME": str(self.root / "user"),
            "PATH": f"{self.root / 'bin'}:{os.defpath}",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "CLINE_JS_RUNTIME_PATH": "/opt/node",
        }
        self.bait = Bait(self.root / "session/canary/bait", URL, "the prompt", "the errand")

    def write(self, name: str, content: object) -> None:
        """Write a file of the person's, an object as JSON."""
        path = self.root / "user" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def canary(self, name: str, arguments: Sequence[str]) -> tuple[Canary | None, Prepared]:
        """Return how the canary of a run is started, and what was prepared for the run."""
        adapter: Adapter = adapter_for([name])
        launch = Launch(
            (name, *arguments),
            self.environ,
            self.root / "ws",
            self.root / "session",
            self.root / "s",
        )
        adapter.check(launch.command, self.environ)
        prepared = adapter.prepare(launch)
        return adapter.canary(launch, prepared, self.bait), prepared

    def started(self, name: str, *arguments: str) -> tuple[Canary, Prepared]:
        """Return how the canary is started, where there must be one."""
        canary, prepared = self.canary(name, arguments or HEADLESS.get(name, ["-p", "go"]))
        assert canary is not None
        return canary, prepared


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """The folders of this test's own."""
    return Place(tmp_path)


@pytest.mark.parametrize("name", known())
def test_it_reaches_for_the_bait_and_nothing_else(place: Place, name: str) -> None:
    """Each agent's call is read as touching the bait, a file of the broker's own, and no other."""
    canary, _ = place.started(name)
    tool, given = canary.call
    if name == "copilot":  # whose hook is told of this tool under the names of Claude Code
        tool, given = {"view": "Read"}[tool], {"file_path": given["path"]}
    arguments = {"patch": given.text} if isinstance(given, Text) else dict(given)
    resolver = Resolver(place.root / "ws", load_catalogs(), own=(str(place.root / "session"),))
    call = resolver.resolve(tool, arguments)
    assert [(path.spelled, path.own) for path in call.paths] == [(str(place.bait.file), True)]


@pytest.mark.parametrize("name", known())
def test_it_is_the_run_with_another_model(place: Place, name: str) -> None:
    """The program stays; the prompt and the model are ours; nothing of the person's is told."""
    place.environ |= {"ANTHROPIC_AUTH_TOKEN": "secret", "CLAUDE_CODE_USE_BEDROCK": "1"}
    canary, prepared = place.started(name)
    assert canary.command[0] == prepared.command[0] == name
    assert place.bait.prompt in canary.command
    assert "go" not in canary.command
    told = " ".join((*canary.command, *(text or "" for text in canary.environ.values())))
    written = [p.read_text() for p in place.bait.file.parent.rglob("*") if p.is_file()]
    assert URL in told or any(URL in text for text in written)
    assert "secret" not in told


@pytest.mark.parametrize("name", known())
def test_a_run_in_a_terminal_has_one_too(place: Place, name: str) -> None:
    """Also where the prompt comes later, the canary comes first."""
    assert place.canary(name, [])[0] is not None


@pytest.mark.parametrize(("name", "words"), [(n, w) for n, rows in QUIET.items() for w in rows])
def test_what_asks_no_model_has_none(place: Place, name: str, words: list[str]) -> None:
    """A version, a list or a sign-in is not preceded by a canary."""
    assert place.canary(name, words)[0] is None


def test_every_agent_is_in_these_tests() -> None:
    """A new agent is tried here as well."""
    assert set(QUIET) == set(known())
    assert len({PROGRAMS[name] for name in known()}) == len(known())


def test_claude_code_has_our_hooks_and_the_persons_sources(place: Place) -> None:
    """Its settings say what those of the run say, but for the provider, which is ours."""
    canary, prepared = place.started("claude", "--setting-sources", "", "-p", "go")
    words = list(canary.command)
    ours = json.loads(Path(words[words.index("--settings") + 1]).read_text())
    run = list(prepared.command)
    theirs = json.loads(Path(run[run.index("--settings") + 1]).read_text())
    assert ours["hooks"] == theirs["hooks"]
    assert ours["env"]["ANTHROPIC_BASE_URL"] == URL
    assert ours["env"]["CLAUDE_CODE_USE_BEDROCK"] == ""
    assert canary.environ["CLAUDE_CODE_USE_BEDROCK"] is None
    assert words[words.index("--setting-sources") + 1] == ""
    assert {"--no-session-persistence", "--strict-mcp-config"} <= set(words)


def test_codex_has_our_trusted_hooks_and_no_server(place: Place) -> None:
    """What was added for the run stands there too; the servers of the person are left out."""
    place.write(".codex/config.toml", '[mcp_servers.a]\ncommand="x"\n[mcp_servers."b c"]\n')
    canary, prepared = place.started("codex", "-c", "model_verbosity=low", "exec", "go")
    added = prepared.command[1 : prepared.command.index("features.daemon_auto_start=false") + 3]
    assert canary.command[1 : 1 + len(added)] == added
    assert {"mcp_servers.a.enabled=false", "model_verbosity=low", "--ephemeral"} <= set(
        canary.command
    )
    assert not any("b c" in word for word in canary.command)


def test_gemini_has_a_home_without_a_past(place: Place) -> None:
    """It has the hooks, the extensions, a key for our model, and no link to past sessions."""
    place.write(".gemini/settings.json", {"security": {"auth": {"selectedType": "oauth"}}})
    place.write(".gemini/tmp/past", "x")
    place.write(".gemini/extensions/mine/x", "x")
    canary, prepared = place.started("gemini")
    home = Path(str(canary.environ["GEMINI_CLI_HOME"])) / ".gemini"
    ours = json.loads((home / "settings.json").read_text())
    run = json.loads(Path(prepared.environ["GEMINI_CLI_HOME"], ".gemini/settings.json").read_text())
    assert ours["hooks"] == run["hooks"]
    assert ours["security"] == {"auth": {"selectedType": "gemini-api-key"}}
    assert sorted(os.listdir(home)) == ["extensions", "settings.json"]


def test_copilot_has_a_home_without_a_past(place: Place) -> None:
    """It has the person's settings and hooks, our plugin behind theirs, and no past session."""
    place.write(".copilot/settings.json", {"theme": "dark"})
    place.write(".copilot/hooks/mine.json", {})
    place.write(".copilot/session-state/past", "x")
    place.write(".copilot/mcp-config.json", {})
    canary, _ = place.started("copilot", "--plugin-dir", "/mine", "-p", "go")
    home = str(canary.environ["COPILOT_HOME"])
    assert sorted(os.listdir(home)) == ["hooks", "settings.json"]
    words = list(canary.command)
    plugins = [words[i + 1] for i, word in enumerate(words) if word == "--plugin-dir"]
    assert plugins == ["/mine", str(place.root / "session/copilot-plugin")]


def test_opencode_has_our_plugin_and_a_provider_of_ours(place: Place) -> None:
    """The plugin and the closed tools are those of the run; only our model is there to be asked."""
    canary, prepared = place.started("opencode")
    content = json.loads(str(canary.environ["OPENCODE_CONFIG_CONTENT"]))
    run = json.loads(prepared.environ["OPENCODE_CONFIG_CONTENT"])
    assert content["plugin"] == run["plugin"]
    assert content["enabled_providers"] == ["broker-canary"]
    assert "OPENCODE_PERMISSION" not in canary.environ
    assert not canary.fenced


def test_cline_has_our_plugin_and_data_of_ours(place: Place) -> None:
    """Its folder is that of the run, its tools begin closed, and only our model is there."""
    canary, prepared = place.started("cline")
    assert "CLINE_DIR" not in canary.environ
    assert canary.command[:5] == prepared.command[:5]
    data = Path(str(canary.environ["CLINE_DATA_DIR"]))
    assert data.is_relative_to(place.bait.file.parent)
    assert os.listdir(data / "settings") == ["providers.json"]


def test_pi_has_our_extension_before_those_that_were_typed(place: Place) -> None:
    """All extensions of the run are there, in their order, and no session is kept."""
    canary, prepared = place.started("pi", "-e", "mine.ts", "-p", "go")
    words = list(canary.command)
    named = [words[i + 1] for i, word in enumerate(words) if word == "-e"]
    assert named == [prepared.command[3], "mine.ts"]
    assert "--no-session" in words


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("claude", "claude-settings.json"),
        ("gemini", "gemini-home"),
        ("copilot", "copilot-home"),
        ("pi", "pi"),
        ("cline", "cline-data"),
    ],
)
def test_what_cannot_be_written_is_told(place: Place, name: str, taken: str) -> None:
    """Where the canary's own file or folder cannot be made, the run does not begin."""
    (place.bait.file.parent / taken).write_text("in the way")
    with pytest.raises(LaunchError, match=taken):
        place.started(name)
