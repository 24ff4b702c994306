"""
Every real agent, recorded: what it says to its model, calls and is told, and no key of it.

Each test runs where its agent is installed, and needs neither an account nor a network.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from orca_trace import TraceReader

from broker.loopback.script import Say, Use
from tests.agents.stage import Stage
from tests.agents.test_children import TONGUES, main, scope
from tests.agents.tongues import GEMINI, Tongue, stage, tongue

__all__ = ["stage", "tongue"]

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]

KEY = "sk-test-" + "Kq7Zx2Lw" * 6
# The variables that hold the keys of the agents that have theirs in one.
KEYS = {
    "claude": "ANTHROPIC_API_KEY",
    "codex": "SCRIPTED_KEY",
    "gemini": "GEMINI_API_KEY",
    "qwen": "OPENAI_API_KEY",
    "copilot": "COPILOT_PROVIDER_API_KEY",
}


def recorded(stage: Stage) -> tuple[Path, list[dict[str, Any]]]:
    """Return the folder and the events of the one run, well-formed for an independent reader."""
    (folder,) = stage.bench.home.runs.glob("run_*")
    reader = TraceReader.open(folder)
    assert not reader.problems()
    assert reader.verify_integrity()
    lines = (folder / "events.jsonl").read_text().splitlines()
    return folder, [json.loads(line) for line in lines]


def of(events: list[dict[str, Any]], kind: str, conversation: str = "main") -> list[dict[str, Any]]:
    """Return the events of a type in a conversation."""
    return [
        e for e in events if e["type"] == kind and e["attrs"].get("conversation") == conversation
    ]


def test_an_agent_is_recorded(
    monkeypatch: pytest.MonkeyPatch, stage: Stage, tongue: Tongue
) -> None:
    """Each request, call, result and decision is there once, joined; its key is nowhere."""
    variable, shell = KEYS.get(tongue.name, ""), tongue.shell
    if variable:
        environ = stage.environ
        monkeypatch.setattr(stage, "environ", lambda *a, **k: {**environ(*a, **k), variable: KEY})
    look = shell(f"echo ${variable or 'HOME'} > src/seen.txt; sleep 1")
    code, _, err = stage.run(
        {"main": [Use([look]), Use([shell("cat src/a.py")]), Say("done")]}, scope=["calls=20"]
    )
    assert code == 0, err
    folder, events = recorded(stage)
    asked, heard = of(events, "model.request"), of(events, "model.response")
    calls, results = of(events, "tool.call"), of(events, "tool.result")
    assert [len(found) for found in (asked, heard, calls, results)] == [3, 3, 2, 2]
    assert [each["causes"] for each in heard] == [[each["seq"]] for each in asked]
    assert [each["causes"] for each in calls] == [[each["seq"]] for each in heard[:2]]
    assert [each["causes"] for each in results] == [[each["seq"]] for each in calls]
    assert [each["turn"] for each in asked] == [1, 2, 3]
    assert all(each["attrs"]["status"] == 200 for each in heard)
    assert "a = 1" in json.dumps(results[1]["payload"])
    notes = [e["attrs"] for e in events if e["attrs"].get("kind") == "authority.decision"]
    assert len(notes) >= 2
    (info,) = stage.bench.receipts().sessions()
    assert {note["sid"] for note in notes} == {info.sid}
    (words,) = [line for line in err.splitlines() if "broker: recorded" in line]
    assert f"recorded {folder.name}: " in words
    if variable:
        seen = (stage.workspace / "src/seen.txt").read_text().strip()
        assert (
            seen.startswith("broker-run-") or tongue.name == "copilot"
        )  # which keeps it to itself
        assert "tools can read" not in err
        written = (p.read_bytes() for p in (stage.root / "home").rglob("*") if p.is_file())
        assert not any(KEY.encode() in content for content in written)


@pytest.mark.parametrize("tongue", TONGUES, ids=lambda tongue: tongue.name)
def test_a_subagent_is_a_conversation_of_its_own(tmp_path: Path, tongue: Tongue) -> None:
    """What a subagent asks, calls and is told is apart from what its parent does."""
    stage = tongue.on(tmp_path)
    new = stage.file("src/new.txt")
    code, _, err = stage.run(
        {
            "main": main(tongue, "[script sub] look around"),
            "sub": [Use([tongue.write(new)]), Say("nothing to see")],
        },
        scope=scope(tongue),
    )
    assert code == 0, err
    _, events = recorded(stage)
    names = {e["attrs"]["conversation"] for e in events if e["type"] == "tool.call"}
    assert names == {"main", "sub-1"}
    (wrote,) = of(events, "tool.call", "sub-1")
    assert wrote["attrs"]["call"].removeprefix("toolu_").removeprefix("call_") == "sub-0-0"
    assert len(of(events, "tool.result", "sub-1")) == 1
    assert len(of(events, "model.request", "sub-1")) == 2
    parents = {each["attrs"]["call"].partition("_")[2] for each in of(events, "tool.call")}
    assert all(call.startswith("main-") for call in parents)


def test_a_subagent_without_any_mark(tmp_path: Path) -> None:
    """Gemini CLI says not whose a request is, and its subagent is told apart all the same."""
    stage = GEMINI.on(tmp_path)
    code, _, err = stage.run(
        {
            "main": [*GEMINI.main("[script sub] look"), Say("done")],
            "sub": [Use([GEMINI.read("src/a.py")]), GEMINI.report, Say("ok")],
        },
        scope=["calls=20"],
    )
    assert code == 0, err
    _, events = recorded(stage)
    assert [e["attrs"]["name"] for e in of(events, "tool.call")] == ["invoke_agent"]
    assert [e["attrs"]["name"] for e in of(events, "tool.call", "sub-1")][:1] == ["read_file"]
