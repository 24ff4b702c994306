"""A receipt as log records: OTLP's rules for JSON are kept, and each record points to its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker.export import otel
from tests.exportkit import LINES, SID, home_at, lines_of, session

SCOPE = "capability_broker.receipt"


@pytest.fixture
def records(tmp_path: Path) -> list[dict[str, Any]]:
    """The log records of a session with an entry of each kind."""
    home = home_at(tmp_path)
    session(home)
    (line,) = otel.batches(lines_of(home), SID)
    (resource,) = json.loads(line)["resourceLogs"]
    assert attributes(resource["resource"]) == {"service.name": "capability-broker"}
    (scope,) = resource["scopeLogs"]
    assert scope["scope"] == {"name": SCOPE}
    return scope["logRecords"]


def attributes(record: dict[str, Any]) -> dict[str, Any]:
    """Return attributes as a mapping; a name may stand only once."""
    found = {}
    for each in record["attributes"]:
        ((kind, value),) = each["value"].items()
        assert each["key"] not in found
        assert kind in ("stringValue", "intValue")
        assert isinstance(value, str)
        found[each["key"]] = value
    return found


def test_each_line_is_a_record(records: list[dict[str, Any]], tmp_path: Path) -> None:
    """Each record has the instant of its line in nanoseconds, as text, and points to the line."""
    lines = lines_of(home_at(tmp_path))
    assert len(records) == LINES
    for record, line in zip(records, lines, strict=True):
        assert record["timeUnixNano"] == record["observedTimeUnixNano"] == str(line.entry.at)
        told = attributes(record)
        assert told["session.id"] == SID
        assert told[f"{SCOPE}.line"] == str(line.entry.n)
        assert told[f"{SCOPE}.sha256"] == line.entry.hash
        assert record["eventName"] == f"{SCOPE}.{line.entry.kind}"


def test_a_refusal_is_a_warning(records: list[dict[str, Any]]) -> None:
    """What was refused, failed or went missing is a warning; all else is not."""
    warned = [i for i, record in enumerate(records) if record["severityNumber"] == 13]
    assert warned == [5, 8, 10]
    assert {record["severityText"] for record in records} == {"INFO", "WARN"}
    told = attributes(records[5])
    assert told["gen_ai.tool.name"] == "shell"
    assert told["gen_ai.tool.call.id"] == "c2"
    assert told[f"{SCOPE}.decision"] == "refuse"
    assert records[3]["body"] == {"stringValue": "allowed: read_file src/café.py"}


def test_nothing_in_a_body_moves_a_terminal(records: list[dict[str, Any]]) -> None:
    """Bodies are read in terminals too, so control characters are spelled out."""
    assert all(record["body"]["stringValue"].isprintable() for record in records)
    assert "\\u001b" in records[5]["body"]["stringValue"]


def test_records_point_and_do_not_testify(records: list[dict[str, Any]]) -> None:
    """Argument digests, tickets' chains and outputs stay in the receipt."""
    text = json.dumps(records)
    assert "cd" * 32 not in text
    assert "ef" * 32 not in text
    assert "chain" not in text


def test_batches_are_of_limited_size(tmp_path: Path) -> None:
    """A long receipt becomes many lines, each a document of its own."""
    home = home_at(tmp_path)
    session(home, more=2 * otel.BATCH)
    sizes = [
        len(json.loads(line)["resourceLogs"][0]["scopeLogs"][0]["logRecords"])
        for line in otel.batches(lines_of(home), SID)
    ]
    assert sizes == [otel.BATCH, otel.BATCH, LINES]
