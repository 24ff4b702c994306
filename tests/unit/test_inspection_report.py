"""The report on a harness that was put together and has done nothing."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from broker.agentloop.prompt import SECTIONS, prompt_text
from broker.capabilities.bundle import FakeWorld
from broker.errors import ScopeError
from broker.harness.composition import Choices, compose
from broker.harness.items import CallHook, Flag, Item, Provider, Shortcut, SlashCommand, Tool
from broker.harness.tools import TOOLS
from broker.inspection.report import FORMAT, report_text, runtime_report


def report(
    workspace: Path,
    *items: Item,
    scope: tuple[str, ...] = (),
    content: bool = False,
    choices: Choices | None = None,
) -> dict[str, Any]:
    """Put a harness together on fakes and return the report on it."""
    world = FakeWorld.of(environ={"BROKER_HOME": os.environ["BROKER_HOME"]})
    composition = compose(
        world.capabilities(), str(workspace), choices or Choices(), (*TOOLS, *items)
    )
    document = runtime_report(composition, scope, content=content)
    assert world.fs.writes == 0
    return document


def tool(schema: dict[str, object], name: str = "mine") -> Tool:
    """Return a tool that is never run."""

    def never(work: object, given: object) -> str:
        raise AssertionError("an inspection runs nothing")

    return Tool(name, "about it", schema, never)


def test_it_has_every_part(tmp_path: Path) -> None:
    """All seven capabilities, what is registered, settings, ticket, rules and catalogs are told."""
    document = report(tmp_path, scope=("tools=read", "calls=3"))
    assert document["format"] == FORMAT
    assert len(document["capabilities"]) == 7
    assert set(document["capabilities"].values()) == {"fake"}
    assert [each["name"] for each in document["tools"]] == sorted(each.name for each in TOOLS)
    assert [c["text"] for c in document["ticket"]["caveats"]] == ["tools=read", "calls=3"]
    assert document["permissions"]["effects"]["write"]["answer"] == "ask"
    assert any(c["source"] == "shipped:reference-agent.toml" for c in document["catalogs"])
    assert len(document["pipeline"]) == 10
    assert all("schema" not in each for each in document["tools"])


def test_the_order_of_keys_in_a_schema_means_nothing(tmp_path: Path) -> None:
    """The same schema has the same digest, and another one has another."""
    one = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}}
    two = {"properties": {"b": {"type": "number"}, "a": {"type": "string"}}, "type": "object"}
    other = {**one, "required": ["a"]}
    digests = [
        next(t for t in report(tmp_path, tool(s))["tools"] if t["name"] == "mine")["schema_sha256"]
        for s in (one, two, other)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_it_is_sorted_but_hooks_are_in_their_order(tmp_path: Path) -> None:
    """Everything is sorted by name, and hooks stand as they are asked."""

    def never(call: object) -> None:
        raise AssertionError("an inspection asks no hook")

    document = report(
        tmp_path,
        CallHook("z", "arguments", never),
        CallHook("a", "result", never),
        SlashCommand("y", "about", str),
        SlashCommand("b", "about", str),
        Shortcut("ctrl+y", "y"),
        Shortcut("ctrl+b", "b"),
        Flag("slow", "about", 3),
        Flag("fast", "about", True),
        Provider("p", lambda name: name, {"base_url": "https://host/"}),
    )
    assert [hook["name"] for hook in document["hooks"]] == ["z", "a"]
    assert [command["name"] for command in document["commands"]] == ["b", "y"]
    assert [shortcut["keys"] for shortcut in document["shortcuts"]] == ["ctrl+b", "ctrl+y"]
    assert document["flags"] == [{"name": "fast", "default": True}, {"name": "slow", "default": 3}]
    assert document["providers"] == [{"name": "p"}]


def test_two_folders_and_two_days_have_the_same_bytes(tmp_path: Path) -> None:
    """Nothing of the place or the time is in it, also of a scope that counts from its start."""
    texts = set()
    for name in ("one", "two/three"):
        folder = tmp_path / name
        (folder / ".broker/catalogs").mkdir(parents=True)
        (folder / ".broker/catalogs/mine.toml").write_text('[tools.mine]\neffect = "read"\n')
        document = report(
            folder, scope=("paths=src/**", "until=45m"), content=True, choices=Choices("auto")
        )
        texts.add(report_text(document))
        assert str(tmp_path) not in report_text(document)
        assert os.environ["BROKER_HOME"] not in report_text(document)
        catalog = next(c for c in document["catalogs"] if c["source"].startswith("workspace:"))
        assert (catalog["source"], catalog["vouched"], catalog["tools"]) == (
            "workspace:.broker/catalogs/mine.toml",
            False,
            1,
        )
    assert len(texts) == 1
    caveats = json.loads(texts.pop())["ticket"]["caveats"]
    assert caveats[1] == {"kind": "until", "text": "counted from the start of a run"}


def test_an_instant_that_is_fixed_is_told(tmp_path: Path) -> None:
    """What was typed as an instant is the same on any day."""
    document = report(tmp_path, scope=("until=2027-01-15T08:00:00Z",))
    assert document["ticket"]["caveats"][0]["text"] == "until=2027-01-15T08:00:00Z"


@pytest.mark.parametrize("content", [False, True])
def test_secrets_are_hidden_in_both_modes(tmp_path: Path, content: bool) -> None:
    """A key in a provider's settings, a command or a scope is not told, with content or without."""
    schema = {
        "type": "object",
        "properties": {"password": {"type": "string", "default": "hunter2"}},
    }
    document = report(
        tmp_path,
        tool(schema),
        Provider("p", lambda name: name, {"api_key": "hunter2"}),
        Flag("f", "about", "TOKEN=hunter2"),
        content=content,
        choices=Choices(verify="make PASSWORD=hunter2"),
        scope=("hosts=host.test",),
    )
    text = report_text(document)
    assert "hunter2" not in text
    assert "flags[0].default (substring)" in document["redacted"]
    if content:
        assert "providers[0].settings.api_key" in document["redacted"]
        assert '"password": {' in text


