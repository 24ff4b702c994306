"""
A receipt as an Agent Audit Trail: one JSON record for each line, as JSON lines.

Decided here: how a line becomes a record of draft-sharif-agent-audit-trail, revision 06. Other
revisions differ on the wire, so the revision is named in the first record. Not decided here:
whether a trail is still what was exported (``compare``).

What a reader must know of this trail, and the docs say:

- Its records are chained by hashes alone, without signatures: the draft's are ES256, and this
  installation's key is Ed25519. The trail is a view, and the receipt is the evidence.
- Every record names its line, that line's hash and its leaf in the receipt's tree, and the last
  record of a sealed session holds the seal. So a trail with records left out is found, by its
  count and by the root of its leaves.
- ``trust_level`` is L0: the broker does not check who an agent is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

from broker.export.fields import Data, refused, subjects, text, urn, uuid_of, visible, wording
from broker.export.source import Line
from broker.receipt.entry import Entry, canonical, format_at
from broker.receipt.form import OPEN, SEAL

REVISION: Final = "draft-sharif-agent-audit-trail-06"

_NOTHING: Final = "nothing"
_TOOL_CALL: Final = "tool_call"
# What happens before an effect and what is told after it; everything else happens beside it.
_BEFORE: Final = frozenset(("decision", "delegate", "permission"))
_AFTER: Final = frozenset(("result", SEAL))
_TYPES: Final = {
    "decision": _TOOL_CALL,
    "permission": "decision",
    "delegate": "delegation",
    "result": "tool_response",
    "dropped": "error",
    "recover": "error",
}


def records(lines: Iterable[Line], sid: str) -> Iterator[bytes]:
    """Yield a record for each line, in canonical JSON (RFC 8785)."""
    agent = _NOTHING
    before: tuple[str, str] | None = None
    for line in lines:
        if line.entry.kind == OPEN:
            agent = text(line.entry.data, "agent") or _NOTHING
        record = visible(_record(line, sid, agent, before))
        told = canonical(record).encode()
        before = str(record["record_id"]), sha256(told).hexdigest()
        yield told + b"\n"


def _record(line: Line, sid: str, agent: str, before: tuple[str, str] | None) -> dict[str, object]:
    entry = line.entry
    return {
        "action_detail": {**_detail(entry, sid), "receipt": _pointer(line)},
        "action_type": _TYPES.get(entry.kind, "lifecycle"),
        "agent_id": urn("agent", agent, text(entry.data, "actor") or "main"),
        "agent_version": "unknown",
        "outcome": _outcome(entry),
        "parent_record_id": before[0] if before else None,
        "prev_hash": before[1] if before else None,
        "record_id": uuid_of("aat record", entry.hash),
        "record_phase": _phase(entry.kind),
        "session_id": uuid_of("aat session", sid),
        "timestamp": format_at(entry.at),
        "trust_level": "L0",
    }


def _pointer(line: Line) -> dict[str, object]:
    leaf = sha256(b"\0" + line.raw).hexdigest()
    return {"leaf": leaf, "line": line.entry.n, "sha256": line.entry.hash}


def _phase(kind: str) -> str:
    if kind in _BEFORE:
        return "pre_execution"
    return "post_execution" if kind in _AFTER else "concurrent"


def _outcome(entry: Entry) -> str:
    if refused(entry):
        return "denied"
    wrong = (
        entry.data.get("ok") is False
        or _TYPES.get(entry.kind) == "error"
        or (entry.kind == SEAL and entry.data.get("reason") != "complete")
    )
    return "failure" if wrong else "success"


def _detail(entry: Entry, sid: str) -> dict[str, object]:
    data = entry.data
    match entry.kind:
        case "open":
            return {
                "event": "session_start",
                "format": text(data, "format"),
                "recording_mode": "self",  # whoever decided also wrote it down: claim no more
                "revision": REVISION,
                "session": sid,
                "writer": text(data, "writer"),
            }
        case "seal":
            return {"event": "session_end", "seal": dict(data)}
        case "decision":
            return _call(data)
        case "result":
            return {
                "call_id": text(data, "call"),
                "response_hash": text(data, "output"),
            }
        case "dropped" | "recover":
            return {"error_code": entry.kind, "error_message": wording(entry), "recoverable": True}
        case kind:
            return {
                "event": kind,
                **_told(data, "call", "ticket", "parent"),
                "text": wording(entry),
            }


def _call(data: Data) -> dict[str, object]:
    return {
        "parameters_hash": text(data, "args"),
        "resources": subjects(data),
        "tool_name": text(data, "tool"),
        **{
            theirs: value
            for ours, theirs in (
                ("call", "call_id"),
                ("server", "tool_server"),
                ("caveat", "denied_by"),
                ("reason", "denial_reason"),
                ("enforcement", "enforcement"),
                ("ticket", "ticket"),
            )
            if (value := text(data, ours))
        },
    }


def _told(data: Data, *names: str) -> dict[str, object]:
    return {name: value for name in names if (value := text(data, name))}
