"""Running a tool: what it is given, and what becomes of what it raises."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.errors import CapabilityError, Refused
from broker.harness.files import ToolError
from broker.harness.items import Tool, Work
from broker.harness.outcome import Result
from broker.harness.registry import Registered
from tests.harnesskit import harness

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


def ran(tmp_path: Path, run: object, **arguments: object) -> Result:
    """Run a tool that does this."""
    probe = Tool("probe", "", SCHEMA, run, ("path",))  # type: ignore[arg-type]  # what a test makes up
    return harness(tmp_path, probe).call("probe", **arguments)


def test_a_tool_is_given_located_places_and_a_copy(tmp_path: Path) -> None:
    """Its paths are places in the workspace, and its arguments are its own to change."""
    seen: list[object] = []

    def run(work: Work, arguments: Mapping[str, object]) -> str:
        assert isinstance(arguments, dict)
        seen.extend([dict(work.places), dict(arguments), work.files.root])
        arguments.clear()
        return "done"

    assert ran(tmp_path, run, path="./x/../a.txt").outcome == "done"
    assert seen == [{"path": "a.txt"}, {"path": "./x/../a.txt"}, str(tmp_path)]


def test_a_path_that_was_not_given_has_no_place(tmp_path: Path) -> None:
    """An optional path that is absent is not located."""
    assert ran(tmp_path, lambda work, arguments: str(dict(work.places))).text == "{}"


def test_a_tool_does_not_end_the_process(tmp_path: Path) -> None:
    """A run that a tool wants to end goes on, to the check that may be due."""

    def run(work: Work, arguments: Mapping[str, object]) -> str:
        raise SystemExit(0)

    result = ran(tmp_path, run)
    assert (result.outcome, result.changed) == ("failed", True)
    assert "end the process" in result.text


@pytest.mark.parametrize(
    ("error", "outcome", "stop"),
    [
        (ToolError("no"), "failed", "tool"),
        (CapabilityError("no"), "failed", "tool"),
        (Refused("no", caveat="depth"), "refused", "ticket"),
        (KeyError("x"), "failed", "tool"),
        (RecursionError(), "failed", "tool"),
    ],
)
def test_whatever_it_raises_is_its_result(
    tmp_path: Path, error: Exception, outcome: str, stop: str
) -> None:
    """An error of ours is told in its own words, any other by its kind."""

    def run(work: Work, arguments: Mapping[str, object]) -> str:
        raise error

    result = ran(tmp_path, run)
    assert (result.outcome, result.stop) == (outcome, stop)
    assert ("the tool broke" in result.text) == (type(error) in (KeyError, RecursionError))


def test_without_a_tool_nothing_runs(tmp_path: Path) -> None:
    """What is not registered any more when it should run is not found by its old name."""
    it = harness(tmp_path)
    it.pipeline.registered = Registered
    assert it.call("read", path="a.txt").stop == "unknown_tool"
