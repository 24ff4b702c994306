"""
Walls by ``sandbox-exec``: a profile in the language of macOS's own sandbox, as text.

Decided here: the rules of a run's profile, in their order, and how a path is written in one. Not
decided here: what is shown and hidden (``walled``), what runs inside (``inside``). Pure but for
asking where a path really leads, since the kernel judges by that.

It is tested as text, by a reader of its rules that a test has; no Mac has run it yet.

Rules a maintainer keeps: everything is denied first, and of two rules that fit the later one
counts, so the order is that of ``walled``; a path that cannot be written in one way only ends the
start; a rule without a filter fits everything, so no filter, no rule; a folder above a closed
place cannot be moved, or the place would be open under another name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from broker.errors import LaunchError
from broker.sandbox.plan import Spot
from broker.sandbox.walled import Walled

NAME: Final = "sandbox-exec"
MAX_STRING_BYTES: Final = 1_000  # a longer one is not read by `sandbox-exec`
# What programs of the system and the tools of its maker need beside what every system has.
APPLE: Final = (
    *("/System", "/Library/Apple", "/Library/Developer", "/Library/Frameworks", "/Library/Java"),
    *("/Applications/Xcode.app", "/var/db/timezone", "/var/db/dyld", "/var/select"),
    "/var/db/xcode_select_link",
)
_DEVICES: Final = (
    *("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"),
    "/dev/dtracehelper",
)
# Services that answer a question about users, groups and the time zone. None of them starts a
# program, asks a server, or keeps a secret: so no keychain, no pasteboard, no `open`, and no
# checking of certificates by the system, which would fetch what a certificate names.
_SERVICES: Final = (
    *("com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership"),
    *("com.apple.system.notification_center", "com.apple.bsd.dirhelper"),
)
_ABOUT: Final = (
    *("kern.argmax", "kern.boottime", "kern.hostname", "kern.maxfilesperproc", "kern.ngroups"),
    *("kern.osproductversion", "kern.osrelease", "kern.ostype", "kern.osversion", "kern.version"),
    *("kern.usrstack64", "vm.loadavg", "machdep.cpu.brand_string", "sysctl.proc_cputype"),
)
_NAMES: Final = "/private/var/run/mDNSResponder"

_READ: Final = "file-read* process-exec"
_NEW_TERMINALS: Final = (
    '(require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty"))'
)

Real = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Doors:
    """
    What a run may use that is not the workspace's.

    It connects to the ports in ``outward`` and listens at those in ``inward``, on loopback, which
    is the person's own here. ``writable`` are folders of ours, ``terminal`` is the run's own.
    """

    outward: tuple[int, ...] = ()
    inward: tuple[int, ...] = ()
    writable: tuple[str, ...] = ()
    terminal: str = ""


def profile(walled: Walled, doors: Doors, real: Real = os.path.realpath) -> str:
    """
    Return the profile of a run.

    Args:
        walled: the run.
        doors: what is open beside.
        real: where a path leads, with every link followed.

    Raises:
        LaunchError: a path cannot be written in a profile.
    """
    about = [*_named("sysctl-name", _ABOUT), '(sysctl-name-prefix "hw.")']
    own = _literals([doors.terminal] if doors.terminal else [])
    rules = [
        "(version 1)",
        "(deny default)",
        "(allow process-fork)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        "(allow ipc-posix-sem)",
        "(allow pseudo-tty)",
        *_rule("allow", "sysctl-read", about),
        *_rule("allow", "mach-lookup", _named("global-name", _SERVICES)),
        *_rule("allow", "file-read* file-write-data file-ioctl", _literals(_DEVICES)),
        *_rule("allow", "file-read* file-write* file-ioctl", [_NEW_TERMINALS, *own]),
        *_files(walled, doors.writable, real),
        *_network(walled, doors, real),
    ]
    return "\n".join([*rules, ""])


def _files(walled: Walled, writable: Sequence[str], real: Real) -> Iterator[str]:
    """Yield the rules for files: the system, the agent, the workspace, what is closed, ours."""
    plan, needs = walled.plan, walled.needs
    system = [] if plan.reads is None else [*walled.system, *APPLE]
    yield from _rule("allow", _READ, _trees(["/"] if plan.reads is None else system, real))
    if plan.writes is None:
        yield from _rule("allow", "file-write*", ['(subpath "/")'])
    yield from _rule("deny", "file-read* file-write*", _trees(needs.private, real))
    yield from _rule("allow", _READ, _trees([*needs.reads, *needs.writes, *writable], real))
    yield from _rule("allow", "file-write*", _trees([*needs.writes, *writable], real))
    opened: list[str] = [*needs.writes, *writable]
    closed: list[str] = []
    if plan.reads is not None:
        yield from _rule("allow", _READ, _spots(walled.spots(plan.reads)))
    if plan.writes is None:
        opened.append("/")
        closed.append(walled.absolute(".broker/"))
    else:
        spots = walled.spots(plan.writes)
        yield from _rule("allow", "file-write*", _spots(spots))
        opened += [path for path, _ in spots]
        closed += walled.cuts(plan.writes)
    yield from _rule("deny", "file-write*", map(_subpath, closed))
    hidden = [real(place) for place in walled.hidden]
    yield from _rule("deny", f"{_READ} file-write*", map(_subpath, hidden))
    above = _above([*closed, *hidden], [real(place) for place in opened])
    yield from _rule("deny", "file-write-unlink", _literals(above))
    yield from _rule("allow", _READ, _trees(walled.handed, real))
    yield from _rule("allow", "file-write*", _trees(walled.lent, real))
    yield from _rule("deny", "file-write*", _trees(walled.kept, real))
    again = _above([real(place) for place in walled.kept], [real(place) for place in walled.lent])
    yield from _rule("deny", "file-write-unlink", _literals(again))
    shown = [*system, *needs.reads, *needs.writes, *writable, *walled.handed, *walled.sockets]
    shown += [path for path, _ in walled.spots(plan.reads)] if plan.reads is not None else []
    yield from _rule("allow", "file-read-metadata", _literals(_led_through(shown, real)))


def _network(walled: Walled, doors: Doors, real: Real) -> Iterator[str]:
    sockets = [real(place) for place in walled.sockets]
    if walled.plan.free:
        yield "(allow network-outbound (remote ip))"
        yield "(allow network-inbound (local ip))"
        yield "(allow network-bind (local ip))"
        yield "(allow system-socket)"
        sockets.append(_NAMES)
    else:
        near = [f'(remote ip "localhost:{port}")' for port in doors.outward]
        yield from _rule("allow", "network-outbound", near)
        own = [f'(local ip "localhost:{port}")' for port in doors.inward]
        yield from _rule("allow", "network-bind network-inbound", own)
    yield from _rule("allow", "network-outbound", _literals(sockets))


# ── words ──


def quoted(text: str) -> str:
    r"""
    Return a text as a profile has it.

    Raises:
        LaunchError: it cannot be written in one way only, or is too long to be read.

    >>> print(quoted('/a "b"\\c'))
    "/a \"b\"\\c"
    """
    shown = ascii(text)[1:61]
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise LaunchError(f"`{shown}` has a control character, which no profile can name")
    found = text.replace("\\", "\\\\").replace('"', '\\"')
    try:
        size = len(found.encode())
    except UnicodeEncodeError:
        raise LaunchError(f"`{shown}` is no text, and so no profile can name it") from None
    if size > MAX_STRING_BYTES:
        raise LaunchError(f"`{shown}…` is too long for a profile")
    return f'"{found}"'


def _rule(answer: str, operations: str, filters: Iterable[str]) -> Iterator[str]:
    """Yield one rule; none without a filter, since that would fit everything."""
    found = list(dict.fromkeys(filters))
    if found:
        yield "\n  ".join([f"({answer} {operations}", *found]) + ")"


def _subpath(place: str) -> str:
    return f"(subpath {quoted(place)})"


def _literals(places: Iterable[str]) -> Iterator[str]:
    return (f"(literal {quoted(place)})" for place in places)


def _named(kind: str, names: Iterable[str]) -> Iterator[str]:
    return (f"({kind} {quoted(name)})" for name in names)


def _trees(places: Iterable[str], real: Real) -> Iterator[str]:
    return (_subpath(real(place)) for place in places)


def _spots(spots: Iterable[tuple[str, Spot]]) -> Iterator[str]:
    for path, spot in spots:
        yield _subpath(path) if spot.kind == "folder" else f"(literal {quoted(path)})"


def _above(closed: Iterable[str], opened: Sequence[str]) -> list[str]:
    """
    Return the folders that must not be moved, since a closed place lies in them.

    >>> _above(["/w/src/a/.git", "/k"], ["/w/src"])
    ['/w/src', '/w/src/a']
    """
    found = []
    for place in closed:
        for folder in _parents(place):
            if any(f"{folder}/".startswith(f"{o.rstrip('/')}/") for o in opened):
                found.append(folder)
    return sorted(dict.fromkeys(found))


def _led_through(places: Iterable[str], real: Real) -> list[str]:
    """Return the folders and links on the way to places: a program looks at each of them."""
    found: dict[str, None] = {"/": None}
    for place in places:
        for each in (place, real(place)):
            found |= dict.fromkeys([*_parents(each), each])
    return sorted(found)


def _parents(place: str) -> list[str]:
    """
    Return the folders above a place, but for the root.

    >>> _parents("/a/b/c")
    ['/a', '/a/b']
    """
    parts = place.strip("/").split("/")
    return ["/" + "/".join(parts[:n]) for n in range(1, len(parts))]
