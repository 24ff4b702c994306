"""
The engines, each as one process that is started, proves its walls and is then let go.

Decided here: what the first process within the walls is told (``inside`` reads it), how it is
heard, and what each engine does not hold. Not decided here: what the walls are (``walled``).

- **bubblewrap**: a file system, processes and a network of the run's own. With Landlock, where the
  kernel has it, on top: writing is granted to the same places once more, and abstract sockets and
  signals stay within.
- **landlock** alone: the same files, by grants; a network of its own by name spaces where an
  ordinary process can make them, else no internet sockets at all, which holds only a ticket that
  reaches no host.

Rules a maintainer keeps: descriptors are closed whatever happens; a report that does not come
within ``REPORT_S`` is a failure; ``missing`` names every promise that an engine cannot keep.
"""

from __future__ import annotations

import json
import marshal
import os
import select
import signal
import socket
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from broker.agents.client import interpreter
from broker.child import Child, has_terminal
from broker.errors import LaunchError
from broker.sandbox import bubblewrap, inside
from broker.sandbox.machine import Engine, Machine, spaces_work
from broker.sandbox.system import DEVICES, cleaned
from broker.sandbox.walled import Walled, granted, loopback

__all__ = ["Built", "Engine", "Order", "ShownPorts", "Starting", "prepared"]

REPORT_S: Final = 20.0
PROXY_PORT: Final = 3_128  # within the walls
# Imported rather than run as a file, so that it need not be compiled each time.
_FIRST: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from broker.sandbox.inside import main; "
    "sys.exit(main(int(sys.argv[2])))"
)
_PACKAGES: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PROXIED: Final = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY")


