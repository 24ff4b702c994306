"""The gate: nothing runs that was not decided, and a refusal is a result that names its caveat."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from broker.calls import ALLOW, Decision, Refusal
from broker.errors import AttenuationError, FatalStoreError, ScopeError
from broker.harness.files import Files
from broker.harness.gate import Caller, Gate, Result
from broker.harness.script import ToolCall
from broker.harness.tools import TOOLS, Parameter, Tool, Work


def allow(tool: str, arguments: Mapping[str, object]) -> Decision:
    """Let everything through."""
    return ALLOW


def refuse(tool: str, arguments: Mapping[str, object]) -> Decision:
    """Let nothing through."""
    return Decision(Refusal("paths", "x", "not within paths: src/**"))


@dataclass
class Session:
    """A session that answers as it is told and remembers what it was asked."""

    answer: Callable[[str, Mapping[str, object]], Decision] = allow
    denied: str | None = None
    asked: list[tuple[str, dict[str, object], str]] = field(default_factory=list)
    recorded: list[tuple[str, bool, str]] = field(default_factory=list)

    def decide(
        self, tool: str, arguments: Mapping[str, object], *, call: str, ticket: str, actor: str
    ) -> Decision:
        """Answer, and remember the question."""
        self.asked.append((tool, dict(arguments), call))
        return self.answer(tool, arguments)

    def permitted(
        self, tool: str, arguments: Mapping[str, object], *, call: str, actor: str
    ) -> str | None:
        """Say what the permission rules say."""
        return self.denied

    def delegate(self, scope: Sequence[str], *, parent: str, asked_by: str, holder: str) -> str:
        """Narrow, widen or misread, as the scope says."""
        if list(scope) == ["wide"]:
            raise AttenuationError("`tools=shell` widens `tools=read`", kind="tools")
        if list(scope) == ["odd"]:
            raise ScopeError("no such key `odd`", text="odd")
        return f"a narrower ticket for {holder}"

    def record(self, call: str, *, ok: bool, result: str) -> None:
        """Remember the outcome."""
        self.recorded.append((call, ok, result))


CALLER = Caller("main", "", lambda prompt, narrow: f"{prompt} under {narrow('helper-1')}")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A workspace with one file."""
    (tmp_path / "a.txt").write_text("one")
    return Files(os.path.realpath(tmp_path))


def ask(session: Session, files: Files, tool: str, **arguments: object) -> Result:
    """Handle one call."""
    gate = Gate(session, files, {"PATH": os.environ["PATH"]})
    return gate.call(ToolCall(tool, arguments), CALLER, "call-1")


def test_an_allowed_call_runs_and_its_outcome_is_recorded(files: Files) -> None:
    """The session is asked first, then the tool runs, then the outcome is recorded."""
    session = Session()
    assert ask(session, files, "read", path="a.txt") == Result("done", "one")
    assert session.asked == [("read", {"path": "a.txt"}, "call-1")]
    assert session.recorded == [("call-1", True, "one")]


def test_a_refused_call_does_not_run_and_names_its_caveat(files: Files) -> None:
    """A refusal is the call's result, and nothing was written."""
    session = Session(refuse)
    result = ask(session, files, "write", path="b.txt", content="x")
    assert (result.outcome, result.caveat) == ("refused", "paths")
    assert result.text == "refused by `paths`: not within paths: src/**"
    assert not os.path.exists(f"{files.root}/b.txt")
    assert session.recorded == []


def test_a_failed_call_is_recorded_as_failed(files: Files) -> None:
    """A tool's own error goes back to the model and into the receipt."""
    session = Session()
    assert ask(session, files, "read", path="missing").outcome == "failed"
    assert session.recorded[0][1] is False


def test_what_is_asked_about_holds_the_defaults(files: Files) -> None:
    """The arguments that are decided are the ones that run, defaults included."""
    session = Session()
    ask(session, files, "grep", pattern="one")
    assert session.asked[0][1] == {"pattern": "one", "path": "."}


def test_an_answer_that_changes_the_arguments_changes_nothing(files: Files) -> None:
    """What runs is read from the frozen text, whoever got hold of the arguments meanwhile."""

    def meddle(tool: str, arguments: Mapping[str, object]) -> Decision:
        assert isinstance(arguments, dict)
        arguments["content"] = "other"
        return ALLOW

    ask(Session(meddle), files, "write", path="b.txt", content="mine")
    assert Path(files.root, "b.txt").read_text() == "mine"


