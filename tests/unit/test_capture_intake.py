"""What tellers may tell, its limits, and the events that it becomes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from broker.capture import intake
from broker.capture.intake import Allowance, Intake
from broker.errors import InputError
from tests.worldkit import Recorded, recorded


@pytest.fixture
def run(tmp_path: Path) -> Recorded:
    """A run to tell."""
    return recorded(tmp_path)


def began(words: Sequence[bytes], cut: int = 0) -> tuple[Mapping[str, object], list[bytes]]:
    """Return the frame of a command that begins."""
    said = b"\0".join(words)
    kept = said[: len(said) - cut]
    return {"kind": "shell.exec", "pid": 7, "bytes": len(said)}, [kept, b"/place"]


def test_a_command_is_told_with_its_whole_words(run: Recorded) -> None:
    """A long command is shortened among the attributes and whole in the payload."""
    script = "echo " + "x" * 5_000
    Intake(run.writer, Allowance()).take(*began([b"sh", b"-c", script.encode()]))
    (found,) = run.lines("shell.exec")
    assert found["actor"] == "harness"
    assert found["attrs"]["argv"][:2] == ["sh", "-c"]
    assert len(found["attrs"]["argv"][2]) < 1_100
    assert run.payload(found) == {"argv": ["sh", "-c", script]}


def test_a_cut_command_says_so(run: Recorded) -> None:
    """Of a command that is longer than anybody tells, the end is left out, and that is told."""
    words = [b"sh", b"-c", b"y" * 20_000]
    Intake(run.writer, Allowance()).take(*began(words, cut=100))
    (found,) = run.lines("shell.exec")
    assert found["attrs"]["left_out"] == "of 20006 bytes, 100 at the end"
    assert len(run.payload(found)["argv"][2]) == 20_000 - 100 - 4_096


def test_a_cut_stream_ends_before_what_may_be_half_a_secret(run: Recorded) -> None:
    """Where a stream was cut, the last bytes before the cut are not kept."""
    told = Intake(run.writer, Allowance())
    told.take(*began([b"sh"]))
    for _ in range(20):
        told.take({"kind": "shell.output", "stream": 1}, [b"x" * 65_536])
    told.take({"kind": "shell.result", "exit_code": 0, "stdout_bytes": 20 * 65_536}, [])
    (found,) = run.lines("shell.result")
    assert len(run.payload(found)["stdout"]) == intake.MAX_STREAM_BYTES - 4_096
    assert found["attrs"]["stdout_left_out"] == 20 * 65_536 - intake.MAX_STREAM_BYTES + 4_096


def test_an_untold_end_is_a_kill_or_still_to_come(run: Recorded) -> None:
    """A teller that vanishes was killed; one that we hang up on is running still."""
    for running in (False, True):
        told = Intake(run.writer, Allowance(), monotonic=iter((10.0, 12.5)).__next__)
        told.take(*began([b"sh"]))
        told.take({"kind": "shell.output", "stream": 2}, [b"so far"])
        told.over(running=running)
        told.over(running=running)
    killed, left = run.lines("shell.result")
    assert killed["attrs"] == {
        "duration_ms": 2_500, "untold": True, "signal": "SIGKILL", "stderr_bytes": 6,
    }  # fmt: skip
    assert left["attrs"]["left_running"] is True
    assert "signal" not in left["attrs"]
    assert run.payload(left) == {"stdout": "", "stderr": "so far"}


@pytest.mark.parametrize(
    ("header", "parts"),
    [
        ({"kind": "model.request"}, []),
        ({"kind": "tool.call"}, [b"{}"]),
        ({"kind": "note"}, []),
        ({}, []),
        ({"kind": ["shell.exec"]}, [b"", b""]),
        ({"kind": "shell.exec", "pid": "7", "bytes": 1}, [b"x", b""]),
        ({"kind": "shell.exec", "pid": 7, "bytes": -1}, [b"x", b""]),
        ({"kind": "shell.exec", "pid": True, "bytes": 1}, [b"x", b""]),
        ({"kind": "shell.exec", "pid": 7, "bytes": 2**70}, [b"x", b""]),
        ({"kind": "shell.output", "stream": 1}, [b"x"]),
        ({"kind": "shell.result", "exit_code": 0}, []),
        ({"kind": "mcp.request", "server": 5}, [b"{}"]),
        ({"kind": "mcp.request", "server": "s"}, [b"{"]),
        ({"kind": "mcp.request", "server": "s"}, [b"[" * 100_000]),
        ({"kind": "mcp.response", "server": "s"}, [b"{}", b"{}"]),
    ],
)
def test_nothing_else_can_be_told(
    run: Recorded, header: Mapping[str, object], parts: list[bytes]
) -> None:
    """What is none of the known frames, or is malformed, is refused and writes nothing."""
    with pytest.raises(InputError):
        Intake(run.writer, Allowance()).take(header, parts)
    assert run.lines() == []


def test_one_teller_tells_one_command(run: Recorded) -> None:
    """A second command, and a second end, are refused."""
    told = Intake(run.writer, Allowance())
    told.take(*began([b"sh"]))
    with pytest.raises(InputError):
        told.take(*began([b"sh"]))
    told.take({"kind": "shell.result", "signal": 64}, [])
    with pytest.raises(InputError):
        told.take({"kind": "shell.result", "exit_code": 0}, [])
    assert run.lines("shell.result")[0]["attrs"]["signal"] == "SIGRTMAX"


def test_an_answer_is_caused_by_what_was_asked(run: Recorded) -> None:
    """Two directions may use one id: each answer names the request of its own."""
    told = Intake(run.writer, Allowance())
    for sender in ("client", "server"):
        fields = {"kind": "mcp.request", "server": "s", "sender": sender, "id": 1}
        told.take({**fields, "method": "ping"}, [b"{}"])
    for sender in ("server", "client"):
        fields = {"kind": "mcp.response", "server": "s", "sender": sender, "id": 1}
        told.take({**fields, "ok": True}, [json.dumps({"result": sender}).encode()])
    first, second = run.lines("mcp.request")
    assert [each["causes"] for each in run.lines("mcp.response")] == [
        [second["seq"]], [first["seq"]],
    ]  # fmt: skip
    assert run.lines("mcp.response")[0]["actor"] == "gateway"


def test_fields_that_are_not_known_are_left_out(run: Recorded) -> None:
    """A teller adds no attribute of its own, and no text of any length."""
    header = {
        "kind": "mcp.request", "server": "s" * 9_000, "allowed": "yes", "causes": [0],
        "tree": "x", "id": {"a": 1}, "notification": True,
    }  # fmt: skip
    Intake(run.writer, Allowance()).take(header, [b"{}"])
    (found,) = run.lines("mcp.request")
    assert set(found["attrs"]) == {"server", "notification"}
    assert len(found["attrs"]["server"]) < 1_100


def test_all_tellers_have_one_limit(run: Recorded) -> None:
    """Events, and bytes, are limited for all tellers of a run together."""
    allowance = Allowance(events=3, octets=100)
    Intake(run.writer, allowance).take(*began([b"sh"]))
    other = Intake(run.writer, allowance)
    other.take(*began([b"sh"]))
    with pytest.raises(InputError, match="more was told"):
        other.take({"kind": "shell.output", "stream": 1}, [b"x" * 200])
    with pytest.raises(InputError, match="more was told"):
        Intake(run.writer, allowance).take(*began([b"sh"]))
