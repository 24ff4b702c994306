"""The agent's process, and the signals around it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from broker import child as module
from broker.child import Child
from broker.errors import LaunchError
from tests.hookkit import within

HELD = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


def started(child: Child, script: str) -> None:
    """Start a shell script."""
    child.start("/bin/sh", ["sh", "-c", script], {"PATH": os.defpath}, Path("/"))


def never() -> None:
    """Nothing escapes."""


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)]
)
def test_the_exit_code_is_the_agents(script: str, code: int) -> None:
    """An exit code is passed on, and a signal counts from 128."""
    with Child() as child:
        started(child, script)
        assert child.wait(never) == code
        assert child.ended
        assert not child.signalled
        assert not child.stopped


def test_handlers_are_put_back() -> None:
    """What was there before the run is there after it."""
    before = [signal.getsignal(number) for number in HELD]
    with Child():
        assert [signal.getsignal(number) for number in HELD] != before
    assert [signal.getsignal(number) for number in HELD] == before


def test_the_agent_has_the_default_handlers() -> None:
    """A signal that the broker handles still ends the agent."""
    with Child() as child:
        started(child, "kill -INT $$; sleep 5; exit 3")
        assert child.wait(never) == 130
        assert child.signalled == signal.SIGINT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_us_reaches_the_agent(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that was sent to the broker alone ends the agent, and is remembered."""
    monkeypatch.setattr(module, "has_terminal", lambda: False)
    with Child() as child:
        started(child, "exec sleep 30")
        threading.Timer(0.2, os.kill, (os.getpid(), number)).start()
        assert child.wait(never) == 128 + number
        assert child.signalled == number


def test_the_terminals_interrupt_is_the_agents_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a terminal the key reaches the agent by itself; one that goes on is waited for."""
    monkeypatch.setattr(module, "has_terminal", lambda: True)
    with Child() as child:
        started(child, "sleep 0.6; exit 4")
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        assert child.wait(never) == 4
        assert not child.signalled


def test_an_agent_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time of grace nothing is asked any more."""
    monkeypatch.setattr(module, "GRACE_S", 0.3)
    with Child() as child:
        started(child, "trap '' TERM; while :; do sleep 0.05; done")
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)
        assert child.wait(never) == 137


def test_a_run_that_slipped_away_is_stopped() -> None:
    """When the agent is not held any more it is ended, and why is kept."""
    with Child() as child:
        started(child, "exec sleep 30")
        assert child.wait(lambda: "no hook") == 143
        assert child.stopped == "no hook"
        assert not child.ended


def test_a_signal_before_the_start_prevents_it() -> None:
    """Interrupted while the session was being made, the agent is not started any more."""
    with Child() as child:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(LaunchError, match="interrupted"):
            started(child, "exit 0")


