"""
Auditing: whether receipts keep what the ledger says of them, one by one and all together.

Decided here: what a row demands of a receipt, and what a session without a row may be. Not
decided here: what a receipt must be in itself (``verify``), what rows amount to (``book``).

A ``Break`` has the reasons of ``verify``, and those that only the ledger can know:

- ``missing`` a receipt that began is gone; ``truncated`` it has fewer lines than a row names;
  ``swapped`` it has other lines than a row names, or ends otherwise
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

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from broker.errors import Break, BrokerError, UnverifiableError
from broker.receipt.book import Book, Listed
from broker.receipt.disk import check_unlinked
from broker.receipt.entry import check_sid
from broker.receipt.evidence import Evidence
from broker.receipt.inspection import inspecting
from broker.receipt.keys import Key
from broker.receipt.ledgernote import check_noted, ledger_note
from broker.receipt.marks import Mark
from broker.receipt.verify import Verdict, judge

TYPE_CHECKING = False  # as `typing` spells it, without importing it
if TYPE_CHECKING:
    from broker.receipt.sealing import Auditor
    from broker.receipt.signing import VerifyKey
    from broker.receipt.store import Receipts

Standing = Literal[
    "SEALED",
    "OPEN",
    "INTERRUPTED",
    "TORN",
    "RETIRED",
    "EMPTY",
    "ANCHORED",
    "BROKEN",
    "UNVERIFIABLE",
]
_SAYS: Final = "the ledger"
LEDGER: Final = "ledger"  # stands where a session's name does: of the ledger itself
RETIRED: Final = "unverifiable.retired"
_GONE: Final = ("unverifiable.missing", "unverifiable.nothing")


@dataclass(frozen=True, slots=True)
class Audited:
    """
    What became of one session, or of the ledger itself.

    ``state`` is the verdict's, or RETIRED (a person took it away, and said why), EMPTY (killed
    before its first line; nothing was released), ANCHORED (an anchor holds the ledger as it is
    here), BROKEN or UNVERIFIABLE; ``fault`` says why.
    """

    sid: str
    state: Standing
    verdict: Verdict | None = None
    listed: Listed | None = None
    fault: BrokerError | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expected:
    """
    What the ledger expects of one receipt, and what it is to be verified with.

    ``evidence`` and ``marks`` go into a verification; ``settle`` says what the verdict comes to.
    """

    evidence: Evidence
    marks: tuple[Mark, ...]
    listed: Listed | None

    def absent(self, error: UnverifiableError) -> BrokerError:
        """Return what it means that a receipt could not be opened or holds no line."""
        if self.listed is None or error.code != "unverifiable.missing":
            return error
        why = f"session `{self.evidence.sid}` began and its receipt is gone"
        return Break("missing", why)

    def settle(self, verdict: Verdict) -> Verdict:
        """
        Return the verdict with what there is to say of its rows.

        Raises:
            Break: it is not what its rows say (``swapped``, ``downgrade``), or has none
                (``unlisted``).
        """
        if self.listed is None:
            return _unlisted(verdict)
        if verdict.forward != self.listed.forward:
            kind = "a forward-secure" if self.listed.forward else "an ordinary"
            raise Break("downgrade", f"it began as {kind} session, and the head says otherwise")
        end = self.listed.end
        stands = (verdict.lines, verdict.root, verdict.reason)
        if end is not None and stands != (end.n, end.root, end.reason):
            raise Break("swapped", "the receipt does not end as the ledger says", line=end.n - 1)
        warnings = (*verdict.warnings, *_told(verdict, self.listed))
        return replace(verdict, warnings=warnings, erased=len(self.listed.erased))


def expect(receipts: Receipts, sid: str, *, book: Book | None = None) -> Expected:
    """
    Return what the ledger expects of a session.

    Args:
        receipts: where it lies.
        sid: its name.
        book: what the ledger says, where it has been read already.

    Raises:
        InputError: it is no session's name.
        Break: the ledger is broken, or its rows alone are evidence: ``reused``, ``fork``,
            ``retired``.
        UnverifiableError: the ledger or the session's key cannot be read, or it was retired.
    """
    check_unlinked(*receipts.home.records(check_sid(sid)))
    said = receipts.ledger.read() if book is None else book
    listed = said.sessions.get(sid)
    key: Key | None = receipts.key
    if listed is not None:
        _check_rows(receipts, listed)
        key = receipts.ledger.key_named(listed.kid)  # it signs the head, if not every line
    if key is None:
        raise UnverifiableError(
            f"session `{sid}` was signed with key `{listed and listed.kid}`, which is not here: "
            "put it back from a copy",
            code="unverifiable.missing_key",
        )
    vkeys = _vouching(receipts, said, listed, sid)
    evidence = Evidence(
        receipts.path(sid),
        sid,
        key,
        receipts.head_path(sid),
        receipts.checkpoint_path(sid),
        vkeys,
        ending=listed is not None and listed.end is None,
    )
    return Expected(evidence, _marks(listed), listed)


def audit(
    receipts: Receipts,
    sid: str,
    *,
    book: Book | None = None,
    now: int | None = None,
    auditor: Auditor | None = None,
) -> Verdict:
    """
    Verify one receipt, and that it is what the ledger says of it.

    Args:
        receipts: where it lies.
        sid: its session.
        book: what the ledger says, where it has been read already.
        now: as for ``verify``.
        auditor: as for ``verify``.

    Raises:
        Break: tampering, loss or a break, in the receipt or in the ledger.
        UnverifiableError: an unsafe or missing file, no key, or nothing to verify.
    """
    expected = expect(receipts, sid, book=book)
    if auditor is not None:
        expected = replace(expected, evidence=replace(expected.evidence, auditor=auditor))
    try:
        verdict = _verified(expected, now)
        return expected.settle(verdict)
    except Break as error:
        if error.reason != "unlisted" or book is not None:
            raise
        # It may have begun after the ledger was read: its row comes after its first line.
        return audit(receipts, sid, book=receipts.ledger.read(), now=now, auditor=auditor)


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
        checkpoint = ledger_note(receipts)
        book = receipts.ledger.read()
        check_noted(receipts, book, checkpoint)
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
        verdict = audit(receipts, sid, book=book, now=now)
    except BrokerError as error:
        if error.code == RETIRED and listed is not None:
            return Audited(sid, "RETIRED", listed=listed, warnings=(listed.retired,))
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


def _verified(expected: Expected, now: int | None) -> Verdict:
    """Verify with what the ledger expects; a session that began cannot be absent or empty."""
    try:
        with inspecting(expected.evidence, expected.marks) as found:
            found.run()
            return judge(found, now=now)
    except UnverifiableError as error:
        raise expected.absent(error) from error


def _alone(receipts: Receipts, sid: str, now: int | None) -> Verdict:
    """Verify a receipt with the key in use, without asking the ledger."""
    return _verified(expect(receipts, sid, book=Book()), now)


def _marks(listed: Listed | None) -> tuple[Mark, ...]:
    """Return the points of a receipt that its rows name."""
    if listed is None:
        return ()
    first = Mark(1, _SAYS, last=listed.first, reason="swapped")
    return (first, Mark(listed.n, _SAYS, last=listed.last, reason="swapped"))


def _vouching(
    receipts: Receipts, book: Book, listed: Listed | None, sid: str
) -> tuple[VerifyKey, ...]:
    """Return the public keys that may have signed a session's checkpoint, if there is one."""
    if not os.path.lexists(receipts.checkpoint_path(sid)):
        return ()
    # Loaded where there is a checkpoint alone: it takes a library and its time.
    from broker.receipt.keyring import Keyring, public_key  # noqa: PLC0415

    keyring = Keyring.of(receipts.key.kid, public_key(receipts.home), book.rotations)
    return keyring.vouching(receipts.key.kid if listed is None else listed.under)


