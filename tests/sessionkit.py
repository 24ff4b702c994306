"""What many tests of a session need: a workspace, a clock that they set, and a session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.events import Bus
from broker.home import Home
from broker.intent import TypedLine
from broker.receipt.audit import audit
from broker.receipt.keys import load_key
from broker.receipt.store import Receipts
from broker.receipt.verify import Verdict, read_entries
from broker.session import Session
from broker.sessions.ground import Outside, key_path

SCOPE = ("tools=Read,Edit", "paths=src/**", "calls=3")


class Clock:
    """A clock that goes on by a millisecond each time it is read, and that a test can set."""

    def __init__(self, at: int = 1_800_000_000_000_000_000) -> None:
        self.at = at

    def __call__(self) -> int:
        self.at += 1_000_000
        return self.at


class Bench:
    """A home and a workspace, and sessions in them."""

    def __init__(self, root: Path, home: Home | None = None) -> None:
        self.home = home or Home.find({"BROKER_HOME": str(root / "home")})
        self.workspace = root / "ws"
        (self.workspace / "src").mkdir(parents=True)
        (self.workspace / "src" / "a.py").write_text("a = 1\n", encoding="utf-8")
        self.clock = Clock()
        self.bus = Bus()
        self.outside = Outside(self.clock, os.urandom, self.bus)

    def open(
        self, texts: Sequence[str] = SCOPE, *, intent: str | None = None, **more: Any
    ) -> Session:
        """Open a session."""
        typed = None if intent is None else TypedLine(intent, "argument")
        return Session.open(
            texts,
            workspace=self.workspace,
            home=self.home,
            intent=typed,
            agent="test",
            outside=self.outside,
            **more,
        )

    def entries(self, sid: str) -> list[tuple[str, dict[str, Any]]]:
        """Return kind and data of every verified entry."""
        receipts = self.receipts()
        found = read_entries(receipts.path(sid), self.key(), receipts.head_path(sid), sid=sid)
        return [(entry.kind, dict(entry.data)) for entry in found]

    def verdict(self, sid: str) -> Verdict:
        """Return the verdict on a receipt."""
        return audit(self.receipts(), sid)

    def receipts(self) -> Receipts:
        """Return the receipts of this home."""
        return Receipts(self.home, self.key())

    def key(self) -> Any:
        """Return the home's key."""
        return load_key(key_path(self.home))


def drop(session: Session) -> None:
    """Leave a session as a killed broker does: not sealed, and its lock given back."""
    session._receipt.close()
    session._ground.alive.drop()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A home and a workspace of this test's own."""
    return Bench(tmp_path)
