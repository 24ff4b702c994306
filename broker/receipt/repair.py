"""
What a person may decide about a session that does not keep what the ledger says of it.

Decided here: when a state may be adopted, when a session may be retired, when a ledger may be
begun anew, and what is written then. Not decided here: what is found (``audit``).

- ``adopt``: the receipt verifies by itself, and is not what its head or the ledger says of it: it
  came back from a backup, or its head is gone. A row says what was found, and what stands now.
  Of a forward-secure session only the auditor's key can tell that it verifies, and what its head
  must be.
- ``retire``: the receipt is gone. A row says so; a receipt that is there is never retired.
- ``adopt_ledger``: the ledger is gone or broken. What is left of it is kept aside, and another
  one begins that adopts every session which verifies.

Rules a maintainer keeps: each needs a reason and a finding, and is refused where nothing is wrong;
none deletes anything; the row is durable before the head is signed anew, so that a crash leaves
the finding as it was, or the decision on record.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from broker.errors import Break, BrokerError, InputError, UnverifiableError
from broker.limits import MAX_TEXT_CHARS
from broker.receipt import disk
from broker.receipt.audit import audit
from broker.receipt.book import Listed
from broker.receipt.chain import Chain
from broker.receipt.evidence import read_head
from broker.receipt.forward import FORWARD, AuditorChain, auditor_chain, read_opening
from broker.receipt.head import HEAD_BYTES, Head, HeadForm, Slots
from broker.receipt.keys import Key
from broker.receipt.ratchetfile import KeptRatchet, RatchetForm, ratchet_path
from broker.receipt.scan import Walk
from broker.receipt.store import Receipts

if TYPE_CHECKING:
    from broker.receipt.sealing import Auditor

# Nothing is acknowledged: the lines are taken as they are, and a fragment after them may stand.
_NO_HEAD: Final = Slots(Head(0, "", 0), 0, False)


def adopt(
    receipts: Receipts, sid: str, *, reason: str, at: int, auditor: Auditor | None = None
) -> Break:
    """
    Accept a session as it is now, and return what was wrong with it.

    Args:
        receipts: where it lies.
        sid: its name.
        reason: why, in a person's words.
        at: the instant.
        auditor: the auditor's key, for a forward-secure session: nothing else checks its tags.

    Raises:
        InputError: no reason, nothing is wrong, its receipt is gone (retire it), or what the
            auditor's key is needed for.
        Break: the receipt does not verify by itself: nothing can make it.
        StoreError: it is running, or the row cannot be written.
    """
    said = checked_reason(reason)
    found = _finding(receipts, sid, "adopt", auditor)
    if not receipts.has_receipt(sid):
        raise InputError(f"the receipt of `{sid}` is gone: `broker receipt retire {sid}`")
    listed = receipts.ledger.read().sessions.get(sid)
    key = receipts.ledger.key_named(listed.kid) if listed is not None else receipts.key
    if key is None:
        raise UnverifiableError(f"the key of session `{sid}` is not here: put it back from a copy")
    _check_auditor(receipts, sid, listed, auditor)
    state = _as_it_is(receipts, sid, key, auditor=auditor)
    why = {"reason": said, "found": f"{found.reason}: {found.message}"}
    receipts.ledger.adopt({**state.row, **why}, at=at)
    _keep_ratchet(receipts, sid, key, state)
    _sign_head(receipts, sid, key, state.head)
    _sign_lines(receipts, sid, state, at)
    if state.closing:
        n, last = state.head.n, state.head.last
        receipts.ledger.end(sid, n=n, last=last, root=state.sealed, reason=state.closing, at=at)
    return found


def _check_auditor(
    receipts: Receipts, sid: str, listed: Listed | None, auditor: Auditor | None
) -> None:
    """Refuse a forward-secure session without the auditor's key, and another one with it."""
    if listed is None:
        return  # who walks it sees
    if listed.forward and auditor is None:
        raise InputError(
            f"session `{sid}` is forward-secure: the keys of its lines are gone from here. Give "
            "--auditor-key FILE to have its tags checked and its head signed anew; or move "
            f"`{receipts.path(sid).parent}` away, keep it, and `broker receipt retire {sid}`"
        )
    if auditor is not None and not listed.forward:
        raise InputError(f"session `{sid}` is not forward-secure: leave --auditor-key out")


def retire(receipts: Receipts, sid: str, *, reason: str, at: int) -> Break:
    """
    Say that a session was taken away knowingly, and return what was found.

    Raises:
        InputError: no reason, or nothing is missing.
        StoreError: the row cannot be written.
    """
    said = checked_reason(reason)
    found = _finding(receipts, sid, "retire")
    if receipts.has_receipt(sid):
        raise InputError(
            f"the receipt of `{sid}` is there ({found.reason}): move `{receipts.path(sid).parent}` "
            "away first, and keep it; or adopt what verifies"
        )
    if sid not in receipts.ledger.read().sessions:
        raise InputError(f"the ledger does not name session `{sid}`: there is nothing to retire")
    receipts.ledger.retire(sid, reason=said, found=f"{found.reason}: {found.message}", at=at)
    return found


def adopt_ledger(receipts: Receipts, *, reason: str, at: int) -> tuple[list[str], list[str]]:
    """
    Begin another ledger where this one is gone or broken.

    Returns:
        The sessions that it adopts, and those that do not verify: nobody accepted those.

    Raises:
        InputError: no reason, or the ledger is in order.
        UnverifiableError: there was never a ledger nor a session.
        StoreError: it cannot be written.
    """
    said = checked_reason(reason)
    ledger = receipts.ledger
    try:
        ledger.read()
    except Break as error:
        found = error
    else:
        raise InputError("the ledger is in order: there is nothing to adopt")
    ledger.begin_anew({"reason": said, "found": f"{found.reason}: {found.message}"}, at)
    adopted, left = [], []
    for info in sorted(receipts.sessions(), key=lambda info: (info.changed_at, info.sid)):
        try:
            data = _as_it_is(receipts, info.sid, receipts.key, headed=True).row
        except BrokerError:
            left.append(info.sid)
            continue
        row = {**data, "reason": said, "found": f"{found.reason}: {found.message}"}
        ledger.adopt(row, at=at)
        adopted.append(info.sid)
    return adopted, left


