"""
The process that an agent's hook starts, put ready for one run.

Decided here: where the hook's client lies, how it is started, and the shell command around it
that refuses when it cannot even start. Not decided here: what the client does
(``broker.hookclient``), and how an agent is told of the command (its own room).

Rules a maintainer keeps: ``hook_command`` quotes what it is given, names the interpreter by an
absolute path, and ends in a refusal that the agent takes for one, whatever fails; nothing else of a
run's shells says a word, so every adapter with such a command takes ``quiet_shell`` along.
"""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.errors import LaunchError

CLIENT_NAME: Final = "hook.pyc"
DEADLINE_MS: Final = 15_000  # the hook's own, well within the time that every agent gives it
TIMEOUT_S: Final = 30  # what agents are told to give it
_STARTS_SHELLS: Final = ("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS")
FAILED: Final = "echo 'refused: the hook of the broker failed' >&2; exit 2"


def hook_command(client: Sequence[str], socket: Path, agent: str, *, failed: str = FAILED) -> str:
    """
    Return the shell command that an agent starts for each call.

    Args:
        client: how the client is started; see ``compiled_client``.
        socket: the session's socket.
        agent: the agent's name, by which the session knows how to answer.
        failed: shell commands that refuse when the client could not be started or failed.

    >>> hook_command(["/usr/bin/python3", "-I", "/x y/hook.pyc"], Path("/run/s"), "codex")[:48]
    "/usr/bin/python3 -I '/x y/hook.pyc' /run/s codex"
    """
    words = [*client, os.fspath(socket), agent, str(DEADLINE_MS)]
    return f"{shlex.join(words)} || {{ {failed}; }}"


def telling_command(client: Sequence[str], socket: Path, agent: str, *, waits: bool = True) -> str:
    """
    Return the shell command that an agent starts to tell of something that has happened already.

    It says nothing and never fails: a subagent that is told not to stop would go on for ever, and
    what has run cannot be refused.

    Args:
        client, socket, agent: those of ``hook_command``.
        waits: end when the session knows; without it the shell ends at once, for an agent that
            waits for its hooks and need not wait for this one.

    >>> telling_command(["/x/hook.pyc"], Path("/run/s"), "codex")
    '/x/hook.pyc /run/s codex 15000 >/dev/null 2>&1; :'
    """
    told = shlex.join([*client, os.fspath(socket), agent, str(DEADLINE_MS)])
    if waits:
        return f"{told} >/dev/null 2>&1; :"
    # A shell gives what it leaves in the background nothing to read, unless it is kept elsewhere.
    return f"exec 3<&0; {told} <&3 3<&- >/dev/null 2>&1 &"


def quiet_shell(environ: Mapping[str, str]) -> dict[str, str]:
    """
    Return the variables of an agent's run that keep the shell around its hook from saying anything.

    A line that a start-up file prints, or an option that keeps a shell from doing anything, would
    make an allow of a refusal: agents read one object from the hook, or none.

    >>> quiet_shell({"BASH_ENV": "~/.noisy", "PATH": "/bin"})
    {'BASH_ENV': ''}
    """
    return {name: "" for name in _STARTS_SHELLS if environ.get(name)}


def compiled_client(path: Path) -> tuple[str, ...]:
    """
    Put the hook's client into the session's folder, compiled, and return how it is started.

    Compiled ahead, and started without the site's modules by the interpreter itself rather than
    through an environment's link, it costs less than starting a bare interpreter and leaving it.

    Raises:
        OSError: it cannot be written.
        LaunchError: its source is not where this package lies.
    """
    found = importlib.util.find_spec("broker.hookclient")
    if found is None or found.origin is None:
        raise LaunchError("the hook's client is missing from this installation")
    try:
        py_compile.compile(
            found.origin,
            cfile=os.fspath(path),
            doraise=True,
            optimize=2,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    except py_compile.PyCompileError as error:
        raise LaunchError(f"the hook's client cannot be compiled: {error}") from error
    os.chmod(path, 0o600)
    return (interpreter(), "-I", "-S", os.fspath(path))


def interpreter() -> str:
    """Return the absolute path of the interpreter that runs us, without a detour by a venv."""
    base = getattr(sys, "_base_executable", "") or sys.executable
    return os.path.realpath(base) if os.access(os.path.realpath(base), os.X_OK) else sys.executable


def write_new(path: Path, content: bytes) -> None:
    """Make a new file, for this user only."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
