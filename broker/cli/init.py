"""
`broker init`: write a project file, and accept one.

Decided here: what is asked, what flags answer beforehand, and that nothing is written or accepted
inside a run, where an agent could be the one that types. Not decided here: what the file means, and
what counts as accepted (``broker.project``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from broker.cli import completing
from broker.cli.exits import ALLOWED
from broker.cli.output import out, printable
from broker.cli.project import (
    ACCEPTS,
    agreed,
    asked,
    on_terminal,
    outside_a_run,
    policy_folders,
    show,
)
from broker.cli.typed import Workspace, existing_folder
from broker.errors import InputError, StoreError
from broker.home import Home

if TYPE_CHECKING:
    from broker.project import Project

EXAMPLES: Final = """\
\b
Examples:
  broker init                                  asks which agent, and what it may do
  broker init --agent claude --scope @fix-tests --scope until=45m --yes
  broker init --scope 'paths=src/**' --scope calls=60 --print
  broker init --accept                         read what is there, and accept it

\b
The file is .broker/broker.toml, with one scope for each agent's program and one for all others
(`default`); policies beside it, in .broker/policies, can be named in it. `broker run` uses it
where no --scope is typed, as long as it says exactly what you accepted. What you write here is
accepted at once; what came with a clone, or was changed, is asked about, and where there is no
terminal it is refused until `broker init --accept`. No tool ever writes that folder.

\b
Exit code: 0 written, accepted, or printed; 2 bad input, or nothing was done.
"""


def init(
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            metavar="PROGRAM",
            help="Whom the scope is for, such as claude. Give it again for more.",
            show_default="every agent without a line of its own",
            autocompletion=completing.programs,
        ),
    ] = None,
    *,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="KEY=VALUE",
            help="What it may do: KEY=VALUE, or @NAME for a policy. Give it again for more.",
            autocompletion=completing.scope_texts,
        ),
    ] = None,
    workspace: Workspace = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Accept the file that is there, as it is now.")
    ] = False,
    print_: Annotated[
        bool, typer.Option("--print", help="Print the file, and write nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Answer yes to every question.")] = False,
) -> int:
    """Write the project file that gives `broker run` its scope, or accept the one that is there."""
    from broker.project import load_project

    outside_a_run(os.environ)
    folder = Path(existing_folder(workspace))
    home = Home.find(os.environ)
    project = load_project(folder)
    if accept:
        if agent or scope or print_:
            raise InputError("--accept takes the file as it is: leave the other options out")
        return _accept(project, folder, home, yes=yes)
    return _write(project, folder, home, agent or [], scope or [], just_print=print_, yes=yes)


def _accept(project: Project | None, folder: Path, home: Home, *, yes: bool) -> int:
    from broker.project import accept, accepted, project_path

    if project is None:
        raise InputError(
            f"there is no `{project_path(folder)}` to accept: write it by `broker init`"
        )
    _check(project, home)
    if accepted(project, home) is not None:
        out(f"accepted already: {printable(os.fspath(project.path))}")
        return ALLOWED
    show(project)
    _confirm("accept this?", yes=yes)
    accept(project, home)
    out(f"accepted: {printable(os.fspath(project.path))}")
    return ALLOWED


def _write(
    project: Project | None,
    folder: Path,
    home: Home,
    agents: Sequence[str],
    texts: Sequence[str],
    *,
    just_print: bool,
    yes: bool,
) -> int:
    from broker.project import FILE_NAME, accept, accepted, load_project, parse_project, written

    before = project.scopes if project is not None else {}
    if project is not None and not just_print and accepted(project, home) is None:
        # Else its other lines would be accepted along with the new one.
        raise InputError(
            f"`{project.path}` is there and was not accepted: read it, then `{ACCEPTS}`, or "
            "remove it"
        )
    names = agents or _ask_agent(yes=yes)
    given = texts or _ask_scope(names, yes=yes)
    scopes = {**before, **{name: tuple(given) for name in names}}
    text = written(scopes)
    files = {**(project.files if project is not None else {}), FILE_NAME: text}
    made = parse_project(folder, files)
    _check(made, home)
    if just_print:
        out(text.rstrip("\n"))
        return ALLOWED
    if project is not None and project.files[FILE_NAME] != text:
        show(made)
        _confirm(f"write this over `{printable(os.fspath(project.path))}`?", yes=yes)
    _put(made.path, text)
    now = load_project(folder)
    if now is None or now.files != files:
        raise StoreError(f"`{made.path}` was changed by somebody while it was written: try again")
    accept(now, home)
    used = "any agent" if "default" in names else ", ".join(names)
    out(f"written and accepted: {printable(os.fspath(made.path))}")
    out(f"`broker run -- …` uses it for {printable(used)} where no --scope is typed")
    return ALLOWED


def _check(project: Project, home: Home) -> None:
    """Read every scope as a run would, so that no file is accepted that could not be used."""
    import time

    from broker.catalogs import load_catalogs
    from broker.project import spelled
    from broker.scope import parse_scope

    groups = load_catalogs(project.workspace, home.config).groups()
    for texts in project.scopes.values():
        parse_scope(spelled(project, texts, policy_folders(home)), at=time.time_ns(), groups=groups)


def _ask_agent(*, yes: bool) -> list[str]:
    from broker.agents.adapter import PROGRAMS

    if yes or not on_terminal():
        return ["default"]
    known = ", ".join(name for name in PROGRAMS if not name.endswith(".exe"))
    return [asked(f"for which agent? ({known}; nothing for all) ") or "default"]


def _ask_scope(names: Sequence[str], *, yes: bool) -> list[str]:
    if yes or not on_terminal():
        raise InputError("say what it may do: --scope KEY=VALUE, or --scope @NAME for a policy")
    out(f"What may {printable(' and '.join(names))} do? One text a line, such as paths=src/**,")
    out("calls=60 or @review (`broker policy list` names the policies). An empty line ends it.")
    texts: list[str] = []
    while text := asked("> "):
        texts.append(text)
    if not texts:
        raise InputError("nothing was typed, and nothing was written")
    return texts


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not on_terminal():
        raise InputError(f"{question} there is no terminal to ask on: read it, then give --yes")
    if not agreed(question):
        raise InputError("nothing was written or accepted")


def _put(path: Path, text: str) -> None:
    """Write the project file whole or not at all."""
    from broker.receipt.disk import Disk, said

    try:
        path.parent.mkdir(exist_ok=True)
        Disk().replace(path, text.encode())
    except OSError as error:
        raise StoreError(f"`{path}` cannot be written: {said(error)}") from error