def test_a_path_outside_is_decided_before_it_is_a_failure(files: Files) -> None:
    """An attempt to leave the workspace reaches the session, so that the receipt shows it."""
    session = Session(refuse)
    assert ask(session, files, "read", path="/etc/passwd").outcome == "refused"
    assert session.asked[0][1] == {"path": "/etc/passwd"}
    assert ask(Session(), files, "read", path="/etc/passwd").outcome == "failed"


def test_a_link_swapped_during_the_decision_stops_the_call(files: Files) -> None:
    """A path that leads elsewhere after the decision than before it is not opened."""

    def swap(tool: str, arguments: Mapping[str, object]) -> Decision:
        os.rename(f"{files.root}/a.txt", f"{files.root}/b.txt")
        os.symlink("b.txt", f"{files.root}/a.txt")
        return ALLOW

    result = ask(Session(swap), files, "read", path="a.txt")
    assert (result.outcome, "link was changed" in result.text) == ("failed", True)


def test_the_permission_rules_come_after_the_ticket(files: Files) -> None:
    """A call that the ticket allows may still be denied, and then does not run."""
    session = Session(denied="ask a person first")
    result = ask(session, files, "write", path="b.txt", content="x")
    assert (result.outcome, result.caveat) == ("refused", "permission")
    assert not os.path.exists(f"{files.root}/b.txt")


def test_a_session_that_is_gone_refuses(files: Files) -> None:
    """When the session cannot answer, the call is refused and does not run."""

    def broken(tool: str, arguments: Mapping[str, object]) -> Decision:
        raise FatalStoreError("the receipt cannot be written")

    result = ask(Session(broken), files, "write", path="b.txt", content="x")
    assert (result.outcome, result.caveat) == ("refused", "session")
    assert not os.path.exists(f"{files.root}/b.txt")


def test_a_result_that_cannot_be_recorded_says_so(files: Files) -> None:
    """When the outcome is lost, the model is told, and the call counts as failed."""

    class Full(Session):
        def record(self, call: str, *, ok: bool, result: str) -> None:
            raise FatalStoreError("disk full")

    result = ask(Full(), files, "read", path="a.txt")
    assert result.outcome == "failed"
    assert "could not be recorded: disk full" in result.text


@pytest.mark.parametrize(
    ("tool", "arguments"), [("nothing", {}), ("read", {}), ("read", {"path": 1})]
)
def test_a_call_that_makes_no_sense_is_not_asked_about(
    files: Files, tool: str, arguments: dict[str, object]
) -> None:
    """An unknown tool and wrong arguments fail before the session is asked."""
    session = Session()
    assert ask(session, files, tool, **arguments).outcome == "failed"
    assert session.asked == []


def test_delegation_narrows_or_is_refused_by_name(files: Files) -> None:
    """A narrower ticket is handed on; a widening is the result, with the caveat's name."""
    done = ask(Session(), files, "task", prompt="look", scope=["tools=read"])
    assert done == Result("done", "look under a narrower ticket for helper-1")
    wide = ask(Session(), files, "task", prompt="look", scope=["wide"])
    assert (wide.outcome, wide.caveat) == ("refused", "tools")
    assert "do not work around this" in wide.text
    odd = ask(Session(), files, "task", prompt="look", scope=["odd"])
    assert (odd.outcome, "no such key" in odd.text) == ("failed", True)


def test_every_redirect_is_decided_anew(files: Files) -> None:
    """A redirect is a call of its own; when it is refused, so is the fetch."""

    def only_first(tool: str, arguments: Mapping[str, object]) -> Decision:
        return ALLOW if arguments["url"] == "https://one.test/" else refuse(tool, arguments)

    def redirected(work: Work, arguments: Mapping[str, object]) -> str:
        work.hop("https://two.test/")
        raise AssertionError("the refused redirect was followed")

    session = Session(only_first)
    fetch = Tool("fetch", "", {"url": Parameter("text", "")}, redirected)
    gate = Gate(session, files, {}, {**TOOLS, "fetch": fetch})
    result = gate.call(ToolCall("fetch", {"url": "https://one.test/"}), CALLER, "call-7")
    assert (result.outcome, result.caveat) == ("refused", "paths")
    assert [(a["url"], number) for _, a, number in session.asked] == [
        ("https://one.test/", "call-7"),
        ("https://two.test/", "call-7+"),
    ]


@pytest.mark.parametrize(
    ("expected", "met"),
    [
        ("", True),
        ("refused", True),
        ("refused paths", True),
        ("refused tools", False),
        ("done", False),
    ],
)
def test_an_expectation_names_outcome_and_caveat(expected: str, met: bool) -> None:
    """A script's expectation is met by the outcome, and by the caveat when it names one."""
    assert Result("refused", "", "paths").meets(expected) == met
