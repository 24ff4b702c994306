"""A recorded shell for the one who started it: as if it were not recorded. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.capture.door import Door
from broker.capture.shellshim import commands, restored
from broker.capture.shims import Shims
from tests.worldkit import Recorded, eventually, recorded

PATH = os.environ.get("PATH", os.defpath)


class Shell:
    """Shells behind shims, and what is recorded of them."""

    def __init__(self, place: Path) -> None:
        self.run = recorded(place)
        self.place = place / "shims"
        self.place.mkdir()
        given = {"PATH": PATH, "SHELL": "/bin/sh"}
        shims = Shims(self.place, given)
        shims.make()
        self.door = Door(self.run.writer, self.place / "door")
        self.door.bind()
        self.environ = {**given, **shims.environ(), "BROKER_RECORDER": str(self.door.path)}

    def sh(self, *words: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
        """Run `sh` as an agent finds it."""
        kept = {"capture_output": True, "timeout": 60, "env": self.environ, **more}
        return subprocess.run([f"{self.place}/bin/sh", *words], check=False, **kept)

    def begin(self, *words: str, **more: Any) -> subprocess.Popen[bytes]:
        """Start `sh` as an agent finds it."""
        kept = {"stdout": subprocess.PIPE, "env": self.environ, **more}
        return subprocess.Popen([f"{self.place}/bin/sh", *words], **kept)

    def result(self) -> dict[str, Any]:
        """Return how the only command ended, as it was recorded."""
        (found,) = self.run.wait(1, "shell.result")
        return found

    def output(self) -> dict[str, str]:
        """Return what the only command wrote, as it was recorded."""
        found = self.run.payload(self.result())
        assert isinstance(found, dict)
        return found


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Shells that are recorded."""
    found = Shell(tmp_path)
    found.door.start()
    yield found
    found.door.stop()


def test_an_exit_code_is_the_agents_and_the_records(shell: Shell) -> None:
    """Row 59: `sh -c 'exit 3'` ends with 3, for the agent and in the record."""
    found = shell.sh("-c", "echo out; echo err >&2; exit 3")
    assert (found.returncode, found.stdout, found.stderr) == (3, b"out\n", b"err\n")
    attrs = shell.result()["attrs"]
    assert (attrs["exit_code"], attrs["stdout_bytes"], attrs["stderr_bytes"]) == (3, 4, 4)
    assert shell.output() == {"stdout": "out\n", "stderr": "err\n"}
    (began,) = shell.run.lines("shell.exec")
    assert began["attrs"]["argv"] == ["sh", "-c", "echo out; echo err >&2; exit 3"]
    assert began["attrs"]["cwd"] == os.getcwd()
    assert shell.result()["causes"] == [began["seq"]]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_signal_stays_a_signal(shell: Shell, number: signal.Signals) -> None:
    """Row 59: a shell that a signal kills is killed by it for the agent, and in the record."""
    found = shell.sh("-c", f"kill -{number.value} $$")
    assert found.returncode == -number
    attrs = shell.result()["attrs"]
    assert attrs["signal"] == number.name
    assert "exit_code" not in attrs


def test_a_killed_parent_takes_its_shell_along(shell: Shell) -> None:
    """An agent's time limit kills the process that it knows, and the shell does not go on."""
    process = shell.begin("-c", "echo $$; exec sleep 600")
    assert process.stdout is not None
    number = int(process.stdout.readline())
    process.kill()
    assert process.wait(20) == -signal.SIGKILL
    eventually(lambda: not _alive(number))
    assert shell.result()["attrs"]["signal"] == "SIGKILL"
    assert shell.output()["stdout"] == f"{number}\n"
    process.stdout.close()


