"""The process that carries a recorded shell's streams, part by part."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from broker.capture import shellwatch
from broker.capture.shellwatch import ShellStream, ShellTeller


def frames(told: socket.socket) -> list[dict[str, object]]:
    """Return the headers of what was told."""
    told.settimeout(5)
    with told.makefile("rb") as stream:
        found = []
        while line := stream.readline():
            header = json.loads(line)
            stream.read(sum(header["sizes"]))
            found.append(header)
        return found


def test_a_stream_is_carried_in_order(tmp_path: Path) -> None:
    """Nothing new is read before what is waiting has been written, and all is counted."""
    source, writer = os.pipe()
    reader, sink = os.pipe()
    stream = ShellStream(source, (sink,))
    os.write(writer, b"x" * 10_000)
    os.close(writer)
    assert len(stream.take()) == 10_000
    got = b""
    while stream.waiting:
        stream.give()
        got += os.read(reader, 65_536)
    assert stream.take() == b""
    assert (got, stream.count, stream.open) == (b"x" * 10_000, 10_000, False)
    os.close(reader)
    os.close(sink)


def test_a_sink_that_is_gone_closes_the_source() -> None:
    """Where nobody reads any more, the shell's end of the pipe is broken too."""
    source, writer = os.pipe()
    reader, sink = os.pipe()
    os.close(reader)
    stream = ShellStream(source, (sink,))
    os.write(writer, b"x")
    stream.take()
    stream.give()
    assert not stream.open
    with pytest.raises(BrokenPipeError):
        os.write(writer, b"x")
    os.close(writer)
    os.close(sink)


def test_what_is_told_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each stream, and of a command's words, no more than the limit is told."""
    monkeypatch.setattr(shellwatch, "MAX_KEPT_BYTES", 100)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "door"))
        listener.listen()
        teller = ShellTeller()
        teller.connect(os.fsencode(tmp_path / "door"))
        told, _ = listener.accept()
        teller.exec(5, [b"sh", b"-c", b"y" * 500])
        for _ in range(3):
            teller.output(1, b"x" * 60)
        teller.output(2, b"z" * 7)
        teller.result(3 << 8, 12, [])
        teller.flush(5)
        found = frames(told)
        told.close()
    assert [each["sizes"] for each in found] == [[100, len(os.getcwd())], [60], [40], [7], []]
    assert found[0]["bytes"] == 506
    assert found[-1] == {
        "kind": "shell.result", "exit_code": 3, "duration_ms": 12, "sizes": [],
    }  # fmt: skip


def test_without_a_recorder_telling_is_nothing(tmp_path: Path) -> None:
    """A recorder that is not there costs neither an error nor memory."""
    teller = ShellTeller()
    teller.connect(os.fsencode(tmp_path / "nowhere"))
    teller.output(1, b"x")
    teller.flush(5)
    assert teller.idle()
    assert teller.fileno() == -1
