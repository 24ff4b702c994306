"""Forward-secure receipts to attack: an auditor, sessions, and a thief who takes everything."""

from __future__ import annotations

from typing import Any

from broker.receipt.sealing import Auditor
from broker.receipt.store import Receipts
from broker.receipt.verify import Verdict, verify
from broker.receipt.writer import Receipt
from tests.receiptkit import AT, KEY, SECOND, decision, outcome

AUDITOR = Auditor.of(bytes(range(200, 232)))


def fill_forward(receipts: Receipts, sid: str, decisions: int) -> Receipt:
    """Begin a forward-secure session and append ``decisions`` lines after the open line."""
    receipt = receipts.create(sid, opening={"agent": "claude-code"}, at=AT, auditor=AUDITOR.public)
    for i in range(decisions):
        receipt.append("decision", decision(i), at=AT + i * SECOND)
    return receipt


def on_host(receipts: Receipts, sid: str, **more: Any) -> str:
    """Return what the host's own verification answers: a state, a reason or a code."""
    return outcome(lambda: host_verdict(receipts, sid, **more).state)


def by_auditor(receipts: Receipts, sid: str, **more: Any) -> str:
    """Return what the auditor's verification answers, by no key but the auditor's."""
    return outcome(lambda: audit_verdict(receipts, sid, **more).state)


def host_verdict(receipts: Receipts, sid: str, **more: Any) -> Verdict:
    """Verify as the host does: with the installation's key, and without the auditor's."""
    return verify(receipts.path(sid), key=KEY, head=receipts.head_path(sid), sid=sid, **more)


def audit_verdict(receipts: Receipts, sid: str, **more: Any) -> Verdict:
    """Verify as the auditor does: with the receipt, the head and the auditor's key."""
    given = {"key": None, "head": receipts.head_path(sid), "auditor": AUDITOR, **more}
    return verify(receipts.path(sid), sid=sid, **given)
