"""
A receipt as Agent Receipts v0.5: one signed credential for each action, as JSON lines.

Decided here: which lines are actions, what is said of them, and how the credentials are chained
and signed. A decision is a receipt of its own, since that is when the broker acted: ``pending``
when the call was let through, ``failure`` when it was refused. How a call ended is the agent's
testimony, so it comes as a second receipt with the same ``correlation_id``. Lines of other kinds
are not actions, and are left out.

What a reader must know, and the docs say:

- ``parameters_hash`` is that of the arguments as the gate read them. An argument that is no
  integer is written as Python prints it, so its hash may differ from another program's.
- A type is only given where the receipt knows it: a read or a write of a path, or a command.
  Everything else is ``unknown`` with the tool's name.
- ``issuer.runtime`` names the line that a receipt was made from, and that line's hash.
- ``issuanceDate`` is when it was exported, ``action.timestamp`` when it happened.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from broker.export.didkey import did_key
from broker.export.fields import (
    PRODUCT,
    Data,
    refused,
    subjects,
    text,
    texts,
    urn,
    uuid_of,
    visible,
)
from broker.export.source import Line
from broker.limits import MAX_TICKETS
from broker.receipt.entry import Entry, canonical, format_at
from broker.receipt.form import SEAL
from broker.receipt.signing import SigningKey

VERSION: Final = "0.5.0"
CONTEXTS: Final = ("https://www.w3.org/ns/credentials/v2", "https://agentreceipts.ai/context/v2")
MAX_CALLS_KEPT: Final = 10_000  # calls whose end is still to come
MAX_PREVIEW_CHARS: Final = 200  # of the typed line

_UNKNOWN: Final = ("unknown", "medium")
_COMMAND: Final = ("system.command.execute", "high")
_READ: Final = ("filesystem.file.read", "low")
_WRITE: Final = ("filesystem.file.modify", "medium")
_FAILED: Final = {"status": "failure"}

Receipt = dict[str, Any]


@dataclass
class _Seen:
    """What earlier lines said that a later receipt repeats; of limited size."""

    intent: str = ""
    line: str = ""
    tickets: OrderedDict[str, Data] = field(default_factory=OrderedDict)
    calls: OrderedDict[str, Data] = field(default_factory=OrderedDict)

    def note(self, entry: Entry) -> None:
        """Remember what was typed, and what a ticket grants."""
        if entry.kind == "intent":
            self.line = text(entry.data, "line")
            self.intent = self.intent or self.line
        if entry.kind == "ticket" and "beside" not in entry.data:  # that one is for a single call
            self.intent = self.line
        scopes, ticket = texts(entry.data, "caveats"), text(entry.data, "ticket")
        if entry.kind in ("ticket", "delegate") and scopes and ticket:
            granted = {"grant_ref": ticket, "granted_at": format_at(entry.at), "scopes": scopes}
            _keep(self.tickets, ticket, granted, MAX_TICKETS)


def receipts(lines: Iterable[Line], sid: str, public: bytes, issued_at: int) -> Iterator[Receipt]:
    """
    Yield the credentials of a receipt, chained and without their proofs.

    Args:
        lines: the verified lines.
        sid: the session.
        public: the 32 public bytes of the key that will sign them.
        issued_at: the instant of the export, in nanoseconds.
    """
    seen = _Seen()
    held: Receipt | None = None
    for line in lines:
        entry = line.entry
        seen.note(entry)
        if entry.kind == SEAL and held is not None:
            whole = text(entry.data, "reason") == "complete"
            ending = {"status": "complete" if whole else "interrupted", "terminal": True}
            held["credentialSubject"]["chain"].update(ending)
        said = _said(entry, seen)
        if said is None:
            continue
        # The last one says that it is the last, so each waits until the next one is there.
        if held is not None:
            yield held
        said["chain"] = _chain(held, sid)
        held = visible(_receipt(entry, said, sid, public, issued_at))
    if held is not None:
        yield held


def signed(receipt: Receipt, signer: SigningKey) -> bytes:
    """Return a credential with its proof, as one line of canonical JSON."""
    signature = signer.sign(canonical(receipt).encode())
    proof = {
        "created": receipt["issuanceDate"],
        "proofPurpose": "assertionMethod",
        "proofValue": "u" + urlsafe_b64encode(signature).decode().rstrip("="),
        "type": "Ed25519Signature2020",
        "verificationMethod": method(signer.public.public),
    }
    return canonical({**receipt, "proof": proof}).encode() + b"\n"


def method(public: bytes) -> str:
    """Return the name of a key within the document that its ``did:key`` stands for."""
    did = did_key(public)
    return f"{did}#{did.removeprefix('did:key:')}"


def _receipt(entry: Entry, subject: Receipt, sid: str, public: bytes, issued_at: int) -> Receipt:
    runtime = {"receipt_line": entry.n, "receipt_sha256": entry.hash}
    if (actor := text(entry.data, "actor")) not in ("", "main"):
        runtime["agent_id"] = actor
    if output := text(entry.data, "output"):
        runtime["output_sha256"] = output
    return {
        "@context": list(CONTEXTS),
        "credentialSubject": subject,
        "id": f"urn:receipt:{uuid_of('agent receipt', entry.hash)}",
        "issuanceDate": format_at(issued_at),
        "issuer": {
            "id": did_key(public),
            "name": PRODUCT,
            "runtime": runtime,
            "session_id": sid,
        },
        "type": ["VerifiableCredential", "AgentReceipt"],
        "version": VERSION,
    }


def _chain(before: Receipt | None, sid: str) -> dict[str, object]:
    if before is None:
        return {"chain_id": sid, "previous_receipt_hash": None, "sequence": 1}
    last = sha256(canonical(before).encode()).hexdigest()
    sequence = before["credentialSubject"]["chain"]["sequence"] + 1
    return {"chain_id": sid, "previous_receipt_hash": f"sha256:{last}", "sequence": sequence}


def _said(entry: Entry, seen: _Seen) -> Receipt | None:
    """Return what a receipt says of an entry, or None where it is not an action."""
    data, call = entry.data, text(entry.data, "call")
    action: Data
    if entry.kind == "decision":
        action = _action(data)
        if not refused(entry):
            _keep(seen.calls, call, action, MAX_CALLS_KEPT)
        outcome = _refusal(data) if refused(entry) else {"status": "pending"}
    elif entry.kind == "result" or (entry.kind == "permission" and refused(entry)):
        unseen = {"risk_level": "medium", "target": {"system": call or PRODUCT}, "type": "unknown"}
        action = seen.calls.pop(call, unseen)
        well = entry.kind == "result" and data.get("ok") is True
        outcome = {"status": "success"} if well else _failure(entry)
    else:
        return None
    said: Receipt = {
        "action": {
            **action,
            "id": f"act_{uuid_of('agent action', entry.hash)}",
            "timestamp": format_at(entry.at),
        },
        "outcome": outcome,
        "principal": {"id": urn("person", "of-the-session")},
    }
    if call:
        said["correlation_id"] = call
    if granted := seen.tickets.get(text(data, "ticket")):
        said["authorization"] = granted
    if seen.intent:
        said["intent"] = {
            "prompt_preview": seen.intent[:MAX_PREVIEW_CHARS],
            "prompt_preview_truncated": len(seen.intent) > MAX_PREVIEW_CHARS,
        }
    return said


def _action(data: Data) -> dict[str, object]:
    kind, risk = kind_of(data)
    tool, touched = text(data, "tool"), subjects(data)
    action: dict[str, object] = {
        "risk_level": risk,
        "target": {"system": tool or PRODUCT, **({"resource": touched[0]} if touched else {})},
        "type": kind,
    }
    if args := text(data, "args"):
        action["parameters_hash"] = f"sha256:{args}"
    return action


def kind_of(data: Data) -> tuple[str, str]:
    """Return the type and the risk that the receipt vouches for: the gravest of its subjects."""
    touched = data.get("subjects")
    if not isinstance(touched, list) or not touched:
        return _UNKNOWN
    found = {_subject_kind(subject) for subject in touched}
    return next(each for each in (_COMMAND, _UNKNOWN, _WRITE, _READ) if each in found)


def _subject_kind(subject: object) -> tuple[str, str]:
    if isinstance(subject, dict) and "command" in subject:
        return _COMMAND
    if isinstance(subject, dict) and "path" in subject:
        return {"read": _READ, "write": _WRITE}.get(text(subject, "access"), _UNKNOWN)
    return _UNKNOWN


def _refusal(data: Data) -> dict[str, object]:
    return {"error": f"refused ({text(data, 'caveat')}): {text(data, 'reason')}", **_FAILED}


def _failure(entry: Entry) -> dict[str, object]:
    if entry.kind == "permission":
        return {
            "error": f"refused by the agent's own rules: {text(entry.data, 'reason')}",
            **_FAILED,
        }
    return {"error": "the agent says that it failed", **_FAILED}


def _keep(kept: OrderedDict[str, Data], name: str, value: Data, most: int) -> None:
    kept[name] = value
    if len(kept) > most:
        kept.popitem(last=False)
