"""
A recorded shell in a replay: it asks for what came of it then, and comes to that again.

Decided here: how a result is asked for and given. Not decided here: which result is right
(``broker.replay.results``).

What was written then is written again, each stream whole; what came between the two is not known.
A shell that a signal ended waits for that signal as long as it ran, since mostly it was the agent
that had no more patience, and then sends it to itself.

Rules a maintainer keeps: only modules that are compiled into the interpreter are imported; without
a whole answer the shell is refused, and never run.
"""

from __future__ import annotations

import posix
import time

TYPE_CHECKING = False  # as `typing` spells it: importing `typing` would cost more than the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ASK_S = 120.0  # in which an answer comes: a folder may have to be brought up to date
REFUSED = 126
MAX_ANSWER_BYTES = 2**26
CHUNK = 65_536


class GivenStream:
    """One stream of a result, as who tells the recorder wants it."""

    open = False

    def __init__(self, number: int, count: int, *, merged: bool) -> None:
        self.number = number
        self.count = count
        self.merged = merged


def replayed(
    path: bytes,
    recorder: bytes,
    words: list[bytes],
    streams: list[tuple[int, ...]],
    *,
    teller: Any,
    end: Callable[[int], None],
) -> None:
    """
    Come to what the recording says; return where the shell is to run.

    Args:
        path: of the socket where results are asked for.
        recorder: the path of the recorder's socket.
        words: what is run.
        streams: the descriptors that are listened to; two that are one file are one.
        teller: tells the recorder.
        end: ends this process as a shell ended, whose status is given; it does not return.
    """
    try:
        parts = _asked(path, words)
    except (ImportError, OSError, ValueError) as error:
        why = b"broker: the recording cannot be asked: %b\n" % str(error).encode("utf-8", "replace")
        parts = [b"exit %d 0" % REFUSED, b"", why]
    if parts[0] == b"own":
        return
    how, number, wait_ms = parts[0].split(b" ")
    status = int(number) if how == b"signal" else int(number) << 8
    teller.connect(recorder)
    teller.exec(posix.getpid(), words)
    given: dict[int, GivenStream] = {}
    for fd, content in ((1, parts[1]), (2, parts[2])):
        outer = next((each for each in streams if fd in each), None)
        if outer is None:
            _write(fd, content)  # a terminal, or closed
            continue
        stream = given.setdefault(outer[0], GivenStream(outer[0], 0, merged=len(outer) > 1))
        stream.count += len(content)
        teller.output(stream.number, content)
        _write(fd, content)
    teller.result(status, int(wait_ms), list(given.values()))
    teller.flush(2.0)
    if how == b"signal":
        time.sleep(int(wait_ms) / 1000)
    end(status)


def _asked(path: bytes, words: list[bytes]) -> list[bytes]:
    """
    Ask, and return the verdict and the two streams.

    Raises:
        OSError: nobody answers.
        ValueError: what is answered is not whole.
    """
    import _socket  # noqa: PLC0415 - not compiled in; a shell that is not run costs nothing else

    said = b"\0".join(words)
    try:
        cwd = posix.getcwdb()
    except OSError:
        cwd = b""  # the folder is gone
    made = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        made.settimeout(ASK_S)
        made.connect(path)
        made.sendall(b'{"kind":"shell","sizes":[%d,%d]}\n%b%b' % (len(said), len(cwd), said, cwd))
        found = b""
        while data := made.recv(CHUNK):
            found += data
            if len(found) > MAX_ANSWER_BYTES:
                raise ValueError("its answer is too long")
    finally:
        made.close()
    parts = parts_of(found)
    if len(parts) != 3:
        raise ValueError("its answer is not whole")
    return parts


def parts_of(answer: bytes) -> list[bytes]:
    """
    Return the parts of an answer, each of which stands behind its length.

    >>> parts_of(b"3\\nabc0\\n1\\nx")
    [b'abc', b'', b'x']

    Raises:
        ValueError: it is not whole.
    """
    found = []
    at = 0
    while at < len(answer):
        line = answer.index(b"\n", at)
        size = int(answer[at:line])
        at = line + 1 + size
        if size < 0 or at > len(answer):
            raise ValueError("its answer is not whole")
        found.append(answer[line + 1 : at])
    return found


def _write(fd: int, content: bytes) -> None:
    try:
        while content:
            content = content[posix.write(fd, content[:CHUNK]) :]
    except OSError:
        pass  # nobody reads it
