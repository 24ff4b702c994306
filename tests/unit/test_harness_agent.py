"""The loop: turns follow turns, and a subagent is the same loop under another ticket."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.harness.agent import Agent, Called, Ended, Said
from broker.harness.files import Files
from broker.harness.gate import Gate
from broker.harness.script import read_script
from broker.limits import MAX_AGENT_DEPTH
from tests.unit.test_harness_gate import Session


def call(tool: str, expect: str = "done", **arguments: object) -> dict[str, object]:
    """A scripted call."""
    return {"tool": tool, "arguments": arguments, "expect": expect}


def run(tmp_path: Path, **lanes: list[dict[str, object]]) -> tuple[Agent, list[str], str]:
    """Run lanes on a small workspace; return the agent, what was seen, and its last word."""
    (tmp_path / "a.txt").write_text("one")
    seen: list[str] = []

    def watch(event: Said | Called | Ended) -> None:
        if isinstance(event, Said):
            seen.append(f"{event.actor} says {event.text}")
        elif isinstance(event, Ended):
            seen.append(f"{event.actor} {event.call.tool} {event.result.outcome}")

    gate = Gate(Session(), Files(os.path.realpath(tmp_path)), {})
    agent = Agent(gate, read_script({"lanes": lanes}), watch)
    return agent, seen, agent.run()


def test_turns_and_calls_come_in_order(tmp_path: Path) -> None:
    """What the model says and calls happens in the order of its script."""
    turns = [
        {"text": "one", "calls": [call("read", path="a.txt"), call("glob", pattern="**")]},
        {"text": "two"},
    ]
    agent, seen, last = run(tmp_path, main=turns)
    assert seen == ["main says one", "main read done", "main glob done", "main says two"]
    assert (last, agent.surprises) == ("two", 0)


def test_a_subagent_runs_inside_its_call(tmp_path: Path) -> None:
    """A subagent's turns happen before its task's result, which is its last word."""
    task = call("task", prompt="[[lane:other]]", scope=["tools=read"])
    agent, seen, _ = run(
        tmp_path, main=[{"calls": [task]}], other=[{"calls": [call("read", path="a.txt")]}]
    )
    assert seen == ["helper-1 read done", "main task done"]
    assert agent.surprises == 0


def test_a_widening_is_the_task_s_result(tmp_path: Path) -> None:
    """A subagent that is to get more than its caller holds does not run."""
    task = call("task", "refused tools", prompt="[[lane:other]]", scope=["wide"])
    agent, seen, _ = run(tmp_path, main=[{"calls": [task]}], other=[{"text": "never"}])
    assert seen == ["main task refused"]
    assert agent.surprises == 0


def test_a_surprise_is_counted(tmp_path: Path) -> None:
    """A call that comes out otherwise than expected is counted."""
    agent, _, _ = run(tmp_path, main=[{"calls": [call("read", "refused", path="a.txt")]}])
    assert agent.surprises == 1


@pytest.mark.parametrize("prompt", ["no lane", "[[lane:missing]]"])
def test_a_prompt_without_a_lane_fails(tmp_path: Path, prompt: str) -> None:
    """A subagent that no lane answers for is a failure of its task."""
    agent, seen, _ = run(
        tmp_path, main=[{"calls": [call("task", "failed", prompt=prompt, scope=[])]}]
    )
    assert (seen, agent.surprises) == (["main task failed"], 0)


def test_agents_below_agents_have_an_end(tmp_path: Path) -> None:
    """An agent that calls itself without end is stopped at the limit."""
    again = {"tool": "task", "arguments": {"prompt": "[[lane:main]]", "scope": []}}
    _, seen, _ = run(tmp_path, main=[{"calls": [again]}])
    helpers = [f"helper-{n}" for n in range(MAX_AGENT_DEPTH, 0, -1)]
    assert seen[0] == f"{helpers[0]} task failed"
    assert seen[1:] == [f"{name} task done" for name in [*helpers[1:], "main"]]
