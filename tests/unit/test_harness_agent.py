"""The loop: turns follow turns, and a subagent is the same loop under another ticket."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.capabilities.process import Finished
from broker.harness.agent import Agent
from broker.harness.outcome import Called, Ended, Said
from broker.harness.script import read_script
from broker.harness.verify import VerifyError, VerifyGate
from broker.limits import MAX_AGENT_DEPTH
from broker.permissions.depth import USUAL_DEPTH
from tests.harnesskit import Harness, harness


def call(tool: str, expect: str = "done", **arguments: object) -> dict[str, object]:
    """A scripted call."""
    return {"tool": tool, "arguments": arguments, "expect": expect}


def prepared(
    tmp_path: Path, lanes: dict[str, list[dict[str, object]]], **more: object
) -> tuple[Agent, list[str], Harness]:
    """Return an agent on a small workspace, what will be seen of it, and what it stands on."""
    seen: list[str] = []

    def watch(event: Said | Called | Ended) -> None:
        if isinstance(event, Said):
            seen.append(f"{event.actor} says {event.text}")
        elif isinstance(event, Ended):
            seen.append(f"{event.actor} {event.call.tool} {event.result.outcome}")

    it = harness(tmp_path, processes=more.pop("processes", ()))
    agent = Agent(it.pipeline, read_script({"lanes": lanes}), watch, "yolo", **more)  # type: ignore[arg-type]  # what a test sets
    return agent, seen, it


def run(tmp_path: Path, **lanes: list[dict[str, object]]) -> tuple[Agent, list[str], str]:
    """Run lanes; return the agent, what was seen, and its last word."""
    agent, seen, _ = prepared(tmp_path, lanes)
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


@pytest.mark.parametrize("depth", [0, 1, USUAL_DEPTH, MAX_AGENT_DEPTH])
def test_agents_below_agents_have_an_end(tmp_path: Path, depth: int) -> None:
    """An agent that calls itself without end is refused at the limit, by its name."""
    again = {"tool": "task", "arguments": {"prompt": "[[lane:main]]", "scope": []}}
    last = {**again, "expect": "refused depth"}
    agent, seen, _ = prepared(tmp_path, {"main": [{"calls": [last]}]}, depth=depth)
    agent.run()
    helpers = [f"helper-{n}" for n in range(depth, 0, -1)]
    actors = [*helpers, "main"]
    assert seen == [f"{actors[0]} task refused", *(f"{name} task done" for name in actors[1:])]
    assert agent.surprises == depth


def test_a_subagent_s_mode_only_narrows(tmp_path: Path) -> None:
    """A narrower mode holds the subagent, a wider one is refused by name."""
    write = call("write", "refused permission", path="b", content="")
    wider = call("task", "refused mode", prompt="[[lane:b]]", scope=[], mode="yolo")
    task = call("task", prompt="[[lane:a]]", scope=[], mode="read-only")
    agent, seen, _ = prepared(
        tmp_path, {"main": [{"calls": [task]}], "a": [{"calls": [write, wider]}], "b": []}
    )
    agent.run()
    assert seen == ["helper-1 write refused", "helper-1 task refused", "main task done"]
    assert agent.surprises == 0


# ── the declared check ──

WRITE = call("write", path="b", content="x")
READ = call("read", path="a.txt")


def checked(tmp_path: Path, *codes: int | None, calls: list[dict[str, object]]) -> Agent:
    """Return an agent with a check that ends with these codes."""
    agent, _, it = prepared(
        tmp_path, {"main": [{"calls": calls}]}, processes=[Finished(code) for code in codes]
    )
    agent.verify = VerifyGate(it.world.process, "make test", str(tmp_path), attempts=3)
    return agent


@pytest.mark.parametrize("codes", [(0,), (1, 0), (1, None, 0)])
def test_a_run_that_changed_something_ends_when_its_check_passes(
    tmp_path: Path, codes: tuple[int | None, ...]
) -> None:
    """The check is tried until it passes, and the model is given a turn after each failure."""
    agent = checked(tmp_path, *codes, calls=[WRITE])
    assert agent.run() == "done"
    assert agent.verify is not None
    assert agent.verify.failed == len(codes) - 1


def test_a_check_that_does_not_pass_ends_the_run_badly(tmp_path: Path) -> None:
    """After its attempts the run is over, with an error of its own."""
    with pytest.raises(VerifyError):
        checked(tmp_path, 1, 1, 1, calls=[WRITE]).run()


def test_a_run_that_changed_nothing_needs_no_check(tmp_path: Path) -> None:
    """Reading is no change, and neither is what was refused."""
    refused = call("read", "refused permission", path="/etc/passwd")
    agent = checked(tmp_path, calls=[READ, refused])
    assert agent.run() == "done"


def test_what_a_subagent_changed_is_checked_too(tmp_path: Path) -> None:
    """A change is a change whoever made it."""
    task = call("task", prompt="[[lane:other]]", scope=[])
    agent, _, it = prepared(
        tmp_path,
        {"main": [{"calls": [task]}], "other": [{"calls": [WRITE]}]},
        processes=[Finished(0)],
    )
    agent.verify = VerifyGate(it.world.process, "make test", str(tmp_path))
    agent.run()
    assert len(it.world.process.ran) == 1


def test_a_watcher_that_breaks_does_not_hide_a_subagent_s_change(tmp_path: Path) -> None:
    """A subagent whose watcher breaks has failed, and what it changed is checked."""
    task = call("task", "failed", prompt="[[lane:other]]", scope=[])
    agent, _, it = prepared(
        tmp_path,
        {"main": [{"calls": [task]}], "other": [{"calls": [READ, WRITE]}]},
        processes=[Finished(0)],
    )

    def watch(event: object) -> None:
        if isinstance(event, Ended) and event.actor != "main":
            raise OSError("nobody reads this any more")

    agent.watch = watch
    agent.verify = VerifyGate(it.world.process, "make test", str(tmp_path))
    agent.run()
    assert len(it.world.process.ran) == 1
