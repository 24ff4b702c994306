"""
Tickets that the person has taken back while they are in use.

``broker revoke`` writes one file for each ticket, named by its id, into the state folder; every
session of this installation looks there before each decision, for every link of the ticket that it
decides under. So a ticket stops with all that was narrowed from it, at the next call, whoever holds
it. Where counts are shared, the store has revocations as well, and other machines see those.

Decided here: the file, and that a revocation is recorded before the first call that it refuses. Not
decided here: who may revoke (``broker.cli.revoke``), what a store says (``broker.budgets``).

Rules a maintainer keeps: a file that cannot be read, or was not made with the installation's key,
revokes all the same, since whoever put it there meant to stop something; nothing here takes a
revocation back; the person types another scope.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from hmac import compare_digest
from pathlib import Path
from typing import Final

from broker.budgets.shared import SharedBudget, revoked_reason, revoked_refusal
from broker.budgets.store import Revoked
from broker.calls import Decision, Refusal
from broker.errors import StoreError
from broker.guard import TicketGuard
from broker.receipt import disk
from broker.receipt.keys import Key, sign
from broker.sessions.records import Data, closed, told

CAVEAT: Final = "revoked"  # what a refusal names
_LABEL: Final = "revoke/1"
_MAX_BYTES: Final = 65_536  # of one file
_TAG_CHARS: Final = 64
_UNREADABLE: Final = "a file that revokes it is there and cannot be believed"


class Revocations:
    """
    What was revoked on this machine: a folder of one file for each ticket.

    Args:
        folder: of the broker's own.
        key: the installation's.
    """

    def __init__(self, folder: Path, key: Key) -> None:
        self._folder, self._key = os.fspath(folder), key

    def of(self, line: Sequence[str]) -> Revoked | None:
        """Return the first link of a line that is revoked."""
        for link in line:
            try:
                content = _content(f"{self._folder}/{link}")
            except FileNotFoundError:
                continue
            except OSError:
                return Revoked(link, _UNREADABLE, 0)
            return self._believed(link, content)
        return None

    def add(self, revoked: Revoked) -> bool:
        """
        Revoke a ticket; false: it was revoked before, and that stands.

        Raises:
            StoreError: it cannot be written.
        """
        text = json.dumps({"reason": revoked.reason, "at": revoked.at}).encode()
        folder = Path(self._folder)
        path = folder / revoked.ticket
        if os.path.lexists(path):
            return False
        try:
            disk.make_private_folder(folder)
            disk.DISK.replace(path, self._tag(revoked.ticket, text) + text)
        except OSError as error:
            raise StoreError(f"`{path}` cannot be written: {disk.said(error)}") from error
        return True

    def _believed(self, ticket: str, content: bytes) -> Revoked:
        tag, text = content[:_TAG_CHARS], content[_TAG_CHARS:]
        if len(content) <= _MAX_BYTES and compare_digest(tag, self._tag(ticket, text)):
            said = json.loads(text)
            return Revoked(ticket, said["reason"], said["at"])
        return Revoked(ticket, _UNREADABLE, 0)

    def _tag(self, ticket: str, text: bytes) -> bytes:
        return sign(self._key.secret, f"{_LABEL} {ticket}", text).encode()


def _content(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | disk.SAFELY)
    try:
        return os.read(fd, _MAX_BYTES + 1)
    finally:
        os.close(fd)


class Revoking:
    """
    What is revoked of one session's tickets; used inside its lock.

    Args:
        revocations: of this machine.
        append: writes an entry at an instant.
    """

    def __init__(
        self, revocations: Revocations, append: Callable[[str, Data, int], object]
    ) -> None:
        self._revocations, self._append = revocations, append
        self._recorded: set[str] = set()

    def look(self, guards: Sequence[TicketGuard], *, unsettled: bool) -> Refusal | None:
        """
        Return the refusal of a call under these tickets, where one of their links is revoked.

        Args:
            guards: all that judge the call.
            unsettled: the call may stand without being settled, so shared counts are asked too.
        """
        for guard in guards:
            found = self._revocations.of(guard.line)
            if found is None and unsettled and isinstance(guard.budget, SharedBudget):
                try:
                    found = guard.budget.revoked(guard.line)
                except StoreError as error:
                    return closed(str(error)).refusal
            if found is not None:
                return revoked_refusal(found.ticket, told(found.reason))
        return None

    def record(self, decision: Decision, at: int) -> None:
        """Write down that a ticket was revoked, before the first refusal that comes of it."""
        refusal = decision.refusal
        if refusal is None or refusal.caveat != CAVEAT or refusal.value in self._recorded:
            return
        self._recorded.add(refusal.value)
        reason = told(revoked_reason(refusal))
        self._append("revoke", {"ticket": refusal.value, "by": "operator", "reason": reason}, at)
