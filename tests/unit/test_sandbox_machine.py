"""What this machine gives, each tried."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from broker.sandbox import machine
from broker.sandbox.machine import Machine, bwrap_works, install_command, look, spaces_work


def test_engines_are_tried_in_order() -> None:
    """The stronger engine comes first, and without a filter of calls there is none."""
    assert Machine("/bin/bwrap", 7, None, True).engines() == ("bubblewrap", "landlock")
    assert Machine("", 3, None, True).engines() == ("landlock",)
    assert Machine("/bin/bwrap", 7, None, False).engines() == ()
    assert Machine("", 0, None, True).engines() == ()
    assert Machine("", 0, False, False, "/usr/bin/sandbox-exec").engines() == ("seatbelt",)


def test_a_broken_bubblewrap_says_why(tmp_path: Path) -> None:
    """What the program says is passed on, and a program that is none is no engine."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions' >&2\nexit 1\n")
    fake.chmod(0o755)
    assert bwrap_works(str(fake)) == "bwrap: No permissions"
    assert "No such file" in bwrap_works(str(tmp_path / "gone"))


def test_looking_changes_nothing() -> None:
    """The same machine gives the same answer twice, and this process keeps its name spaces."""
    before = Path("/proc/self/ns/net").readlink() if sys.platform == "linux" else None
    assert look() == look()
    if before is not None:
        assert isinstance(spaces_work(), bool)
        assert Path("/proc/self/ns/net").readlink() == before


def test_the_command_to_install_names_the_package() -> None:
    """Whatever the machine's tool is, the package is named."""
    assert "bubblewrap" in install_command()


def test_another_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Mac has its own program, and any other system nothing to build walls of."""
    program = tmp_path / "sandbox-exec"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setattr(machine.sys, "platform", "darwin")
    assert look(str(tmp_path)) == Machine("", 0, False, False, str(program))
    monkeypatch.setattr(machine.sys, "platform", "freebsd14")
    assert look(str(tmp_path)) == Machine("", 0, False, False)


def test_a_setting_that_forbids_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting of the kernel that keeps user name spaces away is told with its remedy."""
    told = {"/proc/sys/user/max_user_namespaces": "0\n"}

    def read_text(path: Path, **_: object) -> str:
        if str(path) in told:
            return told[str(path)]
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", read_text)
    assert "sysctl user.max_user_namespaces=15000" in machine.why_no_spaces()
    told.clear()
    assert machine.why_no_spaces() == ""
