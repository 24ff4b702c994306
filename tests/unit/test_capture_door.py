"""The recorder's door: who is heard, and that nobody who tells ever waits or breaks anything."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker.capture import door as module
from broker.capture.door import Door, read_frame
from broker.errors import InputError, LaunchError
from tests.worldkit import Recorded, eventually, recorded


@pytest.fixture
def run(tmp_path: Path) -> Recorded:
    """A run to tell."""
    return recorded(tmp_path)


@pytest.fixture
def door(run: Recorded, tmp_path: Path) -> Iterator[Door]:
    """A door that is open."""
    found = Door(run.writer, tmp_path / "door")
    found.bind()
    found.start()
    yield found
    found.stop()


def frame(kind: str, *parts: bytes, **fields: object) -> bytes:
    """Return a frame."""
    header = {"kind": kind, **fields, "sizes": [len(part) for part in parts]}
    return json.dumps(header).encode() + b"\n" + b"".join(parts)


def told(door: Door, *frames: bytes) -> socket.socket:
    """Connect, and tell."""
    made = socket.socket(socket.AF_UNIX)
    made.connect(str(door.path))
    made.sendall(b"".join(frames))
    return made


BEGIN = frame("shell.exec", b"sh\0-c\0x", b"/", pid=1, bytes=7)


def test_many_tell_at_once(run: Recorded, door: Door) -> None:
    """Fifty shells tell at the same time, and each is written whole."""

    def tell(number: int) -> None:
        out = frame("shell.output", str(number).encode(), stream=1)
        told(door, BEGIN, out, frame("shell.result", exit_code=number)).close()

    tellers = [threading.Thread(target=tell, args=(n,)) for n in range(50)]
    for each in tellers:
        each.start()
    for each in tellers:
        each.join()
    found = run.wait(50, "shell.result")
    outputs = {each["attrs"]["exit_code"]: run.payload(each)["stdout"] for each in found}
    assert outputs == {n: str(n) for n in range(50)}
    assert len({tuple(each["causes"]) for each in found}) == 50


def test_frames_may_come_in_any_pieces(run: Recorded, door: Door) -> None:
    """What is told byte by byte is read as what is told at once."""
    made = socket.socket(socket.AF_UNIX)
    made.connect(str(door.path))
    for at in range(len(BEGIN)):
        made.send(BEGIN[at : at + 1])
    made.sendall(frame("shell.result", exit_code=3))
    assert run.wait(1, "shell.result")[0]["attrs"]["exit_code"] == 3
    made.close()


@pytest.mark.parametrize(
    "said",
    [
        *(
            b"\n",
            b"[]\n",
            b"{}\n",
            b'{"kind":"shell.exec"}\n',
            b"\xff\xfe\n",
            b"{" * 70_000 + b"\n",
        ),
        *(b'{"sizes":[-1]}\n', b'{"sizes":[99999999999]}\n', b'{"sizes":["1"]}\n'),
        *(b'{"sizes":[0,0,0,0,0]}\n', b"x" * 200_000, b"[" * 60_000 + b"\n", b'{"sizes":[true]}\n'),
    ],
)
def test_nonsense_costs_its_teller_only(run: Recorded, door: Door, said: bytes) -> None:
    """One who tells nonsense is heard no further, which is told once; others are heard."""
    made = told(door)
    with suppress(OSError):  # the door may hang up while it is still told
        made.sendall(said + BEGIN)
    made.close()
    told(door, said[:5]).close()
    told(door, BEGIN, frame("shell.result", exit_code=0)).close()
    run.wait(1, "shell.result")
    eventually(lambda: bool(run.lines("error")))
    assert run.lines("error")[0]["attrs"]["kind"] == "door"
    assert len(run.lines("error")) == 1


def test_what_was_told_before_the_end_is_written(run: Recorded, tmp_path: Path) -> None:
    """Stopping hears out what lies in the sockets, and says of the rest that it runs still."""
    door = Door(run.writer, tmp_path / "door")
    door.bind()
    waiting = [told(door, BEGIN, frame("shell.result", exit_code=n)) for n in range(5)]
    waiting.append(told(door, BEGIN, frame("shell.output", b"so far", stream=1)))
    door.start()
    eventually(lambda: len(run.lines("shell.exec")) == 6)
    door.stop()
    found = run.lines("shell.result")
    assert [each["attrs"].get("left_running") for each in found].count(True) == 1
    assert len(found) == 6
    assert not door.path.exists()
    for each in waiting:
        each.close()


def test_stopping_waits_for_no_one_who_is_silent(door: Door) -> None:
    """A gateway that is still connected holds up the end of a run for a moment only."""
    made = told(door)
    time.sleep(0.05)
    began = time.monotonic()
    door.stop()
    assert time.monotonic() - began < 1
    made.close()


def test_a_trace_that_takes_no_more_breaks_nobody(run: Recorded, door: Door) -> None:
    """When the run can no longer be written, tellers are heard out and nothing else happens."""
    run.writer.seal(0)
    made = told(door, BEGIN, frame("shell.result", exit_code=0))
    made.close()
    eventually(lambda: not door._open)
    assert run.lines() == []


def test_the_socket_is_for_its_user_only(door: Door) -> None:
    """The socket's mode lets nobody else connect."""
    assert os.stat(door.path).st_mode & 0o777 == 0o600


def test_only_processes_of_this_user_are_heard(
    run: Recorded, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs as another user is hung up on."""
    monkeypatch.setattr(module, "is_own", lambda _: False)
    with suppress(OSError):  # it may be hung up on before it has said anything
        told(door, BEGIN).close()
    eventually(lambda: not door._open)
    assert run.lines() == []


def test_a_place_that_cannot_be_is_said(run: Recorded, tmp_path: Path) -> None:
    """A name that is too long for a socket, or taken, is an error before anything runs."""
    for path in (tmp_path / ("x" * 120), tmp_path):
        with pytest.raises(LaunchError):
            Door(run.writer, path).bind()


def test_a_frame_that_breaks_off_is_the_end() -> None:
    """A header or a part without its end is no frame, and no error."""
    for said in (b"", b'{"sizes":[', b'{"sizes":[5]}\nabc'):
        assert read_frame(io.BytesIO(said)) is None
    with pytest.raises(InputError):
        read_frame(io.BytesIO(b"no json\n"))
