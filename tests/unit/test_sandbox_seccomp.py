"""The filter of system calls, run by a small machine of its own and by the kernel."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys

import pytest

from broker.sandbox import seccomp
from broker.sandbox.seccomp import ALLOW, ERRNO, KILL, machine_known, program

X86, ARM = 0xC000_003E, 0xC000_00B7


def verdict(code: bytes, number: int, *arguments: int, arch: int = X86) -> int:
    """Run a filter as the kernel does, naively."""
    packed = list(arguments) + [0] * (6 - len(arguments))
    data = struct.pack("=IIQ6Q", number, arch, 0, *packed)
    lines = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    at = held = 0
    while True:
        what, yes, no, value = lines[at]
        at += 1
        if what == 0x20:
            held = int(struct.unpack_from("=I", data, value)[0])
        elif what == 0x54:
            held &= value
        elif what == 0x06:
            return int(value)
        else:
            test = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[what]
            at += yes if test else no


EPERM = ERRNO | errno.EPERM


def test_ordinary_calls_pass() -> None:
    """Reading, starting a process and opening a connection are let through."""
    code = program("x86_64")
    for number, *arguments in (
        (0,),
        (59,),
        (56, 0x11),
        (41, 1, 1),
        (41, 2, 1),
        (41, 2, 2),
        (16, 1, 0x5401),
    ):
        assert verdict(code, number, *arguments) == ALLOW


@pytest.mark.parametrize(("machine", "arch", "column"), [("x86_64", X86, 0), ("aarch64", ARM, 1)])
def test_what_is_listed_is_denied(machine: str, arch: int, column: int) -> None:
    """Each call of the list is answered with EPERM, on each processor."""
    code = program(machine)
    for numbers in seccomp._DENIED.values():
        number = numbers[column]
        if number is not None:
            assert verdict(code, number, arch=arch) == EPERM


def test_arguments_that_lead_out() -> None:
    """New name spaces, keys for the terminal and odd sockets are denied by their arguments."""
    code = program("x86_64")
    assert verdict(code, 56, 0x1000_0011) == EPERM
    assert verdict(code, 435) == ERRNO | errno.ENOSYS
    assert verdict(code, 16, 0, 0x5412) == EPERM
    assert verdict(code, 16, 0, 0xFFFF_FFFF_0000_5412) == EPERM
    assert verdict(code, 16, 0, 0x541C) == EPERM
    for family in (17, 38, 40, 29, 44):
        assert verdict(code, 41, family, 1) == ERRNO | errno.EAFNOSUPPORT


def test_another_architecture_ends_the_process() -> None:
    """Numbers of another architecture mean other calls, so none of them is let through."""
    code = program("x86_64")
    assert verdict(code, 0, arch=0x4000_0003) == KILL
    assert verdict(code, 0x4000_0000 | 41, 2, 1) == ERRNO | errno.ENOSYS


def test_without_the_internet() -> None:
    """No socket of the internet is made, or none but TCP's, and unix sockets always."""
    none, tcp = program("x86_64", internet=False), program("x86_64", datagrams=False)
    for code in (none, tcp):
        assert verdict(code, 41, 1, 2) == ALLOW
        assert verdict(code, 41, 2, 2) == ERRNO | errno.EAFNOSUPPORT
        assert verdict(code, 41, 10, 0x8_0802) == ERRNO | errno.EAFNOSUPPORT
    assert verdict(none, 41, 2, 1) == ERRNO | errno.EAFNOSUPPORT
    assert verdict(tcp, 41, 10, 0x8_0801) == ALLOW


def test_segments_are_denied_where_asked() -> None:
    """System V's segments pass by default, and not where nothing else holds them."""
    assert verdict(program("x86_64"), 29) == ALLOW
    assert verdict(program("x86_64", segments=False), 29) == EPERM
    assert verdict(program("x86_64", segments=False), 240) == EPERM


@pytest.mark.parametrize(
    ("machine", "arch", "number"), [("x86_64", X86, 302), ("aarch64", ARM, 261)]
)
def test_the_shortcut_passes_nothing_that_has_a_rule(machine: str, arch: int, number: int) -> None:
    """The first calls pass at once, and the first that has a rule of its own is still judged."""
    for code in (program(machine), program(machine, segments=False, others=False)):
        assert verdict(code, 0, arch=arch) == ALLOW
        for ruled in (seccomp._CLONE, seccomp._IOCTL):
            argument = (0x1000_0000,) if ruled is seccomp._CLONE else (1, 0x5412)
            assert verdict(code, ruled[arch == ARM], *argument, arch=arch) == EPERM
        assert verdict(code, number, arch=arch) == ALLOW


@pytest.mark.parametrize(
    ("machine", "arch", "number"), [("x86_64", X86, 302), ("aarch64", ARM, 261)]
)
def test_the_limits_of_another_process(machine: str, arch: int, number: int) -> None:
    """Where nothing hides other processes, only a process's own limits can be set."""
    assert verdict(program(machine), number, 7, arch=arch) == ALLOW
    code = program(machine, others=False)
    assert verdict(code, number, 7, arch=arch) == EPERM
    assert verdict(code, number, 0, arch=arch) == ALLOW
    assert verdict(code, number + 1, 7, arch=arch) == ALLOW


@pytest.mark.skipif(not machine_known(os.uname().machine), reason="this kernel has no Landlock")
def test_the_kernel_takes_it() -> None:
    """A real process that loaded the filter cannot make a name space, and goes on working."""
    code = (
        "import os, ctypes, errno\n"
        "from broker.sandbox import landlock, seccomp\n"
        "landlock.no_new_privileges(); seccomp.load(os.uname().machine)\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.unshare(0x10000000), ctypes.get_errno() == errno.EPERM)\n"
        "print(os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["-1", "True", "0"]


def test_an_unknown_processor() -> None:
    """No filter is made up for a processor that is not known."""
    assert not machine_known("riscv64")
    with pytest.raises(KeyError):
        program("riscv64")
