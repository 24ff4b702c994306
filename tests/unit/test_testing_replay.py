"""A whole run on fakes: what it leaves behind, and that it is the same every time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.capabilities.process import Finished
from broker.errors import BrokerError, InputError, StoreError
from broker.harness.items import CallHook, HookedCall, Tool, Veto
from broker.home import Home
from broker.records.turns import derived
from broker.testing.provider import ProviderError
from broker.testing.replay import Replayed, create_replay_runtime
from tests.console import process


def call(tool: str, **arguments: object) -> dict[str, object]:
    """Return one call of a script."""
    return {"tool": tool, "arguments": arguments}


def script(*turns: dict[str, object], **lanes: list[dict[str, object]]) -> dict[str, object]:
    """Return a script of a main lane and others."""
    return {"lanes": {"main": list(turns), **lanes}}


FULL = script(
    {"text": "I look.", "calls": [call("read", path="a.txt"), call("read", path="../out")]},
    {"calls": [call("write", path="b.txt", content="TOKEN=abcdef")]},
    {"calls": [call("task", prompt="[[lane:helper]]", scope=["tools=read"])]},
    {"calls": [call("shell", command="make"), call("read", path=7)]},
    {"text": "Done."},
    helper=[{"calls": [call("read", path="a.txt"), call("write", path="c", content="")]}],
)
OPTIONS: dict[str, Any] = {
    "scope": ["tools=read,write,task", "paths=**", "calls=9"],
    "intent": "look around",
    "files": {"a.txt": b"one"},
    "said_yes": ["write"],
    "errors": [529, 429],
}


def left(wanted: dict[str, object] = FULL, **options: Any) -> Replayed:
    """Run a script and return what it left behind."""
    with create_replay_runtime(wanted, **options) as runtime:
        return runtime.run()


def test_two_runs_leave_the_same_bytes() -> None:
    """Records, reports, trace, receipt and files of two runs are equal, byte by byte."""
    one, two = left(**OPTIONS), left(**OPTIONS)
    assert one.lines == two.lines
    assert one.receipt == two.receipt
    assert (one.reports, one.trace, one.files) == (two.reports, two.trace, two.files)
    assert one.received == two.received
    assert left(**OPTIONS, seed=b"another").receipt != one.receipt


def test_another_process_leaves_the_same_bytes(tmp_path: Path) -> None:
    """Nothing of a process, its hash seed, its folder or its environment is in what is left."""
    code = (
        "import hashlib, sys; from tests.unit.test_testing_replay import *; r = left(**OPTIONS);"
        "print(hashlib.sha256(r.lines + r.receipt + repr(r.reports).encode()).hexdigest())"
    )
    root = Path(__file__).resolve().parents[2]
    answers = set()
    for seed in ("1", "2"):
        environ = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": str(root),
            "TZ": "Asia/Tokyo",
        }
        done = subprocess.run(
            [sys.executable, "-c", code], env=environ, cwd=tmp_path, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        answers.add(done.stdout)
    here = left(**OPTIONS)
    said = hashlib.sha256(here.lines + here.receipt + repr(here.reports).encode()).hexdigest()
    assert answers == {f"{said}\n"}


def test_everything_that_happened_is_handed_back() -> None:
    """Requests, answers, reports, files: each says what the others say."""
    run = left(**OPTIONS)
    places = [(r.branch, r.turn, r.attempt) for r in run.requests]
    assert places[:4] == [("main", 0, 0), ("main", 0, 1), ("main", 0, 2), ("main", 1, 0)]
    assert ("helper", 0, 0) in places
    assert derived(run.records) == {r.id: (r.turn, r.attempt) for r in run.requests}
    assert [r.sha256 for r in run.requests] == [
        hashlib.sha256(body).hexdigest() for body in run.received
    ]
    kinds = [r.failure.kind if r.failure else None for r in run.responses]
    assert kinds[:3] == ["overloaded", "rate_limit", None]
    assert [(r.tool, r.outcome, r.stop) for r in run.reports] == [
        ("read", "done", ""),
        ("read", "refused", "ticket"),
        ("write", "done", ""),
        ("read", "done", ""),
        ("write", "refused", "ticket"),
        ("task", "done", ""),
        ("shell", "refused", "ticket"),
        ("read", "failed", "invalid_arguments"),
    ]
    assert run.files == {"a.txt": b"one", "b.txt": b"TOKEN=abcdef"}
    assert run.said == "Done."
    assert [a.outcome for a in run.audits] == ["invalid_arguments"]
    assert b"abcdef" not in run.lines
    assert any(b"abcdef" in body for body in run.received)


def test_the_receipt_is_a_real_one() -> None:
    """It is sealed, it verifies under the keys of the run, and it has each decision."""
    with create_replay_runtime(FULL, **OPTIONS) as runtime:
        run = runtime.run()
        home = Home.find({"BROKER_HOME": runtime.home.name})
        (folder,) = home.sessions.iterdir()
        assert (folder / "receipt.jsonl").read_bytes() == run.receipt
        assert b'"kind":"seal"' in run.receipt.splitlines()[-1]
        assert run.receipt.count(b'"kind":"decision"') == 7
        said = process("receipt", "--verify", env={**os.environ, "BROKER_HOME": runtime.home.name})
        assert (said.code, "verified: SEALED" in said.out) == (0, True), said.err
    assert not Path(runtime.home.name).exists()


def test_no_record_is_shown_to_the_model() -> None:
    """No id of a record, and none of their words, is part of a request."""
    run = left(**OPTIONS)
    for body in run.received:
        assert not any(r.id.encode() in body for r in run.requests)
        assert b"provider.request" not in body
        assert b"tool.audit" not in body


def test_hooks_and_tools_of_ones_own() -> None:
    """A tool takes the place of one with its name; a hook's change is run and audited."""

    def move(hooked: HookedCall) -> Veto | None:
        if hooked.tool == "shell":
            return Veto("no shell today")
        hooked.arguments["path"] = "b.txt"
        return None

    shape = {"type": "object", "properties": {"path": {}}}
    mine = Tool("read", "mine", shape, lambda work, given: f"mine: {given['path']}")
    run = left(
        script({"calls": [call("read", path="a.txt"), call("shell", command="x")]}),
        tools=[mine, CallHook("move", "arguments", move)],
        mode="yolo",
    )
    assert [(a.tool, a.outcome, a.changed) for a in run.audits] == [
        ("read", "ran", ("/path",)),
        ("shell", "blocked", ()),
    ]
    assert b"mine: b.txt" in run.received[-1]
    assert "no shell today" in run.audits[1].reason


