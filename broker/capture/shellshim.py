"""
The process that stands in a shell's place: it starts the shell, and tells the recorder of it.

    PYTHON -I -S shellshim.pyc FOLDER SHELL REAL NAME LOCALE ARGUMENT...

FOLDER holds the shims, SHELL is what the person's ``SHELL`` was, REAL the shell's file, NAME what
it is called by, LOCALE the ``LC_CTYPE`` that the interpreter has changed on its way here.

Decided here: what an agent can tell a recorded shell from an unrecorded one by, which is as little
as can be: its exit code, the signal that ends it, the order and the moment of its bytes, its group
and its standard input are the shell's own. Not decided here: what is written
(``broker.capture.intake``).

Three processes: the shell; its **parent**, which has the number that the agent knows, passes
signals on and ends as the shell ended; and a **watcher** (``broker.capture.shellwatch``), which
carries the streams, outlives the shell when something that it left behind still writes, and kills
the shell when the parent was killed.

A shell that is given commands is recorded, one that runs a file is not, nor one on a terminal. A
shell that a recorded shell starts is part of what that one did: it finds ``PATH`` and ``SHELL`` as
the person has them, and costs nothing.

Rules a maintainer keeps: only modules that are compiled into the interpreter are imported before
the shell runs; nothing waits for the recorder; without one the shell runs as if we were not there.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # builtin without a stub: `signal` costs 1 ms
import posix
import sys
import time

TYPE_CHECKING = False  # as `typing` spells it: importing `typing` would cost more than the rest
if TYPE_CHECKING:
    from typing import Any, NoReturn

RECORDER = b"BROKER_RECORDER"
SESSION = b"BROKER_SESSION"
REPLAY = b"BROKER_REPLAY"  # where a replay gives the results of the recorded run
HOOK = b"/hook.pyc"  # behind the session's name: a hook of ours, and no command of the agent's
VALUED = (b"--rcfile", b"--init-file")  # the long options that take a value
GROUP_S = 0.01  # in which the watcher has a signal too, if it was for the whole group
PASSED_ON = tuple(
    getattr(_signal, name)
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM")
)


def main(arguments: list[str]) -> NoReturn:
    """Run a shell in its own place, recorded where somebody records."""
    folder, shell, real, name, locale, *rest = arguments
    environ = dict(posix.environ)
    if locale:
        environ[b"LC_CTYPE"] = _bytes(locale)
    else:
        environ.pop(b"LC_CTYPE", None)
    words = [_bytes(name), *map(_bytes, rest)]
    streams = _streams()
    if RECORDER in environ and streams and commands(words) and not _hook(words, environ):
        environ = restored(environ, _bytes(folder), _bytes(shell))
        if REPLAY in environ:
            teller = _part("shellwatch").ShellTeller()
            ask = environ[REPLAY], environ[RECORDER]
            _part("shellreplay").replayed(*ask, words, streams, teller=teller, end=_end)
        _recorded(_bytes(real), words, environ, streams)
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)  # which the interpreter has set to ignored
    posix.execve(_bytes(real), words, environ)


def _hook(words: list[bytes], environ: dict[bytes, bytes]) -> bool:
    """Whether a command runs the hook of this run."""
    session = environ.get(SESSION, b"")
    return session != b"" and any(session + HOOK in word for word in words)


def commands(words: list[bytes]) -> bool:
    """
    Whether a shell is given commands, by ``-c`` or on its standard input.

    One that runs a file is a program that happens to be written so: the agent itself may be one,
    or a server of its.

    >>> commands([b"bash", b"-lc", b"ls"]), commands([b"sh"]), commands([b"sh", b"-e", b"run.sh"])
    (True, True, False)
    """
    rest = iter(words[1:])
    for word in rest:
        if word[:1] not in (b"-", b"+") or word == b"-":
            return word == b"-"
        if word == b"--":
            return next(rest, None) is None
        if word[:2] == b"--":
            if word in VALUED:
                next(rest, None)
            continue
        if b"c" in word or b"s" in word:
            return True
        if b"o" in word or b"O" in word:
            next(rest, None)
    return True


def restored(environ: dict[bytes, bytes], folder: bytes, shell: bytes) -> dict[bytes, bytes]:
    """
    Return an environment as it would be without the shims.

    >>> restored({b"PATH": b"/s:/bin", b"SHELL": b"/s/sh"}, b"/s", b"/bin/zsh")
    {b'PATH': b'/bin', b'SHELL': b'/bin/zsh'}
    """
    if b"PATH" in environ:
        kept = [place for place in environ[b"PATH"].split(b":") if place != folder]
        environ[b"PATH"] = b":".join(kept)
    if environ.get(b"SHELL", b"").startswith(folder + b"/"):
        environ[b"SHELL"] = shell
    return environ


def _bytes(text: str) -> bytes:
    return text.encode(sys.getfilesystemencoding(), "surrogateescape")


def _streams() -> list[tuple[int, ...]]:
    """
    Return the descriptors to listen to; two that are one file are one, so that order is kept.

    A terminal is left alone: what runs there talks to a person.
    """
    found: dict[tuple[int, int], tuple[int, ...]] = {}
    for fd in (1, 2):
        try:
            place = posix.fstat(fd)
        except OSError:
            continue  # closed, and closed it stays
        if not posix.isatty(fd):
            key = place.st_dev, place.st_ino
            found[key] = (*found.get(key, ()), fd)
    return list(found.values())


# ── the parent ──


class _Parent:
    """The process that the agent knows: what it is sent, the shell is sent."""

    def __init__(self) -> None:
        self.shell = 0
        self.gone = False
        self.heard = -1  # where the watcher says which signals it got
        self.early: list[int] = []
        self.told = b""

    def catch(self) -> None:
        """Begin to pass signals on; one that was ignored stays ignored, in the shell too."""
        for number in PASSED_ON:
            if _signal.getsignal(number) is not _signal.SIG_IGN:
                _signal.signal(number, self._on)

    def started(self, shell: int, heard: int) -> None:
        self.heard = heard
        self.shell = shell
        for number in self.early:
            posix.kill(shell, number)

    def _on(self, number: int, _: object) -> None:
        if not self.shell:
            self.early.append(number)
        elif not self._of_the_group(number) and not self.gone:
            posix.kill(self.shell, number)

    def _of_the_group(self, number: int) -> bool:
        """Whether the watcher got it too: then it was for the group, and the shell has it."""
        until = time.monotonic() + GROUP_S
        while True:
            try:  # noqa: SIM105 - `contextlib` costs more than all of this
                self.told += posix.read(self.heard, 64)
            except BlockingIOError:
                pass
            at = self.told.find(bytes((number,)))
            if at >= 0:
                self.told = self.told[:at] + self.told[at + 1 :]
                return True
            if time.monotonic() > until:
                return False
            time.sleep(0.001)


def _part(name: str) -> Any:
    """Load a part that lies beside us: not before there is something for it to do."""
    place = sys.argv[0].rpartition("/")[0]
    if sys.path[:1] != [place]:
        sys.path.insert(0, place)
    return __import__(name)


def _recorded(
    real: bytes, words: list[bytes], environ: dict[bytes, bytes], streams: list[tuple[int, ...]]
) -> NoReturn:
    """Start the shell with pipes in the place of its streams, and end as it ends."""
    began = time.monotonic()
    parent = _Parent()
    parent.catch()
    pipes = [posix.pipe() for _ in streams]
    status_in, status_out = posix.pipe()
    heard_in, heard_out = posix.pipe()
    done_in, done_out = posix.pipe()
    posix.set_blocking(heard_in, False)
    actions: list[Any] = []
    for (_, inner), outer in zip(pipes, streams, strict=True):
        actions += [(posix.POSIX_SPAWN_DUP2, inner, fd) for fd in outer]
    shell = posix.posix_spawn(
        real, words, environ, file_actions=actions, setsigdef=[_signal.SIGPIPE, _signal.SIGXFSZ]
    )
    if not posix.fork():
        for _, inner in pipes:
            posix.close(inner)
        for fd in (status_out, heard_in, done_in):
            posix.close(fd)
        sources = [(pipe[0], outer) for pipe, outer in zip(pipes, streams, strict=True)]
        ends = status_in, heard_out, done_out
        try:
            _part("shellwatch").watch(
                shell,
                sources,
                ends,
                began=began,
                recorder=environ[RECORDER],
                words=words,
                signals=PASSED_ON,
            )
        finally:
            posix._exit(0)
    _close_all_but(status_out, heard_in, done_in)
    parent.started(shell, heard_in)
    _, status = posix.waitpid(shell, 0)
    parent.gone = True
    try:
        posix.write(status_out, b"%d" % status)
        posix.read(done_in, 1)
    except OSError:
        pass  # the watcher is gone: there is nothing to wait for
    _end(status)


def _end(status: int) -> NoReturn:
    """End as the shell ended."""
    if posix.WIFSIGNALED(status):
        number = posix.WTERMSIG(status)
        if posix.WCOREDUMP(status):
            import resource  # noqa: PLC0415 - the shell has left a core, and that is enough

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (_signal.SIGKILL, _signal.SIGSTOP):
            _signal.signal(number, _signal.SIG_DFL)
        posix.kill(posix.getpid(), number)
        time.sleep(1)  # a blocked signal would let us go on
    posix._exit(posix.WEXITSTATUS(status) if posix.WIFEXITED(status) else 1)


def _close_all_but(*kept: int) -> None:
    low = 0
    for fd in sorted(kept):
        posix.closerange(low, fd)
        low = fd + 1
    posix.closerange(low, 65_536)


if __name__ == "__main__":
    main(sys.argv[1:])
