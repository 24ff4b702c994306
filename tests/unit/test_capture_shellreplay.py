"""A shell in a replay comes to what it came to then: its bytes, its code, its signal."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.capture.door import Door
from broker.capture.shellreplay import parts_of
from broker.capture.shims import Shims
from broker.service.client import RECORDER_VARIABLE, REPLAY_VARIABLE
from tests.worldkit import Recorded, recorded

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


class Says:
    """A socket that gives the same answer to everybody, and keeps what it was asked."""

    def __init__(self, path: Path, *parts: bytes) -> None:
        self.asked: list[bytes] = []
        self.answer = b"".join(b"%d\n%b" % (len(part), part) for part in parts)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(os.fspath(path))
        self._listener.listen(8)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            link, _ = self._listener.accept()
            with link:
                self.asked.append(link.recv(65_536))
                link.sendall(self.answer)


@pytest.fixture
def run(tmp_path: Path) -> Recorded:
    """A run that hears shells."""
    made = recorded(tmp_path)
    door = Door(made.writer, tmp_path / "door")
    door.bind()
    door.start()
    return made


def _shell(place: Path, command: str) -> subprocess.Popen[bytes]:
    environ = {
        "PATH": os.environ["PATH"],
        RECORDER_VARIABLE: os.fspath(place / "door"),
        REPLAY_VARIABLE: os.fspath(place / "ask"),
    }
    shims = Shims(place, environ)
    if not shims.folder.exists():
        shims.make()
    return subprocess.Popen(
        ["sh", "-c", command],
        executable=os.fspath(shims.folder / "sh"),
        env={**environ, **shims.environ()},
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_result_is_given_again(run: Recorded, tmp_path: Path) -> None:
    """Bytes and code are those of the record, the command does not run, and the trace tells it."""
    says = Says(tmp_path / "ask", b"exit 3 0", b"out\xff\n", b"err\n")
    shell = _shell(tmp_path, "echo x > ran")
    assert shell.communicate(timeout=30) == (b"out\xff\n", b"err\n")
    assert shell.returncode == 3
    assert not (tmp_path / "ran").exists()
    head, _, rest = says.asked[0].partition(b"\n")
    assert head.startswith(b'{"kind":"shell","sizes":[')
    assert rest == b"sh\0-c\0echo x > ran" + os.fsencode(os.path.realpath(tmp_path))
    _, ended = run.wait(2, "shell.exec", "shell.result")
    assert (ended["attrs"]["exit_code"], ended["attrs"]["stdout_bytes"]) == (3, 5)
    assert run.payload(ended) == {"stdout": "out\udcff\n", "stderr": "err\n"}


def test_a_signal_is_waited_for_and_then_sent(run: Recorded, tmp_path: Path) -> None:
    """One that a signal ended has time to be sent it again, and ends by it in any case."""
    Says(tmp_path / "ask", b"signal 15 60000", b"begun\n", b"")
    shell = _shell(tmp_path, "sleep 600")
    assert shell.stdout is not None
    assert shell.stdout.readline() == b"begun\n"
    time.sleep(0.1)
    shell.terminate()
    assert shell.wait(20) == -signal.SIGTERM
    run.wait(1, "shell.result")
    (tmp_path / "ask").unlink()
    Says(tmp_path / "ask", b"signal 9 1", b"", b"")
    assert _shell(tmp_path, "sleep 600").wait(20) == -signal.SIGKILL


def test_a_shell_of_the_agents_own_runs(run: Recorded, tmp_path: Path) -> None:
    """What carries out no call runs as without a replay."""
    Says(tmp_path / "ask", b"own", b"", b"")
    assert _shell(tmp_path, "echo really; exit 4").communicate(timeout=30)[0] == b"really\n"
    run.wait(1, "shell.result")


@pytest.mark.parametrize("answer", [None, b"9\nexit", b"x", b""])
def test_without_a_whole_answer_nothing_runs(
    run: Recorded, tmp_path: Path, answer: bytes | None
) -> None:
    """Nobody there, or half an answer, is a refusal that says so."""
    if answer is not None:
        Says(tmp_path / "ask").answer = answer
    shell = _shell(tmp_path, "echo x > ran")
    assert b"broker: the recording cannot be asked" in shell.communicate(timeout=30)[1]
    assert shell.returncode == 126
    assert not (tmp_path / "ran").exists()


def test_parts_are_read_whole_or_not_at_all() -> None:
    """A length that is none, or too long, is an error."""
    assert parts_of(b"") == []
    for answer in (b"5\nabc", b"x\n", b"-1\n"):
        with pytest.raises(ValueError, match=r"whole|invalid|negative|found"):
            parts_of(answer)
