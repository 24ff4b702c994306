"""
What a store of shared counts can do.

Decided here: the five requests, and that each of them is one step for all who ask: it has happened
altogether or not at all, also when the store is killed. Not decided here: what is answered
(``broker.budgets.ruling``).

Rules a maintainer keeps: a store that cannot be asked raises and never guesses; each request may be
made again after a lost answer and counts once; what was answered is durable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from broker.budgets.ruling import Reservation, StoreAnswer
from broker.errors import StoreError

UNREACHABLE: Final = "store.unreachable"  # the code of what another try may mend


@dataclass(frozen=True, slots=True)
class Revoked:
    """A ticket that was revoked: why, and when (nanoseconds since the Unix epoch)."""

    ticket: str
    reason: str
    at: int


class Store(Protocol):
    """Counts, places and revocations; every request raises ``StoreError`` when it fails."""

    name: str

    def begin(self, tree: str, holder: str) -> bool:
        """Make a tree with no calls counted; false: there is one, made by another holder."""
        ...

    def join(self, holder: str, at_least: int, trees: tuple[str, ...]) -> tuple[StoreAnswer, int]:
        """Begin or go on as a holder; see ``ruling.join``."""
        ...

    def reserve(self, asked: Reservation) -> StoreAnswer:
        """Count a call; see ``ruling.reserve``."""
        ...

    def refund(self, holder: str, number: int) -> StoreAnswer:
        """Take a call back; see ``ruling.refund``."""
        ...

    def counts(self, line: tuple[str, ...]) -> tuple[int, ...] | None:
        """Return the counts of links; None where the store knows none of them."""
        ...

    def revoke(self, revoked: Revoked) -> bool:
        """Revoke a ticket and all below it; false: it was revoked before, and that stands."""
        ...

    def revoked(self, line: tuple[str, ...]) -> Revoked | None:
        """Return the first link of a line that is revoked."""
        ...

    def close(self) -> None:
        """Give back what is open."""
        ...


def unreachable(name: str, why: object) -> StoreError:
    """
    Return the error of a store that cannot be asked for now.

    >>> unreachable("redis://h", "refused\\nthe connection").message
    'the shared budget `redis://h` cannot be asked: refused the connection'
    """
    said = " ".join(str(why).split())[:200] or type(why).__name__
    return StoreError(f"the shared budget `{name}` cannot be asked: {said}", code=UNREACHABLE)
