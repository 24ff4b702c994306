"""
The process that an agent's hook starts: it asks the session's socket, and refuses on any doubt.

    PYTHON -I -S hookclient.py SOCKET AGENT DEADLINE_MS    (the payload on standard input)

Decided here: nothing but that every failure is a refusal. The answer itself comes from
``broker.service.server``.

An allow prints nothing and exits with 0, so the agent's own permission rules still apply. A
refusal prints what the server gave. Whatever breaks here (no socket, a dead, slow or confused
server, an unreadable or huge payload) prints one denial in the shape that its agent reads,
and exits with 0; an agent whose shape is not known gets exit code 2 and a text on standard
error; and so does everyone when standard output cannot be written.

Rules a maintainer keeps: only modules that are compiled into the interpreter, and ``_socket``,
are imported, because this runs once per tool call and costs little more than starting Python;
one object is printed, or nothing; the deadline covers everything, the payload included. The
framing is that of ``broker.service.protocol``; a test holds the two equal.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # builtin without a stub: `signal` costs 1 ms
import posix
import sys

TYPE_CHECKING = False  # as `typing` spells it: importing `typing` would cost more than the rest
if TYPE_CHECKING:
    import _socket

MAX_REQUEST_BYTES = 64 * 2**20
ALLOW = b"answer/1 allow\n"
REFUSE = b"answer/1 refuse\n"
MAX_DEADLINE_MS = 600_000
RELATED = ("claude-code", "codex", "copilot-cli", "qwen-code")  # who read the shape of the first
STOPS = (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGINT)
CHUNK = 2**18

Printed = tuple[int, bytes, bytes]


class Doubt(Exception):
    """Why the session could not be asked, in a few plain words."""


def ask(path: str, agent: str, payload: bytes, deadline_s: float) -> Printed:
    """
    Ask the session behind the socket ``path`` and return exit code, output and error text.

    Raises:
        Doubt: the answer cannot be relied on.
        OSError: the socket failed or took longer than ``deadline_s`` for one step.
    """
    import _socket  # noqa: PLC0415 - a build without it must refuse, not end in a traceback

    request = b"hook " + agent.encode() + b"\n" + payload
    if len(request) > MAX_REQUEST_BYTES:
        raise Doubt("the call is larger than the broker reads")
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(deadline_s)
        connection.connect(path)
        connection.sendall(len(request).to_bytes(4, "big") + request)
        size = int.from_bytes(_exactly(connection, 4), "big")
        if size > MAX_REQUEST_BYTES:
            raise Doubt("the broker's answer is too long")
        body = _exactly(connection, size)
    finally:
        connection.close()
    return read_answer(body)


def read_answer(body: bytes) -> Printed:
    """
    Return exit code, output and error text of an answer's frame.

    Raises:
        Doubt: it is neither an allow nor a refusal that the agent would see as one.
    """
    if body == ALLOW:
        return 0, b"", b""
    if not body.startswith(REFUSE):
        raise Doubt("the broker's answer cannot be read")
    at = len(REFUSE)
    code = body[at : at + 1]
    out, at = _counted(body, at + 1)
    err, at = _counted(body, at)
    # A refusal that says nothing would pass for an allow.
    if at != len(body) or not ((code == b"\0" and out) or (code == b"\2" and err)):
        raise Doubt("the broker's answer cannot be read")
    return code[0], out, err


def denial(agent: str, reason: str) -> Printed:
    """Return the refusal for when the session cannot be asked. ``reason`` is our own words."""
    text = f"refused: {reason}; do not work around this; ask the person"
    if agent in RELATED:
        shape = (
            '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny",'
            f'"permissionDecisionReason":"{text}"}}}}\n'
        )
    elif agent == "gemini-cli":
        shape = f'{{"decision":"deny","reason":"{text}"}}\n'
    elif agent == "cline":
        shape = f'{{"cancel":true,"errorMessage":"{text}"}}\n'
    else:
        return 2, b"", text.encode() + b"\n"
    return 0, shape.encode(), b""


def _exactly(connection: _socket.socket, size: int) -> bytes:
    parts, left = [], size
    while left > 0:
        part = connection.recv(min(left, CHUNK))
        if not part:
            raise Doubt("the broker closed the connection")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _counted(body: bytes, at: int) -> tuple[bytes, int]:
    end = at + 4
    stop = end + int.from_bytes(body[at:end], "big")
    if stop > len(body):
        raise Doubt("the broker's answer cannot be read")
    return body[end:stop], stop


def _payload() -> bytes:
    parts, size = [], 0
    while part := posix.read(0, CHUNK):
        parts.append(part)
        size += len(part)
        if size > MAX_REQUEST_BYTES:
            raise Doubt("the call is larger than the broker reads")
    return b"".join(parts)


def _late(*_: object) -> None:
    raise Doubt("the broker did not answer in time")


def _stopped(*_: object) -> None:
    raise Doubt("the hook was told to stop")


def _answer(argv: list[str]) -> Printed:
    if len(argv) != 4 or not argv[3].isdecimal() or not 0 < int(argv[3]) <= MAX_DEADLINE_MS:
        raise Doubt("the hook was not started as the broker wrote it")
    deadline_s = int(argv[3]) / 1000
    for stop in STOPS:
        _signal.signal(stop, _stopped)
    _signal.signal(_signal.SIGALRM, _late)
    _signal.setitimer(_signal.ITIMER_REAL, deadline_s)
    return ask(argv[1], argv[2], _payload(), deadline_s)


def answered(argv: list[str]) -> Printed:
    """Return what to print for these arguments and this standard input; it never raises."""
    agent = argv[2] if len(argv) > 2 else ""
    try:
        try:
            return _answer(argv)
        except Doubt as doubt:
            return denial(agent, str(doubt))
        except BaseException:  # noqa: BLE001 - whatever breaks, the answer is refuse
            return denial(agent, "the broker could not be asked")
        finally:
            _signal.setitimer(_signal.ITIMER_REAL, 0)
            for stop in STOPS:
                _signal.signal(stop, _signal.SIG_IGN)  # what is printed, is printed whole
    except BaseException:  # noqa: BLE001 - the deadline or a signal, amid the lines above
        return denial(agent, "the broker did not answer in time")


def _write(descriptor: int, text: bytes) -> None:
    while text:
        text = text[posix.write(descriptor, text) :]


def main(argv: list[str]) -> int:
    """Ask, print the answer whole, and return the exit code."""
    code, out, err = answered(argv)
    try:
        _write(1, out)
        _write(2, err)
    except OSError:
        # Nobody reads the refusal there; the exit code says it too, and some agents take it
        # for a refusal only with a text beside it.
        return unprinted()
    return code


def unprinted() -> int:
    """Say on standard error that there is no answer, and return the exit code that refuses."""
    try:  # noqa: SIM105 - `contextlib` would be one import more
        _write(2, b"refused: the hook of the broker could not answer; ask the person\n")
    except OSError:
        pass
    return 2


if __name__ == "__main__":
    posix._exit(main(sys.argv))  # leaving at once saves the interpreter's farewell
