"""How opencode is started: what is added, and what cannot be held."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker.agents.adapter import Launch, Prepared, adapter_for
from broker.agents.opencode import launch as module
from broker.agents.opencode.launch import CLOSED, PLUGIN_NAME, OpencodeLaunch
from broker.errors import LaunchError


@pytest.fixture
def adapter() -> OpencodeLaunch:
    """An adapter of this test's own."""
    return OpencodeLaunch()


def prepare(adapter: OpencodeLaunch, root: Path, *arguments: str, **environ: str) -> Prepared:
    """Prepare a run."""
    for name in ("session", "ws"):
        (root / name).mkdir(exist_ok=True)
    command = ("opencode", *arguments)
    return adapter.prepare(Launch(command, environ, root / "ws", root / "session", root / "s"))


def test_it_is_found_by_its_name() -> None:
    """A command named opencode, wherever it lies, is held as opencode."""
    assert isinstance(adapter_for(["/opt/bin/opencode", "run", "hi"]), OpencodeLaunch)


def test_the_plugin_is_named_and_the_rest_is_closed(
    adapter: OpencodeLaunch, tmp_path: Path
) -> None:
    """The command stays; the plugin, the closed tools and the folder come by the environment."""
    prepared = prepare(adapter, tmp_path, "run", "fix it")
    assert prepared.command == ("opencode", "run", "fix it")
    environ = prepared.environ
    plugin = (tmp_path / "session" / PLUGIN_NAME).as_uri()
    content = json.loads(environ["OPENCODE_CONFIG_CONTENT"])
    assert content == {"plugin": [plugin], "instructions": []}
    assert json.loads(environ["OPENCODE_PERMISSION"]) == {CLOSED: "deny"}
    assert environ["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    assert environ["PWD"] == str(tmp_path / "ws")


def test_what_the_person_set_is_added_to(adapter: OpencodeLaunch, tmp_path: Path) -> None:
    """Their plugins come before ours, and their permissions before the rule that closes."""
    prepared = prepare(
        adapter,
        tmp_path,
        "run",
        OPENCODE_CONFIG_CONTENT='{"plugin":["x"],"instructions":["y"],"model":"a/b"}',
        OPENCODE_PERMISSION='{"**":"allow","bash":"ask"}',
    )
    content = json.loads(prepared.environ["OPENCODE_CONFIG_CONTENT"])
    assert content["plugin"][0] == "x"
    assert content["plugin"][1].endswith(PLUGIN_NAME)
    assert (content["instructions"], content["model"]) == (["y"], "a/b")
    closed = json.loads(prepared.environ["OPENCODE_PERMISSION"])
    assert list(closed.items()) == [("bash", "ask"), (CLOSED, "deny")]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENCODE_CONFIG_CONTENT", "{"),
        ("OPENCODE_CONFIG_CONTENT", "[]"),
        ("OPENCODE_CONFIG_CONTENT", '{"plugin":"x"}'),
        ("OPENCODE_PERMISSION", '"allow"'),
    ],
)
def test_what_cannot_be_added_to_is_told(
    adapter: OpencodeLaunch, tmp_path: Path, name: str, value: str
) -> None:
    """A variable of another shape is never dropped without a word."""
    with pytest.raises(LaunchError, match=name):
        prepare(adapter, tmp_path, "run", **{name: value})


