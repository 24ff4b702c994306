"""
What else is known of a receipt's lines: by its checkpoint, the ledger, an anchor, a person.

Decided here: when the lines are those that somebody names, and what it means that they are not,
or are not all there. Not decided here: whether whoever says so is to be believed (``evidence``,
``audit``, the anchors), and what a level follows from it (``verify``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.errors import Break

if TYPE_CHECKING:
    from broker.receipt.chain import Chain
    from broker.receipt.since import Since

EARLIER: Final = "the state of an earlier verification"
_KEPT: Final = 8  # marks that a state remembers


@dataclass(frozen=True, slots=True)
class Mark:
    """
    What the first ``n`` lines must come to, as somebody says who knew them.

    Args:
        n: how many lines, from the first.
        says: who says it, for messages.
        last: the hash of the last of them; empty says nothing of it.
        root: their Merkle root; empty says nothing of it.
        reason: of the break where another line stands there.
        anchor: who outside holds it, if somebody does.
    """

    n: int
    says: str
    last: str = ""
    root: bytes = b""
    reason: str = "fork"
    anchor: str = ""


class Marks:
    """
    The marks of one receipt, met one after the other.

    ``ends`` tells where in the file the lines of a mark end, and ``anchored`` how many lines each
    anchor was found to hold.
    """

    def __init__(self, marks: Iterable[Mark]) -> None:
        self._ahead: dict[int, list[Mark]] = {}
        self.ends: dict[int, int] = {}
        self.anchored: dict[str, int] = {}
        self._met: list[tuple[int, str]] = []
        for mark in marks:
            self._ahead.setdefault(mark.n, []).append(mark)

    def __contains__(self, n: object) -> bool:
        return n in self._ahead

    def numbers(self) -> set[int]:
        """Return at how many lines there is still a mark to meet."""
        return set(self._ahead)

    def meet(self, chain: Chain, start: int) -> None:
        """
        Compare the lines so far with what is said of them; the last one begins at ``start``.

        Raises:
            Break: they are others (``fork`` or the mark's reason, ``checkpoint_root``).
        """
        line = chain.n - 1
        for mark in self._ahead.pop(chain.n, ()):
            if mark.last and chain.last != mark.last:
                message = f"line {line} is not the one that {mark.says} names"
                raise Break(mark.reason, message, line=line, offset=start)
            if mark.root and (chain.tree is None or chain.tree.root() != mark.root):
                message = f"the first {chain.n} lines are not those that {mark.says} signs"
                raise Break("checkpoint_root", message, line=line, offset=start)
            self.ends[mark.n] = chain.size
            if mark.anchor:
                self.anchored[mark.anchor] = max(mark.n, self.anchored.get(mark.anchor, 0))
            if mark.last and mark.says != EARLIER and (mark.n, mark.last) not in self._met:
                self._met.append((mark.n, mark.last))

    def check_met(self, chain: Chain) -> None:
        """
        See at the end that no mark is left.

        Raises:
            Break: lines are missing that somebody names (``truncated``).
        """
        for n in sorted(self._ahead):
            says = self._ahead[n][0].says
            raise chain.broken("truncated", f"{says} names {n} lines and {chain.n} are left")

    # ── from one verification to the next ──

    def kept(self) -> tuple[tuple[int, str], ...]:
        """Return the latest marks that were met, for a state to remember."""
        return tuple(self._met[-_KEPT:])

    def pass_by(self, since: Since, root: bytes) -> bool:
        """
        Take the marks up to an earlier state as met, if they are known from then.

        Args:
            since: where the earlier verification ended.
            root: the root of all lines that it verified.
        """
        passed = [mark for n in self._ahead if n <= since.state.n for mark in self._ahead[n]]
        if not all(_stood(mark, since, root) for mark in passed):
            return False
        for mark in passed:
            self._ahead.pop(mark.n, None)
            if mark.anchor:
                self.anchored[mark.anchor] = max(mark.n, self.anchored.get(mark.anchor, 0))
        self._met = list(since.met)
        at_end = [
            (mark.n, mark.last)
            for mark in passed
            if mark.n == since.state.n and mark.last and mark.says != EARLIER
        ]
        self._met += [each for each in at_end if each not in self._met]
        size, _, end = since.covered
        self.ends = {size: end, since.state.n: since.state.size}
        return True


def _stood(mark: Mark, since: Since, root: bytes) -> bool:
    """Whether what a mark says of lines that are not read again is known."""
    if mark.n == since.state.n:
        return mark.last in ("", since.state.last) and mark.root in (b"", root)
    if mark.root:
        return (mark.n, mark.root.hex()) == since.covered[:2]
    return (mark.n, mark.last) in since.met
