"""
The terminal: lines to and from the person, and how much room there is.

Decided here: how a line is written and read. Not decided here: what is shown, and that text of a
model or a file is shown without control characters (``broker.harness.show``).

Rules a maintainer keeps: only ``read_line`` reads what a person types; the end of the input is
None and never an empty line, so that nobody who is not there has said anything.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from io import StringIO
from types import FrameType
from typing import ClassVar, NamedTuple, Protocol, TextIO


class Size(NamedTuple):
    """How much room a terminal has, in characters."""

    columns: int
    lines: int


class Terminal(Protocol):
    """What a person sees and types."""

    @property
    def kind(self) -> str:
        """Which terminal this is: ``real`` or ``fake``."""

    def write(self, text: str) -> None:
        """Show text where results go."""

    def write_error(self, text: str) -> None:
        """Show text where errors go."""

    def read_line(self, prompt: str = "") -> str | None:
        """Return the next line that is typed, without its end; None when there is none."""

    def is_tty(self) -> bool:
        """Whether a person sits at both ends: what is read and what is shown."""

    def size(self) -> Size:
        """Return how much room there is."""

    def on_resize(self, tell: Callable[[Size], object]) -> Callable[[], None]:
        """Tell of every change of the room; call what is returned to stop."""


class SystemTerminal:
    """The standard input, output and error of this process."""

    kind: ClassVar = "real"

    def __init__(
        self,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        # A process that was started with one of them closed has None there: nobody is there.
        self._in = stdin or sys.stdin or StringIO()
        self._out = stdout or sys.stdout or StringIO()
        self._err = stderr or sys.stderr or StringIO()
        for stream in (self._out, self._err):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace", line_buffering=True)

    def write(self, text: str) -> None:
        """Show text where results go."""
        self._out.write(text)

    def write_error(self, text: str) -> None:
        """Show text where errors go."""
        self._err.write(text)

    def read_line(self, prompt: str = "") -> str | None:
        """Return the next line that is typed, without its end; None when there is none."""
        if prompt:
            self._out.write(prompt)
            self._out.flush()
        line = self._in.readline()
        return line.removesuffix("\n").removesuffix("\r") if line else None

    def is_tty(self) -> bool:
        """Whether a person sits at both ends: what is read and what is shown."""
        return self._in.isatty() and self._out.isatty()

    def size(self) -> Size:
        """Return how much room there is; 80 by 24 where that cannot be told."""
        try:
            found = os.get_terminal_size(self._out.fileno())
        except (OSError, ValueError):
            return Size(80, 24)
        return Size(found.columns or 80, found.lines or 24)

    def on_resize(self, tell: Callable[[Size], object]) -> Callable[[], None]:
        """
        Tell of every change of the room; call what is returned to stop.

        Signals reach the main thread alone: from another one, and where there is no such signal,
        nothing is told.
        """
        if not hasattr(signal, "SIGWINCH") or not _in_main_thread():
            return lambda: None

        def resized(number: int, frame: FrameType | None) -> None:
            tell(self.size())
            if callable(before):
                before(number, frame)

        before = signal.signal(signal.SIGWINCH, resized)

        def stop() -> None:
            if signal.getsignal(signal.SIGWINCH) is resized:
                signal.signal(signal.SIGWINCH, before)

        return stop


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class FakeTerminal:
    """
    A terminal that types what a script says and keeps what it is shown.

    >>> terminal = FakeTerminal(["yes"])
    >>> terminal.read_line("sure? "), terminal.read_line(), terminal.shown
    ('yes', None, 'sure? ')
    """

    kind: ClassVar = "fake"

    def __init__(
        self, typed: Iterable[str] = (), *, tty: bool = True, columns: int = 80, lines: int = 24
    ) -> None:
        self.shown = ""
        self.errors = ""
        self._typed = deque(typed)
        self._tty = tty
        self._size = Size(columns, lines)
        self._told: list[Callable[[Size], object]] = []

    def write(self, text: str) -> None:
        """Keep text in ``shown``."""
        self.shown += text

    def write_error(self, text: str) -> None:
        """Keep text in ``errors``."""
        self.errors += text

    def read_line(self, prompt: str = "") -> str | None:
        """Return the next line of the script; None when it is over."""
        self.shown += prompt
        return self._typed.popleft() if self._typed else None

    def is_tty(self) -> bool:
        """Whether the test says that a person is there."""
        return self._tty

    def size(self) -> Size:
        """Return how much room there is."""
        return self._size

    def on_resize(self, tell: Callable[[Size], object]) -> Callable[[], None]:
        """Tell of every change of the room; call what is returned to stop."""
        self._told.append(tell)

        def stop() -> None:
            if tell in self._told:
                self._told.remove(tell)

        return stop

    def resize(self, columns: int, lines: int) -> None:
        """Change the room, as a person who drags a window's corner does."""
        self._size = Size(columns, lines)
        for tell in tuple(self._told):
            tell(self._size)
