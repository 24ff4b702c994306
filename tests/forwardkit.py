"""Forward-secure receipts to attack: an auditor, sessions, and a thief who takes everything."""

from __future__ import annotations

import os

from broker.receipt.chain import Chain
from broker.receipt.forward import Rejoined, read_kept, read_opening, stated_kid, witnessed
from broker.receipt.head import HeadForm
from broker.receipt.sealing import Auditor
from broker.receipt.store import Receipts
from broker.receipt.verify import Walk
from broker.receipt.writer import Receipt
from tests.receiptkit import AT, KEY, SECOND, decision, outcome

AUDITOR = Auditor.of(bytes(range(200, 232)))


def fill_forward(receipts: Receipts, sid: str, decisions: int) -> Receipt:
    """Begin a forward-secure session and append ``decisions`` lines after the open line."""
    receipt = receipts.create(sid, opening={"agent": "claude-code"}, at=AT, auditor=AUDITOR.public)
    for i in range(decisions):
        receipt.append("decision", decision(i), at=AT + i * SECOND)
    return receipt


def _state(chain: Chain, walk: Walk) -> str:
    for _ in walk:
        pass
    if isinstance(chain, Rejoined) and walk.slots is not None:
        chain.check_vouched(walk.slots.head.n)
    if chain.closing:
        return "SEALED" if chain.closing == "complete" else "INTERRUPTED"
    return "TORN" if walk.fragment else "OPEN"


def on_host(receipts: Receipts, sid: str) -> str:
    path, head = receipts.path(sid), receipts.head_path(sid)

    def act() -> str:
        kept = read_kept(head, sid, KEY)
        slots = HeadForm(sid, KEY).read(head.read_bytes())
        fd = os.open(path, os.O_RDONLY)
        chain = Rejoined(sid, stated_kid(fd), kept)
        return _state(chain, Walk(fd, path.stat().st_size, chain, slots))

    return outcome(act)


def by_auditor(receipts: Receipts, sid: str) -> str:
    path, head = receipts.path(sid), receipts.head_path(sid)

    def act() -> str:
        slots = HeadForm(sid, KEY).read(head.read_bytes())
        fd = os.open(path, os.O_RDONLY)
        chain = witnessed(read_opening(fd), sid, AUDITOR, slots.head)
        state = _state(chain, Walk(fd, path.stat().st_size, chain, slots))
        chain.witness.check_aggregate()
        return state

    return outcome(act)
