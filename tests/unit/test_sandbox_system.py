"""What every program needs of the machine, and what none may see."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from broker.sandbox.system import cleaned, hidden, readable


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A person's home with tools and credentials."""
    for name in (".ssh", ".cargo/bin", ".pyenv/shims", "tools"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".netrc").write_text("")
    return tmp_path


def test_the_persons_home_is_never_readable(home: Path) -> None:
    """Neither the home, nor what lies above it, nor a credential of it is among the tools."""
    path = os.pathsep.join([str(home), "/", str(home.parent), str(home / ".cargo/bin"), "/usr/bin"])
    found = readable("/usr/bin/env", {"HOME": str(home), "PATH": path})
    for place in found:
        assert not f"{home}/".startswith(f"{os.path.realpath(place).rstrip('/')}/"), place
        assert not place.startswith((str(home / ".ssh"), str(home / ".netrc")))
    assert str(home / ".cargo/bin") in found
    assert str(home / ".pyenv") in found
    assert sys.base_prefix in found


def test_a_packaged_program_brings_its_package(home: Path) -> None:
    """A program of node's is readable with all the packages beside its own."""
    package = home / "x/node_modules/agent/cli.js"
    package.parent.mkdir(parents=True)
    package.write_text("")
    link = home / "tools/agent"
    link.symlink_to(package)
    found = readable(str(link), {"HOME": str(home), "PATH": str(home / "tools")})
    assert str(home / "x/node_modules") in found


def test_no_secret_of_the_machine_is_readable() -> None:
    """Of /etc only single, harmless entries are named."""
    found = readable("/bin/true", {"HOME": "/home/x", "PATH": ""})
    assert "/etc" not in found
    assert not any(place.startswith(("/etc/shadow", "/etc/ssh", "/etc/sudoers")) for place in found)


def test_credentials_and_our_own_are_hidden(home: Path) -> None:
    """What is there of the list is hidden, and what is not there is left out."""
    own = home / "state"
    own.mkdir()
    found = hidden({"HOME": str(home), "SSH_AUTH_SOCK": str(home / "tools")}, [str(own), "/gone"])
    assert {str(own), str(home / ".ssh"), str(home / ".netrc"), str(home / "tools")} <= set(found)
    assert "/gone" not in found
    assert str(home / ".aws") not in found


def test_the_environment_leads_nowhere_outside() -> None:
    """Variables that name services outside are left out, and all others kept."""
    kept = {"HOME": "/h", "PATH": "/bin", "ANTHROPIC_API_KEY": "x"}
    assert cleaned({**kept, "SSH_AUTH_SOCK": "a", "DISPLAY": ":0", "TMUX": "b"}) == kept
