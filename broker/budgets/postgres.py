"""
A store in a PostgreSQL database.

Decided here: the tables, and that one transaction which first locks the rows of its trees is one
request, so requests of one tree follow one another and those of others do not wait. What is
answered was committed with ``synchronous_commit = on``. The tables are made in the schema that the
connection finds first.

Rules a maintainer keeps: each wait ends, also for a server that hangs; a connection that failed is
not used again, since nobody knows what it would answer next.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker.budgets import ruling
from broker.budgets.ruling import Facts, Growth, HolderPlace, Reservation, Ruled, StoreAnswer
from broker.budgets.store import Revoked, unreachable
from broker.errors import ConfigError, InputError

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
_TABLES: Final = """
create table if not exists broker_trees (
    tree text primary key, begun_by text not null, lost text not null default '');
create table if not exists broker_links (link text primary key, calls bigint not null);
create table if not exists broker_holders (
    holder text primary key, number bigint not null, held boolean not null, cost bigint not null,
    line text[] not null, before bigint[] not null);
create table if not exists broker_revoked (
    ticket text primary key, reason text not null, at bigint not null);
"""
_LOCK: Final = 0x62726F6B6572  # for making the tables: `create if not exists` may meet itself


class PostgresStore:
    """
    Counts and revocations in a database.

    Args:
        name: its address without a password, for messages.
        url: ``postgresql://…``; see the manual of libpq for its parameters.
        password: what the server asks for, or nothing.
        authorities: the file of the authorities that the server's certificate is held to; with it,
            TLS and the server's name are insisted upon.
        try_s: the longest wait for one request.

    Raises:
        InputError: the client library is not installed, or the address is none.
        ConfigError: the server forgets what it has answered.
        StoreError: it cannot be asked.
    """

    def __init__(
        self, name: str, url: str, *, password: str = "", authorities: str = "", try_s: float
    ) -> None:
        try:
            import psycopg  # noqa: PLC0415  of the extra `postgres`
        except ImportError as error:
            raise InputError(
                "a budget in a PostgreSQL database needs its client: pip install "
                "'capability-broker[postgres]'"
            ) from error
        # What goes wrong with a connection is an error here, and not a line on a person's terminal.
        logging.getLogger("psycopg").addHandler(logging.NullHandler())
        self.name = name
        self._psycopg = psycopg
        self._url, self._try_s = url, try_s
        self._more: dict[str, Any] = {"password": password} if password else {}
        if authorities:
            self._more |= {"sslmode": "verify-full", "sslrootcert": authorities}
        self._db: psycopg.Connection[Any] | None = None
        self._until = 0.0
        try:
            psycopg.conninfo.make_conninfo(url)
        except psycopg.ProgrammingError as error:
            raise InputError(f"`{name}` is no address of a database: {error}") from error
        self._asked(self._made)

    def begin(self, tree: str, holder: str) -> bool:
        """Make a tree; see ``Store``."""

        def work(db: psycopg.Connection[Any]) -> bool:
            with db.transaction():
                # An update that changes nothing returns the row that is there, and locks it.
                row = db.execute(
                    "insert into broker_trees (tree, begun_by) values (%s, %s) on conflict (tree) "
                    "do update set tree = excluded.tree returning begun_by",
                    (tree, holder),
                ).fetchone()
                db.execute(
                    "insert into broker_links values (%s, 0) on conflict do nothing", (tree,)
                )
            return row is not None and row[0] == holder

        return self._asked(work)

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
        found: dict[str, int] = dict(
            self._asked(lambda db: db.execute(_COUNTS, (list(line),)).fetchall())
        )
        return tuple(found.get(link, 0) for link in line) if found else None

    def revoke(self, revoked: Revoked) -> bool:
        """Revoke a ticket; see ``Store``."""
        row = (revoked.ticket, revoked.reason, revoked.at)
        into = "insert into broker_revoked values (%s, %s, %s) on conflict do nothing"
        return self._asked(lambda db: db.execute(into, row).rowcount == 1)

    def revoked(self, line: tuple[str, ...]) -> Revoked | None:
        """Return the first link of a line that is revoked; see ``Store``."""
        of = "select ticket, reason, at from broker_revoked where ticket = any(%s)"
        rows = self._asked(lambda db: db.execute(of, (list(line),)).fetchall())
        found = {ticket: Revoked(ticket, reason, at) for ticket, reason, at in rows}
        return next((found[link] for link in line if link in found), None)

    def close(self) -> None:
        """Close the connection."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _ruled(
        self,
        holder: str,
        line: tuple[str, ...],
        trees: tuple[str, ...],
        rule: Callable[[Facts], Ruled],
    ) -> StoreAnswer:
        def work(db: psycopg.Connection[Any]) -> StoreAnswer:
            with db.pipeline(), db.transaction():
                found = [
                    db.execute(text, given)
                    for text, given in (
                        (_LOCKED, (list(trees),)),
                        (_PLACE, (holder,)),
                        (_COUNTS, (list(line),)),
                        (_REVOKED, (list(line),)),
                    )
                ]
                trees_of, places, counts, revoked = [each.fetchall() for each in found]
                place = _place(places[0]) if places else None
                known = Facts(dict(trees_of), dict(counts), dict(revoked), place)
                answer, change = rule(known)
                _write(db, holder, change)
            return answer

        return self._asked(work)

    def _asked(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        self._until = time.monotonic() + self._try_s
        try:
            return work(self._connection())
        except (self._psycopg.Error, OSError) as error:
            with suppress(self._psycopg.Error, OSError):
                self.close()
            raise unreachable(self.name, error) from error

    def _connection(self) -> psycopg.Connection[Any]:
        if self._db is None or self._db.closed:
            self._db = _limited(self._psycopg, self._left).connect(
                self._url,
                autocommit=True,
                prepare_threshold=1,
                connect_timeout=max(2, int(self._try_s)),  # libpq knows no less
                **self._more,
            )
            waits_ms = int(self._try_s * 1_000)
            self._db.execute(
                f"set synchronous_commit = on; set statement_timeout = {waits_ms}; "
                f"set idle_in_transaction_session_timeout = {waits_ms}"
            )
        return self._db

    def _left(self) -> float:
        return self._until - time.monotonic()

    def _made(self, db: psycopg.Connection[Any]) -> None:
        """Make the tables, and check that the server keeps what it has answered."""
        for setting in ("fsync", "full_page_writes"):
            row = db.execute(f"show {setting}").fetchone()
            if row is None or row[0] != "on":
                raise ConfigError(
                    f"`{self.name}` may forget calls that were counted: set `{setting} = on` there"
                )
        with db.transaction():
            db.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            db.execute(_TABLES)


_LOCKED: Final = "select tree, lost from broker_trees where tree = any(%s) order by tree for update"
_COUNTS: Final = "select link, calls from broker_links where link = any(%s)"
_REVOKED: Final = "select ticket, reason from broker_revoked where ticket = any(%s)"
_PLACE: Final = (
    "select number, held, cost, line, before from broker_holders where holder = %s for update"
)


def _place(row: Sequence[Any]) -> HolderPlace:
    number, held, cost, line, before = row
    return HolderPlace(number, held, cost, tuple(line), tuple(before))


def _write(db: psycopg.Connection[Any], holder: str, change: Growth) -> None:
    for link, more in sorted(change.counts.items()):
        db.execute(
            "insert into broker_links values (%s, %s) on conflict (link) "
            "do update set calls = broker_links.calls + excluded.calls",
            (link, more),
        )
    if (place := change.place) is not None:
        db.execute(
            "insert into broker_holders values (%s, %s, %s, %s, %s, %s) on conflict (holder) "
            "do update set number = excluded.number, held = excluded.held, cost = excluded.cost, "
            "line = excluded.line, before = excluded.before",
            (holder, place.number, place.held, place.cost, list(place.line), list(place.before)),
        )
    for tree, why in change.lost.items():
        db.execute("update broker_trees set lost = %s where tree = %s", (why, tree))


def _limited(module: Any, left: Callable[[], float]) -> Any:
    """Return the class of connections whose waits end; the library's own would wait for ever."""

    class Limited(module.Connection):  # type: ignore[misc]  # a class of a module that is handed in
        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            at_most = left() if timeout is None else min(timeout, left())
            return super().wait(gen, interval, max(0.001, at_most))

    return Limited
