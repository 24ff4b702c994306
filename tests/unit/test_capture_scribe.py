"""What passed becomes events, in order, without a secret, whatever breaks."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from orca_trace import TraceReader

from broker.calls import Decision, Refusal
from broker.capabilities.clock import FakeClock
from broker.capture.passing import Passage
from broker.capture.scribe import Scribe
from broker.capture.tape import Tape
from broker.events import CallDecided, SessionSealed
from broker.loopback.script import Say
from broker.receipt.disk import Disk
from broker.records.failures import failed
from broker.trace.about import About, StartedBy
from broker.trace.bodies import rebuilt
from broker.trace.reader import RunReader
from broker.trace.writer import RunWriter
from tests.wirekit import PAIRS, TURN, answer, path, request

REFUSED = Decision(Refusal("tools", "Bash", "tool `Bash` is not in tools: read"))
KEY = "sk-ant-api03-" + "q9Zx7Lm2" * 8


class Desk:
    """A scribe, its run, and an agent whose requests it is told of."""

    def __init__(self, root: Path, name: str = "anthropic") -> None:
        about = About(StartedBy("sh"), ["sh"], "/w")
        self.run = RunWriter.create(root / "runs", about, clock=FakeClock(), randomness=bytes)
        self.root = root
        self.turns: list[int] = []
        self.scribe = Scribe(self.run, self.turns.append)
        self.name = name
        self.turn = 0

    def passes(self, body: object, said: str | bytes, **more: Any) -> Passage:
        """Tell of one request and its answer."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        told = said if isinstance(said, bytes) else said.encode()
        request_, answer_ = Tape(self.root), Tape(self.root)
        request_.take(memoryview(sent))
        answer_.take(memoryview(told))
        kind = {"content-type": "text/event-stream; charset=utf-8"}
        place = more.pop("path", path(self.name))
        passing = Passage(
            "m", more.pop("method", "POST"), place, more.pop("marks", {}), request_, answer_, 1_000
        )
        passing.status, passing.told = more.pop("status", 200), more.pop("told", kind)
        passing.first_ns, passing.ended_ns = 2_000_000, 5_000_000
        passing.failure = more.pop("failure", None)
        self.scribe.asked(passing)
        self.scribe.answered(passing)
        return passing

    def events(self) -> list[dict[str, Any]]:
        """End the run, and return its events, which an independent reader finds well-formed."""
        assert self.scribe.stop()
        self.run.seal(0)
        reader = TraceReader.open(self.run.folder)
        assert not reader.problems()
        assert reader.verify_integrity()
        lines = (self.run.folder / "events.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def written(self) -> bytes:
        """Return every byte of the run."""
        files = (each for each in self.run.folder.rglob("*") if each.is_file())
        return b"".join(each.read_bytes() for each in files)


def kinds(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return type, turn, causes and conversation of each event."""
    return [
        (e["type"], e["turn"], e.get("causes", []), e["attrs"].get("conversation")) for e in events
    ]


@pytest.mark.parametrize("name", PAIRS)
def test_a_conversation_becomes_events(tmp_path: Path, name: str) -> None:
    """Request, answer, calls; then their results, and the request that carries them."""
    desk = Desk(tmp_path, name)
    wire = PAIRS[name][1]
    first, second = request(name, "go"), request(name, "go", [(TURN, ["one", "two"])])
    desk.passes(first, answer(wire, TURN, "s-0", stream=True))
    desk.passes(second, answer(wire, Say("done"), "s-1", stream=True))
    events = desk.events()
    assert kinds(events) == [
        ("model.request", 1, [], "main"),
        ("model.response", 1, [0], "main"),
        ("tool.call", 1, [1], "main"),
        ("tool.call", 1, [1], "main"),
        ("tool.result", 2, [2], "main"),
        ("tool.result", 2, [3], "main"),
        ("model.request", 2, [4, 5], "main"),
        ("model.response", 2, [6], "main"),
    ]
    assert desk.turns == [1, 2]
    assert (desk.scribe.requests, desk.scribe.calls) == (2, 2)
    asked, heard, call = events[0]["attrs"], events[1]["attrs"], events[2]
    said = json.dumps(first).encode()
    assert (asked["sha256"], asked["bytes"]) == (hashlib.sha256(said).hexdigest(), len(said))
    assert (asked["api"], asked["model"], asked["tools"]) == (PAIRS[name][0].api, "m-1", 2)
    assert (heard["status"], heard["stream"], heard["output_tokens"]) == (200, True, 1)
    assert (heard["first_byte_us"], heard["duration_us"]) == (1_999, 4_999)
    assert (call["attrs"]["name"], call["payload"]) == ("read", {"path": "a"})
    reader = RunReader.open(desk.run.folder)
    assert rebuilt(reader, 6) == second
    assert json.loads(json.dumps(rebuilt(reader, 0))) == first


def test_a_decision_is_beside_its_call(tmp_path: Path) -> None:
    """A decision is a note that names its line of the receipt, and is caused by its call."""
    desk = Desk(tmp_path)
    wire = PAIRS["anthropic"][1]
    desk.passes(request("anthropic", "go"), answer(wire, TURN, "s-0", stream=True))
    decided = CallDecided(0, "sid", 7, "toolu_s-0-1", "Bash", "ticket", "main", REFUSED)
    desk.scribe.hear(decided)
    desk.scribe.hear(SessionSealed(0, "sid", "complete"))
    note = desk.events()[-1]
    assert (note["type"], note["causes"]) == ("note", [3])
    assert note["attrs"]["kind"] == "authority.decision"
    assert (note["attrs"]["n"], note["attrs"]["allowed"], note["attrs"]["caveat"]) == (
        7,
        False,
        "tools",
    )


def test_a_question_on_the_side_begins_no_turn(tmp_path: Path) -> None:
    """Only the main conversation has turns; a list of models is of no conversation at all."""
    desk = Desk(tmp_path)
    wire = PAIRS["anthropic"][1]
    desk.passes(
        b"",
        '{"data": []}',
        method="GET",
        path="/v1/models",
        told={"content-type": "application/json"},
    )
    desk.passes(
        request("anthropic", "a title", tools=[]), answer(wire, Say("x"), "s-0", stream=True)
    )
    desk.passes(request("anthropic", "go"), answer(wire, Say("x"), "s-0", stream=True))
    found = [
        (e["turn"], e["attrs"].get("conversation"), e["attrs"].get("api")) for e in desk.events()
    ]
    assert found[::2] == [
        (0, None, "other"),
        (0, "side-1", "anthropic.messages"),
        (1, "main", "anthropic.messages"),
    ]


@pytest.mark.parametrize(
    ("status", "body", "failure", "error"),
    [
        (529, '{"error":{"type":"overloaded_error","message":"no room"}}', None, "overloaded"),
        (401, '{"error":{"type":"authentication_error"}}', None, "auth"),
        (502, "", failed("network", "refused"), "network"),
        (None, "", failed("aborted", "the agent closed its connection"), "aborted"),
    ],
)
def test_what_came_to_nothing(
    tmp_path: Path, status: int | None, body: str, failure: Any, error: str
) -> None:
    """Each request has its answer in the trace, also where there was none, with the reason."""
    desk = Desk(tmp_path)
    desk.passes(request("anthropic", "go"), body, status=status, failure=failure, told={})
    asked, heard = desk.events()
    assert heard["causes"] == [asked["seq"]]
    assert heard["attrs"]["error"] == error
    assert heard["attrs"].get("status") == status


def test_calls_of_an_answer_that_was_cut(tmp_path: Path) -> None:
    """An agent may have run what came before the cut, so the calls in it are recorded."""
    desk = Desk(tmp_path)
    whole = answer(PAIRS["anthropic"][1], TURN, "s-0", stream=True)
    cut = whole[: whole.index("message_delta") - len("event: ")]
    desk.passes(request("anthropic", "go"), cut, failure=failed("network", "cut"))
    events = desk.events()
    assert [e["type"] for e in events] == [
        "model.request",
        "model.response",
        "tool.call",
        "tool.call",
    ]
    assert events[1]["attrs"]["error"] == "network"


@pytest.mark.parametrize("name", PAIRS)
def test_no_secret_is_written(tmp_path: Path, name: str) -> None:
    """A key in what is said, in a call or in its result, whole or cut in pieces, is nowhere."""
    desk = Desk(tmp_path, name)
    wire = PAIRS[name][1]
    turn = type(TURN)([("shell", {"cmd": f"curl -H 'x-api-key: {KEY}'"}), ("read", {"path": "a"})])
    desk.passes(request(name, f"my key is {KEY}"), answer(wire, turn, "s-0", stream=True))
    later = request(name, f"my key is {KEY}", [(turn, [f"ANTHROPIC_API_KEY={KEY}", "ok"])])
    desk.passes(later, answer(wire, Say(f"I saw {KEY}"), "s-1", stream=True))
    desk.passes(json.dumps(later).encode(), f'{{"error": "bad key {KEY}"}}', status=401)
    desk.events()
    written = desk.written()
    assert KEY.encode() not in written
    assert b"[hidden" in written


def test_bodies_that_are_packed(tmp_path: Path) -> None:
    """An encoding is undone for the record alone; one that cannot be is told."""
    desk = Desk(tmp_path)
    said = answer(PAIRS["anthropic"][1], TURN, "s-0", stream=True).encode()
    packed = gzip.compress(said)
    kind = {"content-type": "text/event-stream"}
    desk.passes(
        gzip.compress(json.dumps(request("anthropic", "go")).encode()), packed,
        marks={"content-encoding": "gzip"}, told={**kind, "content-encoding": "gzip"},
    )  # fmt: skip
    desk.passes(request("anthropic", "go"), b"\x00", told={**kind, "content-encoding": "br"})
    events = desk.events()
    assert events[0]["attrs"]["encoding"] == "gzip"
    assert events[1]["attrs"]["sha256"] == hashlib.sha256(packed).hexdigest()
    assert [e["type"] for e in events[2:4]] == ["tool.call", "tool.call"]
    assert "cannot be undone: br" in events[-1]["attrs"]["left_out"]


def test_what_is_too_long_is_told(tmp_path: Path) -> None:
    """A body that was not kept leaves its digest and the reason."""
    desk = Desk(tmp_path)
    passing = desk.passes(request("anthropic", "go"), "")
    passing.answer = Tape(tmp_path, kept_bytes=3)
    passing.answer.take(memoryview(b"more than that"))
    heard = desk.events()[1]
    assert heard["attrs"]["left_out"] == "it is longer than 3 bytes"
    assert heard["attrs"]["sha256"] == hashlib.sha256(b"more than that").hexdigest()
    assert "payload" not in heard


def test_what_is_no_conversation_is_recorded_as_it_is(tmp_path: Path) -> None:
    """A body that is no object, or no JSON, is a request all the same."""
    desk = Desk(tmp_path)
    for body in (b"[1]", b"hello", b"\xff\x00", b'{"messages": 7, "tools": {}}'):
        desk.passes(body, "no", status=400, told={"content-type": "text/plain"})
    assert [e["type"] for e in desk.events()] == ["model.request", "model.response"] * 4


def test_what_breaks_costs_one_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw is told in the trace, and what comes after it is written."""
    desk = Desk(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(desk.scribe._conversations, "asked", lambda *_: 1 // 0)
        desk.passes(request("anthropic", "go"), "")
        desk.scribe._queue.put(None)
        desk.scribe._write()
    desk.passes(
        request("anthropic", "go"), answer(PAIRS["anthropic"][1], Say("x"), "s-0", stream=True)
    )
    events = desk.events()
    assert [e["type"] for e in events] == ["error", "error", "model.request", "model.response"]
    assert events[0]["attrs"] == {"kind": "recorder", "error": "ZeroDivisionError"}


def test_a_full_disk_ends_the_trace_and_nothing_else(tmp_path: Path) -> None:
    """When nothing more can be written, the scribe goes on hearing and says nothing."""
    desk = Desk(tmp_path)

    def full(_: int, __: bytes) -> int:
        raise OSError(28, "No space left on device")

    desk.run._disk = Disk(write=full)
    wire = PAIRS["anthropic"][1]
    for _ in range(3):
        desk.passes(request("anthropic", "go"), answer(wire, TURN, "s-0", stream=True))
    assert desk.scribe.stop()
    assert desk.run.broken == "No space left on device"


def test_each_path_that_is_none_is_told_once(tmp_path: Path) -> None:
    """What was asked for and not passed on stands in the trace, without repeats and without end."""
    desk = Desk(tmp_path)
    for at in range(200):
        desk.scribe.unknown("POST", "/v1/files")
        desk.scribe.unknown("POST", f"/{at}")
    notes = [e["attrs"] for e in desk.events()]
    assert len(notes) == 64
    assert notes[0] == {"kind": "not passed on", "method": "POST", "path": "/v1/files"}
