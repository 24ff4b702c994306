"""
A filter of system calls: what no program under a ticket needs, and what would lead around it.

Decided here: which calls fail. Not decided here: when the filter is loaded
(``broker.sandbox.inside``). The mount and network walls are others'; this closes the doors
beside them: keystrokes put into the person's terminal, a second user namespace, the kernel's key
ring, sockets of families that no namespace holds (vsock leads out of a virtual machine), and
``io_uring``, by which calls are made that no filter sees.

Rules a maintainer keeps: a call of another architecture ends the process, since its numbers mean
other calls; what is denied answers EPERM, which programs take for "not here"; ``clone3`` hides
its flags from a filter and answers ENOSYS, on which C libraries fall back to ``clone``.
"""

from __future__ import annotations

import ctypes
import errno
import struct

TYPE_CHECKING = False  # without `typing`, which takes longer to load than all the rest here
if TYPE_CHECKING:
    from typing import Final, TypeAlias

PR_SET_SECCOMP: Final = 22
MODE_FILTER: Final = 2
KILL, ERRNO, ALLOW = 0x8000_0000, 0x0005_0000, 0x7FFF_0000
CLONE_NEW: Final = (
    0x7E02_0000  # every kind of new namespace: mount, cgroup, uts, ipc, user, pid, net
)
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_STREAM: Final = 1
X32: Final = 0x4000_0000

# By name: the number on x86_64 and on aarch64.
_DENIED: Final[dict[str, tuple[int | None, int | None]]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_by_handle_at": (304, 265),
    "iopl": (172, None),
    "ioperm": (173, None),
    "vhangup": (153, 58),
}
# Shared memory, messages and semaphores, where no name space of their own holds them.
_SEGMENTS: Final[dict[str, tuple[int | None, int | None]]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
}
_MACHINES: Final = {"x86_64": (0xC000_003E, 0), "aarch64": (0xC000_00B7, 1)}
_CLONE: Final = (56, 220)
_CLONE3: Final = 435
_IOCTL: Final = (16, 29)
_SOCKET: Final = (41, 198)
_PRLIMIT: Final = (302, 261)

_LOAD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
Line: TypeAlias = tuple[
    int, int, int, int
]  # the code, its value, and how far to jump on yes and on no
_ALLOWED: Final[Line] = (_RET, ALLOW, 0, 0)


def machine_known(machine: str) -> bool:
    """Whether a filter can be built for a processor, as ``os.uname().machine`` names it."""
    return machine in _MACHINES


def program(
    machine: str,
    *,
    internet: bool = True,
    datagrams: bool = True,
    segments: bool = True,
    others: bool = True,
) -> bytes:
    """
    Return the filter as the kernel takes it: instructions of eight bytes.

    Args:
        machine: the processor, as ``os.uname().machine`` names it.
        internet: let sockets of the internet be made.
        datagrams: let them be other ones than TCP's.
        segments: let shared memory, messages and semaphores without a file be used.
        others: let a process set the limits of another one.

    Raises:
        KeyError: no filter is known for this processor.

    >>> len(program("x86_64")) % 8
    0
    """
    audit, column = _MACHINES[machine]
    lines = [(_LOAD, 4, 0, 0), (_JEQ, audit, 1, 0), (_RET, KILL, 0, 0), (_LOAD, 0, 0, 0)]
    if machine == "x86_64":
        lines += [(_JGE, X32, 0, 1), _refuse(errno.ENOSYS)]
    denied = _DENIED if segments else _DENIED | _SEGMENTS
    # What is called most (read, write, close, map) has the lowest numbers, and passes at once.
    looked_at = (_CLONE3, *(pair[column] for pair in (_CLONE, _IOCTL, _SOCKET, _PRLIMIT)))
    numbered = [n for pair in denied.values() if (n := pair[column]) is not None]
    lines += [(_JGE, min(*looked_at, *numbered), 1, 0), _ALLOWED]
    for numbers in denied.values():
        number = numbers[column]
        if number is not None:
            lines += [(_JEQ, number, 0, 1), _refuse()]
    lines += [(_JEQ, _CLONE3, 0, 1), _refuse(errno.ENOSYS)]
    if not others:
        lines += [(_JEQ, _PRLIMIT[column], 0, 4), (_LOAD, 16, 0, 0), (_JEQ, 0, 1, 0), _refuse()]
        lines += [_ALLOWED]
    # Each of the following looks at one argument, and ends in an answer.
    lines += [
        *[(_JEQ, _CLONE[column], 0, 4), (_LOAD, 16, 0, 0), (_JSET, CLONE_NEW, 0, 1), _refuse()],
        _ALLOWED,
        *[(_JEQ, _IOCTL[column], 0, 5), (_LOAD, 24, 0, 0), (_JEQ, TIOCSTI, 1, 0)],
        *[(_JEQ, TIOCLINUX, 0, 1), _refuse(), _ALLOWED],
        *[(_JEQ, _SOCKET[column], 1, 0), _ALLOWED],
        *_sockets(internet, datagrams),
    ]
    return b"".join(struct.pack("=HBBI", code, yes, no, value) for code, value, yes, no in lines)


def _refuse(number: int = errno.EPERM) -> Line:
    return _RET, ERRNO | number, 0, 0


def _sockets(internet: bool, datagrams: bool) -> list[Line]:
    """Return the part that looks at ``socket``: the family, and the type where it matters."""
    typed = internet and not datagrams
    free = [AF_UNIX, AF_NETLINK] + ([AF_INET, AF_INET6] if internet and not typed else [])
    lines = [(_LOAD, 16, 0, 0)]
    for family in free:
        lines += [(_JEQ, family, 0, 1), _ALLOWED]
    if typed:
        lines += [(_JEQ, AF_INET, 2, 0), (_JEQ, AF_INET6, 1, 0), _refuse(errno.EAFNOSUPPORT)]
        lines += [(_LOAD, 24, 0, 0), (_AND, 0xF, 0, 0), (_JEQ, SOCK_STREAM, 0, 1), _ALLOWED]
    return [*lines, _refuse(errno.EAFNOSUPPORT)]


def load(machine: str, **choices: bool) -> None:
    """
    Load the filter into this thread, for good; ``no_new_privs`` must be set.

    Args:
        machine: the processor, as for ``program``.
        choices: those of ``program``.

    Raises:
        OSError: the kernel refuses it.
    """
    code = program(machine, **choices)
    holder = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    given = Program(len(code) // 8, ctypes.addressof(holder))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(given), 0, 0):
        raise OSError(ctypes.get_errno(), "the filter of system calls was not taken")
