"""The first process within the walls, without walls around it: signals, codes, connections."""

from __future__ import annotations

import marshal
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from broker.sandbox import inside

_START = "import sys; from broker.sandbox.inside import main; sys.exit(main(int(sys.argv[1])))"


class First:
    """A first process, started and heard; ``go`` lets its agent run."""

    def __init__(self, command: list[str], **changed: Any) -> None:
        status_out, status_in = os.pipe()
        go_out, self._go = os.pipe()
        order: dict[str, Any] = {
            **{"program": command[0], "command": command, "environ": {"PATH": os.environ["PATH"]}},
            **{"cwd": ["/nowhere", "/"], "limits": [], "ignored": [], "interrupts": True},
            **{"listen": [], "targets": {}, "proxy": "", "files": {}, "shown": {}, "filter": {}},
            **{"canary": {"secret": None, "outside": [], "network": False}},
            **{
                "profiled": False,
                "unshare": False,
                "landlock": None,
                "status": status_in,
                "go": go_out,
                **changed,
            },
        }
        fd = os.memfd_create("order")
        os.write(fd, marshal.dumps(order))
        os.lseek(fd, 0, os.SEEK_SET)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, str(fd)],
            pass_fds=(fd, status_in, go_out),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for each in (fd, status_in, go_out):
            os.close(each)
        with os.fdopen(status_out, "rb") as stream:
            self.report = marshal.loads(stream.read())

    def go(self, word: bytes = b"!") -> None:
        """Say the word, or another one."""
        os.write(self._go, word)
        os.close(self._go)

    def end(self) -> tuple[int, str, str]:
        """Wait, and return code, output and error text."""
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_the_agents_code_is_ours(script: str, code: int) -> None:
    """It ends with the agent's code, 128 and more after a signal."""
    first = First(["/bin/sh", "-c", script])
    assert first.report == {"fails": []}
    first.go()
    assert first.end()[0] == code


def test_nothing_runs_before_the_word(tmp_path: Path) -> None:
    """Without the broker's word, or with another one, no agent is started."""
    mark = tmp_path / "mark"
    for word in (b"?", b""):
        first = First(["/usr/bin/touch", str(mark)])
        time.sleep(0.1)
        assert not mark.exists()
        first.go(word)
        assert first.end()[0] == inside.FAILED
    assert not mark.exists()


def test_a_wall_that_does_not_hold_is_told(tmp_path: Path) -> None:
    """The canary's findings are in the report."""
    secret = tmp_path / "key"
    secret.write_text("x")
    attempts = {"secret": str(secret), "outside": [], "network": False}
    first = First(["/bin/true"], canary=attempts)
    assert first.report == {"fails": ["the broker's key can be read"]}
    first.go(b"?")
    first.end()


def test_what_cannot_be_built_is_told() -> None:
    """A fault while building is reported in words, and ends the start."""
    first = First(["/bin/true"], listen=[("256.0.0.1", 1)])
    assert "broken" in first.report
    first.go()
    assert first.end()[0] == inside.FAILED


def test_signals_reach_the_agent_once() -> None:
    """A signal to end is passed on, and the agent may end in its own way."""
    first = First(["/bin/sh", "-c", "trap 'echo bye; exit 9' TERM; echo up; sleep 20 & wait"])
    first.go()
    assert first.process.stdout is not None
    assert first.process.stdout.readline() == "up\n"
    first.process.send_signal(signal.SIGTERM)
    code, out, _ = first.end()
    assert (code, out) == (9, "bye\n")


def test_what_the_agent_leaves_behind_is_ended() -> None:
    """A process that went away from the agent does not outlive the run."""
    first = First(["/bin/sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!"])
    first.go()
    code, out, _ = first.end()
    assert code == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(out), 0)


def test_a_program_that_cannot_start() -> None:
    """It is said on the agent's own error stream, with a code of ours."""
    first = First(["/nowhere/agent"])
    first.go()
    code, _, err = first.end()
    assert code == inside.FAILED
    assert "cannot be started" in err


def test_only_three_descriptors_reach_the_agent() -> None:
    """The agent finds no pipe of ours."""
    first = First(["/bin/sh", "-c", "ls /proc/self/fd | wc -l"])
    first.go()
    assert first.end()[1].strip() == "4"  # and the one of the listing itself


def test_limits_and_ignored_signals_reach_the_agent() -> None:
    """What was typed as a limit holds, and what was ignored stays so."""
    script = "ulimit -t; kill -HUP $$; echo still"
    first = First(
        ["/bin/sh", "-c", script], limits=[("RLIMIT_CPU", 77)], ignored=[int(signal.SIGHUP)]
    )
    first.go()
    assert first.end()[1].split() == ["77", "still"]


def test_connections_are_carried(tmp_path: Path) -> None:
    """A connection to a listener goes to the proxy, with a request to tunnel where one is due."""
    path = tmp_path / "proxy"
    seen = []
    with socket.socket(socket.AF_UNIX) as proxy, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        proxy.bind(str(path))
        proxy.listen()

        def serve() -> None:
            connection, _ = proxy.accept()
            with connection:
                seen.append(connection.recv(999))
                connection.sendall(b"HTTP/1.1 200 ok\r\n\r\nhello")

        threading.Thread(target=serve, daemon=True).start()
        script = f"exec 3<>/dev/tcp/127.0.0.1/{port}; head -c 5 <&3"
        first = First(
            ["/bin/bash", "-c", script],
            listen=[("127.0.0.1", port)],
            targets={str(port): "127.0.0.1:9"},
            proxy=str(path),
        )
        first.go()
        assert first.end()[1] == "hello"
    assert seen == [b"CONNECT 127.0.0.1:9 HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\n"]


def test_a_proxy_that_refuses_ends_the_connection(tmp_path: Path) -> None:
    """Where the tunnel is refused, the caller sees an end and no bytes of the proxy's."""
    path = str(tmp_path / "proxy")
    with socket.socket(socket.AF_UNIX) as proxy:
        proxy.bind(path)
        proxy.listen()

        def serve() -> None:
            connection, _ = proxy.accept()
            with connection:
                connection.recv(999)
                connection.sendall(b"HTTP/1.1 403 no\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(ConnectionRefusedError):
            inside.reached(path, "127.0.0.1:9")
