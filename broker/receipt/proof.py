"""
The proof that a line stands in a receipt, in a file for somebody who has no secret.

Decided here: the form of the file, and what it takes to be believed. Not decided here: how a
path leads to a root (``paths``), who signs the root (``checkpoint``).

The form is C2SP's ``tlog-proof``: whoever has it and the public key needs nothing else.

    c2sp.org/tlog-proof@v1
    extra <base64 of the line>
    index <number of the line>
    <base64 of a hash>                    (some of these, from the leaf's side to the root's)
                                          (a blank line)
    <the checkpoint, as it was signed>

A ``Break`` has the reasons of ``checkpoint``, and: ``proof_format``, it is no proof; ``proof``,
the hashes do not lead from the line to the signed root; ``proof_line``, the line that is proven
says that it stands elsewhere.

Rules a maintainer keeps: a proof is believed for what it shows, never for what ``extra`` says:
the line in it is a leaf like any other.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from broker.errors import Break, InputError
from broker.limits import MAX_PROOF_BYTES, MAX_PROOF_HASHES, MAX_RECORD_DEPTH
from broker.receipt.checkpoint import Checkpoint, of_receipt, open_checkpoint
from broker.receipt.entry import strict_object
from broker.receipt.paths import HASH_BYTES, check_inclusion, leaf_hash, unproven
from broker.receipt.signing import VerifyKey, strict_base64

_FIRST: Final = "c2sp.org/tlog-proof@v1"
_MAX_DIGITS: Final = 19


@dataclass(frozen=True, slots=True)
class Proof:
    """
    What a proof's file says, unverified: a place, the path from it, and a signed checkpoint.

    ``line`` is the line it is about, or None where the file does not carry it.
    """

    index: int
    path: tuple[bytes, ...]
    checkpoint: bytes
    line: bytes | None = None

    def content(self) -> bytes:
        """Return the file."""
        lines = [_FIRST]
        if self.line is not None:
            lines.append(f"extra {b64encode(self.line).decode()}")
        lines += [f"index {self.index}", *(b64encode(each).decode() for each in self.path), "", ""]
        return "\n".join(lines).encode() + self.checkpoint

    @classmethod
    def parse(cls, content: bytes) -> Proof:
        """
        Read the file of a proof.

        Raises:
            Break: it is none (``proof_format``).
        """
        if len(content) > MAX_PROOF_BYTES:
            raise _malformed(f"it is longer than {MAX_PROOF_BYTES} bytes")
        head, blank, checkpoint = content.partition(b"\n\n")
        try:
            first, *lines = head.decode("ascii").split("\n")
        except UnicodeDecodeError:
            raise _malformed("it is not ASCII before the checkpoint") from None
        if first != _FIRST:
            raise _malformed(f"its first line is not `{_FIRST}`")
        if not blank or not checkpoint:
            raise _malformed("no checkpoint follows a blank line")
        line = None
        if lines and lines[0].startswith("extra "):
            line = _decoded(lines.pop(0).removeprefix("extra "))
        if not lines:
            raise _malformed("it names no line")
        index = _index(lines.pop(0))
        if len(lines) > MAX_PROOF_HASHES:
            raise _malformed(f"it has more than {MAX_PROOF_HASHES} hashes")
        path = tuple(_decoded(each) for each in lines)
        if any(len(each) != HASH_BYTES for each in path):
            raise _malformed(f"a hash has not {HASH_BYTES} bytes")
        return cls(index, path, checkpoint, line)


def _decoded(text: str) -> bytes:
    try:
        return strict_base64(text)
    except ValueError:
        raise _malformed("a line is not base64") from None


def _index(text: str) -> int:
    digits = text.removeprefix("index ")
    if digits == text or not digits.isdecimal() or len(digits) > _MAX_DIGITS:
        raise _malformed("it names no line")
    if digits != "0" and digits.startswith("0"):
        raise _malformed("its line number is not spelled as one")
    return int(digits)


def _malformed(why: str) -> Break:
    return Break("proof_format", f"the proof is malformed: {why}")


@dataclass(frozen=True, slots=True)
class Proven:
    """``line`` is line ``index`` of session ``sid``; ``checkpoint`` is what was signed."""

    sid: str
    index: int
    line: bytes
    checkpoint: Checkpoint


def open_proof(content: bytes, keys: Sequence[VerifyKey], line: bytes | None = None) -> Proven:
    """
    Return what a proof shows, once the signature and every hash are seen to hold.

    Args:
        content: the file of a proof.
        keys: the public keys that are believed.
        line: the line that it must be about; by default the one that the file carries.

    Raises:
        Break: it shows nothing, or something else.
        InputError: the file carries no line, and none is given.

    The line is evidence of what was recorded. That it also names its own session and number is
    checked too: a signer that puts a line elsewhere is not to be believed.
    """
    proof = Proof.parse(content)
    leaf = proof.line if line is None else line
    if leaf is None:
        raise InputError("the proof does not carry its line: give the line too", code="proof.line")
    if proof.line not in (None, leaf):
        raise unproven("it is about another line than the one given")
    found = open_checkpoint(proof.checkpoint, keys, None)
    check_inclusion(proof.index, found.size, leaf_hash(leaf), proof.path, found.root)
    sid = _session(found, keys)
    _check_place(leaf, sid, proof.index)
    return Proven(sid, proof.index, leaf, found)


def _session(checkpoint: Checkpoint, keys: Sequence[VerifyKey]) -> str:
    """Return the session that a believed checkpoint speaks of."""
    for key in keys:
        start = f"{key.name}/{of_receipt('')}"
        if checkpoint.origin.startswith(start):
            return checkpoint.origin.removeprefix(start)
    raise Break(
        "checkpoint_origin", f"the checkpoint is of `{checkpoint.origin}`, not of a receipt"
    )


def _check_place(line: bytes, sid: str, index: int) -> None:
    try:
        fields = strict_object(line.decode("utf-8"), MAX_RECORD_DEPTH + 1)
    except (UnicodeDecodeError, Break):
        fields = {}
    if type(fields.get("n")) is not int or (fields["n"], fields.get("sid")) != (index, sid):
        raise Break("proof_line", f"the line that is proven is not line {index} of `{sid}`")
