"""The terminal: what is shown, what is typed, and how much room there is."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import signal
import struct
import sys
import termios
import threading
from collections.abc import Iterator

import pytest

from broker.capabilities.terminal import FakeTerminal, Size, SystemTerminal

LINES = "one\n\ntwo\r\nthree"


def test_lines_are_read_until_there_are_none() -> None:
    """An empty line is a line, and the end of the input is none."""
    terminal = SystemTerminal(io.StringIO(LINES), io.StringIO(), io.StringIO())
    read = [terminal.read_line() for _ in range(6)]
    assert read == ["one", "", "two", "three", None, None]


def test_text_goes_where_it_belongs() -> None:
    """Results and errors go apart, and a prompt is shown before a line is read."""
    out, err = io.StringIO(), io.StringIO()
    terminal = SystemTerminal(io.StringIO("x\n"), out, err)
    terminal.write("result")
    terminal.write_error("error")
    assert terminal.read_line("? ") == "x"
    assert (out.getvalue(), err.getvalue()) == ("result? ", "error")


def test_text_that_the_terminal_cannot_show_is_shown_escaped() -> None:
    """Half a character of a model's text does not end the run."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, "ascii")
    SystemTerminal(io.StringIO(), out, io.StringIO()).write("é \ud800\n")
    assert raw.getvalue() == b"\\xe9 \\ud800\n"


def test_what_is_no_terminal_has_nobody_in_front_of_it() -> None:
    """A pipe is no terminal and has the usual size."""
    terminal = SystemTerminal(io.StringIO(), io.StringIO(), io.StringIO())
    assert (terminal.is_tty(), terminal.size()) == (False, Size(80, 24))


def test_a_stream_that_was_closed_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was started without input or output shows nothing and is told nothing."""
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    terminal = SystemTerminal()
    terminal.write("result")
    terminal.write_error("error")
    assert (terminal.is_tty(), terminal.read_line("? ")) == (False, None)
    assert terminal.size() == Size(80, 24)


@pytest.fixture
def real() -> Iterator[tuple[SystemTerminal, int]]:
    """A terminal of the system, and its other end."""
    other, own = pty.openpty()
    with open(own) as stdin, open(os.dup(own), "w") as stdout:
        yield SystemTerminal(stdin, stdout, stdout), other
    os.close(other)


def test_a_real_terminal_is_one(real: tuple[SystemTerminal, int]) -> None:
    """A line that is typed is read, what is shown arrives, and the room is the real one."""
    terminal, other = real
    assert terminal.is_tty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    assert terminal.size() == Size(100, 30)
    os.write(other, b"typed\n")
    assert terminal.read_line("? ") == "typed"
    shown = b""
    while b"? " not in shown:  # what is shown arrives in pieces
        shown += os.read(other, 100)


def test_a_change_of_the_room_is_told(real: tuple[SystemTerminal, int]) -> None:
    """Whoever asked is told of a change until they stop, and whoever was told before still is."""
    terminal, other = real
    seen: list[Size] = []
    before: list[int] = []
    previous = signal.signal(signal.SIGWINCH, lambda number, frame: before.append(number))
    try:
        stop = terminal.on_resize(seen.append)
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 20, 0, 0))
        os.kill(os.getpid(), signal.SIGWINCH)
        stop()
        os.kill(os.getpid(), signal.SIGWINCH)
    finally:
        signal.signal(signal.SIGWINCH, previous)
    assert seen == [Size(20, 10)]
    assert len(before) == 2


def test_in_another_thread_nothing_is_told() -> None:
    """Signals reach the main thread alone, and asking elsewhere changes nothing."""
    terminal = SystemTerminal(io.StringIO(), io.StringIO(), io.StringIO())
    handler = signal.getsignal(signal.SIGWINCH)

    def ask() -> None:
        terminal.on_resize(print)()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGWINCH) is handler


def test_the_fake_one_plays_its_script() -> None:
    """It types what it was given, keeps what it is shown, and changes its room on demand."""
    terminal = FakeTerminal(["yes"], tty=False, columns=40)
    seen: list[Size] = []
    stop = terminal.on_resize(seen.append)
    terminal.write("a")
    terminal.write_error("b")
    assert (terminal.read_line("? "), terminal.read_line("! ")) == ("yes", None)
    terminal.resize(50, 10)
    stop()
    stop()
    terminal.resize(60, 10)
    assert (terminal.shown, terminal.errors, terminal.is_tty()) == ("a? ! ", "b", False)
    assert (seen, terminal.size()) == ([Size(50, 10)], Size(60, 10))
