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
- **seatbelt**, of macOS: the same files and the same door, by a profile that ``sandbox-exec``
  takes. No Mac has run it yet, so it says that nothing is proved, and ``require`` refuses it.

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
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker.agents.client import interpreter
from broker.child import Child, has_terminal
from broker.errors import LaunchError
from broker.sandbox import bubblewrap, inside, seatbelt
from broker.sandbox.machine import Engine, Machine, spaces_work
from broker.sandbox.system import DEVICES, cleaned
from broker.sandbox.walled import Walled, granted, loopback

__all__ = ["Built", "Engine", "Order", "Starting", "prepared"]

REPORT_S: Final = 20.0
PROXY_PORT: Final = 3_128  # within the walls
# Imported rather than run as a file, so that it need not be compiled each time.
_FIRST: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from broker.sandbox.inside import main; "
    "sys.exit(main(int(sys.argv[2])))"
)
_BEFORE: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from broker.sandbox.inside import before; "
    "before(int(sys.argv[2]), sys.argv[3:])"
)
# What no ABI of Landlock holds without an engine of mounts beside it.
GAPS: Final = (
    "services at unix sockets outside, such as an agent for keys or for containers",
    "modes, owners and times of files that must not be written",
    "whether a place outside is there, and how large it is",
    "priorities and cores of your other processes",
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

    def __init__(
        self, held: Built, argv: Sequence[str], fds: dict[str, int], *, apart: bool = False
    ) -> None:
        self.held = held
        self.pid = 0
        self._argv = argv
        self._fds = fds
        self._apart = apart  # the first process is a child of the engine's, which tells its number

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
        info = _received(self._fds["info_out"]) if self._apart else b""
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
        build = {"bubblewrap": _bubblewrap, "landlock": _landlock, "seatbelt": _seatbelt}[engine]
        changed, held = build(machine, order)
        told = _told(order, cut_off=held.cut_off) | changed
        told |= {"status": fds["status_in"], "go": fds["go_out"]}
        fds["order"] = _kept(marshal.dumps(told))
        first = [interpreter(), "-I", "-S", "-c"]
        argv = [*first, _FIRST, _PACKAGES, str(fds["order"])]
        if engine == "bubblewrap":
            low = any(port < _low() for _, port in told["listen"])
            options = bubblewrap.options(order.walled, info=fds["info_in"], networked=low)
            argv = [machine.bwrap, *options, "--", *argv]
            if low:
                argv = [*first, _BEFORE, _PACKAGES, str(fds["order"]), *argv]
        elif engine == "seatbelt":
            argv = [machine.profiler, "-f", _profiled(order, told), *argv]
        yield Starting(held, argv, fds, apart=engine == "bubblewrap")
    finally:
        for fd in fds.values():
            os.close(fd)


def _kept(data: bytes) -> int:
    """Return a descriptor of a file without a name, with its bytes to be read from the start."""
    make = getattr(os, "memfd_create", None)
    if make is not None:
        fd: int = make("order")
    else:
        with tempfile.TemporaryFile() as stream:
            fd = os.dup(stream.fileno())
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _low() -> int:
    """Return the first port that anyone may listen at; those below take rights of root's."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text("ascii"))
    except (OSError, ValueError):
        return 1024


def _told(order: Order, *, cut_off: bool) -> dict[str, Any]:
    """Return what the first process is told by every engine, of which some then change a part."""
    walled = order.walled
    boxed = not walled.plan.free
    near = _near(walled)
    port = _proxy_port(near)
    ports = [port, *(p for _, p in near)] if boxed and not cut_off else []
    writes = walled.plan.writes
    narrow = writes is not None and all(spot.place for spot in writes.spots)
    return {
        "program": order.program,
        "command": list(order.command),
        "environ": _environ(order, "/tmp", port),  # noqa: S108 - within
        "cwd": [os.fspath(order.cwd), walled.root, "/"],
        "limits": list(order.limits),
        "ignored": [n for n in inside.ALL if signal.getsignal(n) is signal.SIG_IGN],
        "interrupts": not has_terminal(),
        "profiled": False,
        "listen": [("127.0.0.1", p) for p in ports],
        "targets": {str(port): ""} | {str(p): f"{host}:{p}" for host, p in near},
        "proxy": os.path.join(walled.scratch, "egress"),
        "files": dict(walled.needs.files),
        "shown": {str(p): f"/tmp/port-{p}" for p in order.ports},  # noqa: S108 - within
        "canary": {
            "secret": order.secret,
            "outside": [walled.root] if narrow else [],
            "network": boxed,
        },
    }


def _near(walled: Walled) -> tuple[tuple[str, int], ...]:
    """Return the addresses of this machine's loopback that the ticket or the agent names."""
    return loopback([h for hosts in walled.plan.hosts for h in hosts] + list(walled.needs.hosts))


def _proxy_port(near: Sequence[tuple[str, int]]) -> int:
    taken = {port for _, port in near}
    return next(port for port in range(PROXY_PORT, 65_536) if port not in taken)


def _environ(order: Order, scratch: str, port: int) -> dict[str, str]:
    """Return the agent's environment, with its folder for what goes, and the way out."""
    walled = order.walled
    environ = {**cleaned(order.environ), **walled.needs.environ, "TMPDIR": scratch}
    environ |= {"XDG_CACHE_HOME": f"{scratch}/cache", "npm_config_cache": f"{scratch}/npm"}
    if not walled.plan.free:
        environ |= dict.fromkeys(_PROXIED, f"http://127.0.0.1:{port}")
        environ |= {"NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1"}
        environ |= {"NODE_USE_ENV_PROXY": "1"}
    return environ


def _without_mounts(order: Order, port: int) -> dict[str, object]:
    """Return what differs where nothing is mounted: our folder has its own name, files stay."""
    scratch = os.path.join(order.walled.scratch, "tmp")
    return {
        "environ": _environ(order, scratch, port),
        "files": {},
        "shown": {str(p): f"{scratch}/port-{p}" for p in order.ports},
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
    if walled.lent:
        raise LaunchError("this agent's settings lie where it writes, which takes mounts")
    boxed = not walled.plan.free
    reads, writes = granted(walled, DEVICES)
    spaces = boxed and (spaces_work() if machine.spaces is None else machine.spaces)
    none = boxed and not spaces  # no sockets of the internet at all
    told: dict[str, object] = _without_mounts(order, _proxy_port(_near(walled))) | {
        "unshare": spaces,
        "filter": {"internet": not none, "segments": spaces, "others": False},
        "landlock": {"abi": machine.landlock, "reads": reads, "writes": writes, "ports": None},
    }
    missing = []
    if none and (walled.needs.hosts or any(walled.plan.hosts)):
        missing.append("the hosts of the scope: without name spaces no host is reached at all")
    if machine.landlock < 3:
        missing.append("emptying files that must not be written, which takes Landlock's ABI 3")
    if machine.landlock < 6:
        missing.append("services at abstract sockets, and signals, which takes Landlock's ABI 6")
    missing += GAPS
    how = "own name spaces" if spaces else "a filter of system calls" if none else ""
    text = f"files by Landlock (ABI {machine.landlock})"
    text += f", network by {how}" if how else "; the scope does not limit hosts"
    return told, Built(text, tuple(missing), none)


def _seatbelt(machine: Machine, order: Order) -> tuple[dict[str, object], Built]:
    walled = order.walled
    boxed = not walled.plan.free
    port = _free_port() if boxed else 0
    told: dict[str, object] = _without_mounts(order, port) | {
        "profiled": True,
        "unshare": False,
        "landlock": None,
        # Loopback is the person's own: what is named there is reached, and shown, as it is.
        "listen": [("127.0.0.1", port)] if boxed else [],
        "targets": {str(port): ""},
        "shown": {},
    }
    text = "files by the profile of macOS's own sandbox"
    text += ", network by it too" if boxed else "; the scope does not limit hosts"
    missing = (
        "what only a Mac would show: this profile has not been tried on one",
        "processes that go on when the agent has ended",
        "keys put into your own terminal",
    )
    return told, Built(text, missing)


def _free_port() -> int:
    """Return a port on loopback that is free now; if it is taken meanwhile, nothing starts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _profiled(order: Order, told: Mapping[str, Any]) -> str:
    """Write the profile of a run beside its socket, and return where it lies."""
    walled = order.walled
    inward = [port for _, port in told["listen"]] + list(order.ports)
    outward = [*inward, *(port for _, port in _near(walled))]
    terminal = os.ttyname(0) if os.isatty(0) else ""
    writable = (os.path.join(walled.scratch, "tmp"),)
    text = seatbelt.profile(
        walled, seatbelt.Doors(tuple(outward), tuple(inward), writable, terminal)
    )
    place = os.path.join(walled.scratch, "profile.sb")
    Path(place).write_text(text, encoding="utf-8")
    return place


def _received(fd: int) -> bytes:
    """Return all that is written to a pipe, until its end or for a while."""
    data = b""
    while select.select([fd], [], [], REPORT_S)[0]:
        more = os.read(fd, 65_536)
        if not more:
            return data
        data += more
    return b""
