"""
The record of a call whose arguments a hook changed, or that did not get as far as the ticket.

Decided here: when there is one (only when something differs, was stopped, or broke on its way),
and what it says: the arguments that ran, where they differ from what the model asked, and why a
call was stopped. What the ticket and the permission rules refuse stands in the receipt already.
Not decided here: any of that; the pipeline has done so before.

A rule a maintainer keeps: an audit that cannot be written never fails the call. The receipt is
what a call depends on; this record explains it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final, Protocol

from broker.boundary import contained
from broker.capabilities.clock import Clock
from broker.records.model import AuditOutcome, ToolAudit
from broker.records.store import RecordStore
from broker.redaction.hiding import Hider
from broker.redaction.trees import hide_tree

_STOPPED: Final[dict[str, AuditOutcome]] = {
    "invalid_arguments": "invalid_arguments",
    "blocked": "blocked",
    "hook_failed": "blocked",
    "hook_timeout": "blocked",
}
_NOT_RUN: Final = frozenset({"unknown_tool", "ticket", "permission", "session", "moved"})
_BROKEN: Final = "broken"  # on its way, or while it ran
_RUNS: Final = "execute"  # the stage from which on a call may have run


class EndedCall(Protocol):
    """What is read of a call: the report that a pipeline gives to whoever watches."""

    @property
    def call(self) -> str:
        """Its id."""

    @property
    def tool(self) -> str:
        """The tool's name."""

    @property
    def asked(self) -> str:
        """The arguments as the model gave them, a JSON text."""

    @property
    def ran(self) -> str | None:
        """The arguments that ran, a JSON text; None when it was stopped before they were frozen."""

    @property
    def changed(self) -> Sequence[str]:
        """The places that hooks changed, as JSON pointers."""

    @property
    def ignored(self) -> Sequence[str]:
        """The places that somebody changed after they were frozen, without effect."""

    @property
    def stop(self) -> str:
        """The word for what stopped it, or nothing."""

    @property
    def reason(self) -> str:
        """Why it was stopped."""

    @property
    def stages(self) -> Sequence[str]:
        """The stages that it went through."""


class ToolAudits:
    """
    Writes audits of one session; ``lost`` counts those that could not be written.

    Its ``watch`` is what a pipeline tells of each call at its end.
    """

    def __init__(self, store: RecordStore, clock: Clock, *, salt: bytes = b"") -> None:
        self._store = store
        self._clock = clock
        self._salt = salt
        self.lost = 0

    def watch(self, ended: EndedCall) -> ToolAudit | None:
        """
        Record a call if there is something to say of it.

        Returns:
            The record; None when there is nothing to say, or it could not be written.
        """
        broken = ended.stop == _BROKEN
        not_run = ended.stop in _NOT_RUN or (broken and _RUNS not in ended.stages)
        outcome = _STOPPED.get(ended.stop, "blocked" if not_run else "ran")
        stopped = broken or ended.stop in _STOPPED
        if not stopped and not ended.changed and not ended.ignored:
            return None
        return contained(lambda: self._written(ended, outcome), self._not_written)

    def _written(self, ended: EndedCall, outcome: AuditOutcome) -> ToolAudit | None:
        said = ended.asked if ended.ran is None else ended.ran
        hider = Hider(self._salt)
        kept, paths = hide_tree(json.loads(said), hider)
        audit = ToolAudit(
            hider.text(ended.call), self._clock.now_ns(), hider.text(ended.tool), outcome,
            hider.text(ended.reason),
            tuple(map(hider.text, ended.changed)), tuple(map(hider.text, ended.ignored)),
            hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest(), kept, tuple(paths),
        )  # fmt: skip
        self._store.add(audit)
        return audit

    def _not_written(self, error: Exception) -> ToolAudit | None:
        self.lost += 1
        return None