def test_a_malformed_scope_is_told(tmp_path: Path) -> None:
    """A scope is read as it will be for a run, and what is wrong with it is said."""
    with pytest.raises(ScopeError):
        report(tmp_path, scope=("tolls=read",))


def test_what_a_workspace_brings_is_listed_as_untrusted(tmp_path: Path) -> None:
    """Each file is told with its digest, and none of them is trusted."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_text("{}")
    world = FakeWorld.of(
        files={f"{tmp_path}/.claude/settings.json": b"{}"},
        environ={"BROKER_HOME": os.environ["BROKER_HOME"]},
    )
    composition = compose(world.capabilities(), str(tmp_path), Choices())
    (file,) = runtime_report(composition, ())["workspace"]
    assert (file["path"], file["role"], file["trusted"]) == (
        ".claude/settings.json",
        "settings",
        False,
    )


def test_the_prompt_is_told_by_its_sections(tmp_path: Path) -> None:
    """The whole has a digest and so has each section; the text is content."""
    short, whole = report(tmp_path)["prompt"], report(tmp_path, content=True)["prompt"]
    assert short["sha256"] == whole["sha256"] == sha256(prompt_text().encode()).hexdigest()
    assert [each["name"] for each in short["sections"]] == [each.name for each in SECTIONS]
    assert all("text" not in each for each in short["sections"])
    assert "\n\n".join(each["text"] for each in whole["sections"]) == prompt_text()


def test_settings_are_told_without_secrets(tmp_path: Path) -> None:
    """Models and servers are told by name and digest; what their environment holds is not."""
    config = Path(os.environ["BROKER_HOME"]) / "config/broker.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(
        '[harness]\nmodel = "x/m"\n[models.x]\nurl = "http://x.test/v1"\n'
        '[mcp.y]\ncommand = ["y", "-v"]\nenv = { TOKEN = "s3cr3t" }\n',
        encoding="utf-8",
    )
    config.chmod(0o600)
    for content in (False, True):
        document = report(tmp_path, content=content)
        settings = document["settings"]
        assert settings["model"] == "x/m"
        (model,), (server,) = settings["models"], settings["servers"]
        assert (model["name"], "url" in model) == ("x", content)
        assert (server["name"], server["environ"]) == ("y", ["TOKEN"])
        assert ("command" in server) is content
        assert "s3cr3t" not in report_text(document)
