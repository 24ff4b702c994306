"""Which recorded result a shell gets, and that one without a call runs."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.replay.normal import Normal
from broker.replay.results import RecordedShells, ResultsTally
from tests.worldkit import Recorded, recorded


def _shell(
    run: Recorded, command: str, *, cwd: str = "/space", cause: int = -1, **result: object
) -> int:
    argv = ["bash", "-c", f"x; eval '{command}'"]
    attrs = {"argv": argv, "cwd": cwd, "pid": 1}
    seq = run.writer.event("shell.exec", "harness", causes=[cause], attrs=attrs)
    told = {"exit_code": 0, "duration_ms": 5} | result
    payload = {"stdout": told.pop("stdout", ""), "stderr": ""}
    attrs = {key: value for key, value in told.items() if value is not None}
    run.writer.event("shell.result", "harness", causes=[seq], attrs=attrs, payload=payload)
    return seq


def _call(run: Recorded, command: str) -> int:
    return run.writer.event("tool.call", "model", payload={"command": command})


def _read(run: Recorded, *, here: str = "/space") -> RecordedShells:
    return RecordedShells(run.sealed(), Normal({here: "<cwd>"}), Normal({"/space": "<cwd>"}))


def _words(command: str, around: str = "x") -> list[str]:
    return ["bash", "-c", f"{around}; eval '{command}'"]


def test_the_same_command_is_answered_in_its_order(tmp_path: Path) -> None:
    """Twice the same command has its first result first, and no third one."""
    run = recorded(tmp_path)
    for text in ("one", "two"):
        _shell(run, "make test", cause=_call(run, "make test"), stdout=text)
    shells = _read(run)
    found = [shells.ask(_words("make test", around), "/space") for around in ("x", "y", "x")]
    assert [each.verdict for each in found] == ["served", "served", "refused"]
    assert [each.kept.stdout for each in found if each.kept] == [b"one", b"two"]
    assert found[2].why == "`make test` is not left on record"
    assert shells.left == ()


def test_another_folder_is_told(tmp_path: Path) -> None:
    """A result of the same folder is taken first; one of another folder is not the same."""
    run = recorded(tmp_path)
    _shell(run, "ls", cwd="/space/a", cause=_call(run, "ls"), stdout="a")
    _shell(run, "ls", cwd="/space", cause=_call(run, "ls"), stdout="top")
    shells = _read(run, here="/scratch")
    first, second = (shells.ask(_words("ls"), "/scratch") for _ in range(2))
    assert first.kept is not None
    assert (first.kept.stdout, first.same) == (b"top", True)
    assert second.kept is not None
    assert (second.kept.stdout, second.same) == (b"a", False)


def test_what_is_no_call_is_the_agents_own(tmp_path: Path) -> None:
    """A shell that no model asked for runs, also one that was recorded."""
    run = recorded(tmp_path)
    _call(run, "make")
    _shell(run, "which git")
    shells = _read(run)
    assert shells.recorded == 0
    assert shells.ask(_words("which git"), "/space").verdict == "own"
    assert shells.ask(_words("make"), "/space").verdict == "refused"  # a call, and not on record


def test_what_was_not_kept_whole_is_refused(tmp_path: Path) -> None:
    """A result that was cut, or never came, is named and not made up."""
    run = recorded(tmp_path)
    _shell(run, "cat big", cause=_call(run, "cat big"), stdout_left_out=9)
    _shell(run, "sleep 9", cause=_call(run, "sleep 9"), exit_code=None)
    shells = _read(run)
    found = [shells.ask(_words(text), "/space") for text in ("cat big", "sleep 9")]
    assert [each.verdict for each in found] == ["refused", "refused"]
    assert found[0].why == "`cat big`: it wrote more than is recorded"
    assert found[1].why == "`sleep 9`: how it ended was not recorded"


def test_a_signal_is_kept_with_the_time_that_it_took(tmp_path: Path) -> None:
    """One that was ended by a signal ends by it, not before it did then."""
    run = recorded(tmp_path)
    told = {"exit_code": None, "signal": "SIGTERM", "duration_ms": 500}
    _shell(run, "sleep 9", cause=_call(run, "sleep 9"), **told)
    kept = _read(run).ask(_words("sleep 9"), "/space").kept
    assert kept is not None
    assert (kept.code, kept.signal) == (None, signal.SIGTERM)
    assert kept.wait_ms >= 500


def test_the_last_shell_of_a_turn_ends_it(tmp_path: Path) -> None:
    """Only with it the folder is brought up to date."""
    run = recorded(tmp_path)
    run.writer.new_turn()
    _shell(run, "first", cause=_call(run, "first"))
    _shell(run, "second", cause=_call(run, "second"))
    shells = _read(run)
    kept = [shells.ask(_words(text), "/space").kept for text in ("first", "second")]
    assert [each is not None and shells.ends_turn(each) for each in kept] == [False, True]


def test_identifiers_and_secrets_play_no_part(tmp_path: Path) -> None:
    """A command with another identifier, or a secret that was hidden, is the same command."""
    run = recorded(tmp_path)
    one, two = "a" * 7 + "1" * 9, "b" * 7 + "2" * 9
    secret = "ghp_" + "16C7e42F292c6912E7710c838347Ae17"
    _shell(run, f"git show {one}", cause=_call(run, f"git show {one}"))
    _shell(run, f"echo {secret}", cause=_call(run, f"echo {secret}"))
    shells = _read(run)
    assert shells.ask(_words(f"git show {two}", f"y={one}"), "/space").verdict == "served"
    assert shells.ask(_words(f"echo {secret}"), "/space").verdict == "served"


@given(st.lists(st.sampled_from(["served", "own", "refused"])))
def test_a_tally_counts(verdicts: list[str]) -> None:
    """What was counted is what is told, and only refusals make a replay fail."""
    tally = ResultsTally({"shell": 3})
    for verdict in verdicts:
        tally.took("shell", verdict, "x" if verdict == "refused" else "")  # type: ignore[arg-type]  # drawn from all
    of = tally.of("shell")
    assert [of["served"], of["ran"], of["refused"]] == [
        verdicts.count(verdict) for verdict in ("served", "own", "refused")
    ]
    assert tally.refused == verdicts.count("refused")
    assert ("refused" in str(tally)) == bool(tally.refused)


def test_a_tally_says_what_came_from_where() -> None:
    """Served of recorded, for each kind; what ran of its own is told."""
    tally = ResultsTally({"shell": 2, "mcp": 1})
    tally.took("shell", "served")
    tally.took("shell", "own")
    expected = "from the record: shells 1/2, MCP 0/1; 1 shells of the agent's own ran"
    assert str(tally) == expected
    with pytest.raises(AttributeError):
        tally.other = 1  # type: ignore[attr-defined]  # slotted
