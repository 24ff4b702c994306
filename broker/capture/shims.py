"""
The folder of shims: what an agent finds when it asks for `sh`, `bash`, or the person's own shell.

Decided here: which names are shimmed, and how an agent comes to find them first. Not decided here:
what a shim does (``broker.capture.shellshim``).

A shell that is started by its whole path, ``/bin/sh``, is not seen, and ``docs/recording-world.md``
says so.

Rules a maintainer keeps: a shim that cannot do its work is the shell itself; nothing in the folder
can be written by another user; the folder's name holds nothing that a shell would read.
"""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker.agents.client import interpreter, write_new
from broker.agents.watch import stamp
from broker.errors import LaunchError
from broker.service.client import REPLAY_VARIABLE

NAMES: Final = ("sh", "bash", "zsh")
_OWN: Final = "own"  # a folder, which nobody finds by PATH
_PARTS: Final = ("shellshim", "shellwatch")
_REPLAYING: Final = "shellreplay"  # the part that only a replay needs
# The words behind the program: see `broker.capture.shellshim`. Whatever is missing, the shell runs.
_SHIM: Final = """\
#!/bin/sh
if [ -x {python} ] && [ -r {shim} ]; then
    exec {python} -I -S {shim} {folder} {shell} {real} {name} "${{LC_CTYPE-}}" "$@"
fi
exec {real} "$@"
"""


class Shims:
    """
    The shims of one run, in a folder that is made for them and removed with what it lies in.

    Args:
        place: a private folder, where ``bin`` is made.
        environ: the environment that the agent would have.
    """

    def __init__(self, place: Path, environ: Mapping[str, str]) -> None:
        self.folder = place / "bin"
        self._place = place
        self._environ = environ
        self._made: tuple[Path, ...] = ()
        self._stamp: tuple[object, ...] = ()

    def make(self) -> None:
        """
        Make the shims.

        Raises:
            LaunchError: this installation lacks a part of them, or they cannot be written.
        """
        try:
            self.folder.mkdir(mode=0o700)
            more = (_REPLAYING,) if self._environ.get(REPLAY_VARIABLE) else ()
            for part in (*_PARTS, *more):
                self._compiled(part)
            for name, real in self.shells().items():
                self._write(self.folder / name, real)
            if own := self._own():
                (self.folder / _OWN).mkdir(mode=0o700)
                self._write(self.folder / _OWN / os.path.basename(own), own)
        except OSError as error:
            raise LaunchError(f"shells cannot be recorded: {error.strerror or error}") from error
        self._made = tuple(p for p in sorted(self._place.rglob("*")) if p.is_file())
        self._stamp = stamp(self._made)

    def changed(self) -> str | None:
        """
        Return what is wrong if a shim is no more what we made, or None; cheap to ask all the time.

        An agent's hooks may be started by such a shell, so whoever could replace it could free it.
        """
        if stamp(self._made) == self._stamp:
            return None
        return f"a shell that stands for another in `{self.folder}` was changed"

    def shells(self) -> dict[str, str]:
        """Return which shells are shimmed: their names, and the files that are found by them."""
        path = self._environ.get("PATH", os.defpath)
        found = {name: shutil.which(name, path=path) for name in NAMES}
        return {name: os.path.abspath(real) for name, real in found.items() if real}

    def environ(self) -> dict[str, str]:
        """Return the variables by which an agent finds the shims first."""
        path = self._environ.get("PATH", os.defpath)
        found = {"PATH": f"{self.folder}{os.pathsep}{path}"}
        if own := self._own():
            found["SHELL"] = os.fspath(self.folder / _OWN / os.path.basename(own))
        return found

    def _own(self) -> str:
        """Return the person's own shell, if there is one: it need not be the first of its name."""
        own = self._environ.get("SHELL", "")
        able = os.path.isabs(own) and os.access(own, os.X_OK) and os.path.isfile(own)
        return own if able else ""

    def _compiled(self, part: str) -> None:
        """Put a part of the shims' program beside them, compiled: it is started very often."""
        found = importlib.util.find_spec(f"broker.capture.{part}")
        if found is None or found.origin is None:
            raise LaunchError("the shims of shells are missing from this installation")
        target = self._place / f"{part}.pyc"
        try:
            py_compile.compile(
                found.origin,
                cfile=os.fspath(target),
                doraise=True,
                optimize=2,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
        except py_compile.PyCompileError as error:
            raise LaunchError(f"the shims of shells cannot be compiled: {error}") from error
        os.chmod(target, 0o600)

    def _write(self, path: Path, real: str) -> None:
        words = {
            "python": interpreter(),
            "shim": os.fspath(self._place / "shellshim.pyc"),
            "folder": os.fspath(self.folder),
            "shell": self._environ.get("SHELL", ""),
            "real": real,
            "name": path.name,
        }
        text = _SHIM.format(**{key: shlex.quote(word) for key, word in words.items()})
        write_new(path, text.encode("utf-8", "surrogateescape"))
        os.chmod(path, 0o700)