@dataclass(frozen=True, slots=True)
class Built:
    """
    What stands: in words, and which promises of a ticket it does not keep.

    ``cut_off`` says that there are no sockets of the internet at all, not even to the proxy.
    """

    text: str
    missing: tuple[str, ...] = ()
    cut_off: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be started within the walls."""

    walled: Walled
    program: str
    command: Sequence[str]
    environ: Mapping[str, str]
    cwd: Path
    limits: Sequence[tuple[str, int]]
    secret: str | None
    ports: tuple[int, ...] = ()


class Starting:
    """One attempt to start: ``begin`` starts and hears the report, ``go`` lets the agent run."""

    def __init__(self, held: Built, argv: Sequence[str], fds: dict[str, int]) -> None:
        self.held = held
        self.pid = 0
        self._argv = argv
        self._fds = fds

    def begin(self, child: Child) -> None:
        """
        Start the first process, and wait for what it says of the walls.

        Raises:
            LaunchError: it cannot be started, or a wall does not hold.
        """
        theirs = [self._fds[name] for name in ("order", "status_in", "go_out", "info_in")]
        environ = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
        child.start(self._argv[0], self._argv, environ, Path("/"), passed=theirs, shielded=True)
        for name in ("status_in", "info_in"):
            os.close(self._fds[name])
            del self._fds[name]
        said = _received(self._fds["status_out"])
        info = _received(self._fds["info_out"]) if "bwrap" in self._argv[0] else b""
        try:
            report = marshal.loads(said)  # noqa: S302 - see `inside`
            self.pid = json.loads(info)["child-pid"] if info else child.pid
        except (ValueError, KeyError, EOFError, TypeError):
            raise LaunchError("it could not be set up; see `broker doctor`") from None
        if "broken" in report:
            raise LaunchError(f"it could not be set up: {report['broken']}")
        if report["fails"]:
            raise LaunchError(f"a wall does not hold: {'; '.join(report['fails'])}")
        child.reach_by(self._signal)

    def go(self) -> None:
        """Let the agent run."""
        os.write(self._fds["go_in"], b"!")

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


@contextmanager
def prepared(engine: Engine, machine: Machine, order: Order) -> Iterator[Starting]:
    """Prepare a start, and close at the end what it took."""
    fds: dict[str, int] = {}
    try:
        for name in ("status", "go", "info"):
            fds[f"{name}_out"], fds[f"{name}_in"] = os.pipe()
        walled = order.walled
        alone = engine == "landlock"
        told, held = _landlock(machine, order) if alone else _bubblewrap(machine, order)
        told = _told(order, alone=alone, cut_off=held.cut_off) | told
        told |= {"status": fds["status_in"], "go": fds["go_out"]}
        fds["order"] = os.memfd_create("order")
        os.write(fds["order"], marshal.dumps(told))
        os.lseek(fds["order"], 0, os.SEEK_SET)
        argv = [interpreter(), "-I", "-S", "-c", _FIRST, _PACKAGES, str(fds["order"])]
        if not alone:
            argv = [machine.bwrap, *bubblewrap.options(walled, info=fds["info_in"]), "--", *argv]
        yield Starting(held, argv, fds)
    finally:
        for fd in fds.values():
            os.close(fd)


def _told(order: Order, *, alone: bool, cut_off: bool) -> dict[str, object]:
    """Return what the first process is told by every engine."""
    walled = order.walled
    boxed = not walled.plan.free
    near = loopback([h for hosts in walled.plan.hosts for h in hosts] + list(walled.needs.hosts))
    port = PROXY_PORT if ("127.0.0.1", PROXY_PORT) not in near else PROXY_PORT + 1
    listen = [("127.0.0.1", port), *near] if boxed and not cut_off else []
    targets = {str(port): ""} | {str(p): f"{host}:{p}" for host, p in near}
    scratch = os.path.join(walled.scratch, "tmp") if alone else "/tmp"  # noqa: S108 - within
    environ = {**cleaned(order.environ), **walled.needs.environ, "TMPDIR": scratch}
    environ |= {"XDG_CACHE_HOME": f"{scratch}/cache", "npm_config_cache": f"{scratch}/npm"}
    if boxed:
        environ |= dict.fromkeys(_PROXIED, f"http://127.0.0.1:{port}")
        environ |= {"NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1"}
        environ |= {"NODE_USE_ENV_PROXY": "1"}
    writes = walled.plan.writes
    narrow = writes is not None and all(spot.place for spot in writes.spots)
    return {
        "program": order.program,
        "command": list(order.command),
        "environ": environ,
        "cwd": [os.fspath(order.cwd), walled.root, "/"],
        "limits": list(order.limits),
        "ignored": [n for n in inside.ALL if signal.getsignal(n) is signal.SIG_IGN],
        "interrupts": not has_terminal(),
        "listen": listen,
        "targets": targets,
        "proxy": os.path.join(walled.scratch, "egress"),
        "files": {} if alone else dict(walled.needs.files),
        "shown": {str(p): f"{scratch}/port-{p}" for p in order.ports},
        "canary": {
            "secret": order.secret,
            "outside": [walled.root] if narrow else [],
            "network": boxed,
        },
    }


def _bubblewrap(machine: Machine, order: Order) -> tuple[dict[str, object], Built]:
    walled = order.walled
    told: dict[str, object] = {"unshare": False, "filter": {}}
    told["landlock"] = None
    text = "files, processes and network by bubblewrap"
    if walled.plan.free:
        text = "files and processes by bubblewrap; the scope does not limit hosts"
    if machine.landlock:
        writes = None
        if walled.plan.writes is not None:
            writes = [path for path, _ in walled.spots(walled.plan.writes)]
            writes += [*walled.needs.writes, *walled.needs.private, "/tmp", "/run", "/var/tmp"]  # noqa: S108
            writes += ["/dev", "/proc"] + ([walled.home] if walled.plan.reads is not None else [])
        told["landlock"] = {"abi": machine.landlock, "reads": None, "writes": writes, "ports": None}
        text += f", and by Landlock (ABI {machine.landlock})"
    missing = []
    if walled.plan.free and machine.landlock < 6:
        missing.append("services at abstract sockets, which takes Landlock's ABI 6")
    return told, Built(text, tuple(missing))


def _landlock(machine: Machine, order: Order) -> tuple[dict[str, object], Built]:
    walled = order.walled
    boxed = not walled.plan.free
    reads, writes = granted(walled, DEVICES)
    spaces = boxed and (spaces_work() if machine.spaces is None else machine.spaces)
    none = boxed and not spaces  # no sockets of the internet at all
    told: dict[str, object] = {
        "unshare": spaces,
        "filter": {"internet": not none, "segments": spaces},
        "landlock": {"abi": machine.landlock, "reads": reads, "writes": writes, "ports": None},
    }
    missing = []
    if none and (walled.needs.hosts or any(walled.plan.hosts)):
        missing.append("the hosts of the scope: without name spaces no host is reached at all")
    if machine.landlock < 3:
        missing.append("emptying files that must not be written, which takes Landlock's ABI 3")
    if machine.landlock < 6:
        missing.append("services at abstract sockets, and signals, which takes Landlock's ABI 6")
    missing += ["services at unix sockets outside, such as an agent for keys or for containers"]
    missing += ["modes, owners and times of files that must not be written"]
    how = "own name spaces" if spaces else "a filter of system calls" if none else ""
    text = f"files by Landlock (ABI {machine.landlock})"
    text += f", network by {how}" if how else "; the scope does not limit hosts"
    return told, Built(text, tuple(missing), none)


def _received(fd: int) -> bytes:
    """Return all that is written to a pipe, until its end or for a while."""
    data = b""
    while select.select([fd], [], [], REPORT_S)[0]:
        more = os.read(fd, 65_536)
        if not more:
            return data
        data += more
    return b""


class ShownPorts:
    """Ports of the run that the person's own machine sees on loopback, such as a dev server's."""

    def __init__(self, walled: Walled, ports: Sequence[int]) -> None:
        self._folder = os.path.join(walled.scratch, "tmp")
        self._folder_fd = -1  # held open: a path could be made to lead elsewhere meanwhile
        self._ports = ports
        self._listeners: list[socket.socket] = []

    def bind(self) -> None:
        """
        Take the ports. Whoever connects waits until ``start``.

        Raises:
            LaunchError: a port is taken.
        """
        self._folder_fd = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for port in self._ports:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
                listener.listen(64)
            except OSError as error:
                listener.close()
                raise LaunchError(f"port {port} cannot be shown: {error.strerror}") from error
            self._listeners.append(listener)

    def start(self) -> None:
        """Begin to carry, in threads of its own."""
        for listener, port in zip(self._listeners, self._ports, strict=True):
            accept = inside.accepting(listener, partial(self._reach, f"port-{port}"))
            threading.Thread(target=accept, daemon=True).start()

    def stop(self) -> None:
        """Take no more connections."""
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        if self._folder_fd >= 0:
            os.close(self._folder_fd)
            self._folder_fd = -1

    def _reach(self, name: str) -> socket.socket:
        """
        Connect to a socket that the run made.

        We stand outside of the walls, and whatever runs within can put a link in the socket's
        place: followed, it would lead to a service that the walls hide.

        Raises:
            OSError: there is no socket by that name, or nobody listens.
        """
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder_fd)
        try:
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                raise ConnectionRefusedError(name)
            return inside.reached(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
