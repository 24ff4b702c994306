"""What Cline's plugin and net are answered: decisions, helpers, and a run without its plugin."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.agents.cline.answers import ClineHook
from broker.agents.cline.hook import ClineDialect
from broker.errors import InputError
from broker.session import Session
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

SCOPE = ("tools=read_files,editor,spawn_agent,team_run_task,subagent_*", "paths=src/**", "calls=20")
NET = b'{"hookName":"tool_call","tool_call":{"name":"editor"}}'


class Run:
    """A hook with its session, told of one call after another."""

    def __init__(self, bench: Bench, *scope: str) -> None:
        self.bench = bench
        self.session: Session = bench.open(scope or SCOPE)
        self.hook = ClineHook(ClineDialect())

    def say(self, payload: bytes) -> str:
        """Tell of anything, and return the reason of a refusal or an empty text."""
        answer = self.hook.answer(payload, self.session)
        return "" if answer is None else answer.stdout.decode()

    def call(
        self, tool: str, agent: str = "a1", parent: str = "", task: str = "", **given: object
    ) -> str:
        """Tell of a call."""
        return self.told(tool, given, agent, parent, task)

    def call_task(
        self, tool: str, errand: str, agent: str = "a1", parent: str = "", task: str = ""
    ) -> str:
        """Tell of a call that starts a helper."""
        return self.told(tool, {"task": errand}, agent, parent, task)

    def told(self, tool: str, given: dict[str, object], agent: str, parent: str, task: str) -> str:
        """Tell of a call with these arguments."""
        said = {
            "event": "call",
            "tool": tool,
            "arguments": given,
            "call": "c",
            "cwd": str(self.bench.workspace),
            "agent": agent,
            "parent": parent,
            "tasks": [task],
        }
        return self.say(json.dumps(said, separators=(",", ":")).encode())

    def entries(self, kind: str) -> list[dict[str, Any]]:
        """Return the entries of one kind."""
        return [data for found, data in self.bench.entries(self.session.sid) if found == kind]

    def actors(self) -> list[str]:
        """Return who is said to have made each call."""
        return [data["actor"] for data in self.entries("decision")]


def test_a_call_is_decided(bench: Bench) -> None:
    """An allow says nothing, and a refusal says why."""
    run = Run(bench)
    assert run.call("read_files", files=["src/a.py"]) == ""
    assert "refused by `paths`" in run.call("read_files", files=["src/a.py", "../x"])
    assert [d["decision"] for d in run.entries("decision")] == ["allow", "refuse"]


def test_the_net_ends_a_run_without_its_plugin(bench: Bench) -> None:
    """Only the plugin's own word makes it silent; a call does not, nor does the net itself."""
    run = Run(bench)
    assert json.loads(run.say(NET))["cancel"] is True
    assert json.loads(run.say(NET))["cancel"] is True
    assert run.say(b'{"event":"start"}') == ""
    assert run.hook.started.is_set()
    assert run.say(NET) == ""
    assert run.entries("decision") == []


def test_what_cannot_be_read_is_refused_in_the_readers_shape(bench: Bench) -> None:
    """The plugin gets a reason for the model; anybody else the object that ends a run."""
    run = Run(bench)
    assert run.call("read_files").startswith("refused: the call names no file")
    with pytest.raises(InputError):
        run.say(b"noise")
    assert json.loads(run.hook.refusal("no").stdout)["cancel"] is True


def test_a_helper_has_the_ticket_of_its_task(bench: Bench) -> None:
    """The scope of the task holds for the helper, and for its own helpers too."""
    run = Run(bench)
    task = "look\nscope: tools=read_files,spawn_agent"
    assert run.call_task("spawn_agent", task) == ""
    assert run.call("read_files", "a2", "a1", task, files=["src/a.py"]) == ""
    assert "refused by `tools`" in run.call("editor", "a2", "a1", task, path="src/b")
    assert run.call_task("spawn_agent", "deeper", "a2", "a1", task) == ""
    assert "refused by `tools`" in run.call("editor", "a3", "a2", "deeper", path="src/b")
    assert run.call("editor", path="src/b", new_text="x") == ""
    assert run.actors() == [
        *("main", "agent:subagent:1", "agent:subagent:1", "agent:subagent:1"),
        *("agent:subagent:2", "main"),
    ]


