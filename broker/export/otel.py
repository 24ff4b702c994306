"""
A receipt as OpenTelemetry log records: OTLP JSON, one ``LogsData`` object a line.

Decided here: which record stands for a line, and its names. A record is a pointer: enough to
search and to alert by, and the line's number and hash to find the evidence with. Arguments,
tickets and outputs stay in the receipt.

Rules a maintainer keeps, which OTLP sets for JSON: names in lowerCamelCase, 64-bit integers as
decimal text, enumerations as numbers, no attribute without a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from broker.export.fields import PRODUCT, refused, subjects, text, wording
from broker.export.source import Line
from broker.receipt.display import escaped
from broker.receipt.entry import Entry, canonical

BATCH: Final = 100  # records in one line: what a collector takes at once
SCOPE: Final = "capability_broker.receipt"

_INFO: Final = (9, "INFO")
_WARN: Final = (13, "WARN")
_UNUSUAL: Final = frozenset(("dropped", "recover", "redact", "revoke"))

# The names of the semantic conventions where they have one, and names of ours elsewhere.
_NAMES: Final = (
    ("tool", "gen_ai.tool.name"),
    ("call", "gen_ai.tool.call.id"),
    ("decision", f"{SCOPE}.decision"),
    ("answer", f"{SCOPE}.permission"),
    ("caveat", f"{SCOPE}.caveat"),
    ("enforcement", f"{SCOPE}.enforcement"),
    ("actor", f"{SCOPE}.actor"),
    ("ticket", f"{SCOPE}.ticket"),
)


def batches(lines: Iterable[Line], sid: str) -> Iterator[bytes]:
    """Yield lines of up to ``BATCH`` records each."""
    coming = iter(lines)
    while batch := list(islice(coming, BATCH)):
        records = [_record(line.entry, sid) for line in batch]
        scope = {"scope": {"name": SCOPE}, "logRecords": records}
        resource = {"attributes": [_attribute("service.name", PRODUCT)]}
        document = {"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]}
        yield canonical(document).encode() + b"\n"


def _record(entry: Entry, sid: str) -> dict[str, object]:
    number, word = _WARN if _unusual(entry) else _INFO
    return {
        "timeUnixNano": str(entry.at),
        "observedTimeUnixNano": str(entry.at),
        "severityNumber": number,
        "severityText": word,
        "eventName": f"{SCOPE}.{entry.kind}",
        "body": {"stringValue": escaped(_body(entry))},
        "attributes": [
            _attribute("session.id", sid),
            _attribute(f"{SCOPE}.line", entry.n),
            _attribute(f"{SCOPE}.sha256", entry.hash),
            *(
                _attribute(name, escaped(value))
                for field, name in _NAMES
                if (value := text(entry.data, field))
            ),
        ],
    }


def _attribute(name: str, value: str | int) -> dict[str, object]:
    kind = "intValue" if isinstance(value, int) else "stringValue"
    return {"key": name, "value": {kind: str(value)}}


def _unusual(entry: Entry) -> bool:
    return refused(entry) or entry.kind in _UNUSUAL or entry.data.get("ok") is False


def _body(entry: Entry) -> str:
    """Return what a person reads in a list of records."""
    data = entry.data
    if entry.kind != "decision":
        return f"{entry.kind}: {wording(entry)}"
    told = f"{text(data, 'tool')} {' '.join(subjects(data))}".rstrip()
    if refused(entry):
        return f"refused: {told} ({text(data, 'caveat')}) {text(data, 'reason')}"
    return f"allowed: {told}"
