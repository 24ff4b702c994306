"""
Real database servers for tests: started here on loopback, in a folder of their own, and killed.

A server that is not installed is a reason to skip, which is named. PostgreSQL refuses to run as
root, so root lends it to another user of the machine.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

READY_S = 20.0


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def redis_program() -> str:
    """Return the server that speaks Redis' protocol, or skip."""
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        pytest.skip("neither valkey-server nor redis-server is installed")
    return found


def postgres_folder() -> Path:
    """Return the folder of PostgreSQL's programs, or skip."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    named = shutil.which("initdb")
    for place in (*places, *([Path(named).parent] if named else [])):
        if (place / "initdb").exists():
            return place
    pytest.skip("PostgreSQL is not installed: neither /usr/lib/postgresql nor the path has initdb")


class Server:
    """
    A server that can be killed and started again with what it kept.

    Args:
        command: what starts it, in the foreground.
        url: where it is found.
        port: what it listens on.
        user: whom to run it as, when this is root.
    """

    def __init__(self, command: list[str], url: str, port: int, user: int | None = None) -> None:
        self.url, self.port = url, port
        self._command, self._user = command, user
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self.process = subprocess.Popen(
            self._command,
            user=self._user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
                return
            assert self.process.poll() is None, "the server ended at once"
            time.sleep(0.02)
        raise AssertionError("the server does not listen")

    def kill(self) -> None:
        """End it as a power cut does, with all its processes."""
        if self.process is not None:
            self._tell(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """Have it hang: it is there and answers nothing."""
        self._tell(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again."""
        self._tell(signal.SIGCONT)

    def _tell(self, number: signal.Signals) -> None:
        """Send a signal to the server and to the processes that it has started."""
        assert self.process is not None
        pid = self.process.pid
        started = Path(f"/proc/{pid}/task/{pid}/children")
        others = started.read_text(encoding="ascii").split() if started.exists() else []
        for each in (pid, *map(int, others)):
            with suppress(ProcessLookupError):
                os.kill(each, number)


@contextmanager
def redis_server(*more: str, within: Path | None = None) -> Iterator[Server]:
    """
    A Redis or Valkey server that keeps what it answers.

    Args:
        more: further settings.
        within: the folder that its own is made in; that of temporary files by default.
    """
    program = redis_program()
    folder = Path(tempfile.mkdtemp(prefix="broker-redis-", dir=within))
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    command += ["--save", "", "--appendonly", "yes", "--appendfsync", "always", *more]
    server = Server(command, f"redis://127.0.0.1:{port}/0", port)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres_server(within: Path | None = None) -> Iterator[Server]:
    """A PostgreSQL server with an empty database; its folder is made in ``within``."""
    programs = postgres_folder()
    folder = Path(tempfile.mkdtemp(prefix="broker-pg-", dir=within))
    user = None
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody").pw_uid
        os.chown(folder, user, -1)
    data, port = folder / "data", free_port()
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", "broker", "-A", "trust", "-N", "-E", "UTF8"],
        check=True, user=user, stdout=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    command = [str(programs / "postgres"), "-D", str(data), "-p", str(port)]
    command += ["-k", str(folder), "-c", "listen_addresses=127.0.0.1"]
    server = Server(command, f"postgresql://broker@127.0.0.1:{port}/postgres", port, user)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
