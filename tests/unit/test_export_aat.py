"""A receipt as an Agent Audit Trail: the draft's fields and chain, and a pointer in each record."""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import rfc8785

from broker.export import aat
from broker.export.source import Measure
from tests.exportkit import LINES, SID, home_at, lines_of, session

MANDATORY = {
    "record_id", "timestamp", "agent_id", "agent_version", "session_id", "action_type",
    "action_detail", "outcome", "trust_level", "parent_record_id", "prev_hash", "record_phase",
}  # fmt: skip
TYPES = {
    "tool_call", "tool_response", "decision", "delegation", "escalation", "error", "lifecycle",
}  # fmt: skip
OUTCOMES = {"success", "failure", "timeout", "denied", "escalated"}


@pytest.fixture
def trail(tmp_path: Path) -> list[dict[str, Any]]:
    """The trail of a session with an entry of each kind."""
    home = home_at(tmp_path)
    session(home)
    return [json.loads(line) for line in aat.records(lines_of(home), SID)]


def test_every_record_has_the_draft_s_fields(trail: list[dict[str, Any]]) -> None:
    """The twelve mandatory fields are there, with words that the draft knows."""
    assert len(trail) == LINES
    for record in trail:
        assert set(record) == MANDATORY
        assert record["action_type"] in TYPES
        assert record["outcome"] in OUTCOMES
        assert record["record_phase"] in {"pre_execution", "post_execution", "concurrent"}
        assert record["trust_level"] == "L0"
        assert str(UUID(record["record_id"])) == record["record_id"]
    assert len({record["record_id"] for record in trail}) == LINES
    assert len({record["session_id"] for record in trail}) == 1


def test_the_chain_is_the_draft_s(trail: list[dict[str, Any]]) -> None:
    """Each record names the one before it, and its hash over RFC 8785 by an independent writer."""
    assert (trail[0]["parent_record_id"], trail[0]["prev_hash"]) == (None, None)
    for before, record in pairwise(trail):
        assert record["parent_record_id"] == before["record_id"]
        assert record["prev_hash"] == sha256(rfc8785.dumps(before)).hexdigest()


def test_genesis_and_end(trail: list[dict[str, Any]]) -> None:
    """The first record starts the session and names the revision; the last holds the seal."""
    first, last = trail[0], trail[-1]
    assert (first["action_type"], first["record_phase"]) == ("lifecycle", "concurrent")
    assert first["action_detail"]["event"] == "session_start"
    assert first["action_detail"]["revision"] == "draft-sharif-agent-audit-trail-06"
    assert last["action_detail"]["event"] == "session_end"
    assert last["action_detail"]["seal"]["n"] == LINES - 1


def test_what_became_of_calls(trail: list[dict[str, Any]]) -> None:
    """Decisions come before an effect and may deny it; results are told after it."""
    allowed, told, refused = trail[3], trail[4], trail[5]
    assert (allowed["action_type"], allowed["outcome"]) == ("tool_call", "success")
    assert allowed["record_phase"] == "pre_execution"
    assert allowed["action_detail"]["parameters_hash"] == "cd" * 32
    assert (told["action_type"], told["record_phase"]) == ("tool_response", "post_execution")
    assert told["action_detail"]["response_hash"] == "ef" * 32
    assert (refused["outcome"], refused["action_detail"]["denied_by"]) == ("denied", "tools")
    assert refused["agent_id"] == "urn:capability-broker:agent:claude-code:helper"
    assert trail[10]["action_type"] == "error"


def test_each_record_points_to_its_line(trail: list[dict[str, Any]], tmp_path: Path) -> None:
    """Number, hash and leaf are those of the line."""
    measure = Measure()
    for record, line in zip(trail, lines_of(home_at(tmp_path)), strict=True):
        assert record["action_detail"]["receipt"] == {
            "leaf": sha256(b"\0" + line.raw).hexdigest(),
            "line": measure.lines,
            "sha256": line.entry.hash,
        }
        measure.add(line.raw)


def test_a_session_that_broke_off_did_not_end_well(tmp_path: Path) -> None:
    """A seal for another reason than completion is a failure, and an open session has no end."""
    home = home_at(tmp_path)
    session(home, "cut", seal="interrupted")
    session(home, "open", seal=None)
    cut = [json.loads(line) for line in aat.records(lines_of(home, "cut"), "cut")]
    still = [json.loads(line) for line in aat.records(lines_of(home, "open"), "open")]
    assert cut[-1]["outcome"] == "failure"
    assert "session_end" not in {record["action_detail"].get("event") for record in still}
