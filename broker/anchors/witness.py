"""
A witness: somebody else who has seen each checkpoint grow out of the one before (C2SP).

Decided here: how a witness is asked (``tlog-witness``), and when a cosignature counts
(``tlog-cosignature``, version 1). Not decided here: whose cosignatures are believed.

A cosignature says that its witness has seen this log have this size and root at that time, and
never another root at that size: it will not sign two that contradict each other. So it shows a
log that was forked, cut, or set back to an older copy.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from broker.anchors.anchor import AnchorError, Attested, Consistency
from broker.anchors.web import ask
from broker.errors import Break, InputError
from broker.receipt.checkpoint import Checkpoint
from broker.receipt.signing import VerifyKey, is_key_name, strict_base64

TRIES: Final = 3
SIZE_KIND: Final = "text/x.tlog.size"
PLAIN: Final = "text/plain"
_COSIGNATURE: Final = b"\x04"  # the kind of key that makes cosignatures with Ed25519
_TIME_BYTES: Final = 8
_LINE_BYTES: Final = 4 + _TIME_BYTES + 64
_DASH: Final = "— "
_OK, _CONFLICT, _UNPROVEN = 200, 409, 422


@dataclass(frozen=True, slots=True)
class WitnessKey:
    """
    A witness's public key: a ``vkey`` whose key is of the kind of cosignatures.
    """

    key: VerifyKey
    key_id: bytes

    @classmethod
    def parse(cls, text: str) -> WitnessKey:
        """
        Read the key from its one line of text.

        Raises:
            InputError: it is none (``receipt.vkey``).
        """
        name, _, rest = text.strip().partition("+")
        digits, _, encoded = rest.partition("+")
        try:
            raw = strict_base64(encoded)
        except ValueError:
            raw = b""
        if raw[:1] != _COSIGNATURE or not is_key_name(name):
            raise InputError("not the key of a witness: a vkey of kind 4", code="receipt.vkey")
        key_id = sha256(name.encode() + b"\n" + raw).digest()[:4]
        if digits != key_id.hex():
            raise InputError("the key's id does not belong to it", code="receipt.vkey")
        return cls(VerifyKey(name, raw[1:]), key_id)

    def seen_at(self, text: str, line: str) -> int | None:
        """
        Return when the witness saw the text of a note, by one signature line; in seconds.

        Returns:
            None when the line is of somebody else.

        Raises:
            Break: it is the witness's, and does not fit (``quorum``).
        """
        name, _, encoded = line.removeprefix(_DASH).partition(" ")
        try:
            raw = b64decode(encoded, validate=True)
        except Base64Error:
            return None
        if name != self.key.name or raw[:4] != self.key_id:
            return None
        if len(raw) != _LINE_BYTES:
            raise Break("quorum", f"the cosignature of `{name}` has another length")
        second = int.from_bytes(raw[4 : 4 + _TIME_BYTES], "big")
        self.key.verify(cosigned(text, second), raw[4 + _TIME_BYTES :], "quorum")
        return second


@dataclass(frozen=True, slots=True)
class Witness:
    """
    A witness that is asked.

    Args:
        name: what its owner calls it.
        url: its address, without the path of a request.
        vkey: its public key.
    """

    name: str
    url: str
    vkey: str
    every_origin: bool = False

    def submit(self, note: bytes, consistency: Consistency) -> bytes:
        """Ask for a cosignature; see ``Anchor``."""
        text, signatures = _halves(note)
        size = Checkpoint.parse(text).size
        old = 0
        for _ in range(TRIES):  # the witness says which size it knows, and may learn another
            status, kind, answer = ask(
                self.url.rstrip("/") + "/add-checkpoint", request(note, old, consistency), PLAIN
            )
            if status == _CONFLICT and kind == SIZE_KIND:
                old = _size(answer)
                if old > size:
                    raise Break(
                        "anchor",
                        f"witness `{self.name}` has seen {old} lines and {size} are left",
                    )
                continue
            break
        if status == _UNPROVEN or (status == _CONFLICT and kind != SIZE_KIND):
            raise Break(
                "anchor", f"witness `{self.name}` has seen another log of this name: a fork"
            )
        if status != _OK:
            raise AnchorError(f"witness `{self.name}` answers with status {status}")
        evidence = text.encode() + b"\n" + signatures.encode() + answer
        self._seen(note, evidence)
        return evidence

    def check(self, note: bytes, evidence: bytes, now: int) -> Attested:
        """Check a cosigned note; see ``Anchor``."""
        at = self._seen(note, evidence) * 1_000_000_000
        late = ("the cosignature is dated in the future",) if at > now else ()
        return Attested(self.name, at, late)

    def newest(self, origin: str) -> None:
        """Return None: a witness tells no checkpoint, it only refuses what contradicts its own."""

    def _seen(self, note: bytes, evidence: bytes) -> int:
        text, lines = _halves(evidence)
        if text != _halves(note)[0]:
            raise Break("anchor", f"the note that `{self.name}` cosigned is another one")
        key = WitnessKey.parse(self.vkey)
        for line in lines.splitlines():
            second = key.seen_at(text, line)
            if second is not None:
                return second
        raise Break("quorum", f"the note is not cosigned by `{key.key.name}`")


def request(note: bytes, old: int, consistency: Consistency) -> bytes:
    """
    Return the body by which a witness is asked: the size it knows, the proof, the checkpoint.

    >>> request(b"note", 0, lambda old: [])
    b'old 0\\n\\nnote'
    """
    hashes = consistency(old) if old else ()
    proof = "".join(f"{b64encode(each).decode()}\n" for each in hashes)
    return f"old {old}\n{proof}\n".encode() + note


def cosigned(text: str, second: int) -> bytes:
    """
    Return what a witness signs: its time, and the text of the checkpoint.

    >>> cosigned("example.com/log\\n1\\nroot\\n", 7)
    b'cosignature/v1\\ntime 7\\nexample.com/log\\n1\\nroot\\n'
    """
    return f"cosignature/v1\ntime {second}\n{text}".encode()


def _halves(note: bytes) -> tuple[str, str]:
    """Return the text of a note, and its signature lines."""
    try:
        text, blank, lines = note.decode("utf-8").rpartition("\n\n")
    except UnicodeDecodeError:
        blank = ""
    if not blank:
        raise Break("checkpoint_format", "the note has no signatures")
    return text + "\n", lines


def _size(answer: bytes) -> int:
    text = answer.decode("ascii", "replace").strip()
    if not text.isdecimal() or len(text) > 19:
        raise AnchorError("the witness does not say which size it knows")
    return int(text)
