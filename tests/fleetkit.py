"""A few installations and a store that they mirror to."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import uuid4

from broker.fleet.mirror import Mirror, Put, installation_name
from broker.fleet.target import Target
from broker.fleet.verifying import Judged, installations, jobs_of, verify_one
from broker.receipt.keyring import public_key
from broker.receipt.signing import VerifyKey
from broker.session import Session
from tests.sessionkit import Bench


class Fleet:
    """A store, by default a folder, and the machine whose receipts go there."""

    def __init__(self, root: Path, url: str | None = None) -> None:
        self.root = root
        self.store = root / "store"
        self.url = url or f"file://{self.store}"
        self.target = Target(self.url)
        self.bench = Bench(root)

    def session(self, calls: int = 2, *, seals: bool = True, bench: Bench | None = None) -> Session:
        """Run a session in which so many calls were decided."""
        session = (bench or self.bench).open(("tools=Read",))
        for n in range(calls):
            session.decide("Read", {"file_path": "src/a.py"}, call_id=f"c{n}")
        if seals:
            session.seal()
        return session

    def push(self, bench: Bench | None = None) -> list[Put]:
        """Put what is not there yet."""
        return list(Mirror((bench or self.bench).home, self.target).push())

    def key(self, bench: Bench | None = None) -> VerifyKey:
        """Return the public key of a machine."""
        return public_key((bench or self.bench).home)

    def verify(self, *keys: VerifyKey) -> list[Judged]:
        """Verify all that lies at the store, in this process."""
        found: list[Judged] = []
        for name in installations(self.target):
            ledger, jobs = jobs_of(self.target, name, keys or (self.key(),))
            found += [ledger, *map(verify_one, jobs)]
        return found

    def states(self, *keys: VerifyKey) -> list[tuple[str, str]]:
        """Return the state of each, with its code."""
        return [(each.state, each.code) for each in self.verify(*keys)]

    def folder(self, session: Session | None = None) -> Path:
        """Return where a session, or the ledger, lies in the store."""
        name = installation_name(self.bench.home)
        inner = f"sessions/{session.sid}" if session else "ledger"
        return self.store / name / inner

    def another(self) -> Bench:
        """Return another machine."""
        root = self.root / uuid4().hex[:8]
        root.mkdir()
        return Bench(root)

    def saved(self) -> Path:
        """Return a copy of the store, to go back to."""
        copy = self.root / uuid4().hex[:8]
        shutil.copytree(self.store, copy)
        return copy

    def restore(self, copy: Path) -> None:
        """Go back to a copy of the store."""
        shutil.rmtree(self.store)
        shutil.copytree(copy, self.store)


def objects(folder: Path, ending: str = ".jsonl") -> list[Path]:
    """Return the objects of a folder, by name."""
    return sorted(path for path in folder.iterdir() if path.name.endswith(ending))
