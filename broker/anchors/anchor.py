"""
What an anchor is: somewhere else that takes a checkpoint, and evidence that it did.

Decided here: what every kind of anchor does, and how it fails. Not decided here: which anchors
there are (``broker.config``), when they are asked (``submitting``), what a missing one means for
a verdict (``broker.receipt.verify``).

Rules a maintainer keeps: an anchor gets the signed checkpoint and nothing else, so what it
learns is a size and a hash; nothing of a decision waits for an anchor; an anchor that cannot be
reached is no evidence of anything, and one that answers with something else is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.errors import StoreError

# The hashes that lead from the first N lines to those of the checkpoint (RFC 6962, 2.1.2).
Consistency = Callable[[int], Sequence[bytes]]


class AnchorError(StoreError):
    """An anchor could not be reached, or did not take the checkpoint. Try again later."""

    code = "store.anchor"


@dataclass(frozen=True, slots=True)
class Attested:
    """
    What evidence shows: who saw the checkpoint, and when at the latest.

    ``at`` is in nanoseconds; None where the anchor does not say a time that can be believed.
    """

    by: str
    at: int | None = None
    warnings: tuple[str, ...] = ()


class Anchor(Protocol):
    """One anchor of an installation."""

    @property
    def name(self) -> str:
        """What its owner calls it."""
        ...

    @property
    def every_origin(self) -> bool:
        """Whether it takes checkpoints of any origin, and not only of logs it was told of."""
        ...

    def submit(self, note: bytes, consistency: Consistency) -> bytes:
        """
        Hand a checkpoint in, and return the evidence, checked.

        Args:
            note: the signed checkpoint.
            consistency: proves that the checkpoint only adds to an older one.

        Raises:
            AnchorError: it cannot be reached, or refuses.
            Break: it holds something else already: the log was forked or cut.
        """
        ...

    def check(self, note: bytes, evidence: bytes, now: int) -> Attested:
        """
        Check evidence for a checkpoint.

        Raises:
            Break: it is not evidence for this checkpoint, or nobody who is believed gave it.
            AnchorError: it can only be checked there, and there is nobody.
        """
        ...

    def newest(self, origin: str) -> bytes | None:
        """
        Return the newest checkpoint that the anchor holds of a log; None if it does not tell.

        Raises:
            AnchorError: it cannot be reached.
        """
        ...