def test_a_helper_that_asks_for_more_does_not_start(bench: Bench) -> None:
    """A wider scope, or one that is none, refuses the task, and nobody works at it."""
    run = Run(bench)
    for line in ("tools=run_commands", "calls=21", "nonsense=1"):
        reason = run.call_task("spawn_agent", f"go\nscope: {line}")
        assert "the scope that this task asks for" in reason
        assert "cannot be told" in run.call(
            "editor", "a2", "a1", f"go\nscope: {line}", path="src/b"
        )
    told = [(d["decision"], d["caveat"]) for d in run.entries("decision")]
    assert told == [("refuse", "tools"), ("refuse", "calls"), ("refuse", "call")]


def test_whatever_a_task_asks_to_be_held_to_counts(bench: Bench) -> None:
    """A policy by its name, and lines that end as they do on other systems."""
    run = Run(bench)
    assert "@review" in run.call_task("spawn_agent", "go\nscope: @review")
    task = "go\r\nscope: tools=read_files\r\n"
    assert run.call_task("spawn_agent", task) == ""
    assert "refused by `tools`" in run.call("editor", "a2", "a1", task, path="src/b")


def test_a_helper_of_a_helper_is_never_wider(bench: Bench) -> None:
    """Not even where a ticket is kept for its kind, which holds it as well."""
    run = Run(bench)
    run.session.delegate(("tools=read_files,spawn_agent",), holder="agent:subagent")
    task = "look\nscope: paths=src/a.py"
    assert run.call_task("spawn_agent", task) == ""
    assert run.call_task("spawn_agent", "deeper", "a2", "a1", task) == ""
    assert run.call("read_files", "a3", "a2", "deeper", files=["src/a.py"]) == ""
    assert "refused by `paths`" in run.call("read_files", "a3", "a2", "deeper", files=["src/b"])
    assert "refused by `tools`" in run.call("editor", "a3", "a2", "deeper", path="src/a.py")


def test_what_the_plugin_was_not_asked_about_may_be_a_helpers(bench: Bench) -> None:
    """A gateway that meets such a call asks the tickets of all helpers."""
    run = Run(bench)
    assert run.session.decide("read_files", {"paths": ["src/a.py"]}, again=True).allowed
    assert run.call_task("spawn_agent", "go\nscope: tools=editor") == ""
    assert not run.session.decide("read_files", {"paths": ["src/a.py"]}, again=True).allowed


def test_a_stranger_is_refused(bench: Bench) -> None:
    """A helper that nobody let start makes no call, and a teammate is not the main agent."""
    run = Run(bench)
    assert run.call("editor", path="src/b", new_text="") == ""
    assert "cannot be told" in run.call("editor", "a2", "a1", "unasked", path="src/b")
    assert run.call_task("team_run_task", "dig\nscope: tools=read_files") == ""
    assert "cannot be told" in run.call("editor", "a3", "", "unasked", path="src/b")
    assert "refused by `tools`" in run.call(
        "editor", "a4", "", "dig\nscope: tools=read_files", path="src/b"
    )
    assert run.call("editor", path="src/c", new_text="") == ""


def test_own_kinds_of_agents_are_helpers_too(bench: Bench) -> None:
    """A kind of agent from a file has its task in `prompt`."""
    run = Run(bench, "tools=read_files,editor,subagent_reviewer", "paths=src/**")
    assert run.call("subagent_reviewer", prompt="look\nscope: tools=read_files") == ""
    assert "refused by `tools`" in run.call(
        "editor", "a2", "a1", "look\nscope: tools=read_files", path="src/b"
    )
    assert run.actors()[1] == "agent:reviewer:1"
    assert "no text" in run.call("subagent_reviewer", prompt=["look"])


def test_one_budget_for_all(bench: Bench) -> None:
    """What helpers call is taken from the same count."""
    run = Run(bench, "calls=3")
    assert run.call_task("spawn_agent", "look") == ""
    assert run.call("read_files", "a2", "a1", "look", files=["src/a.py"]) == ""
    assert run.call("read_files", files=["src/a.py"]) == ""
    assert "refused by `calls`" in run.call("read_files", "a2", "a1", "look", files=["src/a.py"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["tool", "arguments", "call", "cwd", "agent", "parent", "tasks", "event"]),
        st.sampled_from([None, "", "x", "call", "run_commands", 1, [], {}, {"commands": ["ls"]}]),
    )
)
def test_fuzzed_payloads_never_allow(bench: Bench, changed: dict[str, object]) -> None:
    """Under a ticket that permits no tool, no payload of a call is answered with silence."""
    run = Run(bench, "tools=none")
    said = {"event": "call", "tool": "editor", "arguments": {}, "call": "c", "cwd": "/", **changed}
    payload = json.dumps({"agent": "a1", "parent": "", "tasks": [], **said}).encode()
    with suppress(InputError):  # the caller refuses then
        assert run.say(payload) != ""