def test_the_workspace_s_instructions_come_back(adapter: OpencodeLaunch, tmp_path: Path) -> None:
    """The files that opencode would read are named, up to the top of the repository."""
    (tmp_path / "ws").mkdir()
    for name in ("ws/AGENTS.md", "ws/CLAUDE.md", "AGENTS.md"):
        (tmp_path / name).write_text("words")
    alone = prepare(adapter, tmp_path, "run")
    content = json.loads(alone.environ["OPENCODE_CONFIG_CONTENT"])
    assert content["instructions"] == [str(tmp_path / "ws/AGENTS.md")]
    (tmp_path / ".git").mkdir()
    (tmp_path / "again").mkdir()
    launch = Launch(("opencode",), {}, tmp_path / "ws", tmp_path / "again", tmp_path / "s")
    content = json.loads(OpencodeLaunch().prepare(launch).environ["OPENCODE_CONFIG_CONTENT"])
    assert content["instructions"] == [str(tmp_path / n) for n in ("ws/AGENTS.md", "AGENTS.md")]


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve"],
        ["web"],
        ["acp"],
        ["-m", "a/b", "attach", "http://x"],
        ["github", "run"],
        ["upgrade"],
        ["run", "--pure", "go"],
        ["run", "--attach", "http://x", "go"],
        ["run", "--attach=http://x", "go"],
        ["run", "--port", "80"],
        ["--hostname=0.0.0.0"],
        ["--mdns"],
    ],
)
def test_what_cannot_be_held_is_not_started(
    adapter: OpencodeLaunch, arguments: Sequence[str]
) -> None:
    """A command or option that would free the agent is refused with its name."""
    with pytest.raises(LaunchError):
        adapter.check(["opencode", *arguments], {})


@pytest.mark.parametrize(
    "arguments",
    [[], ["run", "go"], ["run", "-m", "a/b", "-c", "go"], ["models"], ["run", "--", "--pure"]],
)
def test_what_can_be_held_is_started(adapter: OpencodeLaunch, arguments: Sequence[str]) -> None:
    """Everything else is left to the person."""
    adapter.check(["opencode", *arguments], {})


@pytest.mark.parametrize("value", ["1", "true", "TRUE"])
def test_a_variable_that_leaves_plugins_out_is_told(adapter: OpencodeLaunch, value: str) -> None:
    """What the environment would switch off is named."""
    with pytest.raises(LaunchError, match="OPENCODE_PURE"):
        adapter.check(["opencode", "run", "go"], {"OPENCODE_PURE": value})
    adapter.check(["opencode", "run", "go"], {"OPENCODE_PURE": "0"})


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (["run", "fix it"], "fix it"),
        (["run", "-m", "a/b", "fix", "it"], "fix it"),
        (["run", "--format", "json", "--", "--fix"], "--fix"),
        (["--prompt", "fix it"], "fix it"),
        (["run", "--command", "review", "it"], None),
        (["run"], None),
        (["models"], None),
        (["folder"], None),
        ([], None),
    ],
)
def test_the_typed_prompt_is_found(arguments: Sequence[str], prompt: str | None) -> None:
    """The words behind `run`, or the value of `--prompt`, are what the person asked."""
    assert OpencodeLaunch().prompt(["opencode", *arguments]) == prompt


def test_its_configuration_is_closed_to_tools(adapter: OpencodeLaunch, tmp_path: Path) -> None:
    """Where plugins, settings and credentials stand is the broker's business, by every name."""
    (tmp_path / "opencode").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    own = adapter.own({"XDG_CONFIG_HOME": str(tmp_path / "link"), "OPENCODE_CONFIG": "/x.json"})
    assert {str(tmp_path / "link/opencode"), str(tmp_path / "opencode"), "/x.json"} <= set(own)
    at_home = adapter.own({"HOME": "/home/x"})
    for name in (".config/opencode", ".opencode", ".local/share/opencode/auth.json"):
        assert f"/home/x/{name}" in at_home


def test_a_run_without_its_plugin_has_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose plugin never speaks is stopped; what asks no model has none to wait for."""
    monkeypatch.setattr(module, "SILENCE_S", -1.0)
    for n, arguments in enumerate((["run", "go"], [], ["models"], ["--version"])):
        root = tmp_path / str(n)
        root.mkdir()
        adapter = OpencodeLaunch()
        prepare(adapter, root, *arguments)
        assert bool(adapter.escaped()) is (n < 2)
        (root / "session" / PLUGIN_NAME).write_text("")
        assert "was changed" in str(adapter.escaped())


def test_it_says_what_it_does_not_see(adapter: OpencodeLaunch) -> None:
    """A person who launches it is told what no plugin of opencode shows."""
    assert any("`@`" in text for text in adapter.unseen())
