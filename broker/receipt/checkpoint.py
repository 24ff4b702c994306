"""
Checkpoints: how many lines a chain has and their Merkle root, signed so that anyone can check.

Decided here: what a checkpoint says, whose it is, and its file. Not decided here: when one is
made (``checkpointer``), what it demands of a receipt (``verify``).

The text of the note is C2SP's ``tlog-checkpoint``: the origin, the number of lines, the root.
The origin is the name of the signing key and what it speaks of:

    capability-broker/<16 hex>/receipt/<session>        capability-broker/<16 hex>/ledger

so a checkpoint of one session is never taken for one of another, nor one key's for another's.

A ``Break`` has the reasons of ``note``, and ``checkpoint_origin``: signed, but of another chain.

Rule a maintainer keeps: a key signs no two checkpoints of a chain that contradict each other. So
only lines that are durable are covered, since a crash can take others back; and no checkpoint
takes the place of one that speaks otherwise of the same lines.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.errors import Break, UnverifiableError
from broker.limits import MAX_NOTE_BYTES
from broker.receipt import disk
from broker.receipt.note import open_note, sign_note
from broker.receipt.signing import SigningKey, VerifyKey, strict_base64

OF_LEDGER: Final = "ledger"
ROOT_BYTES: Final = 32
_MAX_SIZE: Final = 2**64
_MAX_DIGITS: Final = 20
_NONE: Final = -1  # no descriptor


def of_receipt(sid: str) -> str:
    """
    Return what the checkpoints of a session speak of, as their origin spells it.

    >>> of_receipt("k3v")
    'receipt/k3v'
    """
    return f"receipt/{sid}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """
    The first ``size`` lines of the chain ``origin`` have the Merkle root ``root``.

    ``extension`` holds further lines, as other logs may write them; ours have none.

    >>> Checkpoint("example.com/log", 0, bytes(32)).text()
    'example.com/log\\n0\\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\\n'
    """

    origin: str
    size: int
    root: bytes
    extension: str = ""

    def text(self) -> str:
        """Return the text that is signed."""
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n{self.extension}"

    def of(self, key: VerifyKey) -> str:
        """
        Return what the checkpoint speaks of: the origin without the name of the key.

        >>> key = SigningKey.of(bytes(range(32))).public
        >>> Checkpoint(f"{key.name}/receipt/k3v", 0, bytes(32)).of(key)
        'receipt/k3v'
        """
        return self.origin.removeprefix(f"{key.name}/")

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """
        Read the text of a note that a key has signed already.

        Raises:
            Break: it is that of no checkpoint (``checkpoint_format``).
        """
        lines = text.split("\n")
        if len(lines) < 4 or lines.pop() or not all(lines):
            raise _malformed("it has not three lines, or one of them is empty")
        origin, size, root, *extension = lines
        if not (size.isascii() and size.isdecimal() and len(size) <= _MAX_DIGITS):
            raise _malformed("the second line is not a number of lines")
        if (size != "0" and size.startswith("0")) or int(size) >= _MAX_SIZE:
            raise _malformed("the number of lines is not spelled as one")
        try:
            digest = strict_base64(root)
        except ValueError:
            raise _malformed("the third line is not a root in base64") from None
        return cls(origin, int(size), digest, "".join(f"{line}\n" for line in extension))


def sign_checkpoint(key: SigningKey, of: str, size: int, root: bytes) -> bytes:
    """
    Return the note that says what the first ``size`` lines are.

    Args:
        key: who signs.
        of: what it speaks of: ``of_receipt(sid)`` or ``OF_LEDGER``.
        size: the number of lines covered; all of them durable.
        root: their Merkle root.
    """
    return sign_note(Checkpoint(f"{key.name}/{of}", size, root).text(), key)


def open_checkpoint(content: bytes, keys: Sequence[VerifyKey], of: str | None) -> Checkpoint:
    """
    Return the checkpoint that a note holds, once it is seen to be of this chain and signed.

    Args:
        content: the note.
        keys: the public keys that are believed.
        of: what it must speak of: ``of_receipt(sid)`` or ``OF_LEDGER``; None for any chain of
            the key that signed, and then the origin says which.

    Raises:
        Break: ``checkpoint_format``, ``checkpoint_sig`` or ``checkpoint_origin``.
    """
    note = open_note(content, keys)
    found = Checkpoint.parse(note.text)
    for key in note.signers:
        if found.origin.startswith(f"{key.name}/") and of in (None, found.of(key)):
            break
    else:
        wanted = "a chain of the key that signed it" if of is None else f"`…/{of}`"
        raise Break(
            "checkpoint_origin", f"the checkpoint is of `{found.origin}` and must be of {wanted}"
        )
    if len(found.root) != ROOT_BYTES or found.extension:
        raise _malformed("a checkpoint of a receipt has three lines and a root of 32 bytes")
    return found


def read_checkpoint(path: Path) -> bytes:
    """
    Return the content of a checkpoint's file, unverified.

    Raises:
        UnverifiableError: missing or unsafe; ``code`` says how.
    """
    fd = disk.open_checked(path, "checkpoint", forbidden=disk.OTHERS_WRITE)
    try:
        content = b""
        while chunk := os.read(fd, MAX_NOTE_BYTES + 1 - len(content)):
            content += chunk
    except OSError as error:
        raise UnverifiableError(
            f"the checkpoint `{path}` cannot be read", code="unverifiable.unreadable"
        ) from error
    finally:
        os.close(fd)
    return content


class CheckpointFile:
    """
    The file of one chain's latest checkpoint. Safe among threads, processes and forks.

    Args:
        path: where it lies.
        key: who signs.
        of: what it speaks of: ``of_receipt(sid)`` or ``OF_LEDGER``.
        system: the system calls; a test passes a disk that fails.
    """

    __slots__ = ("_disk", "_held", "_of", "key", "path")

    def __init__(
        self, path: Path, key: SigningKey, of: str, *, system: disk.Disk = disk.DISK
    ) -> None:
        self.path = path
        self.key = key
        self._of = of
        self._disk = system
        self._held = _NONE

    def put(self, size: int, root: bytes) -> None:
        """
        Sign that the first ``size`` lines have this root, unless more lines are covered already.

        Raises:
            Break: the file covers the same lines with another root (``checkpoint_root``).
            UnverifiableError: the file there is unsafe.
            OSError: it cannot be written.
        """
        folder = self.path.parent
        disk.make_private_folder(folder)
        held = self._held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            disk.lock(held)
            known = self.read()
            if known is not None and known.size >= size:
                if known.size == size and known.root != root:
                    raise Break(
                        "checkpoint_root", f"the first {size} lines were signed with another root"
                    )
                return
            self._disk.replace(self.path, sign_checkpoint(self.key, self._of, size, root))
        finally:
            # Closing alone would not do: a process forked meanwhile has the lock open too.
            disk.unlock(held)
            self._held = _NONE
            os.close(held)

    def forget(self) -> None:
        """In a forked child: give back what the parent's thread had open."""
        held, self._held = self._held, _NONE
        if held != _NONE:
            os.close(held)

    def read(self) -> Checkpoint | None:
        """
        Return what the file says; None where there is none, or none that this key has signed.

        Raises:
            UnverifiableError: it is unsafe.
        """
        if not os.path.lexists(self.path):
            return None
        content = read_checkpoint(self.path)
        try:
            return open_checkpoint(content, [self.key.public], self._of)
        except Break:
            return None


def _malformed(why: str) -> Break:
    return Break("checkpoint_format", f"the checkpoint is malformed: {why}")
