"""What Gemini CLI's hooks are answered: decisions, subagents, and calls that ran undecided."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from broker.agents.children import asked_scope
from broker.agents.gemini import answers as module
from broker.agents.gemini.answers import GeminiHook
from broker.errors import InputError
from broker.session import Session
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

SCOPE = ("tools=read_file,write_file,grep_search,invoke_agent", "paths=src/**", "calls=20")


class Run:
    """A hook with its session, told of one call after another."""

    def __init__(self, bench: Bench, *scope: str) -> None:
        self.bench = bench
        self.session: Session = bench.open(scope or SCOPE)
        self.hook = GeminiHook()

    def tell(self, event: str, tool: str = "", given: object = None, **more: object) -> str:
        """Tell of an event, and return the reason of a refusal or an empty text."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        payload: dict[str, object] = {
            "hook_event_name": event,
            "tool_name": tool,
            "tool_input": given,
            "cwd": str(self.bench.workspace),
            "timestamp": now,
            "tool_response": {"llmContent": "done"},
            **more,
        }
        answer = self.hook.answer(json.dumps(payload).encode(), self.session)
        return "" if answer is None else str(json.loads(answer.stdout)["reason"])

    def before(self, tool: str, **given: object) -> str:
        """Tell of a call that is about to run."""
        return self.tell("BeforeTool", tool, given)

    def after(self, tool: str, **given: object) -> str:
        """Tell of a call that has run."""
        return self.tell("AfterTool", tool, given)

    def delegate(self, task: str, kind: str = "generalist") -> str:
        """Tell of a subagent that is about to start, and let it begin."""
        reason = self.before("invoke_agent", agent_name=kind, prompt=task)
        time.sleep(0.002)
        return reason

    def entries(self, kind: str) -> list[dict[str, Any]]:
        """Return the entries of one kind."""
        return [data for found, data in self.bench.entries(self.session.sid) if found == kind]

    def actors(self) -> list[str]:
        """Return who is said to have made each call."""
        return [data["actor"] for data in self.entries("decision")]


def test_a_call_is_decided_before_and_recorded_after(bench: Bench) -> None:
    """An allow says nothing, a refusal says why, and a result belongs to its decision."""
    run = Run(bench)
    assert run.before("read_file", file_path="src/a.py") == ""
    assert run.after("read_file", file_path="src/a.py") == ""
    assert "refused by `paths`" in run.before("read_file", file_path="../x")
    assert [d["decision"] for d in run.entries("decision")] == ["allow", "refuse"]
    (result,) = run.entries("result")
    assert result["call"] == run.entries("decision")[0]["call"] == "1"
    assert run.hook.started.is_set()


def test_events_without_a_call_are_only_heard(bench: Bench) -> None:
    """A session's start, a prompt and a subagent's report are answered with nothing."""
    run = Run(bench)
    for event in ("SessionStart", "BeforeAgent"):
        assert run.tell(event) == ""
    assert run.before("complete_task", result="x") == run.after("complete_task", result="x") == ""
    assert run.entries("decision") == run.entries("result") == []


def test_a_payload_that_cannot_be_read_is_an_error(bench: Bench) -> None:
    """The caller refuses it, in this agent's shape."""
    run = Run(bench)
    with pytest.raises(InputError):
        run.hook.answer(b"{}", run.session)
    refusal = run.hook.refusal("it broke")
    assert json.loads(refusal.stdout)["decision"] == "deny"


def test_a_subagent_is_held_to_what_its_task_asks_for(bench: Bench) -> None:
    """It gets a ticket of its own, narrower than its parent's, and loses it at its end."""
    run = Run(bench)
    task = "look\nscope: tools=read_file"
    assert run.delegate(task) == ""
    assert "refused by `tools`" in run.before("write_file", file_path="src/x", content="")
    assert run.before("read_file", file_path="src/a.py") == ""
    assert run.after("read_file", file_path="src/a.py") == ""
    run.after("invoke_agent", agent_name="generalist", prompt=task)
    assert run.before("write_file", file_path="src/x", content="") == ""
    assert run.actors() == ["main", *["agent:generalist:1"] * 2, "main"]
    (kept,) = run.entries("delegate")
    assert (kept["parent"], kept["asked_by"]) == (run.session.ticket.id, "main")
    held = [data["ticket"] for data in run.entries("decision")]
    assert held == [kept["parent"], *[kept["ticket"]] * 2, kept["parent"]]


def test_a_task_cannot_widen(bench: Bench) -> None:
    """A scope that is wider, or that nobody can read, keeps the subagent from starting."""
    run = Run(bench)
    assert "refused" in run.delegate("scope: tools=read_file,run_shell_command")
    assert "refused" in run.delegate("scope: paths=")
    run.before("read_file", file_path="src/a.py")
    assert run.actors()[-1] == "main"
    refused = [data["caveat"] for data in run.entries("decision") if data["decision"] == "refuse"]
    assert refused == ["tools", "call"]
    assert [data["decision"] for data in run.entries("delegate")] == ["refuse"]


