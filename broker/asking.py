"""
Where a person is asked, while an agent runs: at this terminal, or at another one.

Decided here: how a question reads, and where answers are taken from: from the terminal that
`broker run` was started at, where the agent has not drawn a screen on it, and from `broker answer`.
Not decided here: what becomes of a refusal (``broker.sessions.asking``).

Rules a maintainer keeps: an argument is shown whole, or with how much of it is not shown and a
digest of all of it; whatever a model wrote is escaped; keys that were typed before a question was
shown answer nothing; standard input is the agent's, so only the terminal itself is read.
"""

from __future__ import annotations

import json
import os
import select
import termios
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Final

from broker.errors import BrokerError, InputError
from broker.home import Home
from broker.intent import TypedLine
from broker.mailbox import Mailbox, Posted
from broker.receipt.display import escaped
from broker.receipt.keys import load_key
from broker.session import MAIN, Session
from broker.sessions.asking import AskingSession, Question
from broker.sessions.ground import key_path
from broker.telling import has_terminal

POLL_S: Final = 0.2
MAX_SHOWN_CHARS: Final = 4_000  # of one argument
HOW: Final = (
    "type `yes {code}` for this one call, `always {code}` for every call that is the same, "
    "`no {code}`, or `never` to be asked no more; behind it you may say why"
)


def check_asking(conceal: Sequence[str]) -> None:
    """
    Check that a person may be asked in a session that conceals these things.

    Raises:
        InputError: what is asked about is to be concealed.
    """
    if {"arguments", "all"} & {part.strip() for name in conceal for part in name.split(",")}:
        raise InputError(
            "what a person is asked about stands in the receipt: leave out `--ask`, or "
            "`--conceal arguments`"
        )


def asker_for(session: Session, home: Home, say: Callable[[str], object]) -> Asker | None:
    """
    Return what asks for a session: at our terminal, where the agent has not the screen, and
    elsewhere; None where the session asks nothing.

    Raises:
        UnverifiableError: the installation's key is unsafe.
    """
    if not isinstance(session, AskingSession):
        return None
    terminal = None
    if not has_terminal():
        with suppress(OSError):
            terminal = AskingTerminal()
    mailbox = Mailbox(session.folder, session.sid, load_key(key_path(home)))
    return Asker(session, mailbox, say, terminal)


def lines_of(question: Question) -> tuple[str, ...]:
    """
    Return a question as a person reads it, one line for each argument and place.

    >>> q = Question(1, "123456", "main", "pay", "bank", {"to": "B\\x1b"}, (), "`to` is not A", 0)
    >>> print(*lines_of(q), sep="\\n")
    question 1: may `pay` of server `bank` be called with exactly this?
        to = "B\\u001b"
        refused, since: `to` is not A
    """
    of = "" if question.server is None else f" of server `{question.server}`"
    who = "" if question.actor == MAIN else f", asked by {question.actor}"
    found = [
        f"question {question.number}: may `{question.tool}`{of} be called with exactly this?{who}"
    ]
    found += [f"    {name} = {_shown(value)}" for name, value in question.arguments.items()]
    for path in question.paths:
        place = path.places[-1].rstrip("/") or "." if path.places else "outside of the workspace"
        if place != path.spelled:
            found.append(f"    `{path.spelled}` leads to {place}")
    found.append(f"    refused, since: {question.reason}")
    return tuple(escaped(line) for line in found)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    more = len(text) - MAX_SHOWN_CHARS
    return f"{text[:MAX_SHOWN_CHARS]}… and {more} more characters, SHA-256 {digest} of all"


