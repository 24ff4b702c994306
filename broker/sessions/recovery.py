"""
Sessions that were abandoned: their broker was killed before it could seal the receipt.

Decided here: that each is sealed as ``abandoned`` at the next start, once. Not decided here: how
a torn line is mended (``broker.receipt``).

Rules a maintainer keeps: a session that another process runs is left alone; a receipt that does
not verify is never sealed, since a seal would cover up what is wrong with it; nothing here keeps
a new session from starting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from broker.errors import Break, BrokerError, StoreError
from broker.home import Home
from broker.receipt.keys import Key
from broker.receipt.store import Receipts
from broker.sessions.alive import abandoned


@dataclass(frozen=True, slots=True)
class Recovered:
    """An abandoned session; ``fault`` says why it could not be sealed, or is empty."""

    sid: str
    fault: str = ""


def seal_abandoned(home: Home, key: Key, clock: Callable[[], int]) -> Iterator[Recovered]:
    """
    Seal every session that nobody runs and that was never ended; yield each.

    A session is looked at once: what could not be sealed is told once and then left as it is.
    """
    receipts = Receipts(home, key)
    for sid, lock in abandoned(home.sessions):
        fault = ""
        try:
            receipt = receipts.resume(sid, at=clock())
            try:
                receipt.seal("abandoned", at=clock())
            finally:
                receipt.close()
        except Break as error:
            fault = f"its receipt does not verify ({error}): see `broker receipt {sid} --verify`"
        except StoreError as error:
            # Sealed already, and killed right after; or killed before its first entry.
            known = error.code in ("store.sealed", "store.never_began")
            fault = "" if known else str(error)
        except BrokerError as error:
            fault = str(error)
        lock.release()
        yield Recovered(sid, fault)
