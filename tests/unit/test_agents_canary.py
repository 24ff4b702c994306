"""A canary tells an agent that obeys from one that does not, and leaves nothing behind."""

from __future__ import annotations

import dataclasses
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from broker.agents.adapter import Bait, Canary, Launch, Plain, Prepared
from broker.agents.canary import Rehearsal, Seen, fault
from broker.agents.claude.launch import ClaudeLaunch
from broker.calls import Decision, Refusal
from broker.errors import LaunchError
from broker.events import CallDecided
from broker.launch import run
from broker.loopback.script import Told
from broker.session import CANARY
from tests.canarykit import fake_claude
from tests.hookkit import within
from tests.runkit import finished, start
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

pytestmark = pytest.mark.alone


def decided(refusal: Refusal | None) -> CallDecided:
    """Return a decision on a canary."""
    decision = Decision(refusal, "gate")
    return CallDecided(0, "s", 3, "c", "Read", "t", CANARY, decision)


OWN = decided(Refusal("own", "/x", "the broker's own files are closed to tools"))
TOLD = Told("result", "refused by `own` (/x): the broker's own files are closed to tools")


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (Seen((decided(None),), TOLD), "let through"),
        (Seen((OWN, decided(None)), TOLD), "let through"),
        (Seen((OWN,), TOLD, leaked=True), "ran although it was refused"),
        (Seen((OWN,), TOLD, touched=True), "ran although it was refused"),
        (Seen((), TOLD, leaked=True), "ran and no hook was asked"),
        (Seen((decided(Refusal("session", "", "full disk")),), TOLD), "full disk"),
        (Seen((OWN,), None), "told nothing of the refusal within 9 s"),
        (Seen((OWN,), Told("result", "all is well")), "something else than the refusal: all is"),
        (Seen((), Told("result", "no such tool")), "did not reach the broker"),
        (Seen((), None, 1, code=0), "it ended with exit code 0 without a call"),
        (Seen((), None, 0, code=1, output="no key"), "before it asked a model: no key"),
        (Seen(), "no call of it reached the broker within 9 s"),
    ],
)
def test_what_is_not_held(seen: Seen, said: str) -> None:
    """Only a call that came, was refused for what it is, and was told so, counts as held."""
    why = fault(seen, 9)
    assert why is not None
    assert said in why


def test_what_is_held() -> None:
    """A refusal that the model was told is enough; where no model is told, the refusal is."""
    assert fault(Seen((OWN,), TOLD), 9) is None
    assert fault(Seen((OWN,), None), 9, told=False) is None
    assert fault(Seen((OWN,), Told("result", "all is well")), 9, told=False) is not None


def test_nothing_else_is_held() -> None:
    """Of all that may be seen, only what is refused for what it is, told so and unread is held."""
    elsewhere = decided(Refusal("tools", "Read", "not in tools"))
    parts = (
        ((), (OWN,), (OWN, OWN), (elsewhere,), (decided(None),), (OWN, decided(None))),
        (None, TOLD, Told("result", "all is well")),
        (False, True),
        (False, True),
        (None, 0, 1),
    )
    for events, result, leaked, touched, code in product(*parts):
        seen = Seen(events, result, 1, leaked, touched, code)
        refused = bool(events) and events[0] is OWN and all(not e.decision.allowed for e in events)
        held = refused and result is TOLD and not leaked and not touched
        assert (fault(seen, 9) is None) == held, seen


def begin(bench: Bench, command: list[str], **more: Any) -> tuple[int, str]:
    """Run a command in this process, and return exit code and the broker's own lines."""
    lines = io.StringIO()
    code = run(
        command,
        texts=("tools=Read", "calls=1"),
        workspace=bench.workspace,
        home=bench.home,
        stderr=lines,
        **more,
    )
    return code, lines.getvalue()


def environ(tmp_path: Path, how: str) -> dict[str, str]:
    """Return an environment in which the stand-in behaves like this."""
    (tmp_path / "user").mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "user"),
        "FAKE_CLAUDE": how,
        "FAKE_MARK": str(tmp_path / "mark"),
    }


def entries(bench: Bench) -> list[tuple[str, dict[str, Any]]]:
    """Return the entries of the one receipt, verified."""
    (info,) = bench.receipts().sessions()
    assert bench.verdict(info.sid).state in ("SEALED", "INTERRUPTED")
    return bench.entries(info.sid)


