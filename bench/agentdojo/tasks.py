"""
The tasks: what a person asked for, the calls that do it, and the calls of each attack.

Read from the installed ``agentdojo`` package (`pip install 'capability-broker[bench]'`), or from a
copy of the tasks beside the project, which also holds AgentDyn's. Where both are there they must
say the same, or nothing is measured; the copy then adds the calls of eight attacks of the workspace
suite, for which the package has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

VERSION = "v1.2.2"  # of the benchmark's tasks, in the package
SUITES = ("workspace", "travel", "banking", "slack")


class Missing(Exception):
    """The tasks are not on this machine; the message says how to get them."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One tool call, as an agent makes it."""

    tool: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a person, or of an attacker: the line, and the calls that carry it out."""

    suite: str
    name: str
    line: str
    calls: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Suite:
    """Tools that work together, with the tasks of its person and the attacks on them."""

    name: str
    needed: Mapping[str, frozenset[str]]  # by tool, the arguments that a call must have
    users: tuple[Task, ...]
    attacks: tuple[Task, ...]

    @property
    def pairs(self) -> int:
        """How many attacks on how many tasks there are."""
        return len(self.users) * len(self.attacks)


def dojo_suites(beside: Path | None) -> tuple[dict[str, Suite], str]:
    """
    Return AgentDojo's suites by name, and a sentence that says where they are from.

    Args:
        beside: the folder that holds ``agentdojo.json``; None: only the package is read.

    Raises:
        Missing: the tasks are neither installed nor beside the project, or the two differ.
    """
    copy = None if beside is None else beside / "agentdojo.json"
    kept = suites_of(copy) if copy is not None and copy.is_file() else None
    if util.find_spec("agentdojo") is None:
        if kept is None:
            raise Missing(
                "AgentDojo's tasks are not here: pip install 'capability-broker[bench]', "
                "or let BROKER_SHARED name the folder that holds agentdojo/agentdojo.json"
            )
        return kept, "the copy beside the project (the package agentdojo is not installed)"
    installed = _installed()
    version = f"agentdojo {metadata.version('agentdojo')}, tasks {VERSION}"
    if kept is None:
        return installed, version
    differing = _differing(installed, kept)
    if differing:
        raise Missing(f"{version} and {copy} are not the same tasks: {differing}")
    return kept, f"{version}, and the same beside the project"


def suites_of(path: Path) -> dict[str, Suite]:
    """Return the suites of a file of tasks."""
    found = json.loads(path.read_text(encoding="utf-8"))["suites"]
    return {name: _suite(name, suite) for name, suite in found.items()}


def _suite(name: str, found: Mapping[str, dict]) -> Suite:
    needed = {
        tool: frozenset(schema["parameters"].get("required") or ())
        for tool, schema in found["tools"].items()
    }
    users = [_task(name, key, t["prompt"], t) for key, t in found["user_tasks"].items()]
    attacks = [_task(name, key, t["goal"], t) for key, t in found["injection_tasks"].items()]
    return Suite(name, needed, tuple(users), tuple(attacks))


def _task(suite: str, name: str, line: str, found: Mapping[str, list]) -> Task:
    calls = tuple([Asked(c["function"], c["args"]) for c in found["ground_truth"]])
    return Task(suite, name, line, calls)


def _installed() -> dict[str, Suite]:
    from agentdojo.task_suite.load_suites import get_suite

    found = {}
    for name in SUITES:
        suite = get_suite(VERSION, name)
        world = suite.load_and_inject_default_environment({})

        def played(task, line, there, name=name) -> Task:
            calls = [Asked(c.function, dict(c.args)) for c in task.ground_truth(there)]
            return Task(name, task.ID, line, tuple(calls))

        def begun(task, world=world):
            return task.init_environment(world.model_copy(deep=True))

        schemas = {tool.name: tool.parameters.model_json_schema() for tool in suite.tools}
        found[name] = Suite(
            name,
            {tool: frozenset(s.get("required", ())) for tool, s in schemas.items()},
            tuple([played(t, t.PROMPT, begun(t)) for t in suite.user_tasks.values()]),
            tuple([played(t, t.GOAL, world) for t in suite.injection_tasks.values()]),
        )
    return found


def _differing(one: Mapping[str, Suite], other: Mapping[str, Suite]) -> str:
    """
    Return the first thing that two readings do not agree on, or nothing.

    The package has no calls for some attacks, which only a model's answer is judged by; the copy
    says them.
    """
    for name, suite in one.items():
        there = other.get(name)
        if there is None or suite.needed != there.needed:
            return f"the tools of {name}"
        for ours, theirs in ((suite.users, there.users), (suite.attacks, there.attacks)):
            kept = {task.name: task for task in theirs}
            if set(kept) != {task.name for task in ours}:
                return f"the tasks of {name}"
            for task in ours:
                if task.calls and task.calls != kept[task.name].calls:
                    return f"{name}/{task.name}"
    return ""
