"""
One inspection of a receipt, in constant memory: every line, and what vouches for all of them.

Decided here: in which order lines are read and compared with what is known of them, and when an
entry may be handed out. Not decided here: what one line must be (``chain``), which files are read
(``evidence``), what others say of the lines (``marks``), what it all comes to (``verify``).

Rule a maintainer keeps: only bytes that were authenticated leave this module. Without the
secret no entry is handed out before the checkpoint's root was met, and then from a copy that
nobody else can change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from broker.errors import Break, UnverifiableError
from broker.receipt import disk
from broker.receipt.chain import Chain
from broker.receipt.demand import Level, promised, reaches
from broker.receipt.entry import Entry, parse_at
from broker.receipt.evidence import Evidence, Opened, opened, unreadable
from broker.receipt.forward import AuditorChain, Rejoined, check_end, forward_chain
from broker.receipt.keys import Key
from broker.receipt.marks import EARLIER, Mark, Marks
from broker.receipt.scan import CHUNK_BYTES, Progress, Walk
from broker.receipt.since import Since, fits
from broker.receipt.survey import survey
from broker.receipt.untagged import Untagged, stated_kid

_SEAL_IN_SIGHT: Final = b'","kind":"seal","n":'
_SEAL_LINE_BYTES: Final = 1_024  # more than any authentic seal line


@dataclass(frozen=True, slots=True)
class Pace:
    """
    How a file is gone through; none of it changes what holds.

    Args:
        jobs: how many processes may work on it.
        quick: check links, the tags over them and the head, and do not read what is in the lines.
        progress: told now and then how many bytes are verified.
    """

    jobs: int = 1
    quick: bool = False
    progress: Progress | None = None


STEADY: Final = Pace()
_TOLD_BYTES: Final = 262_144  # between two calls of a `Progress`


class Inspection:
    """
    One inspection of a receipt: iterate over ``entries``, or call ``run``.

    When that has come to its end, every line was verified, and head, checkpoint and expected
    head were met; ``done`` says so. Made by ``inspecting``.

    Args:
        evidence: what is read, and what it is verified with.
        files: what is open.
        marks: what else is known of the lines.
        since: where a verification ended before; ``trusted`` tells if this one began there.
        keeps: where this one ends will be asked for, by ``since``.
    """

    def __init__(
        self,
        evidence: Evidence,
        files: Opened,
        marks: Sequence[Mark] = (),
        since: Since | None = None,
        keeps: bool = False,
    ) -> None:
        self.evidence = evidence
        self.slots = files.slots
        self._kept = files.kept
        covers = files.checkpoint is not None and files.checkpoint.size > 0
        self.checkpoint = files.checkpoint if covers else None
        self.size = files.size
        self.promise: Level = "mac"
        self.trusted: Since | None = None
        self.quick = False
        self.done = False
        self._since = since
        self._keeps = keeps
        self._known = list(marks)
        if since is not None:
            self._known.append(Mark(since.state.n, EARLIER, since.state.last))
        if self.checkpoint is not None:
            note = self.checkpoint
            self._known.append(Mark(note.size, "the checkpoint", root=note.root))
        self._begin(files.fd)

    def _begin(self, fd: int) -> None:
        """Stand before line 0 of an open file."""
        size = self.size
        self._fd = fd
        try:
            ending = os.pread(fd, _SEAL_LINE_BYTES, max(0, size - _SEAL_LINE_BYTES))
            rooted = self._keeps or any(mark.root for mark in self._known)
            self.chain = self._chain(rooted or _SEAL_IN_SIGHT in ending)
        except OSError as error:
            raise unreadable("receipt", self.evidence.path, error) from error
        self._walk = Walk(fd, size, self.chain, self.slots)
        self.marks = Marks(self._known)

    def _chain(self, tree: bool) -> Chain:
        key, sid = self.evidence.key, self.evidence.sid
        auditor, head = self.evidence.auditor, self.slots.head if self.slots else None
        # What kind of session it is, the head says: the file alone could be another's.
        if auditor is not None or (head is not None and head.aggregate):
            return forward_chain(self._fd, sid, head, self._kept, auditor, tree=tree)
        if key is None:
            return Untagged(sid, stated_kid(self._fd), tree=tree)
        return Chain(sid, key, tree=tree)

    @property
    def plain(self) -> bool:
        """Whether one key signs every line alike, so that lines can be shared out or left out."""
        return type(self.chain) is Chain

    def _resume(self, since: Since) -> None:
        """Stand where the verification before ended, if everything fits that."""
        state, key = since.state, self.evidence.key
        files = Opened(self._fd, self.size, self.slots, self.checkpoint)
        if not self.plain or not isinstance(key, Key) or not fits(since, files):
            return
        then = Chain.resumed(state, self.chain.sid, key)
        if then.tree is None:
            return
        if not self.marks.pass_by(since, then.tree.root()):
            return
        self.chain.restore(state)
        self.promise = since.promise
        self.trusted = since

    # ── the lines ──

    def run(self, pace: Pace = STEADY) -> None:
        """
        Verify every line, and what must come after the last one.

        Raises:
            Break: the first place that is not what was signed.
            UnverifiableError: the file cannot be read, or holds nothing to verify.
        """
        try:
            if self._since is not None:
                self._resume(self._since)
            self.quick = pace.quick and self.plain
            if self.quick and not self._keeps and not any(mark.root for mark in self._known):
                self.chain.tree = None
            self._walk.run(
                jobs=pace.jobs if self.plain else 1,
                progress=pace.progress,
                quick=self.quick,
                stops={n: partial(self._at, n) for n in {1, *self.marks.numbers()}},
            )
        except OSError as error:
            raise unreadable("receipt", self.evidence.path, error) from error
        self._end()

    def entries(self, progress: Progress | None = None) -> Iterator[Entry]:
        """
        Yield the entries, each only after it was authenticated; see ``lines``.
        """
        for entry, _ in self.lines(progress):
            yield entry

    def lines(self, progress: Progress | None = None) -> Iterator[tuple[Entry, bytes]]:
        """
        Yield the entries with their bytes, each only after it was authenticated.

        With the secret that is line by line, and a break further on is raised when the walk
        gets there. Without it nothing is authentic before the checkpoint's root was met, or
        the head over lines whose keys are gone, so all lines are verified first then, in a
        copy of our own.

        Args:
            progress: told now and then how many bytes are verified.

        Raises:
            Break, UnverifiableError: as ``run``; also where nothing authenticates the entries.
        """
        if self.tagged:
            yield from self._read(progress)
            return
        if self.checkpoint is None and not self.vouched:
            raise UnverifiableError(
                "nothing authenticates the entries: give the key, or a checkpoint and the public "
                "key of its signer",
                code="unverifiable.unauthenticated",
            )
        import tempfile  # noqa: PLC0415  rarely needed, and it takes time to load

        with tempfile.TemporaryFile() as copy:
            self._copy(copy.fileno())
            self._begin(copy.fileno())
            self.run(Pace(progress=progress))
            self._begin(copy.fileno())
            yield from self._read(None)

    def _copy(self, target: int) -> None:
        at = 0
        try:
            while at < self.size:
                chunk = os.pread(self._fd, min(CHUNK_BYTES, self.size - at), at)
                if not chunk:
                    break
                disk.DISK.write_all(target, chunk)
                at += len(chunk)
        except OSError as error:
            raise unreadable("receipt", self.evidence.path, error) from error

    def _read(self, progress: Progress | None) -> Iterator[tuple[Entry, bytes]]:
        chain = self.chain
        told = 0
        for line in self._lines():
            if progress is not None and chain.size - told >= _TOLD_BYTES:
                told = chain.size
                progress(told)
            entry = Entry(
                chain.n - 1, chain.last, chain.kind, parse_at(chain.at), json.loads(chain.text)
            )
            yield entry, line

    def _lines(self) -> Iterator[bytes]:
        """Walk the lines one by one, and meet each mark where it stands."""
        chain = self.chain
        walk = iter(self._walk)
        while True:
            start = chain.size
            try:
                line = next(walk)
            except StopIteration:
                break
            except OSError as error:
                raise unreadable("receipt", self.evidence.path, error) from error
            if chain.n == 1 or chain.n in self.marks:
                self._at(chain.n, start)
            yield line
        self._end()

    def _at(self, n: int, start: int) -> None:
        """Look at what ``n`` lines ask for; the last of them begins at ``start``."""
        self.marks.meet(self.chain, start)
        if n == 1:
            self.promise = promised(self.chain.text)

    def _end(self) -> None:
        """Check what can only be seen at the end."""
        chain, checkpoint = self.chain, self.checkpoint
        if chain.n == 0 and not self.marks.numbers():
            raise UnverifiableError(
                f"session `{chain.sid}` has no line: there is nothing to verify",
                code="unverifiable.nothing",
            )
        self.marks.check_met(chain)
        check_end(chain, self.slots.head if self.slots else None)
        if checkpoint is not None and checkpoint.size < chain.n:
            self._check_uncovered(checkpoint.size)
        self.done = True

    def _check_uncovered(self, covered: int) -> None:
        """Refuse lines that the checkpoint should cover and does not."""
        if not self.vouched:
            reason, why = "unsigned", "without the key nothing authenticates what follows it"
        elif self.chain.closing and not self.evidence.ending:
            reason, why = "checkpoint_old", "the receipt was sealed after it"
        else:
            return
        raise Break(
            reason,
            f"the checkpoint covers {covered} of {self.chain.n} lines: {why}",
            line=covered,
            offset=self.marks.ends[covered],
        )

    def breaks(self, first: Break) -> Iterator[Break]:
        """
        Yield what else is wrong, after ``run`` or ``entries`` met its ``first`` break.

        With tags that move on from line to line nothing behind a break can be placed, so
        nothing is yielded then.

        Raises:
            UnverifiableError: the file cannot be read.
        """
        if self.tagged and (self.evidence.auditor or not isinstance(self.evidence.key, Key)):
            return
        place = (first.reason, first.line, first.offset)
        try:
            chain = self._chain(tree=False)
            if isinstance(chain, Rejoined):
                chain = Untagged(chain.sid, stated_kid(self._fd), tree=False)
            for found in survey(self._fd, self.size, chain, self.slots):
                if (found.reason, found.line, found.offset) != place:
                    yield found
        except OSError as error:
            raise unreadable("receipt", self.evidence.path, error) from error

    def since(self, at: int) -> Since:
        """
        Return where this inspection came to, for the next one to begin there.

        Args:
            at: when it ended; the next one tells since when it trusts what was verified.
        """
        note = self.checkpoint
        ends = self.marks.ends
        covered = (note.size, note.root.hex(), ends[note.size]) if note else (0, "", 0)
        full_at = at if self.trusted is None else self.trusted.full_at
        return Since(self.chain.state(), self.promise, full_at, covered, self.marks.kept())

    @property
    def fragment_bytes(self) -> int:
        """How much of a line follows the last newline."""
        return len(self._walk.fragment)

    @property
    def level(self) -> Level:
        """The level that the lines reach."""
        if self.checkpoint is not None:
            whole = self.anchored == self.chain.n
            return "anchored" if whole or (self.anchored and not self.chain.closing) else "signed"
        return "mac" if self.tagged else "chain"

    @property
    def anchored(self) -> int:
        """How many lines somebody outside holds."""
        return max(self.marks.anchored.values(), default=0)

    @property
    def behind(self) -> bool:
        """Whether it was sealed, and a crash may have come before the checkpoint of that."""
        if not (self.evidence.ending and self.chain.closing):
            return False
        if self.checkpoint is None:
            return reaches(self.promise, "signed")
        return self.checkpoint.size < self.chain.n

    @property
    def forward(self) -> bool:
        """Whether it was walked as a forward-secure session."""
        return isinstance(self.chain, Rejoined | AuditorChain)

    @property
    def tagged(self) -> bool:
        """Whether the tag of every line is checked."""
        return not isinstance(self.chain, Untagged)

    @property
    def vouched(self) -> bool:
        """Whether a key stands behind every line: each tag, or the head over lines of the past."""
        return self.tagged or isinstance(self.chain, Rejoined)


@contextmanager
def inspecting(
    evidence: Evidence,
    marks: Sequence[Mark] = (),
    since: Since | None = None,
    keeps: bool = False,
) -> Iterator[Inspection]:
    """
    Open a receipt and what it is verified with; the arguments are those of ``Inspection``.

    Raises:
        Break, UnverifiableError: as ``opened``.
    """
    with opened(evidence) as files:
        yield Inspection(evidence, files, marks, since, keeps)
