"""
The first process within the walls: it closes the last of them, proves them, and runs the agent.

It reads what to do from a descriptor. In order: name spaces of its own where no engine made them,
the forwarders' listening sockets, Landlock, the filter of system calls, the canary, a report to
the broker, and after the broker's word the agent. From then on it passes signals to the agent,
carries connections to the broker's proxy, collects what other processes leave behind, and ends
with the agent's own code, taking along whatever still runs.

Decided here: that order. Not decided here: what the walls are. Standard library only, and of this
package only what needs nothing else.

It starts in every run, so it loads no more than it needs: ``marshal`` in place of ``json`` (both
ends are the same interpreter), the bare ``_signal`` and ``_socket``, and what carries connections
only once the agent runs.

Rules a maintainer keeps: nothing of the agent's runs before the broker's word; whatever breaks
before ends the start; no descriptor but the three standard ones reaches the agent.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # builtin without a stub
import _socket
import ctypes
import fcntl
import marshal
import os
import resource
import struct
import sys
import time

from broker.sandbox import landlock, seccomp
from broker.sandbox.canary import walls_that_fail

TYPE_CHECKING = False  # without `typing`, which takes longer to load than all the rest here
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any, Final

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
PR_CAPBSET_DROP, PR_SET_SECUREBITS = 24, 28
NO_ROOT_FOR_GOOD: Final = 0x2F  # no rights for being root, and no way back
CAPABILITIES: Final = 41
CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWIPC = 0x1000_0000, 0x4000_0000, 0x0800_0000
SIOCSIFFLAGS: Final = 0x8914
IFF_UP_RUNNING: Final = 0x41
GRACE_S: Final = 8.0  # from the agent's end, or a signal to end, until the rest is killed
PASSED_ON: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
FROM_TERMINAL: Final = (signal.SIGINT, signal.SIGQUIT)
ALL: Final = (*PASSED_ON, *FROM_TERMINAL)
FAILED: Final = 125


def main(fd: int) -> int:
    """Build what is left of the walls, and run the agent in them; return its code."""
    with os.fdopen(fd, "rb") as stream:
        order = marshal.load(stream)  # noqa: S302 - written by the broker that started us
    status, go = order["status"], order["go"]
    # From here on no signal is lost: what comes before the agent runs waits for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
    try:
        listeners = _walls(order)
        report: dict[str, Any] = {"fails": walls_that_fail(order["canary"])}
    except (OSError, ValueError, KeyError) as error:
        report = {"broken": f"{type(error).__name__}: {error}"}
    os.write(status, marshal.dumps(report))
    os.close(status)
    if "broken" in report or os.read(go, 1) != b"!":
        return FAILED
    os.close(go)
    return _run(order, listeners)


def _walls(order: dict[str, Any]) -> dict[str, _socket.socket]:
    libc = ctypes.CDLL(None, use_errno=True)
    if order["unshare"]:
        own_spaces(libc)
    listeners = {}
    for host, port in order["listen"]:
        listeners[str(port)] = _listening(host, port)
    for port, fd in order.get("opened", {}).items():
        listeners[port] = _socket.socket(fileno=fd)
    for port, path in order["shown"].items():
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(128)
        listeners[f"shown {port}"] = listener
    for path, text in order["files"].items():
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
    for name, value in order["limits"]:
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (least, least))
    if order["profiled"]:
        return listeners  # the walls stood before we were started, and the rest is of Linux
    landlock.no_new_privileges()
    _give_up(libc)
    if order["landlock"]:
        how = order["landlock"]
        landlock.restrict(how["abi"], how["reads"], how["writes"], ports=how["ports"])
    machine = os.uname().machine
    if seccomp.machine_known(machine):
        seccomp.load(machine, **order["filter"])
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Nobody within traces or stops this process; the agent's own are not closed to each other.
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    return listeners


def _listening(host: str, port: int) -> _socket.socket:
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(128)
    return listener


def before(fd: int, engine: list[str]) -> None:
    """
    Listen in a network of our own, and become the engine that builds the other walls in it.

    A port below 1024 is for whoever has rights in the network's own user name space. Whoever made
    it has them; within the engine's walls, which lie in another one, nobody does.
    """
    with os.fdopen(os.dup(fd), "r+b") as stream:
        order = marshal.load(stream)  # noqa: S302 - written by the broker that started us
        try:
            own_spaces(ctypes.CDLL(None, use_errno=True), CLONE_NEWNET)
            held = {str(port): _listening(host, port) for host, port in order.pop("listen")}
        except OSError as error:
            os.write(order["status"], marshal.dumps({"broken": f"{type(error).__name__}: {error}"}))
            os._exit(FAILED)
        opened = {port: each.detach() for port, each in held.items()}
        for each in opened.values():
            os.set_inheritable(each, True)
        stream.seek(0)
        stream.truncate()
        stream.write(marshal.dumps({**order, "listen": [], "opened": opened}))
        stream.flush()
        stream.seek(0)
    os.execv(engine[0], engine)  # noqa: S606 - the engine


def own_spaces(libc: ctypes.CDLL, spaces: int = CLONE_NEWNET | CLONE_NEWIPC) -> None:
    """
    Enter a user name space of our own, and others; in that of the network there is loopback alone.

    Args:
        libc: loaded so that it keeps ``errno``.
        spaces: flags of the other name spaces.

    Raises:
        OSError: the kernel gives none.
    """
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER | spaces):
        raise OSError(ctypes.get_errno(), "no name spaces of its own")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")
    if not spaces & CLONE_NEWNET:
        return
    any_socket = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP_RUNNING))
    any_socket.close()


def _give_up(libc: ctypes.CDLL) -> None:
    """Give up what root may do beyond its own files; who is not root has nothing of it."""
    for capability in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_SET_SECUREBITS, NO_ROOT_FOR_GOOD, 0, 0, 0)
    if libc.capset(struct.pack("=Ii", 0x2008_0522, 0), bytes(24)):
        raise OSError(ctypes.get_errno(), "the capabilities were not given up")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


# ── the agent ──


def _run(order: dict[str, Any], listeners: dict[str, _socket.socket]) -> int:
    agent = os.fork()
    if agent == 0:
        _become(order)

    def pass_on(number: int, _: object) -> None:
        try:
            os.kill(agent, number)
        except ProcessLookupError:
            return  # it has ended, and we will hear of it
        if number == signal.SIGTERM:
            signal.setitimer(signal.ITIMER_REAL, GRACE_S)

    for number in PASSED_ON:
        signal.signal(number, pass_on)
    for number in FROM_TERMINAL:
        # The terminal sends these to the agent too, which knows what they mean.
        signal.signal(number, pass_on if order["interrupts"] else signal.SIG_IGN)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(agent, signal.SIGKILL))
    _serve(order, listeners)  # whose threads leave signals to this one
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ALL)
    while True:
        pid, status = os.wait()
        if pid == agent:
            break
    code = os.waitstatus_to_exitcode(status)
    signal.setitimer(signal.ITIMER_REAL, 0)
    _end_the_rest()
    return code if code >= 0 else 128 - code


def _become(order: dict[str, Any]) -> None:
    """Turn this process into the agent."""
    try:
        for number in (*PASSED_ON, *FROM_TERMINAL, signal.SIGALRM, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        for number in order["ignored"]:
            signal.signal(number, signal.SIG_IGN)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ALL)
        _enter(order["cwd"])
        os.closerange(3, 1 << 20)
        os.execve(order["program"], order["command"], order["environ"])  # noqa: S606 - the agent
    except OSError as error:
        print(f"broker: `{order['program']}` cannot be started: {error.strerror}", file=sys.stderr)
    finally:
        os._exit(FAILED)


def _enter(folders: list[str]) -> None:
    """Change to the first of the folders that is there: a narrow ticket may hide the current."""
    for folder in folders:
        try:
            os.chdir(folder)
        except OSError:
            continue
        return


def _end_the_rest() -> None:
    """Kill what the agent left behind: all others here, or all that became our children."""
    if os.getpid() == 1:
        return  # the kernel ends a process name space with its first process
    until = time.monotonic() + GRACE_S
    while time.monotonic() < until:
        for child in _children():
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def _children() -> list[int]:
    """Return the processes whose parent we are."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", encoding="ascii") as stream:
            return [int(word) for word in stream.read().split()]
    except OSError:
        return []