def test_a_signal_amid_the_start_reaches_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that comes while the process is being made is not lost."""
    real = module.subprocess.Popen

    def slow(*given: object, **more: object) -> object:
        process = real(*given, **more)  # type: ignore[call-overload]  # passed on as it came
        os.kill(os.getpid(), signal.SIGTERM)
        return process

    with Child() as child:
        monkeypatch.setattr(module.subprocess, "Popen", slow)
        started(child, "exec sleep 30")
        monkeypatch.undo()
        assert child.wait(never) == 143
        assert child.signalled == signal.SIGTERM


def test_a_program_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    """A file that is no program says so."""
    (tmp_path / "x").write_text("not a program")
    (tmp_path / "x").chmod(0o755)
    with Child() as child, pytest.raises(LaunchError):
        child.start(str(tmp_path / "x"), ["x"], {}, tmp_path)
    with Child() as child, pytest.raises(LaunchError):
        child.start("/bin/sh", ["sh", "a\0b"], {}, tmp_path)


def test_an_agent_left_over_is_killed() -> None:
    """Leaving the block ends the agent, also when nobody waited for it."""
    with Child() as child:
        started(child, "exec sleep 30")
        process = child._process
    assert process is not None
    assert process.returncode == -9


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_killed_broker_takes_the_agent_with_it(tmp_path: Path) -> None:
    """The kernel kills the agent when its broker is killed."""
    broker = os.fork()
    if broker == 0:
        with Child() as child:
            started(
                child,
                f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 60",
            )
            child.wait(never)
        os._exit(0)
    assert within(10, (tmp_path / "pid").exists)
    agent = int((tmp_path / "pid").read_text())
    os.kill(broker, signal.SIGKILL)
    os.waitpid(broker, 0)
    assert within(10, lambda: not running(agent))


def running(pid: int) -> bool:
    """Whether a process still runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_an_ignored_signal_stays_ignored(number: signal.Signals) -> None:
    """Under `nohup`, or behind a shell's `&`, what was ignored ends neither us nor the agent."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with Child() as child:
            assert signal.getsignal(number) is signal.SIG_IGN
            started(child, f"kill -{number.value} $$; exit 6")
            os.kill(os.getpid(), number)
            assert child.wait(never) == 6
            assert not child.signalled
    finally:
        signal.signal(number, before)


def test_an_agent_that_had_to_be_killed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that ignores being told to end is killed, and why it ended is said."""
    monkeypatch.setattr(module, "GRACE_S", 0.2)
    with Child() as child:
        started(child, "trap '' TERM; while :; do sleep 0.1; done")
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGTERM)
        assert child.wait(never) == 137
        assert "did not end within" in child.stopped
        assert not child.ended


@pytest.mark.parametrize(("text", "helps"), [("exit 0\n", "sh ./agent"), ("#!/no/such\n", "#!")])
def test_a_file_that_does_not_start_is_explained(tmp_path: Path, text: str, helps: str) -> None:
    """A missing first line and a missing interpreter say what to do instead of a number."""
    file = tmp_path / "agent"
    file.write_text(text)
    file.chmod(0o700)
    with Child() as child, pytest.raises(LaunchError) as caught:
        child.start(str(file), [str(file)], {}, tmp_path)
    assert helps in str(caught.value)
    assert "Errno" not in str(caught.value)


def test_a_shielded_process_is_reached_in_another_way() -> None:
    """It ignores the agent's signals itself, and whoever knows the way within is asked."""
    sent: list[int] = []
    with Child() as child:
        script = "kill -TERM $$; kill -HUP $$; sleep 0.5; exit 6"
        environ = {"PATH": os.defpath}
        child.start("/bin/sh", ["sh", "-c", script], environ, Path("/"), shielded=True)
        os.kill(os.getpid(), signal.SIGTERM)  # before anybody knows the way
        child.reach_by(sent.append)
        os.kill(os.getpid(), signal.SIGHUP)
        assert child.wait(never) == 6
    assert sent == [signal.SIGTERM, signal.SIGHUP]


def test_what_is_abandoned_makes_room() -> None:
    """An attempt that is given up is ended, and another one can be started."""
    with Child() as child:
        started(child, "exec sleep 300")
        first = child.pid
        child.abandon()
        with pytest.raises(ProcessLookupError):
            os.kill(first, 0)
        started(child, "exit 8")
        assert child.pid != first
        assert child.wait(never) == 8


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel does not tell")
@pytest.mark.parametrize("told", [True, False])
def test_what_the_agent_leaves_behind(told: bool, tmp_path: Path) -> None:
    """Told to end, all that it had started ends with it; of its own accord, that is let be."""
    left = tmp_path / "left"
    more = "exec sleep 30" if told else "exit 0"
    script = f"setsid sleep 60 & echo $! > {left}; {more}"

    def slipped() -> str | None:
        return "no hook" if left.exists() and left.read_text().endswith("\n") else None

    with Child() as child:
        started(child, script)
        child.wait(slipped if told else lambda: None)
    pid = int(left.read_text())
    stat = Path(f"/proc/{pid}/stat")

    def gone() -> bool:
        try:
            return b") Z " in stat.read_bytes()
        except OSError:
            return True

    try:
        assert within(3 if told else 0.5, gone) is told
    finally:
        if not gone():
            os.kill(pid, signal.SIGKILL)
