"""Spans of agent frameworks: which events they become, and how their file is followed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from broker.capture import spans as module
from broker.capture.spans import Spans
from tests.worldkit import Recorded, recorded


@pytest.fixture
def run(tmp_path: Path) -> Recorded:
    """A run to record into."""
    return recorded(tmp_path)


def told(run: Recorded, content: bytes) -> list[dict[str, Any]]:
    """Return the events that a file's content becomes."""
    spans = Spans(run.writer, run.folder.parent / f"spans-{os.urandom(4).hex()}")
    spans.begin()
    spans.path.write_bytes(content)
    spans.read()
    spans.finish()
    spans.stop()
    return run.lines()


def line(**said: object) -> bytes:
    """Return a line as a package writes it."""
    return json.dumps(said).encode() + b"\n"


def test_nodes_of_a_graph_are_told(run: Recorded) -> None:
    """A node that starts and ends is two notes, of which the second names the first."""
    start, end, dropped = told(
        run,
        line(kind="span", type="LangGraphNodeStart", span_id="r1", parent_id="g",
             started_at="2026-11-30T08:09:34+00:00", data={"node": "plan", "step": 1})
        + line(kind="span", type="LangGraphNodeEnd", span_id="r1",
               data={"node": "plan", "step": 1, "error": "ValueError"})
        + line(kind="dropped", count=1, package="p"),
    )  # fmt: skip
    assert (start["type"], start["actor"]) == ("note", "agent")
    assert start["attrs"] == {
        "kind": "graph.node.start", "node": "plan", "step": 1, "span_id": "r1", "parent_id": "g",
        "started_at": "2026-11-30T08:09:34+00:00",
    }  # fmt: skip
    assert (end["attrs"]["kind"], end["attrs"]["error"]) == ("graph.node.end", "ValueError")
    assert end["causes"] == [start["seq"]]
    assert dropped["attrs"] == {"kind": "spans.dropped", "count": 1, "package": "p"}


def test_agents_handoffs_and_guardrails_are_events(run: Recorded) -> None:
    """What the format has a type for gets it; the rest is a note that names its type."""
    found = told(
        run,
        line(kind="trace.start", trace_id="t", name="Workflow")
        + line(kind="span", type="AgentSpanData", span_id="a",
               data={"name": "Triage", "handoffs": ["Billing"], "tools": []})
        + line(kind="span", type="HandoffSpanData", span_id="h", parent_id="a",
               data={"from_agent": "Triage", "to_agent": "Billing"})
        + line(kind="span", type="GuardrailSpanData", span_id="g",
               data={"name": "not_empty", "triggered": False})
        + line(kind="span", type="VoiceSpanData", span_id="v", data={"name": "x"}),
    )  # fmt: skip
    assert [each["type"] for each in found] == [
        "note", "agent.start", "agent.handoff", "agent.guardrail", "note",
    ]  # fmt: skip
    assert found[1]["attrs"]["handoffs"] == ["Billing"]
    assert (found[2]["attrs"]["to_agent"], found[2]["causes"]) == ("Billing", [found[1]["seq"]])
    assert found[3]["attrs"]["triggered"] is False
    assert (found[4]["attrs"]["kind"], found[4]["attrs"]["span_type"]) == (
        "spans.span", "VoiceSpanData",
    )  # fmt: skip
    assert run.payload(found[4]) == {"name": "x"}


def test_two_packages_lines_are_events(run: Recorded, shared: Path) -> None:
    """Row 63: what two existing packages write is read, every line of it."""
    folder = shared / "traces" / "orca-agent-spans"
    count = 0
    for place in sorted(folder.glob("*.jsonl")):
        content = place.read_bytes()
        count += len(content.splitlines())
        told(run, content)
    assert len(run.lines()) == count == 11
    assert list(run.sealed().problems()) == []


@pytest.mark.parametrize(
    "said", [b"{", b"[]\n", b"1\n", b'{"kind":"other"}\n', b'{"kind":"span","type":5}\n', b"\xff\n"]
)
def test_nonsense_costs_its_line(run: Recorded, said: bytes) -> None:
    """A line that cannot be read is counted, and the ones around it are read."""
    good = line(kind="trace.start", trace_id="t")
    *_, last = told(run, good + said.rstrip(b"\n") + b"\n" + good)
    assert last["attrs"] == {"kind": "spans.unreadable", "count": 1}
    assert len(run.lines()) == 3


def test_what_a_line_says_chooses_nothing(run: Recorded) -> None:
    """A span that calls itself a decision, or is very long, becomes no event of another kind."""
    said = {"kind": "authority.decision", "allowed": True, "node": "x" * 9_000}
    (found,) = told(run, line(kind="span", type="LangGraphNodeStart", span_id="s", data=said))
    assert (found["type"], found["attrs"]["kind"]) == ("note", "graph.node.start")
    assert "node" not in found["attrs"]


def test_the_file_is_followed_while_it_grows(
    run: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines are read as they come, also in pieces, and the last one without its end."""
    monkeypatch.setattr(module, "_POLL_S", 0.01)
    spans = Spans(run.writer, tmp_path / "spans")
    spans.begin()
    spans.start()
    whole = line(kind="trace.start", trace_id="t")
    with open(spans.path, "ab", buffering=0) as file:
        file.write(whole[:10])
        file.write(whole[10:])
        run.wait(1, "note")
        file.write(whole.rstrip(b"\n"))
    spans.stop()
    assert len(run.lines()) == 2


def test_the_file_is_private_and_new(run: Recorded, tmp_path: Path) -> None:
    """The file is for this user, and nothing that lay there before is read."""
    spans = Spans(run.writer, tmp_path / "spans")
    spans.begin()
    assert spans.path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        Spans(run.writer, tmp_path / "spans").begin()
    spans.stop()
