"""
Decisions that become durable together.

One sync of a disk takes longer than a hundred decisions. Whoever decides for many callers at once
writes all their decisions, makes them durable in one go, and only then answers any of them. Decided
here: that nothing is told before, and what a failure means for the session. Not decided here: how
lines become durable (``broker.receipt.writer``), who waits for what (``broker.service.clerk``).

Rule a maintainer keeps: a decision that was not durable when ``flush`` failed was never made; its
caller is answered with a refusal, and the session is over.
"""

from __future__ import annotations

import threading
from abc import ABC
from collections.abc import Sequence

from broker.budgets.shared import SharedBudget
from broker.errors import BrokerError, StoreError
from broker.events import Bus, CallDecided
from broker.receipt.writer import Receipt
from broker.sessions.custody import Custody
from broker.sessions.ground import Ground


class Grouped(ABC):
    """The part of a session that makes what it has decided durable."""

    bus: Bus
    _receipt: Receipt
    _lock: threading.RLock
    _over: str
    _custody: Custody
    _ground: Ground
    _untold: list[CallDecided]

    @property
    def over(self) -> str:
        """Why nothing is decided any more; empty while the session goes on."""
        return self._over

    @property
    def waits(self) -> bool:
        """Whether a decision may wait for others: for shared counts, or for second opinions."""
        shared = isinstance(self._custody.root.budget, SharedBudget)
        return shared or bool(self._ground.counsel.opinions)

    def flush(self) -> None:
        """
        Make every decision so far durable; only then may anybody hear it.

        Raises:
            StoreError: it cannot be done. None of them was made, and the session is over.
        """
        with self._lock:
            told_of, self._untold = self._untold, []
            # A receipt that failed at a later line writes no more, and so flushes nothing either.
            if self._over and not self._receipt.sealed:
                raise StoreError(self._over)
            try:
                self._receipt.flush()
            except BrokerError as error:
                self._over = self._over or f"the receipt cannot be written: {error}"
                raise
        self._tell(told_of, durable=True)

    def _tell(self, told_of: Sequence[CallDecided], *, durable: bool) -> None:
        """Tell of decisions on the bus, or keep them until they are durable."""
        if not durable:
            with self._lock:
                self._untold += told_of
            return
        for event in told_of:
            self.bus.publish(event)