def _check_rows(receipts: Receipts, listed: Listed) -> None:
    """Refuse a session whose rows say enough."""
    if listed.clash is not None:
        raise Break(*listed.clash)
    if not listed.retired:
        return
    if receipts.has_receipt(listed.sid):
        why = f"session `{listed.sid}` was retired, and its receipt is there again"
        raise Break("retired", why)
    raise UnverifiableError(
        f"session `{listed.sid}` was retired ({listed.retired}): there is nothing to verify",
        code=RETIRED,
    )


def _unlisted(verdict: Verdict) -> Verdict:
    """Accept a receipt without a row where a crash can have left it."""
    if verdict.lines > 1 or verdict.fragment_bytes:
        raise Break(
            "unlisted",
            f"session `{verdict.sid}` has {verdict.lines} lines and no row in the ledger",
        )
    told = "no row in the ledger: it was killed as it began, before anything was released"
    return replace(verdict, warnings=(*verdict.warnings, told))


def _told(verdict: Verdict, listed: Listed) -> Iterator[str]:
    if listed.adopted:
        yield f"adopted by a person as it was found: {listed.adopted}"
    if listed.erased:
        count = len(listed.erased)
        reasons = "; ".join(dict.fromkeys(each.reason for each in listed.erased))
        yield f"{count} value{'s'[: count > 1]} erased by a person: {reasons}"
    if listed.end is None and verdict.state in ("SEALED", "INTERRUPTED"):
        yield "sealed, and killed before the ledger had its row; the next start writes it"
