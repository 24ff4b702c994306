"""Forward-secure receipts to attack: an auditor, sessions, and a thief who takes everything."""

from __future__ import annotations

import gc
import hashlib
import hmac
from types import FunctionType, ModuleType
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


# ── what a thief of a process finds ──

_HASH = type(hashlib.sha256())


def memory_of(thing: object) -> list[bytes]:
    """
    Return every text, every run of bytes and every state of a hash that an object refers to, at
    any depth. A state is told by what it would come to.
    """
    found, seen = [thing], set()
    values: list[bytes] = []
    while found:
        each = found.pop()
        if id(each) in seen or isinstance(each, type | ModuleType):
            continue
        seen.add(id(each))
        if isinstance(each, bytes | bytearray):
            values.append(bytes(each))
        elif isinstance(each, str):
            values.append(each.encode("utf-8", "surrogatepass"))
        elif isinstance(each, _HASH):
            values.append(each.digest())
        elif isinstance(each, FunctionType):
            found += each.__closure__ or ()  # not its globals: they are the whole program
        else:
            found += gc.get_referents(each)
    return values


def traces(key: bytes, sid: str) -> list[bytes]:
    """Return every form in which a line's key, or what is made of it, may lie in memory."""
    forms = []
    for label in (b"", b"receipt/1 line\0", b"receipt/1 aggregate\0"):
        use = hmac.digest(key, label + sid.encode(), "sha256") if label else key
        inner, outer = (bytes(x ^ pad for x in use.ljust(64, b"\0")) for pad in (0x36, 0x5C))
        states = (hashlib.sha256(inner + label).digest(), hashlib.sha256(outer).digest())
        forms += [use, inner[:32], outer[:32], *states]
    return forms