# ── carrying connections ──


def reached(path: str, target: str = "") -> socket.socket:
    """
    Return a connection to a unix socket, or through the proxy there to a host and port.

    Raises:
        OSError: it cannot be reached, or the proxy refused.
    """
    import socket  # noqa: PLC0415 - once the agent runs

    far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        far.connect(path)
        if target:
            far.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
            answer = b""
            while b"\r\n\r\n" not in answer:
                more = far.recv(1)
                if not more:
                    break
                answer += more
            if b" 200 " not in answer.partition(b"\r\n")[0]:
                raise ConnectionRefusedError(target)
    except OSError:
        far.close()
        raise
    return far


def to_port(port: int) -> socket.socket:
    """
    Return a connection to a port on this side's loopback.

    Raises:
        OSError: nobody listens there.
    """
    import socket  # noqa: PLC0415 - as above

    return socket.create_connection(("127.0.0.1", port), timeout=10)


def accepting(listener: socket.socket, reach: Callable[[], socket.socket]) -> Callable[[], None]:
    """Return what carries each connection to where ``reach`` connects, for a thread of its own."""
    import threading  # noqa: PLC0415 - as above
    from contextlib import suppress  # noqa: PLC0415

    def accept() -> None:
        while True:
            try:
                near = listener.accept()[0]
            except OSError:
                if listener.fileno() < 0:
                    return
                time.sleep(0.01)
                continue
            threading.Thread(target=carry, args=(near,), daemon=True).start()

    def carry(near: socket.socket) -> None:
        try:
            far = reach()
        except OSError:
            near.close()
            return
        back = threading.Thread(target=pump, args=(far, near), daemon=True)
        back.start()
        pump(near, far)
        back.join()
        near.close()
        far.close()

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(_socket.SHUT_WR)

    return accept


def _serve(order: dict[str, Any], listeners: dict[str, _socket.socket]) -> None:
    """Begin to carry: to the proxy, and from outside to the ports that are shown."""
    import functools  # noqa: PLC0415 - as above
    import socket  # noqa: PLC0415
    import threading  # noqa: PLC0415

    for name, bare in listeners.items():
        listener = socket.socket(fileno=bare.detach())
        if name in order["targets"]:
            reach = functools.partial(reached, order["proxy"], order["targets"][name])
        else:
            reach = functools.partial(to_port, int(name.removeprefix("shown ")))
        threading.Thread(target=accepting(listener, reach), daemon=True).start()
