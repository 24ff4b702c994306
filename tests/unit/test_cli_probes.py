"""Every probe of the doctor tells a sound machine from a broken one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from broker.cli import probes
from broker.cli.probes import Finding, examine
from broker.cli.wires import KEY_NAME
from broker.home import Home
from broker.receipt import load_or_create_key


@pytest.fixture
def home(broker_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Home:
    """A home on a machine without agents."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return Home.find({"BROKER_HOME": str(broker_home)})


def found(home: Home) -> dict[str, Finding]:
    """Return the findings by name."""
    return {finding.name: finding for finding in examine(home)}


def test_a_sound_machine(home: Home, broker_home: Path) -> None:
    """Where the broker can run, nothing is bad, and looking leaves nothing behind."""
    findings = examine(home)
    assert [f for f in findings if f.state == "bad"] == []
    assert len({f.name for f in findings}) == len(findings)
    assert list(broker_home.iterdir()) == []


def test_key(home: Home) -> None:
    """A key is missing, sound or unsafe, and is never made by looking."""
    assert found(home)["key"].state == "note"
    key = load_or_create_key(home.keys / KEY_NAME)
    assert found(home)["key"] == Finding("key", "ok", f"{key.kid} in {home.keys}")
    (home.keys / KEY_NAME).chmod(0o644)
    assert found(home)["key"].state == "bad"


def test_folders(home: Home) -> None:
    """A folder that others may write, or that is a file, is bad; its mode is said."""
    home.state.mkdir(parents=True, mode=0o700)
    assert found(home)["state"].text == f"{home.state} (mode 0700)"
    home.state.chmod(0o777)
    assert found(home)["state"].state == "bad"
    home.data.write_text("")
    assert "is not a folder" in found(home)["data"].text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_place(tmp_path: Path) -> None:
    """Folders that cannot be made are bad."""
    (tmp_path / "locked").mkdir(mode=0o500)
    home = Home.find({"BROKER_HOME": str(tmp_path / "locked" / "home")})
    assert found(home)["state"].state == "bad"


def test_config(home: Home) -> None:
    """The switch is said, and a broken configuration is bad."""
    assert found(home)["config"].text == "enabled"
    home.config.mkdir(mode=0o700)
    file = home.config / "broker.toml"
    file.write_text("[broker]\nenabled = false\n")
    file.chmod(0o600)
    assert found(home)["config"].state == "note"
    assert "OFF" in found(home)["config"].text
    file.write_text("[broker]\nenabeld = false\n")
    assert found(home)["config"].state == "bad"


def test_socket_and_peer(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without unix sockets, or that does not say who is there, is bad."""
    assert found(home)["socket"].state == found(home)["peer"].state == "ok"

    def stranger(connection: socket.socket) -> int | None:
        return None

    monkeypatch.setattr("broker.service.peer.peer_uid", stranger)
    assert found(home)["peer"].state == "bad"
    monkeypatch.delattr(probes.socket, "AF_UNIX")
    assert found(home)["socket"].state == "bad"


def test_storage(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that does not sync is bad."""
    assert found(home)["storage"].state == "ok"

    def fails(descriptor: int) -> None:
        raise OSError("no")

    monkeypatch.setattr(probes.os, "fdatasync", fails, raising=False)
    assert found(home)["storage"].state == "bad"


@pytest.mark.parametrize(
    ("script", "state", "said"),
    [
        ("echo '2.0.1 (Claude Code)'", "ok", "2.0.1 (Claude Code) at "),
        ("exit 1", "note", "does not say its version"),
    ],
)
def test_claude(home: Home, tmp_path: Path, script: str, state: str, said: str) -> None:
    """An agent that is installed is found, with its version; a broken one is no obstacle."""
    assert found(home)["claude"].state == "note"
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    finding = found(home)["claude"]
    assert finding.state == state
    assert said in finding.text


def test_python(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that is too old is bad."""
    monkeypatch.setattr(probes.sys, "version_info", (3, 10, 0))
    assert found(home)["python"].state == "bad"


def test_a_folder_that_cannot_be_written(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where receipts cannot be written that is bad; a missing configuration is nothing bad."""
    home.state.mkdir(mode=0o700)
    monkeypatch.setattr(probes.os, "access", lambda path, mode: False)
    findings = found(home)
    assert findings["state"].state == "bad"
    assert "BROKER_HOME" in findings["state"].text
    assert findings["data"].state == "bad"
    assert findings["config folder"].state == "ok"
