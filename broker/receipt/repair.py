"""
What a person may decide about a session that does not keep what the ledger says of it.

Decided here: when a state may be adopted, when a session may be retired, when a ledger may be
begun anew, and what is written then. Not decided here: what is found (``audit``).

- ``adopt``: the receipt verifies by itself, and is not what its head or the ledger says of it: it
  came back from a backup, or its head is gone. A row says what was found, and what stands now.
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
from typing import Any, Final

from broker.errors import Break, BrokerError, InputError, UnverifiableError
from broker.limits import MAX_TEXT_CHARS
from broker.receipt import disk
from broker.receipt.audit import audit
from broker.receipt.chain import Chain
from broker.receipt.evidence import read_head
from broker.receipt.head import HEAD_BYTES, Head, HeadForm, Slots
from broker.receipt.keys import Key
from broker.receipt.scan import Walk
from broker.receipt.store import Receipts

_FORWARD: Final = "forward"
# Nothing is acknowledged: the lines are taken as they are, and a fragment after them may stand.
_NO_HEAD: Final = Slots(Head(0, "", 0), 0, False)


def adopt(receipts: Receipts, sid: str, *, reason: str, at: int) -> Break:
    """
    Accept a session as it is now, and return what was wrong with it.

    Args:
        receipts: where it lies.
        sid: its name.
        reason: why, in a person's words.
        at: the instant.

    Raises:
        InputError: no reason, nothing is wrong, or its receipt is gone (retire it).
        Break: the receipt does not verify by itself: nothing can make it.
        StoreError: it is running, or the row cannot be written.
    """
    said = checked_reason(reason)
    found = _finding(receipts, sid, "adopt")
    if not receipts.has_receipt(sid):
        raise InputError(f"the receipt of `{sid}` is gone: `broker receipt retire {sid}`")
    listed = receipts.ledger.read().sessions.get(sid)
    key = receipts.ledger.key_named(listed.kid) if listed is not None else receipts.key
    if listed is not None and listed.forward:
        raise InputError(
            f"session `{sid}` is forward-secure: the keys of its lines are gone from here, so "
            "nothing of it can be signed anew"
        )
    if key is None:
        raise UnverifiableError(f"the key of session `{sid}` is not here: put it back from a copy")
    head, data = _as_it_is(receipts, sid, key)
    row = {**data, "reason": said, "found": f"{found.reason}: {found.message}"}
    receipts.ledger.adopt(row, at=at)
    _sign_head(receipts, sid, key, head)
    return found


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
            _, data = _as_it_is(receipts, info.sid, receipts.key, headed=True)
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


def _finding(receipts: Receipts, sid: str, act: str) -> Break:
    try:
        audit(receipts, sid)
    except Break as error:
        return error
    except UnverifiableError as error:
        if error.code != "unverifiable.retired" or act == "retire":
            raise
    raise InputError(f"session `{sid}` is as the ledger says: there is nothing to {act}")


def _as_it_is(
    receipts: Receipts, sid: str, key: Key, *, headed: bool = False
) -> tuple[Head, dict[str, Any]]:
    """
    Verify a receipt by itself, and return the head it should have and the data of its row.

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
        "forward": _FORWARD in opening,
        "n": chain.n,
        "last": chain.last,
    }
    return Head(chain.n, chain.last, chain.size), row


def _sign_head(receipts: Receipts, sid: str, key: Key, head: Head) -> None:
    """Let the head say what was adopted, unless it says so already."""
    try:
        slots = read_head(receipts.head_path(sid), sid, key)
    except Break:
        slots = None
    if slots is not None and slots.head == head and not slots.torn:
        return
    content = HeadForm(sid, key).slot(head).ljust(HEAD_BYTES, b"\0")
    disk.DISK.replace(receipts.head_path(sid), content)
