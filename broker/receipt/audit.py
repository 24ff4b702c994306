"""
Auditing: whether receipts keep what the ledger says of them, one by one and all together.

Decided here: what a row demands of a receipt, and what a session without a row may be. Not
decided here: what a receipt must be in itself (``verify``), what rows amount to (``book``).

A ``Break`` has the reasons of ``verify``, and those that only the ledger can know:

- ``missing`` a receipt that began is gone; ``truncated`` it has fewer lines than a row names;
  ``swapped`` it has other lines than a row names
- ``reused`` a session began twice; ``fork`` rows name two receipts; ``unlisted`` no row names it
- ``retired`` a session that was taken away is there again; ``downgrade`` it is not
  forward-secure and began so, or the other way round
- ``no_ledger`` the ledger is gone and sessions are not; ``kid``, ``kid_retired`` and ``order`` of
  the ledger itself

Rules a maintainer keeps:

- The folders are listed first, then the ledger is read, then head and receipt: so whatever a
  writer does meanwhile, each is at least as far as what demands it.
- What a crash can leave is told in a warning, never as a break; what no crash can leave is a
  break, never a warning. The windows stand in ``ledger``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from broker.errors import Break, BrokerError, UnverifiableError
from broker.receipt.book import Book, Listed
from broker.receipt.verify import Verdict, read_entries, verify

TYPE_CHECKING = False  # as `typing` spells it, without importing it
if TYPE_CHECKING:
    from broker.receipt.store import Receipts

Standing = Literal[
    "SEALED", "OPEN", "INTERRUPTED", "TORN", "RETIRED", "EMPTY", "BROKEN", "UNVERIFIABLE"
]
LEDGER: Final = "ledger"  # stands where a session's name does: of the ledger itself
_GONE: Final = ("unverifiable.missing", "unverifiable.nothing")


@dataclass(frozen=True, slots=True)
class Audited:
    """
    What became of one session, or of the ledger itself.

    ``state`` is the verdict's, or RETIRED (a person took it away, and said why), EMPTY (killed
    before its first line; nothing was released), BROKEN or UNVERIFIABLE; ``fault`` says why.
    """

    sid: str
    state: Standing
    verdict: Verdict | None = None
    listed: Listed | None = None
    fault: BrokerError | None = None
    warnings: tuple[str, ...] = ()


def audit(
    receipts: Receipts, sid: str, *, book: Book | None = None, now: int | None = None
) -> Verdict:
    """
    Verify one receipt, and that it is what the ledger says of it.

    Args:
        receipts: where it lies.
        sid: its session.
        book: what the ledger says, where it has been read already.
        now: as for ``verify``.

    Raises:
        Break: tampering, loss or a break, in the receipt or in the ledger.
        UnverifiableError: an unsafe or missing file, no key, or nothing to verify.
    """
    said = receipts.ledger.read() if book is None else book
    listed = said.sessions.get(sid)
    if listed is None and book is None:
        # It may have begun after the ledger was read: its row comes after its first line.
        verdict = _alone(receipts, sid, now)
        listed = receipts.ledger.read().sessions.get(sid)
        if listed is None:
            return _unlisted(verdict)
    if listed is None:
        return _unlisted(_alone(receipts, sid, now))
    return _listed(receipts, listed, now)


def audit_all(
    receipts: Receipts,
    *,
    now: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Audited]:
    """
    Audit the ledger, every session that it names, and every session that it does not name.

    The ledger comes first, under the name ``ledger``. Where it is broken, the receipts are
    verified by themselves.

    Args:
        receipts: where they lie.
        now: as for ``verify``.
        progress: told how many sessions are done, of how many.

    Raises:
        UnverifiableError: there is nothing to verify, or a file of the ledger is unsafe.
    """
    there = [info.sid for info in receipts.sessions()]
    try:
        book = receipts.ledger.read()
    except Break as error:
        book = Book()
        yield Audited(LEDGER, "BROKEN", fault=error)
    else:
        yield Audited(LEDGER, "OPEN", warnings=_told_of_ledger(book))
    broken = book.n == 0
    strangers = [sid for sid in there if sid not in book.sessions]
    total = len(book.sessions) + len(strangers)
    done = 0
    for done, (sid, listed) in enumerate(book.sessions.items(), 1):
        yield _audited(receipts, sid, listed, book, now)
        if progress is not None:
            progress(done, total)
    # A session that began while this ran has its row by now.
    alone = [(sid, _outcome(receipts, sid, now)) for sid in strangers]
    late = book if broken or not alone else receipts.ledger.read()
    for number, (sid, found) in enumerate(alone, done + 1):
        listed_late = late.sessions.get(sid)
        if broken or (listed_late is None and found.verdict is None):
            yield found
        else:
            yield _audited(receipts, sid, listed_late, late, now)
        if progress is not None:
            progress(number, total)


def _audited(
    receipts: Receipts, sid: str, listed: Listed | None, book: Book, now: int | None
) -> Audited:
    try:
        if listed is not None and listed.retired and not listed.clash:
            _check_retired(receipts, listed)
            return Audited(sid, "RETIRED", listed=listed, warnings=(f"retired: {listed.retired}",))
        verdict = audit(receipts, sid, book=book, now=now)
    except BrokerError as error:
        return _faulty(sid, listed, error)
    return Audited(sid, verdict.state, verdict, listed, warnings=verdict.warnings)


def _outcome(receipts: Receipts, sid: str, now: int | None) -> Audited:
    """Verify a session by itself, whatever comes of it."""
    try:
        verdict = _alone(receipts, sid, now)
    except BrokerError as error:
        if error.code in _GONE:
            return Audited(sid, "EMPTY", warnings=("it was killed before its first line",))
        return _faulty(sid, None, error)
    return Audited(sid, verdict.state, verdict, warnings=verdict.warnings)


def _faulty(sid: str, listed: Listed | None, error: BrokerError) -> Audited:
    state: Standing = "BROKEN" if isinstance(error, Break) else "UNVERIFIABLE"
    return Audited(sid, state, listed=listed, fault=error)


def _told_of_ledger(book: Book) -> tuple[str, ...]:
    found = []
    if "reason" in book.opening:
        found.append(f"begun anew by a person: {book.opening['reason']}")
    if book.torn:
        found.append("a row was being written; nothing that was acknowledged is missing")
    if book.rotating:
        found.append("a rotation of keys was cut off; the next session finishes it")
    return tuple(found)


# ── one receipt ──


def _alone(receipts: Receipts, sid: str, now: int | None) -> Verdict:
    """Verify a receipt with the key in use, without asking the ledger."""
    path, head = receipts.path(sid), receipts.head_path(sid)
    return verify(path, key=receipts.key, head=head, sid=sid, now=now)


def _unlisted(verdict: Verdict) -> Verdict:
    """
    Accept a receipt without a row where a crash can have left it.

    Raises:
        Break: it has more than its first line: ``unlisted``.
    """
    if verdict.lines > 1 or verdict.fragment_bytes:
        raise Break(
            "unlisted",
            f"session `{verdict.sid}` has {verdict.lines} lines and no row in the ledger",
        )
    told = "no row in the ledger: it was killed as it began, before anything was released"
    return replace(verdict, warnings=(*verdict.warnings, told))


def _listed(receipts: Receipts, listed: Listed, now: int | None) -> Verdict:
    """
    Verify a receipt with the key that its row names, and hold it against its rows.

    Raises:
        Break, UnverifiableError: as ``audit``.
    """
    if listed.clash is not None:
        raise Break(*listed.clash)
    if listed.retired:
        _check_retired(receipts, listed)
        raise UnverifiableError(
            f"session `{listed.sid}` was retired ({listed.retired}): there is nothing to verify",
            code="unverifiable.retired",
        )
    key = receipts.ledger.key_named(listed.kid)
    if key is None:
        raise UnverifiableError(
            f"session `{listed.sid}` was signed with key `{listed.kid}`, which is not here: put "
            "it back from a copy",
            code="unverifiable.missing_key",
        )
    path, head = receipts.path(listed.sid), receipts.head_path(listed.sid)
    try:
        verdict = verify(path, key=key, head=head, sid=listed.sid, now=now)
    except UnverifiableError as error:
        if error.code not in _GONE:
            raise
        raise _missing(listed, error) from error
    _check_point(verdict, listed)
    if verdict.lines > listed.n:
        for entry in read_entries(path, key, head, sid=listed.sid):
            if entry.n == listed.n - 1:
                if entry.hash != listed.last:
                    raise _swapped(listed)
                break
    return replace(verdict, warnings=(*verdict.warnings, *_told(verdict, listed)))


def _missing(listed: Listed, error: UnverifiableError) -> Break:
    if error.code == "unverifiable.nothing":
        why = f"the ledger names {listed.n} lines of session `{listed.sid}` and none is left"
        return Break("truncated", why)
    return Break("missing", f"session `{listed.sid}` began and its receipt is gone")


def _check_retired(receipts: Receipts, listed: Listed) -> None:
    if receipts.has_receipt(listed.sid):
        raise Break(
            "retired", f"session `{listed.sid}` was retired, and its receipt is there again"
        )


def _check_point(verdict: Verdict, listed: Listed) -> None:
    if verdict.lines < listed.n:
        why = f"the ledger names {listed.n} lines and {verdict.lines} are left"
        raise Break("truncated", why, line=verdict.lines)
    if verdict.lines == listed.n and verdict.last != listed.last:
        raise _swapped(listed)
    if verdict.forward != listed.forward:
        kind = "a forward-secure" if listed.forward else "an ordinary"
        raise Break("downgrade", f"it began as {kind} session, and the head says otherwise")
    end = listed.end
    if end is not None and (verdict.lines, verdict.root, verdict.reason) != (
        end.n,
        end.root,
        end.reason,
    ):
        raise _swapped(listed)


def _swapped(listed: Listed) -> Break:
    return Break(
        "swapped",
        f"line {listed.n - 1} is signed and is not the one that the ledger names",
        line=listed.n - 1,
    )


def _told(verdict: Verdict, listed: Listed) -> Iterator[str]:
    if listed.adopted:
        yield f"adopted by a person as it was found: {listed.adopted}"
    if listed.end is None and verdict.state in ("SEALED", "INTERRUPTED"):
        yield "sealed, and killed before the ledger had its row; the next start writes it"
