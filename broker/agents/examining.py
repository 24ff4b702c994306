"""
Trying one agent of this machine: is it found, which version is it, and does it obey a refusal?

Decided here: that a trial has a home, a workspace and a session of its own, which nothing of the
person's receipts sees, and what is told of it. Not decided here: how a canary is played
(``broker.agents.canary``), and how the findings are shown (``broker.cli.agents``).

Rules a maintainer keeps: nothing that is made here stays; an agent that is not there, or that
could not be started as asked, is told apart from one that does not obey.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from broker.agents.adapter import PROGRAMS, Adapter, Launch, adapter_for
from broker.agents.canary import Rehearsal
from broker.child import Child
from broker.errors import BrokerError, LaunchError
from broker.home import Home
from broker.session import Session

Answer = Literal["held", "not held", "not known"]
_VERSION_S: Final = 20.0
_VERSION_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class Examined:
    """
    What was found of one agent.

    ``took_s`` is how long its canary took, in seconds, and ``helper_s`` that of its subagent; it
    is None where it has none.
    """

    agent: str
    answer: Answer = "not known"
    text: str = ""
    program: str = ""
    version: str = ""
    tested: str = ""
    point: str = ""
    took_s: float | None = None
    helper_s: float | None = None


def known() -> tuple[str, ...]:
    """
    Return the names of the programs that can be held.

    >>> "claude" in known(), "claude.exe" in known()
    (True, False)
    """
    return tuple(name for name in PROGRAMS if not name.endswith(".exe"))


def examine(command: str, environ: Mapping[str, str]) -> Examined:
    """
    Play the canary of an agent as it is set up for this user, in a workspace of its own.

    Must be called from the main thread, while no other thread runs.

    Args:
        command: the agent's program, by its name or its path.
        environ: the environment that it would be started in.
    """
    adapter = adapter_for([command])
    program = shutil.which(command, path=environ.get("PATH", os.defpath))
    name = adapter.name if adapter.point else command  # any command is alike, so say which one
    found = Examined(name, tested=adapter.tested, point=adapter.point)
    if program is None:
        return replace(found, text="it is not installed")
    if not adapter.point:
        return replace(found, text="it has no hook: it is held to what it asks", program=program)
    program = os.path.abspath(program)
    found = replace(found, program=program, version=version_of(program, environ))
    with tempfile.TemporaryDirectory(prefix="broker-trial-") as made:
        try:
            adapter.check([command, *adapter.trial], environ)
            took_s, helper_s = _played(
                adapter, command, program, environ, Path(os.path.realpath(made))
            )
        except LaunchError as error:
            return replace(found, answer="not held", text=str(error))
        except BrokerError as error:
            return replace(found, text=str(error))
    if took_s is None:
        return replace(found, text="it asks no model when it is started like this")
    text = "it obeyed a refusal" + (", and so did its subagent" if helper_s is not None else "")
    return replace(found, answer="held", text=text, took_s=took_s, helper_s=helper_s)


def version_of(program: str, environ: Mapping[str, str]) -> str:
    """Return what a program says of its version, on one line; nothing where it says nothing."""
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(environ),
            timeout=_VERSION_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    told = done.stdout.strip() or done.stderr.strip()  # pi says it where others warn
    return told.decode("utf-8", "replace").partition("\n")[0][:_VERSION_CHARS]


def _played(
    adapter: Adapter, command: str, program: str, environ: Mapping[str, str], root: Path
) -> tuple[float | None, float | None]:
    """Open a session for the trial alone, and play the canaries in it."""
    home = Home(root / "state", root / "data", root / "config", root / "run")
    workspace = root / "workspace"
    for folder in (home.runtime, workspace):
        folder.mkdir(mode=0o700)
    with Child() as child:
        own = adapter.own(environ)
        session = Session.open((), workspace=workspace, home=home, agent=adapter.name, own=own)
        typed = (command, *adapter.trial)
        launch = Launch(typed, environ, workspace, session.folder, home.runtime / "s")
        try:
            prepared = adapter.prepare(launch)
            trial = Rehearsal(session, adapter, launch, prepared, program, lambda: child.signalled)
            return trial.play(), trial.play_helper()
        except LaunchError:
            if child.signalled:
                raise KeyboardInterrupt from None
            raise
        finally:
            session.seal("interrupted")
