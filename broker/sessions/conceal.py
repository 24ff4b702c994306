"""
Fields of a receipt that are committed to instead of shown, and the file of their values.

Decided here: which fields a person can have concealed, under which names, and how the values
are kept, shown and erased. Not decided here: the form of a commitment
(``broker.receipt.commitment``).

The values lie beside the receipt, one disclosure a line. The file is not signed: each value is
proven by its digest in a signed line, so whoever changes the file can only lose values, which is
also how they are erased.

Rules a maintainer keeps: a value is on disk before the line that commits to it, so a crash
leaves no line without its value; what a session needs to go on (its ticket, its counts, its
workspace) is never concealed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from broker.calls import TypedText
from broker.errors import InputError, StoreError, UnverifiableError
from broker.intent import digest as plain_line_digest
from broker.receipt import disk
from broker.receipt.commitment import commit, committed, digest, plain_digest, shown

FILE_NAME: Final = "disclosures"
FIELDS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "intent": {"intent": ("line",)},
    "arguments": {"decision": ("args", "subjects", "value", "reason")},
    "results": {"result": ("output",)},
    "reasons": {"permission": ("reason",)},
    "notes": {"note": ("text",)},
}
_MAX_BYTES: Final = 2**30  # bytes of one session's disclosures

Data = Mapping[str, object]


def concealed_names(names: Iterable[str]) -> tuple[str, ...]:
    """
    Return what a person asked to conceal, checked, sorted, each once.

    Args:
        names: of ``FIELDS``, or ``all``; several in one text are separated by commas.

    Raises:
        InputError: there is no such name.

    >>> concealed_names(["notes,intent", "intent"])
    ('intent', 'notes')
    """
    asked = {part.strip() for name in names for part in name.split(",")}
    if "all" in asked:
        asked = set(FIELDS)
    for name in sorted(asked):
        if name not in FIELDS:
            raise InputError(f"`{name}` cannot be concealed: {', '.join(FIELDS)} or all")
    return tuple(sorted(asked))


class Concealer:
    """
    Takes what is to be concealed out of a session's entries, and keeps it.

    Args:
        names: as ``concealed_names`` returns them; none at all conceals nothing.
        folder: the session's folder.
        randomness: for salts.
    """

    def __init__(
        self, names: Collection[str], folder: Path, randomness: Callable[[int], bytes]
    ) -> None:
        self._fields = {kind: found for name in names for kind, found in FIELDS[name].items()}
        self._kept = Disclosures(folder)
        self._randomness = randomness

    def conceals(self, kind: str) -> bool:
        """Whether entries of a kind lose anything."""
        return kind in self._fields

    def intent(self, data: Data) -> dict[str, object]:
        """
        Return what is signed of the typed line, whose ``digest`` the ticket carries.

        A short line could be guessed from its plain digest, so the ticket is bound to the
        salted one where the line is concealed.
        """
        clear = self.take("intent", data)
        promised = committed(clear)
        if promised:
            clear["digest"] = plain_digest(promised[0])
        return clear

    def typed(self, signed: Data) -> TypedText | None:
        """
        Return the typed line that a verified ``intent`` entry records, with the ticket's digest.

        None where the line is not what was typed any more: it held a secret that was blanked, or
        it was concealed and then erased. Whatever has to look at it then refuses.

        Raises:
            UnverifiableError: the file of concealed values is unsafe.
            Break: it holds another line than was committed to.
        """
        line, promised = signed.get("line"), str(signed.get("digest", ""))
        if isinstance(line, str):
            return TypedText(line, promised) if plain_line_digest(line) == promised else None
        if committed(signed):
            line = shown(signed, self._kept.read())[0].get("line")
        return TypedText(line, promised) if isinstance(line, str) else None

    def take(self, kind: str, data: Data) -> dict[str, object]:
        """
        Return what is signed of an entry; what it commits to is durable then.

        Raises:
            StoreError: the values cannot be kept.
        """
        clear, kept = commit(data, self._fields.get(kind, ()), self._randomness)
        if kept:
            self._kept.add(kept)
        return clear


class Disclosures:
    """The values that a session committed to. Safe among processes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME

    def add(self, disclosures: Iterable[str]) -> None:
        """
        Keep more, durably.

        Raises:
            StoreError: they cannot be written.
        """
        content = "".join(f"{text}\n" for text in disclosures).encode()
        try:
            with self._locked(os.O_RDWR | os.O_APPEND | os.O_CREAT) as fd:
                size = os.fstat(fd).st_size
                if size and os.pread(fd, 1, size - 1) != b"\n":
                    content = b"\n" + content  # a crash cut the last one off
                disk.DISK.write_all(fd, content)
                disk.DISK.sync(fd)
        except (OSError, UnverifiableError) as error:
            raise StoreError(f"`{self.path}` cannot be written: {error}") from error

    def read(self) -> dict[str, str]:
        """
        Return what is there, by digest. A value that was changed is found under another digest.

        Raises:
            UnverifiableError: the file is unsafe, or too large.
        """
        try:
            with self._locked(os.O_RDONLY) as fd:
                return {digest(text): text for text in self._texts(fd)}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise UnverifiableError(
                f"`{self.path}` cannot be read: {disk.said(error)}", code="unverifiable.unreadable"
            ) from error

    def erase(self, digests: Collection[str]) -> int:
        """
        Take values away for good; return how many there were.

        Raises:
            StoreError: the file cannot be written anew; what was there stays.
            UnverifiableError: as ``read``.
        """
        try:
            with self._locked(os.O_RDONLY) as fd:
                texts = list(self._texts(fd))
                left = [text for text in texts if digest(text) not in digests]
                if len(left) < len(texts):
                    content = "".join(f"{text}\n" for text in left).encode()
                    disk.DISK.replace(self.path, content)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise StoreError(f"`{self.path}` cannot be written: {disk.said(error)}") from error
        return len(texts) - len(left)

    def _texts(self, fd: int) -> Iterator[str]:
        if os.fstat(fd).st_size > _MAX_BYTES:
            raise UnverifiableError(
                f"`{self.path}` has more than {_MAX_BYTES} bytes", code="unverifiable.too_large"
            )
        with os.fdopen(os.dup(fd), "rb") as stream:
            for line in stream:
                # What a crash cut off has no newline; what is not ASCII is nothing of ours.
                if line.endswith(b"\n") and line.isascii():
                    yield line[:-1].decode()

    @contextmanager
    def _locked(self, flags: int) -> Iterator[int]:
        """Open the file that has the name, and hold its lock; erasing puts another in its place."""
        while True:
            fd = os.open(self.path, flags | disk.SAFELY, 0o600)
            try:
                disk.lock(fd)
                if self._is_named(fd):
                    disk.check_file(os.fstat(fd), self.path, "disclosures", disk.BEYOND_OWNER)
                    yield fd
                    return
            finally:
                os.close(fd)

    def _is_named(self, fd: int) -> bool:
        try:
            named = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(os.fstat(fd), named)