def checked_reason(reason: str) -> str:
    """
    Return a reason that can stand in a row.

    Raises:
        InputError: it is empty, or too long.

    >>> checked_reason(" it was agreed ")
    'it was agreed'
    """
    said = reason.strip()
    if not said or len(said) > MAX_TEXT_CHARS:
        raise InputError(f"give a reason of 1 to {MAX_TEXT_CHARS} characters")
    return said


def _finding(receipts: Receipts, sid: str, act: str, auditor: Auditor | None = None) -> Break:
    try:
        audit(receipts, sid, auditor=auditor)
    except Break as error:
        return error
    except UnverifiableError as error:
        if error.code != "unverifiable.retired" or act == "retire":
            raise
    raise InputError(f"session `{sid}` is as the ledger says: there is nothing to {act}")


@dataclass(frozen=True, slots=True)
class _State:
    """
    What a receipt is by itself: the head it should have, and the data of its row.

    ``kept`` is the ratchet of a forward-secure session. ``root`` is that of all lines, ``sealed``
    what the seal says of those before it, and ``closing`` why it was sealed.
    """

    head: Head
    row: dict[str, Any]
    kept: KeptRatchet | None
    root: bytes
    sealed: str
    closing: str


def _as_it_is(
    receipts: Receipts,
    sid: str,
    key: Key,
    *,
    headed: bool = False,
    auditor: Auditor | None = None,
) -> _State:
    """
    Verify a receipt by itself, and return what it is.

    Raises:
        Break, UnverifiableError: it does not verify, or is unsafe; with ``headed`` also where it
            is not what its head says.
        InputError: nothing of it is left.
    """
    path = receipts.path(sid)
    slots = read_head(receipts.head_path(sid), sid, key) if headed else None
    fd = disk.open_checked(path, "receipt", forbidden=disk.OTHERS_WRITE)
    try:
        chain = Chain(sid, key)
        if auditor is not None:
            chain = auditor_chain(read_opening(fd), sid, auditor, None)
        first, opening = "", {}
        for _ in (walk := Walk(fd, os.fstat(fd).st_size, chain, slots or _NO_HEAD)):
            if chain.n == 1:
                first, opening = chain.last, json.loads(chain.text)
    finally:
        os.close(fd)
    if chain.n == 0:
        raise InputError(f"session `{sid}` has no line left: take it away and retire it")
    if walk.fragment and chain.closing:
        raise chain.broken("after_seal", "something follows the seal")
    row = {
        "sid": sid,
        "kid": key.kid,
        "first": first,
        "level": str(opening.get("level", "mac")),
        "forward": FORWARD in opening,
        "n": chain.n,
        "last": chain.last,
    }
    assert chain.tree is not None  # noqa: S101  made with one
    head, kept = Head(chain.n, chain.last, chain.size), None
    if isinstance(chain, AuditorChain):
        ratchet = chain.ratchet
        head = Head(chain.n, chain.last, chain.size, ratchet.aggregate)
        kept = KeptRatchet(ratchet.kid, ratchet.position, chain.last, chain.size)
    return _State(head, row, kept, chain.tree.root(), chain.root, chain.closing)


def _keep_ratchet(receipts: Receipts, sid: str, key: Key, state: _State) -> None:
    """Let a forward-secure session go on from its last line; a sealed one needs no key."""
    path = ratchet_path(receipts.head_path(sid))
    if state.kept is not None and not state.closing:
        disk.DISK.replace(path, RatchetForm(sid, key).slot(state.kept) * 2)
    elif state.kept is not None:
        path.unlink(missing_ok=True)


def _sign_head(receipts: Receipts, sid: str, key: Key, head: Head) -> None:
    """Let the head say what was adopted, unless it says so already."""
    try:
        slots = read_head(receipts.head_path(sid), sid, key)
    except Break:
        slots = None
    if slots is not None and slots.head == head and not slots.torn:
        return
    slot = HeadForm(sid, key).slot(head)
    content = slot * 2 if head.aggregate else slot.ljust(HEAD_BYTES, b"\0")
    disk.DISK.replace(receipts.head_path(sid), content)


def _sign_lines(receipts: Receipts, sid: str, state: _State, at: int) -> None:
    """
    Let a checkpoint cover what was adopted, where checkpoints are promised or there is one.

    One that speaks of other lines, or of more, is kept aside: it is what the row of the adoption
    has to be read beside.
    """
    path = receipts.checkpoint_path(sid)
    there = os.path.lexists(path)
    if not there and state.row["level"] == "mac":
        return
    from broker.receipt.checkpoint import CheckpointFile, of_receipt  # noqa: PLC0415
    from broker.receipt.keyring import signing_key_path  # noqa: PLC0415
    from broker.receipt.signing import load_signing_key  # noqa: PLC0415

    if there:
        try:
            audit(receipts, sid)
        except Break as error:
            if error.reason != "checkpoint_old":
                os.rename(path, path.with_name(f"{sid}.before-{at // 1_000_000}"))
    file = CheckpointFile(path, load_signing_key(signing_key_path(receipts.home)), of_receipt(sid))
    file.put(state.head.n, state.root)
