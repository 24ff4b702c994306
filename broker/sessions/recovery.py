"""
Sessions that were abandoned: their broker was killed before it could seal the receipt.

Decided here: that each is sealed as ``abandoned`` at the next start, once, and that every seal gets
the checkpoint its broker did not live to sign. Not decided here: how
a torn line is mended and which rows of the ledger are still to be written (``broker.receipt``).

Rules a maintainer keeps: a session that another process runs is left alone; a receipt that does
not verify, or is not what the ledger says of it, is never sealed, since a seal would cover up
what is wrong with it; where the ledger is not in order nothing is touched, so that all of this
can still be done once it is. Nothing here keeps a new session from starting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.errors import Break, BrokerError, StoreError
from broker.home import Home
from broker.receipt.book import Book
from broker.receipt.checkpoint import CheckpointFile
from broker.receipt.covering import cover
from broker.receipt.keys import Key
from broker.receipt.ledger import MEND
from broker.receipt.store import Receipts
from broker.sessions.alive import abandoned
from broker.sessions.checkpointfiles import checkpoint_file
from broker.sessions.counting import settle_up

_SEAL_IN_SIGHT: Final = b'","kind":"seal","n":'
_SEAL_LINE_BYTES: Final = 1_024  # more than any authentic seal line


@dataclass(frozen=True, slots=True)
class Recovered:
    """An abandoned session; ``fault`` says why it could not be sealed, or is empty."""

    sid: str
    fault: str = ""


def seal_abandoned(home: Home, key: Key, clock: Callable[[], int]) -> Iterator[Recovered]:
    """
    Seal every session that nobody runs and that was never ended; yield each.

    A session is looked at once: what could not be sealed is told once and then left as it is.
    Only what the disk refused is tried again by the next start.
    """
    receipts = Receipts(home, key)
    book: Book | None = None
    for sid, lock in abandoned(home.sessions):
        try:
            # Read once: nobody else writes rows of sessions whose locks are free.
            book = book or receipts.ledger.read()
        except BrokerError as error:
            if error.code != "unverifiable.nothing":
                lock.drop()
                yield Recovered(sid, f"the ledger does not verify ({error}): {MEND}")
                return
            book = Book()  # killed before there was a ledger, and so before there was a receipt
        try:
            fault = _seal(home, receipts, sid, clock, book)
        except OSError as error:  # of the disk, which the next start may find in order
            lock.drop()
            yield Recovered(sid, str(error))
            continue
        lock.release()
        yield Recovered(sid, fault)


def _seal(home: Home, receipts: Receipts, sid: str, clock: Callable[[], int], book: Book) -> str:
    """
    Seal one session; return why that could not be done, or nothing.

    Raises:
        OSError: the disk refused.
    """
    try:
        file = checkpoint_file(home, sid)
        _sign_sealed(receipts, sid, book, file)
        receipt = receipts.resume(sid, at=clock(), book=book)
        receipt.on_seal = lambda sealed, _entry: file.put(*sealed.snapshot())
        try:
            receipt.seal("abandoned", at=clock())
        finally:
            receipt.close()
        return settle_up(home, receipts, sid)
    except Break as error:
        return f"its receipt does not verify ({error}): see `broker receipt {sid} --verify`"
    except StoreError as error:
        # Sealed already, and killed right after; or killed before its first entry.
        known = error.code in ("store.sealed", "store.never_began")
        return "" if known else str(error)
    except BrokerError as error:
        return str(error)


def _sign_sealed(receipts: Receipts, sid: str, book: Book, file: CheckpointFile) -> None:
    """Sign the checkpoint of a broker that was killed between its seal and that."""
    listed = book.sessions.get(sid)
    key = receipts.key if listed is None else receipts.ledger.key_named(listed.kid)
    if key is not None and _has_seal(receipts.path(sid)):
        cover(receipts.path(sid), receipts.head_path(sid), sid, key, file)


def _has_seal(path: Path) -> bool:
    """Whether a receipt looks sealed: a hint that saves reading one that is not."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _SEAL_LINE_BYTES))
            return _SEAL_IN_SIGHT in file.read(_SEAL_LINE_BYTES)
    except OSError:
        return False  # whoever resumes says why
