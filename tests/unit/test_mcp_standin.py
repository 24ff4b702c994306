"""What stands in a server's place says what the recording says."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

from broker.mcp.messages import write
from broker.mcp.standin import StandIn
from tests.mcpkit import call, said


def _answers(path: Path, *lines: bytes) -> list[bytes]:
    """Answer everybody with the same lines, and return the list of what is asked."""
    asked: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(os.fspath(path))
    listener.listen(8)

    def serve() -> None:
        while True:
            link, _ = listener.accept()
            with link:
                asked.append(link.recv(65_536))
                link.sendall(b"".join(b"%d\n%b" % (len(line), line) for line in lines))

    threading.Thread(target=serve, daemon=True).start()
    return asked


def test_lines_travel_both_ways(tmp_path: Path) -> None:
    """A question is asked with the server's name, and each line of the answer comes out."""
    lines = [write({"jsonrpc": "2.0", "id": 1, "result": {"n": n}}) for n in (1, 2)]
    asked = _answers(tmp_path / "ask", *lines)
    server = StandIn(os.fspath(tmp_path / "ask"), "notes")
    server.input.send(call(1, "look"))
    assert [server.output.readline().rstrip(b"\n") for _ in lines] == lines
    assert asked[0].partition(b"\n")[2] == b"notes" + call(1, "look")
    assert server.end() == 0
    assert server.output.read() == b""


def test_nobody_to_ask_is_an_error(tmp_path: Path) -> None:
    """A request is answered with why it cannot be, and a notification with nothing."""
    server = StandIn(os.fspath(tmp_path / "nowhere"), "notes")
    server.input.send(said("notifications/initialized"))
    server.input.send(call(7, "look"))
    found = json.loads(server.output.readline())
    assert found["id"] == 7
    assert "the recording cannot be asked" in found["error"]["message"]
    server.end()
    _answers(tmp_path / "ask")
    silent = StandIn(os.fspath(tmp_path / "ask"), "notes")
    silent.input.send(call(8, "look"))
    assert "nothing is answered" in json.loads(silent.output.readline())["error"]["message"]
    silent.end()
