"""
The process beside a recorded shell: it carries the shell's streams and tells the recorder of it.

Decided here: in which order bytes go on, when a command's record ends, and what is told of it. Not
decided here: how the shell is started and ends (``broker.capture.shellshim``), what is written of
it (``broker.capture.door``).

A stream's bytes go on as they come, and none is read before those before it are written, so a slow
reader slows the shell as it would without us. The record of a command ends with its shell; what
something left behind writes later is carried, and not told.

Rules a maintainer keeps: nothing waits for the recorder, whose share is kept until it is taken and
has a limit; no write may wait for one stream's reader while another stream has bytes; whoever dies,
the shell does not go on without its parent.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # builtin without a stub: `signal` costs 1 ms
import posix
import time

TYPE_CHECKING = False  # as `typing` spells it: importing `typing` would cost more than the rest
if TYPE_CHECKING:
    import _socket
    from typing import Any

MAX_KEPT_BYTES = 2**20  # of each stream, and of the words of a command
MAX_FLUSH_S = 2.0  # at the end, for what the recorder has not taken yet
PIPE_BYTES = 4_096  # what a pipe that can be written takes without waiting (POSIX: PIPE_BUF)
CHUNK = 65_536
DRAINED = b"d"


def watch(
    shell: int,
    sources: list[tuple[int, tuple[int, ...]]],
    ends: tuple[int, int, int],
    *,
    began: float,
    recorder: bytes,
    words: list[bytes],
    signals: tuple[int, ...],
) -> None:
    """
    Carry a shell's streams until nobody writes any more.

    Args:
        shell: its number.
        sources: each pipe that it writes to, and the descriptors whose place that has taken.
        ends: where the parent says how the shell ended, and where it hears of signals and of the
            end of the streams.
        began: when the shell was started, by the monotonic clock.
        recorder: the path of the recorder's socket.
        words: what is run.
        signals: which signals are passed on by the parent.
    """
    carried = [ShellStream(source, outer) for source, outer in sources]
    ShellWatcher(shell, carried, ends, began, signals).watch(recorder, words)


def close_all_but(*kept: int) -> None:
    """Close every descriptor but some."""
    low = 0
    for fd in sorted({*kept}):
        posix.closerange(low, fd)
        low = fd + 1
    posix.closerange(low, 65_536)


class ShellStream:
    """One stream: a pipe that the shell writes to, and where its bytes belong."""

    def __init__(self, source: int, outer: tuple[int, ...]) -> None:
        self.source = source
        self.sink = outer[0]
        self.number = outer[0]  # 1 or 2; of both in one, the first
        self.merged = len(outer) > 1
        self.waiting = b""
        self.count = 0
        self.open = True
        self.plain = _stat_kind(self.sink) == 0o100000  # a regular file never makes one wait

    def take(self) -> bytes:
        """Read what is there; empty at the end."""
        data = posix.read(self.source, CHUNK)
        if not data:
            self.close()
        self.waiting = data
        self.count += len(data)
        return data

    def give(self) -> None:
        """Write as much as goes without waiting; a reader that left is gone for the shell too."""
        part = self.waiting if self.plain else self.waiting[:PIPE_BYTES]
        try:
            self.waiting = self.waiting[posix.write(self.sink, part) :]
        except OSError:
            self.waiting = b""
            self.close()

    def close(self) -> None:
        """Read no more: who writes on gets a broken pipe, as without us."""
        if self.open:
            self.open = False
            posix.close(self.source)


def _stat_kind(fd: int) -> int:
    return posix.fstat(fd).st_mode & 0o170000


class ShellWatcher:
    """The process beside the shell that carries its streams and tells of it."""

    def __init__(
        self,
        shell: int,
        carried: list[ShellStream],
        ends: tuple[int, int, int],
        began: float,
        signals: tuple[int, ...],
    ) -> None:
        self.shell = shell
        self.carried = carried
        self.status, self.heard, self.done = ends
        self.began = began
        self.signals = signals
        self.ended = False
        self.recorder = ShellTeller()

    def watch(self, recorder: bytes, words: list[bytes]) -> None:
        """Carry everything until nobody writes any more."""
        close_all_but(
            *(self.status, self.heard, self.done),
            *(each.source for each in self.carried),
            *(each.sink for each in self.carried),
        )
        for number in self.signals:
            if _signal.getsignal(number) is not _signal.SIG_IGN:
                _signal.signal(number, lambda n, _: posix.write(self.heard, bytes((n,))))
        self.recorder.connect(recorder)
        self.recorder.exec(self.shell, words)
        self._carry()
        for each in self.carried:
            posix.close(each.sink)  # whoever reads until the end has waited long enough
        self.recorder.flush(MAX_FLUSH_S)

    def _carry(self) -> None:
        import select  # noqa: PLC0415 - not compiled in; the shell runs already

        while not self.ended or any(each.open or each.waiting for each in self.carried):
            if self.ended and self.recorder.idle():
                self.recorder.close()
            ready = self._poll(select, None)
            for each in self.carried:
                if each.waiting and ready.get(each.sink):
                    each.give()
                elif each.open and not each.waiting and ready.get(each.source):
                    data = each.take()
                    if not self.ended:
                        self.recorder.output(each.number, data)
            if ready.get(self.recorder.fileno()):
                self.recorder.send()
            if not self.ended and ready.get(self.status) and self._drained(select):
                self._end()

    def _poll(self, select: Any, timeout_ms: int | None) -> dict[int, int]:
        poll = select.poll()
        if not self.ended:
            poll.register(self.status, select.POLLIN)
        for each in self.carried:
            if each.waiting:
                poll.register(each.sink, select.POLLOUT)
            elif each.open:
                poll.register(each.source, select.POLLIN)
        if not self.recorder.idle():
            poll.register(self.recorder.fileno(), select.POLLOUT)
        return dict(poll.poll(timeout_ms))

    def _drained(self, select: Any) -> bool:
        """Whether everything that the shell has written is where it belongs."""
        if any(each.waiting for each in self.carried):
            return False
        ready = self._poll(select, 0)
        return not any(each.open and ready.get(each.source) for each in self.carried)

    def _end(self) -> None:
        """The shell has ended, or its parent was killed: then it is, too."""
        said = posix.read(self.status, 16)
        if said:
            status = int(said)
        else:
            status = int(_signal.SIGKILL)
            try:  # noqa: SIM105 - `contextlib` costs more than all of this
                posix.kill(self.shell, _signal.SIGKILL)
            except OSError:
                pass  # it was quicker
        took_ms = int((time.monotonic() - self.began) * 1000)
        self.recorder.result(status, took_ms, self.carried)
        self.ended = True
        for number in self.signals:
            _signal.signal(number, _signal.SIG_IGN)  # whoever still writes may outlive them
        try:  # noqa: SIM105 - as above
            posix.write(self.done, DRAINED)
        except OSError:
            pass  # the parent is gone
        for fd in (self.status, self.heard, self.done):
            posix.close(fd)


class ShellTeller:
    """The way to the recorder: everything is kept until it is taken, and nothing waits for that."""

    def __init__(self) -> None:
        self._socket: _socket.socket | None = None
        self._waiting = bytearray()
        self._kept: dict[int, int] = {}

    def connect(self, path: bytes) -> None:
        """Connect at once, or not at all."""
        try:
            import _socket  # noqa: PLC0415 - not compiled in; the shell runs already

            made = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            made.setblocking(False)
            made.connect(path)
        except (ImportError, OSError):
            return
        self._socket = made

    def fileno(self) -> int:
        """Return the descriptor; -1 without one."""
        return -1 if self._socket is None else self._socket.fileno()

    def idle(self) -> bool:
        """Whether there is nothing to send."""
        return self._socket is None or not self._waiting

    def exec(self, pid: int, words: list[bytes]) -> None:
        """Tell what is run, and where."""
        said = b"\0".join(words)
        try:
            cwd = posix.getcwdb()
        except OSError:
            cwd = b""  # the folder is gone
        fields = b'"kind":"shell.exec","pid":%d,"bytes":%d' % (pid, len(said))
        self._add(fields, said[:MAX_KEPT_BYTES], cwd)

    def output(self, stream: int, data: bytes) -> None:
        """Tell what was written, up to the limit."""
        kept = self._kept.get(stream, 0)
        part = data[: MAX_KEPT_BYTES - kept]
        if part:
            self._kept[stream] = kept + len(part)
            self._add(b'"kind":"shell.output","stream":%d' % stream, part)

    def result(self, status: int, took_ms: int, carried: list[ShellStream]) -> None:
        """Tell how it ended."""
        if posix.WIFSIGNALED(status):
            fields = b'"signal":%d' % posix.WTERMSIG(status)
        else:
            fields = b'"exit_code":%d' % posix.WEXITSTATUS(status)
        fields += b',"duration_ms":%d' % took_ms
        for each in carried:
            name = b"stdout" if each.number == 1 else b"stderr"
            fields += b',"%s_bytes":%d' % (name, each.count)
            fields += b',"merged":true' if each.merged else b""
        if any(each.open for each in carried):
            fields += b',"left_running":true'
        self._add(b'"kind":"shell.result",' + fields)

    def _add(self, fields: bytes, *parts: bytes) -> None:
        if self._socket is None:
            return
        sizes = b",".join(b"%d" % len(part) for part in parts)
        self._waiting += b'{%s,"sizes":[%s]}\n' % (fields, sizes) + b"".join(parts)
        self.send()

    def send(self) -> None:
        """Send as much as is taken now."""
        if self._socket is None:
            return
        try:
            while self._waiting:
                del self._waiting[: self._socket.send(self._waiting[:CHUNK])]
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def flush(self, seconds: float) -> None:
        """Send the rest, for a while at most."""
        if self._socket is None:
            return
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(self._waiting)
        except OSError:
            pass
        self.close()

    def close(self) -> None:
        """Send no more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._waiting.clear()
