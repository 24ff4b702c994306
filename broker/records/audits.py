"""
The record of a call whose arguments a hook changed, or that did not run.

Decided here: when there is one (only when something differs or was stopped), and what it says: the
arguments that ran, where they differ from what the model asked, and why a call was stopped. Not
decided here: any of that; the pipeline has done so before.

A rule a maintainer keeps: an audit that cannot be written never fails the call. The receipt is
what a call depends on; this record explains it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from broker.boundary import contained
from broker.capabilities.clock import Clock
from broker.records.model import Outcome, ToolAudit
from broker.records.store import RecordStore
from broker.redaction.hiding import Hider
from broker.redaction.trees import hide_tree, joined


def changed_paths(asked: object, ran: object, path: str = "") -> list[str]:
    """
    Return where two JSON values differ, as paths; a path that only one of them has counts.

    >>> changed_paths({"a": 1, "b": [1, 2]}, {"a": 1, "b": [1, 3], "c": 0})
    ['b[1]', 'c']
    """
    if isinstance(asked, Mapping) and isinstance(ran, Mapping):
        found: list[str] = []
        for key in sorted(asked.keys() | ran.keys()):
            there = joined(path, str(key))
            if key in asked and key in ran:
                found += changed_paths(asked[key], ran[key], there)
            else:
                found.append(there)
        return found
    if isinstance(asked, list) and isinstance(ran, list):
        if len(asked) != len(ran):
            return [path]
        pairs = enumerate(zip(asked, ran, strict=True))
        return [each for i, (a, b) in pairs for each in changed_paths(a, b, f"{path}[{i}]")]
    same = type(asked) is type(ran) and asked == ran  # 1 and True are equal, and not the same
    return [] if same else [path]


class ToolAudits:
    """
    Writes audits of one session; ``lost`` counts those that could not be written.

    >>> from broker.capabilities.clock import FakeClock
    >>> from broker.capabilities.memory import MemoryFiles
    >>> audits = ToolAudits(RecordStore(MemoryFiles().below("/r")), FakeClock())
    >>> audits.observe("c1", "read", {"path": "a"}, {"path": "a"}) is None
    True
    >>> audits.observe("c2", "read", {"path": "a"}, {"path": "b"}).changed
    ('path',)
    """

    def __init__(self, store: RecordStore, clock: Clock, *, salt: bytes = b"") -> None:
        self._store = store
        self._clock = clock
        self._salt = salt
        self.lost = 0

    def observe(
        self,
        call: str,
        tool: str,
        asked: Mapping[str, object],
        ran: Mapping[str, object],
        *,
        outcome: Outcome = "ran",
        reason: str = "",
    ) -> ToolAudit | None:
        """
        Record a call if there is something to say of it, and return the record.

        Args:
            call: the id of the call.
            tool: the tool's name.
            asked: the arguments as the model gave them.
            ran: the arguments that ran, or would have run.
            outcome: whether it ran, and if not, what stopped it.
            reason: why it was stopped.

        Returns:
            The record; None when there is nothing to say, or it could not be written.
        """
        changed = tuple(changed_paths(asked, ran))
        if outcome == "ran" and not changed:
            return None
        return contained(
            lambda: self._written(
                self._audit(call, tool, ran, outcome=outcome, reason=reason, changed=changed)
            ),
            self._not_written,
        )

    def _audit(
        self,
        call: str,
        tool: str,
        ran: Mapping[str, object],
        *,
        outcome: Outcome,
        reason: str,
        changed: tuple[str, ...],
    ) -> ToolAudit:
        said = json.dumps(ran, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        hider = Hider(self._salt)
        kept, paths = hide_tree(json.loads(said), hider)
        return ToolAudit(
            call, self._clock.now_ns(), tool, outcome, hider.text(reason), changed,
            hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest(), kept, tuple(paths),
        )  # fmt: skip

    def _written(self, audit: ToolAudit) -> ToolAudit | None:
        self._store.add(audit)
        return audit

    def _not_written(self, error: Exception) -> ToolAudit | None:
        self.lost += 1
        return None