def test_a_killed_group_is_recorded_with_what_it_wrote(shell: Shell) -> None:
    """When an agent kills the whole group, the watcher too, the record says so all the same."""
    process = shell.begin("-c", "echo begun; sleep 600", start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    eventually(lambda: bool(shell.run.lines("shell.exec")))
    time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(20) == -signal.SIGKILL
    attrs = shell.result()["attrs"]
    assert (attrs["signal"], attrs["untold"]) == ("SIGKILL", True)
    assert shell.output()["stdout"] == "begun\n"
    process.stdout.close()


@pytest.mark.parametrize("whole", [True, False])
def test_a_signal_is_passed_on_once(shell: Shell, whole: bool) -> None:
    """A trap runs once, whether the signal was for the group or for the process that is known."""
    process = shell.begin(
        "-c", "trap 'echo T' TERM; echo up; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1; done; exit 5",
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    time.sleep(0.2)
    (os.killpg if whole else os.kill)(process.pid, signal.SIGTERM)
    assert (process.communicate()[0], process.returncode) == (b"T\n", 5)


def test_output_comes_as_it_is_written(shell: Shell) -> None:
    """A line is there when the shell has written it, not when it ends."""
    process = shell.begin("-c", "echo now; read answer; echo $answer", stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"now\n"
    process.stdin.write(b"then\n")
    process.stdin.close()
    assert process.stdout.read() == b"then\n"
    assert process.wait(20) == 0
    process.stdout.close()


def test_two_streams_that_are_one_keep_their_order(shell: Shell) -> None:
    """What goes to one pipe as output and error is read, and recorded, in the order of writing."""
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done"
    found = shell.sh(
        "-c", script, capture_output=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    expected = "".join(f"o{i}\ne{i}\n" for i in range(1, 10))
    assert found.stdout.decode() == expected
    assert shell.output()["stdout"] == expected
    assert shell.result()["attrs"]["merged"] is True


def test_every_byte_passes(shell: Shell) -> None:
    """Bytes that are no text come out as they went in, and are kept so that they can be told."""
    sent = bytes(range(256)) * 1_024
    found = shell.sh("-c", "cat; cat >&2 </dev/null", input=sent)
    assert found.stdout == sent
    assert shell.output()["stdout"].encode("utf-8", "surrogateescape") == sent


def test_what_stays_behind_holds_nobody_up(shell: Shell) -> None:
    """A shell ends while something it started still runs, and what that writes still arrives."""
    began = time.monotonic()
    process = shell.begin("-c", "(sleep 1; echo late) & echo now")
    assert process.wait(20) == 0
    assert time.monotonic() - began < 0.9
    assert shell.result()["attrs"]["left_running"] is True
    assert process.stdout is not None
    assert process.stdout.read() == b"now\nlate\n"
    process.stdout.close()


def test_a_reader_that_leaves_is_gone_for_the_shell(shell: Shell) -> None:
    """When nobody reads any more, the shell's writer gets a broken pipe and does not run on."""
    process = shell.begin("-c", "exec yes")
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(20) == -signal.SIGPIPE


def test_a_shell_within_is_part_of_the_one_around_it(shell: Shell) -> None:
    """A shell that a recorded one starts finds the person's environment, and is not recorded."""
    plain = subprocess.run(
        ["/bin/sh", "-c", "env"],
        capture_output=True,
        env={**shell.environ, "PATH": PATH},
        check=True,
    )
    found = shell.sh("-c", "sh -c 'sh -c env'")
    seen, expected = (dict(_variables(each.stdout)) for each in (found, plain))
    expected["SHELL"] = "/bin/sh"
    assert {k: v for k, v in seen.items() if k not in ("_", "SHLVL", "OLDPWD")} == {
        k: v for k, v in expected.items() if k not in ("_", "SHLVL", "OLDPWD")
    }
    assert len(shell.run.wait(1, "shell.exec")) == 1


def test_a_program_that_is_a_script_is_not_recorded(shell: Shell, tmp_path: Path) -> None:
    """A script with a shell's first line is a program, and what it starts is recorded as always."""
    script = tmp_path / "agent"
    script.write_text("#!/usr/bin/env sh\nsh -c 'echo inner'\n", encoding="utf-8")
    script.chmod(0o755)
    found = subprocess.run([script], capture_output=True, env=shell.environ, check=True)
    assert found.stdout == b"inner\n"
    (began,) = shell.run.wait(1, "shell.exec")
    assert began["attrs"]["argv"] == ["sh", "-c", "echo inner"]


@pytest.mark.parametrize("variable", ["/nowhere/door", "", None])
def test_without_a_recorder_the_shell_runs(shell: Shell, variable: str | None) -> None:
    """A recorder that is not there, or not named, costs the command nothing."""
    environ = {k: v for k, v in shell.environ.items() if k != "BROKER_RECORDER"}
    if variable is not None:
        environ["BROKER_RECORDER"] = variable
    found = shell.sh("-c", "echo out; exit 4", env=environ)
    assert (found.returncode, found.stdout) == (4, b"out\n")


def test_a_recorder_that_reads_nothing_holds_nobody_up(tmp_path: Path) -> None:
    """A recorder that is there and does not read costs no command its time."""
    shell = Shell(tmp_path)  # whose door is bound, and not started
    began = time.monotonic()
    found = shell.sh("-c", "head -c 4000000 /dev/zero; exit 6")
    assert (found.returncode, len(found.stdout)) == (6, 4_000_000)
    assert time.monotonic() - began < 30


def test_a_missing_interpreter_leaves_the_shell(shell: Shell) -> None:
    """When the shims' program has gone, a shim is the shell itself."""
    (shell.place / "shellshim.pyc").unlink()
    assert shell.sh("-c", "echo plain; exit 7").returncode == 7


def test_closed_streams_stay_closed(shell: Shell) -> None:
    """A shell that was started without an output has none, and still ends as it ends."""
    script = f"exec {shell.place}/bin/sh -c 'echo lost 2>/dev/null; exit 8' >&-"
    found = subprocess.run(["/bin/sh", "-c", script], env=shell.environ, check=False)
    assert found.returncode == 8


def test_a_terminal_is_left_alone(shell: Shell) -> None:
    """A shell on a terminal has the terminal, and is not recorded."""
    script = (
        "import os, pty, sys\n"
        "out = b''\n"
        "def read(fd):\n"
        "    global out\n"
        "    data = os.read(fd, 1024); out += data; return data\n"
        "code = pty.spawn([sys.argv[1], '-c', '[ -t 1 ] && echo terminal; exit 9'], read)\n"
        "sys.exit(0 if os.waitstatus_to_exitcode(code) == 9 and b'terminal' in out else 1)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, f"{shell.place}/bin/sh"],
        env=shell.environ, stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert shell.run.lines("shell.exec") == []


def test_the_speed_of_a_stream_is_not_the_recorders(shell: Shell) -> None:
    """Only the first bytes of a stream are kept, and all of it is carried and counted."""
    found = shell.sh("-c", "head -c 30000000 /dev/zero | tr '\\0' x")
    assert found.stdout == b"x" * 30_000_000
    attrs = shell.result()["attrs"]
    kept = len(shell.output()["stdout"])
    assert attrs["stdout_bytes"] == 30_000_000
    assert attrs["stdout_left_out"] == 30_000_000 - kept
    assert 2**20 - 8_192 <= kept <= 2**20


def test_hooks_of_ours_are_not_recorded(shell: Shell) -> None:
    """A command that runs the hook's client is the broker's own, and none of the agent's."""
    environ = {**shell.environ, "BROKER_SESSION": "s1"}
    assert shell.sh("-c", ": /x/s1/hook.pyc; exit 3", env=environ).returncode == 3
    assert shell.run.lines("shell.exec") == []
    assert shell.sh("-c", ": /x/s2/hook.pyc; exit 3", env=environ).returncode == 3
    assert len(shell.run.wait(1, "shell.exec")) == 1


def test_only_shells_with_commands_are_recorded() -> None:
    """Options are told from a file to run, also where they take a value."""
    assert commands([b"bash", b"--rcfile", b"x", b"-ec", b"ls"])
    assert commands([b"bash", b"-o", b"pipefail", b"-c", b"ls"])
    assert commands([b"sh", b"-"])
    assert not commands([b"bash", b"-o", b"pipefail", b"run.sh"])
    assert not commands([b"bash", b"--", b"run.sh"])


def test_an_environment_loses_what_the_shims_added() -> None:
    """PATH loses the shims wherever they stand, and another's SHELL stays."""
    environ = {b"PATH": b"/a:/s:/b:/s", b"SHELL": b"/usr/bin/zsh"}
    assert restored(environ, b"/s", b"/bin/sh") == {b"PATH": b"/a:/b", b"SHELL": b"/usr/bin/zsh"}


def _alive(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text(encoding="ascii")
    except OSError:
        try:
            os.kill(number, 0)
        except OSError:
            return False
        return not Path("/proc/self/stat").exists()
    return state.rpartition(")")[2].split()[0] != "Z"


def _variables(listed: bytes) -> Iterator[tuple[str, str]]:
    for line in listed.decode().splitlines():
        name, _, value = line.partition("=")
        yield name, value


def test_the_kit_records_nothing_by_itself(tmp_path: Path) -> None:
    """A run that nobody told anything has no events."""
    found = recorded(tmp_path)
    assert isinstance(found, Recorded)
    assert found.lines() == []