def test_processes_are_scripted() -> None:
    """A command ends as the test says, and nothing is run."""
    run = left(
        script({"calls": [call("shell", command="make")]}),
        processes=[Finished(0, b"built")],
        mode="yolo",
    )
    assert run.reports[0].outcome == "done"
    assert b"built" in run.received[-1]


def test_a_record_that_cannot_be_written_stops_the_run() -> None:
    """The provider is not asked, and the receipt is sealed as interrupted."""
    with create_replay_runtime(FULL, prepare=lambda world: world.fs.fail_write(2)) as runtime:
        with pytest.raises(StoreError, match="cannot be written"):
            runtime.run()
        home = Home.find({"BROKER_HOME": runtime.home.name})
        (folder,) = home.sessions.iterdir()
        assert b'"interrupted"' in (folder / "receipt.jsonl").read_bytes().splitlines()[-1]


def test_a_failed_audit_does_not_stop_a_call() -> None:
    """The tool ran, though its audit was lost."""

    def move(hooked: HookedCall) -> None:
        hooked.arguments["path"] = "b.txt"

    wanted = script({"calls": [call("read", path="a.txt")]})
    options: dict[str, Any] = {
        "files": {"b.txt": b"two"},
        "tools": [CallHook("move", "arguments", move)],
    }
    counted = left(wanted, **options)
    assert len(counted.audits) == 1
    for nth in range(1, 12):
        with create_replay_runtime(
            wanted, prepare=lambda world, nth=nth: world.fs.fail_write(nth), **options
        ) as runtime:
            try:
                run = runtime.run()
            except BrokerError as error:
                assert isinstance(error, StoreError)  # a request or an answer: those stop the run
                continue
            assert [r.outcome for r in run.reports] == ["done"]
            if not run.audits:
                return
    raise AssertionError("no write was the audit's")


def test_a_provider_that_never_answers_fails_the_run() -> None:
    """The error says what it answered."""
    with pytest.raises(ProviderError, match="401"):
        left(errors=[401])


@pytest.mark.parametrize(
    "options", [{"mode": "wild"}, {"said_yes": ["fly"]}, {"scope": ["tolls=read"]}]
)
def test_a_wrong_choice_is_told(options: dict[str, Any]) -> None:
    """What cannot be understood is an error before anything runs, and leaves no folder."""
    with pytest.raises(InputError):
        left(**options)


def test_a_workspace_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that others can read, or a link, is not taken for ours."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    place = tmp_path / f"broker-replay-{os.getuid()}"
    place.mkdir(mode=0o755)
    place.chmod(0o755)
    with pytest.raises(StoreError, match="not a folder of ours"):
        left()
    place.rmdir()
    place.symlink_to(tmp_path)
    with pytest.raises(StoreError, match="not a folder of ours"):
        left()
