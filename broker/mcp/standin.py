"""
What stands in an MCP server's place in a replay: it says what the server said in the recording.

Decided here: how lines travel. Not decided here: which recorded answer is right
(``broker.replay.servers``), which messages pass (``broker.mcp.gateway``): the gateway stands in
front of this as it stood in front of the server, and decides all anew.

Rules a maintainer keeps: the server's program is not looked for; a question that cannot be asked is
answered with an error that says so.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import Final

from broker.capture.shellreplay import parts_of
from broker.errors import InputError
from broker.mcp.messages import REFUSED, failure, read_message
from broker.mcp.stdio import LineWriter, lines

ASK_S: Final = 120.0
_CHUNK: Final = 2**16


class StandIn:
    """
    A server of the recording, in the place of a ``ServerProcess``.

    Args:
        path: the socket where the recording is asked.
        server: the server's name.
    """

    def __init__(self, path: str, server: str) -> None:
        self._path = path
        self._server = server.encode()
        heard, to_us = os.pipe()
        from_us, said = os.pipe()
        self.input = LineWriter(os.fdopen(to_us, "wb"))
        self.output = os.fdopen(from_us, "rb")
        self._heard = os.fdopen(heard, "rb")
        self._said = os.fdopen(said, "wb")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def end(self) -> int:
        """Say no more, and return the exit code of a server that was let go."""
        self.input.close()
        self._thread.join(ASK_S)
        return 0

    def _serve(self) -> None:
        with self._heard, self._said:
            for line in lines(self._heard):
                for answer in self._asked(line):
                    self._said.write(answer + b"\n")
                self._said.flush()

    def _asked(self, line: bytes) -> list[bytes]:
        """Return what the server said to a message."""
        try:
            return self._parts(line)
        except (OSError, ValueError) as error:
            try:
                message = read_message(line)
            except InputError:
                return []
            if message.kind != "request":
                return []
            return [failure(message.id, REFUSED, f"the recording cannot be asked: {error}")]

    def _parts(self, line: bytes) -> list[bytes]:
        head = b'{"kind":"mcp","sizes":[%d,%d]}\n' % (len(self._server), len(line))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ASK_S)
            connection.connect(self._path)
            connection.sendall(head + self._server + line)
            found = bytearray()
            while data := connection.recv(_CHUNK):
                found += data
        if not found and read_message(line).kind == "request":
            raise ValueError("nothing is answered")
        return parts_of(bytes(found))
