"""The folder of shims, and how an agent comes to find it first."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from broker.capture import shims as module
from broker.capture.shims import Shims
from broker.errors import LaunchError

PATH = os.environ.get("PATH", os.defpath)


def test_a_shell_is_found_in_the_folder_first(tmp_path: Path) -> None:
    """PATH begins with the shims, SHELL names one, and each starts the shell that it stands for."""
    shims = Shims(tmp_path, {"PATH": PATH, "SHELL": "/bin/sh"})
    shims.make()
    found = shims.environ()
    assert found["PATH"] == f"{tmp_path}/bin:{PATH}"
    assert found["SHELL"] == f"{tmp_path}/bin/own/sh"
    out = subprocess.run(
        ["sh", "-c", "echo $0"], env={**os.environ, **found}, capture_output=True, check=True
    )
    assert out.stdout == b"sh\n"


def test_a_persons_own_shell_has_a_shim(tmp_path: Path) -> None:
    """A shell of another name, outside of PATH, is shimmed by its name; one that is none is not."""
    own = tmp_path / "my shells" / "fi'sh"
    own.parent.mkdir()
    own.write_text('#!/bin/sh\nexec /bin/sh "$@"\n', encoding="utf-8")
    own.chmod(0o755)
    place = tmp_path / "it's here"
    place.mkdir()
    shims = Shims(place, {"PATH": PATH, "SHELL": str(own)})
    shims.make()
    assert shims.environ()["SHELL"] == f"{place}/bin/own/fi'sh"
    out = subprocess.run(
        [f"{place}/bin/own/fi'sh", "-c", "echo \"$1 $SHELL\"", "x", "a  'b'"],
        env={"PATH": PATH, "SHELL": f"{place}/bin/own/fi'sh"}, capture_output=True, check=True,
    )  # fmt: skip
    assert out.stdout.decode() == f"a  'b' {place}/bin/own/fi'sh\n"
    for none in ("", "relative/sh", str(tmp_path), "/nowhere/sh9"):
        assert "SHELL" not in Shims(tmp_path, {"PATH": PATH, "SHELL": none}).environ()


def test_shims_are_private(tmp_path: Path) -> None:
    """Nobody else can write a shim, or what it runs."""
    Shims(tmp_path, {"PATH": PATH, "SHELL": "/bin/sh"}).make()
    for each in (tmp_path / "bin", *(tmp_path / "bin").rglob("*"), *tmp_path.glob("*.pyc")):
        assert each.stat().st_mode & 0o077 == 0


def test_what_cannot_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is there, or an installation without its parts, is an error."""
    (tmp_path / "bin").mkdir()
    with pytest.raises(LaunchError, match="cannot be recorded"):
        Shims(tmp_path, {"PATH": PATH}).make()
    monkeypatch.setattr(module, "_PARTS", ("nothing",))
    with pytest.raises(LaunchError, match="missing from this installation"):
        Shims(tmp_path / "bin", {"PATH": PATH}).make()


def test_a_locale_is_handed_through(tmp_path: Path) -> None:
    """What the interpreter changes of the environment on its way does not reach the shell."""
    shims = Shims(tmp_path, {"PATH": PATH})
    shims.make()
    for given in ({}, {"LC_CTYPE": "POSIX"}):
        out = subprocess.run(
            [f"{tmp_path}/bin/sh", "-c", "echo ${LC_CTYPE-unset}"],
            env={"PATH": PATH, "BROKER_RECORDER": "/nowhere", **given},
            capture_output=True, check=True,
        )  # fmt: skip
        assert out.stdout.decode().strip() == given.get("LC_CTYPE", "unset")


def test_a_shim_that_is_changed_is_seen(tmp_path: Path) -> None:
    """A shim that is written, removed or opened to others is no more what was made."""
    for number, change in enumerate(
        (
            lambda shim: shim.write_bytes(shim.read_bytes()),
            lambda shim: shim.unlink(),
            lambda shim: shim.chmod(0o777),
        )
    ):
        place = tmp_path / str(number)
        place.mkdir()
        shims = Shims(place, {"PATH": PATH})
        shims.make()
        subprocess.run([shims.folder / "sh", "-c", "true"], check=True)
        assert shims.changed() is None
        change(shims.folder / "sh")
        assert "was changed" in (shims.changed() or "")
