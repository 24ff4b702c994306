"""Telling the recorder: at once, or not at all."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

from broker.capture.door import Door
from broker.capture.telling import MAX_WAITING, RecorderClient
from tests.worldkit import eventually, recorded

FIELDS = {"kind": "mcp.request", "server": "s", "method": "ping", "id": 1}


def test_what_is_told_is_written(tmp_path: Path) -> None:
    """Messages arrive at the door, in order, before the teller is closed."""
    run = recorded(tmp_path)
    door = Door(run.writer, tmp_path / "door")
    door.bind()
    door.start()
    made = RecorderClient.find({"BROKER_RECORDER": str(door.path)})
    assert made is not None
    for number in range(20):
        made.tell({**FIELDS, "id": number}, json.dumps({"n": number}).encode())
    made.tell({**FIELDS, "left_out": "1 bytes"}, None)
    made.close()
    found = run.wait(21, "mcp.request")
    assert [run.payload(each) for each in found[:20]] == [{"n": n} for n in range(20)]
    assert (made.left_out, found[20].get("payload")) == (0, None)
    door.stop()


def test_a_recorder_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    """Without a recorder, and with one that has gone, telling returns at once."""
    assert RecorderClient.find({}) is None
    made = RecorderClient(str(tmp_path / "nowhere"))
    eventually(lambda: made._gone)
    made.tell(FIELDS, b"{}")
    made.close()
    assert made.left_out == 1


def test_a_recorder_that_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    """When nobody reads, what does not fit is counted, and nobody waits."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "door"))
        listener.listen(1)
        made = RecorderClient(str(tmp_path / "door"))
        began = time.monotonic()
        for _ in range(2 * MAX_WAITING):
            made.tell(FIELDS, b"x" * 100_000)
        assert time.monotonic() - began < 5
        assert made.left_out >= MAX_WAITING - 10
