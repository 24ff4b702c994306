"""
The file by which `broker receipt --since` begins where it ended before.

Decided here: what is said when such a file is missing, strange or does not fit any more: then all
lines are verified, and the file is written anew. Not decided here: what is kept in it and when it
may be relied on (``broker.receipt.since``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from broker.errors import InputError, UnverifiableError

if TYPE_CHECKING:
    from broker.receipt import Key, Verdict
    from broker.receipt.evidence import Evidence
    from broker.receipt.inspection import Inspection
    from broker.receipt.since import Since


@dataclass(frozen=True, slots=True)
class StateFile:
    """A state's file, what it held, and what there is to say about that."""

    path: Path
    sid: str
    key: Key
    since: Since | None
    warning: str = ""

    @classmethod
    def of(cls, name: str, what: Evidence) -> StateFile:
        """
        Read the file that was named, which may not be there yet.

        Raises:
            InputError: there is no key to authenticate it with.
            UnverifiableError: the file is unsafe.
        """
        from broker.receipt import Key
        from broker.receipt.since import load_since

        key, path = what.key, Path(name)
        if not isinstance(key, Key):
            raise InputError("--since needs the key: with it the state is authenticated")
        try:
            since = load_since(path, what.sid, key)
        except UnverifiableError as error:
            if error.code != "unverifiable.missing":
                raise
            return cls(path, what.sid, key, None)
        warning = (
            f"the state `{name}` was not written with this key for this session: every line was "
            "verified, and it was written anew"
        )
        return cls(path, what.sid, key, since, "" if since else warning)

    def kept(self, found: Inspection, verdict: Verdict, at: int) -> Verdict:
        """Write where a verification came to; return its verdict with what there is to say."""
        from broker.receipt.disk import said
        from broker.receipt.since import save_since

        if not found.plain:
            warning = "a forward-secure session is always verified whole: no state is kept"
            return replace(verdict, warnings=(*verdict.warnings, warning))
        warnings = [self.warning] if self.warning else []
        if self.since is not None and found.trusted is None:
            warnings.append(f"the state `{self.path}` did not fit: every line was verified")
        try:
            save_since(self.path, self.sid, self.key, found.since(at))
        except OSError as error:
            warnings.append(f"the state `{self.path}` cannot be written: {said(error)}")
        return replace(verdict, warnings=(*verdict.warnings, *warnings))


def cores() -> int:
    """Return on how many cores this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
