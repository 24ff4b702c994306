"""
A store in one SQLite file, for the processes of one machine.

Decided here: the tables, and that one immediate transaction is one request. SQLite's lock stands
between processes, and its write-ahead log, synced at each commit, stands between a request and a
machine that is switched off. The file must be this user's alone, on a local disk: locks over a
network file system are not to be relied upon.

Rules a maintainer keeps: what is answered is committed before; a file that cannot be locked in time
is one that cannot be asked.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from broker.budgets import ruling
from broker.budgets.ruling import Facts, Growth, HolderPlace, Reservation, Ruled, StoreAnswer
from broker.budgets.store import Revoked, unreachable
from broker.errors import StoreError, UnverifiableError
from broker.receipt import disk

T = TypeVar("T")
OPEN_S: Final = 10.0  # the longest wait for the other processes when a file is opened
_POLL_S: Final = 0.002
_TABLES: Final = """
create table if not exists trees (tree text primary key, begun_by text not null, lost text not null)
    without rowid;
create table if not exists links (link text primary key, calls integer not null) without rowid;
create table if not exists holders (
    holder text primary key, number integer not null, held integer not null, cost integer not null,
    line text not null, before text not null) without rowid;
create table if not exists revoked (ticket text primary key, reason text not null,
    at integer not null) without rowid;
"""


_TREES: Final = "select tree, lost from trees where tree in (select value from json_each(?))"


class SqliteStore:
    """
    Counts and revocations in a file; the file is made where there is none.

    Args:
        path: an absolute path; its folder is made for this user alone, or must be so.
        try_s: the longest wait for the other processes, for one try.

    Raises:
        StoreError: it cannot be made or opened.
        UnverifiableError: others could change it.
    """

    def __init__(self, path: Path, try_s: float) -> None:
        self.name, self._try_s = f"sqlite://{path}", try_s
        try:
            disk.make_private_folder(path.parent)
            disk.check_folder(path.parent, "folder of the shared budget")
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | disk.SAFELY, 0o600))
            # Looked at and not opened: closing it would give back what SQLite has locked here.
            disk.check_file(os.lstat(path), path, "shared budget", 0o077)
        except OSError as error:
            raise StoreError(f"`{path}` cannot be made: {disk.said(error)}") from error
        try:
            self._db = sqlite3.connect(
                path, timeout=OPEN_S, isolation_level=None, check_same_thread=False
            )
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = full")
            self._db.executescript(f"begin immediate; {_TABLES} commit;")
            self._db.execute("pragma busy_timeout = 0")
        except sqlite3.OperationalError as error:
            raise unreachable(self.name, error) from error
        except sqlite3.DatabaseError as error:
            raise UnverifiableError(f"`{path}` is no file of shared counts: {error}") from error

    def begin(self, tree: str, holder: str) -> bool:
        """Make a tree; see ``Store``."""
        with self._step() as db:
            found = db.execute("select begun_by from trees where tree = ?", (tree,)).fetchone()
            if found is not None:
                return bool(found[0] == holder)
            db.execute("insert into trees values (?, ?, '')", (tree, holder))
            db.execute("insert into links values (?, 0)", (tree,))
            return True

    def join(self, holder: str, at_least: int, trees: tuple[str, ...]) -> tuple[StoreAnswer, int]:
        """Begin or go on as a holder; see ``Store``."""
        base = 0

        def ruled(known: Facts) -> Ruled:
            nonlocal base
            found, base = ruling.join(holder, at_least, trees, known)
            return found

        return self._ruled(holder, (), trees, ruled), base

    def reserve(self, asked: Reservation) -> StoreAnswer:
        """Count a call; see ``Store``."""
        return self._ruled(
            asked.holder, asked.line, asked.trees, lambda known: ruling.reserve(asked, known)
        )

    def refund(self, holder: str, number: int) -> StoreAnswer:
        """Take a call back; see ``Store``."""
        return self._ruled(holder, (), (), lambda known: ruling.refund(number, known))

    def counts(self, line: tuple[str, ...]) -> tuple[int, ...] | None:
        """Return the counts of links; see ``Store``."""
        found = self._read(lambda db: _counts(db, line))
        return tuple(found.get(link, 0) for link in line) if found else None

    def revoke(self, revoked: Revoked) -> bool:
        """Revoke a ticket; see ``Store``."""
        with self._step() as db:
            row = (revoked.ticket, revoked.reason, revoked.at)
            return db.execute("insert or ignore into revoked values (?, ?, ?)", row).rowcount == 1

    def revoked(self, line: tuple[str, ...]) -> Revoked | None:
        """Return the first link that is revoked; see ``Store``."""
        found = self._read(lambda db: _revoked(db, line))
        return next((found[link] for link in line if link in found), None)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _ruled(
        self,
        holder: str,
        line: tuple[str, ...],
        trees: tuple[str, ...],
        rule: Callable[[Facts], Ruled],
    ) -> StoreAnswer:
        with self._step() as db:
            known = Facts(
                dict(db.execute(_TREES, (json.dumps(trees),))),
                _counts(db, line),
                {each.ticket: each.reason for each in _revoked(db, line).values()},
                _place(db, holder),
            )
            answer, change = rule(known)
            _write(db, holder, change)
            return answer

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(self._db)
        except sqlite3.Error as error:
            raise unreachable(self.name, error) from error

    def _begin(self) -> None:
        # SQLite's own waiting grows to a tenth of a second, and who has waited long waits on.
        until = time.monotonic() + self._try_s
        while True:
            try:
                self._db.execute("begin immediate")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(_POLL_S)
            else:
                return

    @contextmanager
    def _step(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is durable behind the block, or nothing of it."""
        try:
            self._begin()
            try:
                yield self._db
                self._db.execute("commit")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("rollback")
                raise
        except sqlite3.Error as error:
            raise unreachable(self.name, error) from error


def _counts(db: sqlite3.Connection, line: tuple[str, ...]) -> dict[str, int]:
    of = "select link, calls from links where link in (select value from json_each(?))"
    return dict(db.execute(of, (json.dumps(line),)))


def _revoked(db: sqlite3.Connection, line: tuple[str, ...]) -> dict[str, Revoked]:
    of = "select ticket, reason, at from revoked where ticket in (select value from json_each(?))"
    rows = db.execute(of, (json.dumps(line),))
    return {ticket: Revoked(ticket, reason, at) for ticket, reason, at in rows}


def _place(db: sqlite3.Connection, holder: str) -> HolderPlace | None:
    row = db.execute("select * from holders where holder = ?", (holder,)).fetchone()
    if row is None:
        return None
    _, number, held, cost, line, before = row
    return HolderPlace(number, bool(held), cost, tuple(json.loads(line)), tuple(json.loads(before)))


def _write(db: sqlite3.Connection, holder: str, change: Growth) -> None:
    db.executemany(
        "insert into links values (?, ?) on conflict (link) do update set calls = calls + ?",
        [(link, more, more) for link, more in change.counts.items()],
    )
    if (place := change.place) is not None:
        row = (holder, place.number, place.held, place.cost, json.dumps(place.line))
        db.execute("insert or replace into holders values (?, ?, ?, ?, ?, ?)",
                   (*row, json.dumps(place.before)))  # fmt: skip
    db.executemany("update trees set lost = ? where tree = ?",
                   [(why, tree) for tree, why in change.lost.items()])  # fmt: skip
