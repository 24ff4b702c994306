"""
Verifying a mirror: the ledger of an installation, and each session that it names.

Decided here: what must lie in a mirror, and that it is verified with public keys alone. Not decided
here: what a receipt must be (``broker.receipt.verify``), who works on which
(``broker.fleet.workers``).

A worker fetches the stretches of one session into a private file and verifies that, with the one
verifier that there is: each worker has one session on its disk at a time, and nothing of it in
memory.

Rules a maintainer keeps: nothing that a store says is believed but by a signature of a key that was
handed in; a session that the ledger names must be there, with the lines that it names; what
crosses a process boundary is plain data.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from broker.errors import Break, BrokerError, StoreError, UnverifiableError
from broker.fleet.layout import INSTALLATION, LEDGER, SESSIONS, Mirrored, mirrored, note_name
from broker.fleet.mirror import MAX_STRETCH_BYTES
from broker.fleet.target import Target
from broker.limits import MAX_LINE_BYTES, MAX_NOTE_BYTES
from broker.receipt.audit import Expected
from broker.receipt.book import Book, Listed
from broker.receipt.checkpoint import OF_LEDGER, Checkpoint, open_checkpoint
from broker.receipt.evidence import Evidence
from broker.receipt.form import LEDGER as LEDGER_FORM
from broker.receipt.inspection import inspecting
from broker.receipt.keyring import Keyring
from broker.receipt.marks import Mark
from broker.receipt.pages import LEDGER_SID, kid_of
from broker.receipt.signing import VerifyKey
from broker.receipt.untagged import Untagged
from broker.receipt.verify import judge

_LARGEST: Final = MAX_STRETCH_BYTES + MAX_LINE_BYTES  # bytes of one object of lines
_SAYS: Final = "the mirrored ledger"


@dataclass(frozen=True, slots=True)
class Job:
    """One session to verify, as it is handed to a worker; ``vkeys`` are public keys as text."""

    url: str
    installation: str
    sid: str
    vkeys: tuple[str, ...]
    listed: Listed | None


@dataclass(frozen=True, slots=True)
class Judged:
    """
    What became of one session of a fleet, or of a ledger (``sid`` is ``ledger`` then).

    ``state`` is as in ``broker.receipt.audit``; ``code`` and ``why`` say what is wrong, ``line``
    and ``offset`` where, for a break.
    """

    installation: str
    sid: str
    state: str
    lines: int = 0
    size_bytes: int = 0
    code: str = ""
    why: str = ""
    line: int = 0
    offset: int = 0
    warnings: tuple[str, ...] = ()


def installations(target: Target) -> list[str]:
    """
    Return the installations that have a mirror here.

    Raises:
        UnverifiableError: there is none.
        StoreError: the store cannot be asked.
    """
    found = sorted(
        name
        for name, size in target.folder().items()
        if size is None and INSTALLATION.fullmatch(name)
    )
    if not found:
        raise UnverifiableError(
            f"there is no mirror at `{target.url}`: nothing to verify", code="unverifiable.nothing"
        )
    return found


def jobs_of(
    target: Target, installation: str, keys: Sequence[VerifyKey]
) -> tuple[Judged, list[Job]]:
    """
    Verify the ledger of an installation; return what became of it, and its sessions to verify.

    Where the ledger is broken its sessions are verified by themselves.

    Args:
        target: where it lies.
        installation: its name there.
        keys: the public keys that count.
    """
    vkeys = tuple(key.vkey for key in keys)
    try:
        there = sorted(n for n, s in target.folder(installation, SESSIONS).items() if s is None)
        book, ring, found = _ledger(target, installation, keys)
    except BrokerError as error:
        found = _faulty(Judged(installation, LEDGER, ""), error)
        if isinstance(error, Break):
            return found, [Job(target.url, installation, sid, vkeys, None) for sid in there]
        return found, []
    jobs = [
        Job(target.url, installation, sid, _vouching(ring, listed), listed)
        for sid, listed in book.sessions.items()
    ]
    every = tuple(key.vkey for key in ring.publics)
    strangers = [sid for sid in there if sid not in book.sessions]
    return found, [*jobs, *(Job(target.url, installation, sid, every, None) for sid in strangers)]


def verify_one(job: Job) -> Judged:
    """Verify one session of a mirror, whatever comes of it."""
    found = Judged(job.installation, job.sid, "")
    listed = job.listed
    if listed is not None and listed.retired:
        return replace(found, state="RETIRED", warnings=(listed.retired,))
    try:
        if listed is not None and listed.clash is not None:
            raise Break(*listed.clash)
        with tempfile.TemporaryDirectory(prefix="broker-fleet-") as folder:
            return _verified(job, found, Path(folder))
    except BrokerError as error:
        return _faulty(found, error)
    except OSError as error:
        why = f"there is no room to verify in: {error.strerror or error}"
        return replace(found, state="UNVERIFIABLE", code="unverifiable.unreadable", why=why)


def _verified(job: Job, found: Judged, folder: Path) -> Judged:
    target, place = Target(job.url), (job.installation, SESSIONS, job.sid)
    there = _objects(target, place)
    if not there.stretches:
        why = f"session `{job.sid}` began and there is nothing of it in the mirror"
        raise Break("missing", why)
    if not there.noted:
        raise Break("no_checkpoint", "no checkpoint of it is in the mirror")
    receipt, note = folder / "receipt.jsonl", folder / "checkpoint"
    with open(receipt, "xb") as file:
        cut = _fetch(target, place, there, file)
    note.write_bytes(target.read(MAX_NOTE_BYTES, *place, note_name(there.noted)))
    keys = tuple(VerifyKey.parse(text) for text in job.vkeys)
    ending = job.listed is None or job.listed.end is None
    evidence = Evidence(receipt, job.sid, None, None, note, keys, ending=ending)
    expected = Expected(evidence, _marks(job.listed), job.listed)
    with inspecting(evidence, expected.marks) as inspection:
        inspection.run()
        verdict = judge(inspection, now=time.time_ns())
    warnings = list(verdict.warnings)
    if job.listed is not None:
        # What kind of session it is stands in its first line, which the checkpoint vouches for;
        # the head, which says it too, is not mirrored.
        verdict = expected.settle(replace(verdict, forward=job.listed.forward))
        warnings = list(verdict.warnings)
    else:
        warnings.append("the mirrored ledger does not name it yet")
    if cut:
        warnings.append(f"{cut} lines follow, and no checkpoint in the mirror covers them yet")
    warnings += [f"`{name}` is no object of a mirror" for name in there.strange]
    return replace(
        found,
        state=verdict.state,
        lines=verdict.lines,
        size_bytes=os.stat(receipt).st_size,
        warnings=tuple(warnings),
    )


def _ledger(
    target: Target, installation: str, keys: Sequence[VerifyKey]
) -> tuple[Book, Keyring, Judged]:
    """Return what a mirrored ledger says, once its checkpoint was met."""
    place = (installation, LEDGER)
    there = _objects(target, place)
    if not there.noted:
        raise Break("no_ledger", "there is no ledger in the mirror, or no checkpoint over it")
    note = target.read(MAX_NOTE_BYTES, *place, note_name(there.noted))
    signed = _opened(note, keys, installation)
    with tempfile.TemporaryFile() as file:
        _fetch(target, place, there, file)
        file.seek(0)
        book, kid = _book(file, signed, there.noted)
    first = book.first[:16]
    if first != installation:
        raise Break("swapped", f"it is the ledger of `{first}`")
    ring = Keyring.of(kid, _signer(note, keys), book.rotations)
    warnings = tuple(f"`{name}` is no object of a mirror" for name in there.strange)
    return book, ring, Judged(installation, LEDGER, "OPEN", book.n, book.size, warnings=warnings)


def _book(file: BinaryIO, signed: Checkpoint, rows: int) -> tuple[Book, str]:
    """Return what the rows say, and the name of the key that the last one was signed with."""
    if signed.size != rows:
        raise Break("checkpoint_root", "the ledger's checkpoint is not the one of its name")
    book, chain = Book(), None
    for _ in range(rows):
        line = file.readline().removesuffix(b"\n")
        if chain is None:
            chain = Untagged(LEDGER_SID, kid_of(line), form=LEDGER_FORM)
        chain.accept(line)
        book.take(chain.kind, json.loads(chain.text), chain.at, chain.kid)
        if chain.kind == "rotate":
            chain.renamed(book.rotations[-1].kid_to)
        book.n, book.last, book.size, book.at = chain.n, chain.last, chain.size, chain.at
        book.first = book.first or chain.last
    assert chain is not None  # noqa: S101 - a checkpoint covers a row at least
    if chain.tree is None or chain.tree.root() != signed.root:
        why = f"the {rows} rows are not those that the ledger's checkpoint signs"
        raise chain.broken("checkpoint_root", why)
    return book, chain.kid


def _opened(note: bytes, keys: Sequence[VerifyKey], installation: str) -> Checkpoint:
    try:
        return open_checkpoint(note, keys, OF_LEDGER)
    except Break as error:
        claimed = any(f"\n\N{EM DASH} {key.name} ".encode() in note for key in keys)
        if error.reason != "checkpoint_sig" or claimed:
            raise
        raise UnverifiableError(
            f"the ledger of `{installation}` is signed with no key that was given: give its "
            "`--vkey`, as `broker key show` tells it there",
            code="unverifiable.missing_key",
        ) from error


def _signer(note: bytes, keys: Sequence[VerifyKey]) -> VerifyKey:
    for key in keys:
        try:
            open_checkpoint(note, [key], OF_LEDGER)
        except Break:
            continue
        return key
    raise Break("checkpoint_sig", "nobody who counts signed the ledger's checkpoint")


def _objects(target: Target, place: Sequence[str]) -> Mirrored:
    return mirrored({n: s for n, s in target.folder(*place).items() if s is not None})


def _fetch(target: Target, place: Sequence[str], there: Mirrored, file: BinaryIO) -> int:
    """Fetch the lines that the checkpoint covers; return how many follow them."""
    for stretch in there.stretches:
        if stretch.first >= there.noted:
            break
        if stretch.size_bytes > _LARGEST:
            raise Break("size", f"`{stretch.name}` is larger than what is ever put there")
        whole, size = stretch.end <= there.noted, 0
        parts = target.chunks(stretch.size_bytes, *place, stretch.name)
        for part in parts if whole else _cut(parts, there.noted - stretch.first):
            file.write(part)
            size += len(part)
        if whole and size != stretch.size_bytes:
            raise StoreError(f"`{stretch.name}` has {stretch.size_bytes} bytes and {size} came")
    file.flush()
    return there.lines - there.noted


def _cut(parts: Iterator[bytes], left: int) -> Iterator[bytes]:
    """Yield the first so many lines of a stretch."""
    for part in parts:
        if part.count(b"\n") < left:
            left -= part.count(b"\n")
            yield part
            continue
        end = 0
        for _ in range(left):
            end = part.index(b"\n", end) + 1
        yield part[:end]
        return


def _vouching(ring: Keyring, listed: Listed) -> tuple[str, ...]:
    return tuple(key.vkey for key in ring.vouching(listed.under))


def _marks(listed: Listed | None) -> tuple[Mark, ...]:
    if listed is None:
        return ()
    first = Mark(1, _SAYS, last=listed.first, reason="swapped")
    return (first, Mark(listed.n, _SAYS, last=listed.last, reason="swapped"))


def _faulty(found: Judged, error: BrokerError) -> Judged:
    if isinstance(error, Break):
        return replace(
            found,
            state="BROKEN",
            code=error.reason,
            why=error.message,
            line=error.line,
            offset=error.offset,
        )
    return replace(found, state="UNVERIFIABLE", code=error.code, why=error.message)