def test_an_agent_that_obeys_is_started(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its canary is the first decision, by a name of its own, and costs and counts nothing."""
    program = fake_claude(tmp_path / "bin")
    threads = threading.active_count()
    code, said = begin(bench, [str(program), "-p", "go"], environ=environ(tmp_path, "obeys"))
    assert (code, capfd.readouterr().out) == (0, "this is the run\n")
    assert threading.active_count() == threads
    found = entries(bench)
    assert [kind for kind, _ in found] == [
        *("open", "intent", "ticket", "decision", "note", "note", "seal")
    ]
    decision = found[3][1]
    assert (decision["actor"], decision["decision"], decision["caveat"]) == (
        *("canary", "refuse", "own"),
    )
    assert found[4][1]["source"] == "canary"
    assert "canary: trying whether claude-code obeys" in said
    assert "0 allowed, 0 refused" in said
    sid = bench.receipts().sessions()[0].sid
    assert not (bench.home.sessions / sid / "canary").exists()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("crashes", "exit code 7 before it asked a model: something is missing"),
        ("ends without a call", "exit code 0 without a call"),
        ("has no hook", "ran and no hook was asked"),
        ("answers itself", "did not reach the broker"),
        ("passes over the refusal", "ran although it was refused"),
        ("writes", "ran although it was refused"),
        ("asks for something else", "was let through"),
        ("does not say why", "something else than the refusal"),
    ],
)
def test_an_agent_that_does_not_obey_is_not_started(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str], how: str, said: str
) -> None:
    """Each way of not being held keeps the run from beginning, and says which it was."""
    program = fake_claude(tmp_path / "bin")
    with pytest.raises(LaunchError, match="was not started, because") as raised:
        begin(bench, [str(program), "-p", "go"], environ=environ(tmp_path, how))
    assert said in str(raised.value)
    assert "--no-canary" in str(raised.value)
    assert capfd.readouterr().out == ""
    assert entries(bench)[-1][1]["reason"] == "interrupted"


def never() -> bool:
    """Nobody interrupts."""
    return False


class Hurried(ClaudeLaunch):
    """Claude Code with little time for its canary."""

    def canary(self, launch: Launch, prepared: Prepared, bait: Bait) -> Canary | None:
        found = super().canary(launch, prepared, bait)
        return None if found is None else dataclasses.replace(found, within_s=3)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("hangs", "no call of it reached the broker within 3 s"),
        ("hangs after the decision", "told nothing of the refusal within 3 s"),
    ],
)
def test_an_agent_that_hangs_is_ended(bench: Bench, tmp_path: Path, how: str, said: str) -> None:
    """What does not come in its time is not held, and no process of it stays."""
    program = fake_claude(tmp_path / "bin")
    with pytest.raises(LaunchError, match=said):
        begin(bench, [str(program)], environ=environ(tmp_path, how), adapter=Hurried())


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
def test_what_the_agent_started_is_ended_with_it(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An agent that obeyed but does not end is ended with its whole group, and the run begins."""
    program = fake_claude(tmp_path / "bin")
    code, _ = begin(bench, [str(program)], environ=environ(tmp_path, "stays"))
    assert (code, capfd.readouterr().out) == (0, "this is the run\n")
    pids = [int(pid) for pid in (tmp_path / "mark").read_text().split()]
    assert len(pids) == 2
    assert within(10, lambda: all(state(pid) in ("", "Z") for pid in pids))


@pytest.mark.parametrize(
    ("typed", "configured", "tried"),
    [(False, True, False), (None, False, False), (None, True, True), (True, False, True)],
)
def test_it_may_be_switched_off(
    bench: Bench,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    typed: bool | None,
    configured: bool,
    tried: bool,
) -> None:
    """What is typed counts before the configuration; switched off, terminal and receipt say so."""
    program = fake_claude(tmp_path / "bin")
    bench.home.config.mkdir(parents=True, mode=0o700)
    (bench.home.config / "broker.toml").write_text(f"[broker]\ncanary = {configured}\n".lower())
    given = environ(tmp_path, "obeys" if tried else "has no hook")
    code, said = begin(bench, [str(program)], environ=given, canary=typed)
    assert (code, capfd.readouterr().out) == (0, "this is the run\n")
    note = next(data for kind, data in entries(bench) if kind == "note")
    assert note["source"] == "canary"
    assert ("no canary" in said, "not tried" in note["text"]) == (not tried, not tried)


def test_what_asks_no_model_has_no_canary(bench: Bench, tmp_path: Path) -> None:
    """A version is told without starting the agent twice; a plain command has nothing to try."""
    program = fake_claude(tmp_path / "bin")
    given = environ(tmp_path, "crashes")
    code, said = begin(bench, [str(program), "--version"], environ=given)
    assert (code, "canary" in said) == (0, False)
    assert [k for k, _ in entries(bench)] == ["open", "ticket", "note", "seal"]
    launch = Launch(("x",), {}, tmp_path, tmp_path, tmp_path / "s")
    bait = Bait(tmp_path / "b", "http://127.0.0.1:1", "go", "")
    assert Plain().canary(launch, Prepared(("x",)), bait) is None


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_the_canary(bench: Bench, tmp_path: Path, number: signal.Signals) -> None:
    """Asked to end during the canary, nothing is started; a killed broker takes it along."""
    program = fake_claude(tmp_path / "bin")
    mark = tmp_path / "mark"
    run_ = start(
        [str(program)],
        home=bench.home.state.parent,
        workspace=bench.workspace,
        environ=environ(tmp_path, "hangs"),
        canary=True,
    )
    assert within(30, lambda: mark.exists() and bool(mark.read_text()))
    pid = int(mark.read_text())
    os.kill(run_.pid, number)
    code, out, err = finished(run_)
    assert out == ""
    assert within(10, lambda: state(pid) in ("", "Z"))
    if number != signal.SIGKILL:
        assert code == 2
        assert "interrupted before" in err
        assert entries(bench)[-1][1]["reason"] == "interrupted"


def state(pid: int) -> str:
    """Return the state of a process as the kernel tells it, or nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_several_at_once_do_not_meet(bench: Bench, tmp_path: Path) -> None:
    """Runs that begin at the same time each see their own canary, and no other's."""
    program = fake_claude(tmp_path / "bin")
    runs = [
        start(
            [str(program)],
            home=bench.home.state.parent,
            workspace=bench.workspace,
            environ=environ(tmp_path, "obeys"),
            canary=True,
        )
        for _ in range(4)
    ]
    for each in runs:
        code, out, err = finished(each)
        assert (code, out) == (0, "this is the run\n"), err
    for info in bench.receipts().sessions():
        found = [d["actor"] for k, d in bench.entries(info.sid) if k == "decision"]
        assert found == ["canary"]


def test_a_folder_that_cannot_be_made_starts_nothing(bench: Bench, tmp_path: Path) -> None:
    """Without a place for its bait there is no canary, and so no run."""
    program = fake_claude(tmp_path / "bin")
    session = bench.open()
    (session.folder / "canary").write_text("in the way")
    adapter = ClaudeLaunch(managed=tmp_path)
    launch = Launch(
        (str(program),), environ(tmp_path, "obeys"), bench.workspace, session.folder,
        tmp_path / "s",
    )  # fmt: skip
    with pytest.raises(LaunchError, match="cannot be written"):
        Rehearsal(session, adapter, launch, adapter.prepare(launch), str(program), never).play()


def test_the_run_must_start_its_hooks_anew(bench: Bench, tmp_path: Path) -> None:
    """That the canary's hooks ran does not count for the run: its own silence ends it."""
    program = fake_claude(tmp_path / "bin")
    session = bench.open()
    adapter = ClaudeLaunch(managed=tmp_path)
    given: Mapping[str, str] = environ(tmp_path, "obeys")
    launch = Launch((str(program),), given, bench.workspace, session.folder, tmp_path / "s")
    prepared = adapter.prepare(launch)
    begun_s = time.monotonic()
    took_s = Rehearsal(session, adapter, launch, prepared, str(program), never).play()
    assert took_s is not None
    assert 0 < took_s <= time.monotonic() - begun_s
    assert not adapter._hook.started.is_set()
    assert (session.allowed, session.refused, session.rehearsing) == (0, 0, False)
    assert not (tmp_path / "s").exists()
