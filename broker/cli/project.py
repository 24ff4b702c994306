"""
The scope that a project file gives where none was typed, and how a person accepts it.

Decided here: what a person is shown and asked, and that nobody is asked where nobody could answer:
then the command that accepts is named. Not decided here: what counts as accepted
(``broker.project``).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.cli.output import err, printable
from broker.errors import InputError
from broker.home import Home

if TYPE_CHECKING:
    from broker.project import Project

ACCEPTS: Final = "broker init --accept"
_YES: Final = ("y", "yes")


def project_scope(
    command: Sequence[str], workspace: Path, environ: Mapping[str, str], *, quiet: bool
) -> list[str]:
    """
    Return the scope texts of the workspace's project file, and say so; none where there is none.

    Raises:
        ConfigError: the file cannot be read or understood.
        InputError: it was not accepted, or has no scope for this command.
        PolicyError, ScopeError: a policy that it names is missing or malformed.
    """
    from broker.project import accept, accepted, load_project, spelled

    project = load_project(workspace)
    if project is None:
        return []
    home = Home.find(environ)
    texts = project.scope(command[0])
    if texts is None:
        name = os.path.basename(command[0])
        raise InputError(
            f"`{project.path}` has no scope for `{printable(name)}` and no default: "
            f"type --scope, or add one by `broker init --agent {printable(name)}`"
        )
    if accepted(project, home) is None:
        if not on_terminal():
            raise InputError(
                f"`{project.path}` was not accepted as it is now, and a scope that nobody typed "
                f"gives no authority: read it, then `{ACCEPTS}`, or type --scope"
            )
        outside_a_run(environ)
        show(project)
        if not agreed("use it from now on, until it changes?"):
            raise InputError("not accepted: type --scope")
        accept(project, home)
    flat = spelled(project, texts, policy_folders(home))
    if not quiet:
        err(f"broker: scope of `{printable(os.fspath(project.path))}`: {printable(' '.join(flat))}")
    return list(flat)


def outside_a_run(environ: Mapping[str, str]) -> None:
    """
    Refuse to accept anything inside a run.

    Raises:
        InputError: the environment is that of a run, where an agent may be the one that types.
    """
    from broker.service.client import SESSION_VARIABLE, SOCKET_VARIABLE

    if environ.get(SOCKET_VARIABLE) or environ.get(SESSION_VARIABLE):
        raise InputError("this is inside a run: only a person accepts a scope, in a shell outside")


def policy_folders(home: Home) -> tuple[Path, ...]:
    """Return where the person's own policies lie."""
    return (home.config / "policies",)


def show(project: Project) -> None:
    """Show a person on standard error all that would be accepted."""
    for name, text in project.files.items():
        err(f"── {printable(os.fspath(project.path.parent / name))}")
        for line in text.splitlines():
            err(f"   {printable(line)}")


def on_terminal() -> bool:
    """Whether there is a person who can read a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask a person; anything but a plain yes is a no."""
    return asked(f"{question} [y/N] ").lower() in _YES


def asked(question: str) -> str:
    """Return what a person answers, without blanks around it; nothing at the end of input."""
    sys.stderr.write(f"broker: {question}")
    sys.stderr.flush()
    return sys.stdin.readline().strip()
