"""The broker's plugin for Cline under Node, without Cline: what it asks, and what it answers."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from broker.agents.cline.launch import PLUGIN_NAME
from broker.agents.plugin import refused
from broker.service.protocol import ALLOW, frame
from tests.hookkit import Stand
from tests.pluginkit import allowing, payload, put, run_node

PACKAGE = "broker.agents.cline"
USER = {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image"}]}
EVENT: dict[str, Any] = {
    "snapshot": {"agentId": "a2", "parentAgentId": "a1", "messages": [USER, {"role": "assistant"}]},
    "toolCall": {"toolName": "editor", "toolCallId": "c1"},
    "input": {"path": "a"},
}
# Loads the plugin as Cline does, and tells what came of each call: what was returned, or thrown.
DRIVER = """
const [plugin, events] = [process.argv[2], JSON.parse(process.argv[3])]
const told = []
try {
  const { default: found } = await import(plugin)
  told.push([found.name, found.manifest])
  await found.setup({}, {})
  for (const event of events) {
    const began = Date.now()
    told.push([(await found.hooks.beforeTool(event)) ?? null, Date.now() - began])
  }
} catch (error) { told.push("threw: " + error.message) }
console.log(JSON.stringify(told))
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """The plugin, put ready in a folder with the name of its run."""
    folder = tmp_path / "zz-broker-1"
    folder.mkdir()
    (folder / "package.json").write_text('{"type": "module"}')
    return put(PACKAGE, PLUGIN_NAME, folder)


def run(plugin: Path, socket: Path | str, *events: Any, opens: str = "0") -> Any:
    """Load the plugin and make calls."""
    return run_node(DRIVER, plugin, socket, json.dumps(events), BROKER_CLINE_OPENS=opens)


def test_a_call_is_told_and_an_allow_says_nothing(plugin: Path, tmp_path: Path) -> None:
    """It says that it is there, tells the call with who makes it, and leaves the rest to Cline."""
    with Stand(tmp_path / "s", allowing) as stand:
        done = run(plugin, stand.path, EVENT, {**EVENT, "snapshot": {"agentId": "a1"}})
    assert done[0] == ["zz-broker-1", {"capabilities": ["hooks"]}]
    assert [answer for answer, _ in done[1:]] == [None, None]
    start, call, main = (payload(request, "cline") for request in stand.asked)
    assert start == {"event": "start"}
    assert {**call, "cwd": ""} == {
        "event": "call",
        "tool": "editor",
        "arguments": {"path": "a"},
        "call": "c1",
        "cwd": "",
        "agent": "a2",
        "parent": "a1",
        "tasks": ["look", ""],
    }
    assert (main["parent"], main["tasks"]) == ("", [])


def test_an_allow_opens_what_the_launch_closed(plugin: Path, tmp_path: Path) -> None:
    """Only where the launch says that it did."""
    with Stand(tmp_path / "s", allowing) as stand:
        done = run(plugin, stand.path, EVENT, opens="1")
    assert done[1][0] == {"policy": {"autoApprove": True}}


def test_a_refusal_is_given_back_with_its_reason(plugin: Path, tmp_path: Path) -> None:
    """Not thrown, which would end the run; and nothing is opened by it."""
    reason = "refused by `paths`: “é” 🙂"
    answers = [frame(ALLOW), frame(refused(reason).encode())]
    with Stand(tmp_path / "s", lambda _: answers.pop(0)) as stand:
        done = run(plugin, stand.path, EVENT, opens="1")
    assert done[1][0] == {"skip": True, "reason": reason}


@pytest.mark.parametrize(
    "answer",
    [b"", b"\0\0\0\1", frame(b"answer/1 allow"), frame(b"answer/1 allow\nx"), b"\xff" * 64, None],
)
def test_whatever_is_no_allow_is_a_refusal(
    plugin: Path, tmp_path: Path, answer: bytes | None
) -> None:
    """Cut off, malformed, too long, or never: refused, well before Cline would end the run."""
    answers = [frame(ALLOW), answer]
    with Stand(tmp_path / "s", lambda _: answers.pop(0)) as stand:
        (told, took_ms) = run(plugin, stand.path, EVENT, opens="1")[1]
    assert told["skip"] is True
    assert told["reason"].startswith("refused: ")
    assert set(told) == {"skip", "reason"}
    assert took_ms < 3000


@pytest.mark.parametrize("event", [{}, {**EVENT, "snapshot": None}, {**EVENT, "toolCall": None}])
def test_a_call_that_cannot_be_told_passes_nothing(
    plugin: Path, tmp_path: Path, event: object
) -> None:
    """What Cline would have to change for that is answered with a refusal or an error."""
    with Stand(tmp_path / "s", allowing) as stand:
        done = run(plugin, stand.path, event, opens="1")
    assert isinstance(done[1], str) or done[1][0]["skip"] is True


def test_without_a_broker_it_does_not_load(plugin: Path, tmp_path: Path) -> None:
    """Then its tools stay closed, and the net ends the run."""
    assert run(plugin, tmp_path / "nowhere", EVENT)[1].startswith("threw: refused: ")


def test_it_is_short_and_needs_nothing() -> None:
    """It can be read in a minute, and imports Node's own modules or our client."""
    text = files(PACKAGE).joinpath(PLUGIN_NAME).read_text()
    assert len(text.splitlines()) < 80
    imported = set(re.findall(r'(?:from|import\()\s*"([^"]+)"', text))
    assert imported <= {"node:path", "node:url", "./ask.mjs"}