def test_a_call_that_two_may_have_made_is_held_to_both(bench: Bench) -> None:
    """Of two subagents at once, neither lends its ticket to the other."""
    run = Run(bench)
    run.delegate("a\nscope: paths=src/a.py")
    stamp = "2000-01-01T00:00:00.000Z"  # made together with the first
    given = {"agent_name": "reader", "prompt": "b\nscope: tools=read_file,invoke_agent"}
    assert run.tell("BeforeTool", "invoke_agent", given, timestamp=stamp) == ""
    time.sleep(0.002)
    assert "refused by `tools`" in run.before("write_file", file_path="src/a.py", content="")
    assert "refused by `paths`" in run.before("read_file", file_path="src/b.py")
    assert run.before("read_file", file_path="src/a.py") == ""
    assert run.actors()[-1] == "agent:generalist:1 or agent:reader:2"
    both = run.entries("decision")[-1]
    assert len({both["ticket"], *both["also"]}) == 2
    assert "which agent asks" in run.delegate("c")


def test_what_was_called_together_with_a_subagent_is_the_main_agents(bench: Bench) -> None:
    """A call that was made before the subagent could start is not held to its ticket."""
    run = Run(bench)
    run.delegate("a\nscope: tools=read_file")
    earlier = {"timestamp": "2000-01-01T00:00:00.000Z"}
    given = {"file_path": "src/x", "content": ""}
    assert run.tell("BeforeTool", "write_file", given, **earlier) == ""
    assert run.tell("BeforeTool", "write_file", given, timestamp="soon") != ""
    assert run.actors() == ["main", "main", "agent:generalist:1"]


def test_a_new_prompt_frees_the_main_agent(bench: Bench) -> None:
    """A subagent that never told its end is forgotten when a person goes on."""
    run = Run(bench)
    run.delegate("a\nscope: tools=read_file")
    run.tell("BeforeAgent")
    assert run.before("write_file", file_path="src/x", content="") == ""


def test_a_call_that_ran_undecided_is_decided_at_its_end(bench: Bench) -> None:
    """One that the ticket allows goes on with a note, one that it does not ends the run."""
    run = Run(bench)
    assert run.after("read_file", file_path="src/a.py") == ""
    assert run.hook.lost is None
    assert "ran without" in run.entries("note")[0]["text"]
    assert "refused" in run.after("run_shell_command", command="id")
    assert "`run_shell_command` ran although no ticket allows it" in str(run.hook.lost)
    assert [d["decision"] for d in run.entries("decision")] == ["allow", "refuse"]
    assert "ran although" in run.before("read_file", file_path="src/a.py")


def test_a_call_that_was_changed_after_it_was_decided_ends_the_run(bench: Bench) -> None:
    """The arguments that it ran with are the ones that count."""
    run = Run(bench)
    run.before("read_file", file_path="src/a.py")
    assert "refused by `paths`" in run.after("read_file", file_path="/etc/passwd")
    assert run.hook.lost is not None


def test_what_a_tool_fills_in_itself_is_no_change(bench: Bench) -> None:
    """The lines around a match are added by the tool; another folder is not."""
    run = Run(bench)
    run.before("grep_search", pattern="a", dir_path="src")
    run.after("grep_search", pattern="a", dir_path="src", context=50)
    assert run.entries("note") == []
    run.before("grep_search", pattern="a", dir_path="src")
    run.after("grep_search", pattern="a", dir_path="/", context=50)
    assert run.hook.lost is not None


def test_one_decision_is_good_for_one_call(bench: Bench) -> None:
    """A second end of the same call is a second call."""
    run = Run(bench)
    run.before("read_file", file_path="src/a.py")
    run.after("read_file", file_path="src/a.py")
    run.after("read_file", file_path="src/a.py")
    assert len(run.entries("decision")) == 2


def test_what_is_remembered_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that was forgotten is decided again at its end."""
    monkeypatch.setattr(module, "MAX_PENDING", 1)
    run = Run(bench)
    run.before("read_file", file_path="src/a.py")
    run.before("read_file", file_path="src/b.py")
    assert run.after("read_file", file_path="src/b.py") == ""
    assert run.entries("note") == []
    assert run.after("read_file", file_path="src/a.py") == ""
    assert len(run.entries("note")) == 1


def test_only_lines_of_a_scope_are_taken_for_one() -> None:
    """Prose that begins with the word is not."""
    assert asked_scope("Scope: only the parser\nSCOPE: calls = 3 \nthe scope: a=b") == (
        "calls = 3",
    )