class AskingTerminal:
    """
    The terminal of this process, for questions; kept apart from standard input, the agent's.

    Raises:
        OSError: there is none.
    """

    def __init__(self, path: str = "/dev/tty") -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        if not os.isatty(self.fd):
            os.close(self.fd)
            raise OSError("not a terminal")
        self._rest = b""

    def show(self, lines: tuple[str, ...]) -> None:
        """Forget the keys that were pressed before, and show some lines."""
        with suppress(OSError, termios.error):
            termios.tcflush(self.fd, termios.TCIFLUSH)
        self._rest = b""
        self.say(lines)

    def say(self, lines: tuple[str, ...]) -> None:
        """Show some lines."""
        with suppress(OSError):
            os.write(self.fd, "".join(f"broker: {line}\n" for line in lines).encode())

    def line(self, wait_s: float) -> str | None:
        """Return the next line that is typed; None when none came in time."""
        if not self._in_front() or not select.select([self.fd], [], [], wait_s)[0]:
            return None
        read = os.read(self.fd, 4_096)
        self._rest = (self._rest + read)[-4_096:]
        line, newline, rest = self._rest.partition(b"\n")
        if not newline:
            return None
        self._rest = rest
        return line.decode("utf-8", "replace").rstrip("\r")

    def close(self) -> None:
        """Give the terminal back."""
        with suppress(OSError):
            os.close(self.fd)

    def _in_front(self) -> bool:
        try:
            return os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:
            return False


class Asker:
    """
    Asks the person on behalf of one session. ``begin`` once no process is forked any more.

    Args:
        session: whose questions they are.
        mailbox: where `broker answer` finds them.
        say: tells the person a line, where nothing is asked at this terminal.
        terminal: this process's, if the agent has not the screen; None: there is none to ask at.
    """

    def __init__(
        self,
        session: AskingSession,
        mailbox: Mailbox,
        say: Callable[[str], object],
        terminal: AskingTerminal | None,
    ) -> None:
        self._session, self._mailbox, self._say = session, mailbox, say
        self._terminal = terminal
        self._shown: dict[int, Question] = {}
        self._new: list[Question] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        """Begin to ask."""
        self._session.ask = self.ask
        self._thread.start()

    def end(self) -> None:
        """Ask no more; what is open stays refused."""
        self._session.ask = None
        self._over.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()
        for number in list(self._shown):
            self._mailbox.withdraw(number)
        if self._terminal is not None:
            self._terminal.close()

    def ask(self, question: Question) -> None:
        """Take a new question; returns at once."""
        with self._lock:
            self._new.append(question)
        self._wake.set()

    def _run(self) -> None:
        while not self._over.is_set():
            if not self._shown:
                self._wake.wait()  # nothing is open: nothing is looked for
            self._wake.clear()
            with self._lock:
                fresh, self._new = self._new, []
            for question in fresh:
                self._show(question)
            for line in self._mailbox.answers():
                self._take(line)
            typed = None
            if self._terminal is None:
                self._over.wait(POLL_S)
            else:
                typed = self._terminal.line(POLL_S)
            if typed is not None and typed.strip():
                self._take(typed)
            self._tidy()

    def _show(self, question: Question) -> None:
        self._shown[question.number] = question
        lines = lines_of(question)
        try:
            self._mailbox.post(Posted(question.number, question.code, os.getpid(), lines))
        except BrokerError as error:
            self._say(f"a question cannot be shown elsewhere: {error}")
        if self._terminal is not None:
            self._terminal.show((*lines, HOW.format(code=question.code)))
        else:
            self._say(
                f"question {question.number} about `{escaped(question.tool)}`: "
                f"`broker answer {self._session.sid[:8]}` at another terminal"
            )

    def _take(self, line: str) -> None:
        try:
            told = self._session.answered(TypedLine(line, "terminal"))
        except BrokerError as error:
            told = str(error)
        if self._terminal is not None:
            self._terminal.say((escaped(told),))
        else:
            self._say(told)

    def _tidy(self) -> None:
        """Show no more what has its answer."""
        still = {question.number for question in self._session.open_questions()}
        for number in [n for n in self._shown if n not in still]:
            self._mailbox.withdraw(number)
            del self._shown[number]
