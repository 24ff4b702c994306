"""
Signed notes: a text and signatures over it, in C2SP's ``signed-note`` form.

    some lines of text
                                          (a blank line)
    — <key name> <base64 of key id and signature>

Decided here: the one spelling of a note, and which signatures count. Not decided here: what the
text says (``checkpoint``) and whose key is believed (the caller).

A ``Break`` has one of two reasons: ``checkpoint_format``, it is no note; ``checkpoint_sig``, it
is one that no key of the caller's has signed, or that one of them has not signed rightly.

Rules a maintainer keeps:

- ``open_note`` is the only way to a note's text, and it gives none that is not signed.
- Signatures of unknown keys are ignored; a wrong signature of a known key refuses the note.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from broker.errors import Break, InputError
from broker.limits import MAX_NOTE_BYTES, MAX_NOTE_SIGNATURES
from broker.receipt.signing import KEY_ID_BYTES, SigningKey, VerifyKey, is_key_name, strict_base64

_DASH: Final = "— "
_BLANK: Final = "\n\n"


@dataclass(frozen=True, slots=True)
class Note:
    """A text, and the keys that have signed it; other signatures are not listed."""

    text: str
    signers: tuple[VerifyKey, ...]


def sign_note(text: str, *keys: SigningKey) -> bytes:
    """
    Return a note: the text and one signature line for each key.

    Args:
        text: ends in a newline; no other control character stands in it.
        keys: who signs.

    Raises:
        InputError: the text cannot be that of a note, or nobody signs it.

    >>> from broker.receipt.signing import SigningKey
    >>> note = sign_note("all is well\\n", SigningKey.of(bytes(range(32)))).decode()
    >>> text, _, signatures = note.partition("\\n\\n")
    >>> text, signatures[:36]
    ('all is well', '— capability-broker/56475aa75463474c')
    """
    if not text.endswith("\n") or not _is_plain(text):
        raise InputError("the text of a note ends in a newline and has no control characters")
    if not keys:
        raise InputError("a note needs a signature")
    signed = text.encode()
    return signed + b"\n" + b"".join(signature_line(key.public, key.sign(signed)) for key in keys)


def signature_line(key: VerifyKey, signature: bytes) -> bytes:
    """Return the line by which a note carries a signature."""
    return f"{_DASH}{key.name} {b64encode(key.key_id + signature).decode()}\n".encode()


def open_note(content: bytes, keys: Sequence[VerifyKey]) -> Note:
    """
    Return the note that ``content`` is, once a key of ``keys`` is seen to have signed it.

    Raises:
        Break: it is no note (``checkpoint_format``), or not signed (``checkpoint_sig``).
    """
    text, lines = _split(content)
    known = {(key.name, key.key_id): key for key in keys}
    signers = []
    for name, key_id, signature in lines:
        key = known.get((name, key_id))
        if key is not None:
            key.verify(text.encode(), signature)
            signers.append(key)
    if not signers:
        names = ", ".join(f"`{key.name}`" for key in keys) or "anyone"
        raise Break("checkpoint_sig", f"the note is not signed by {names}")
    return Note(text, tuple(dict.fromkeys(signers)))


def _split(content: bytes) -> tuple[str, list[tuple[str, bytes, bytes]]]:
    """Return the text, and of each signature line the name, the key id and the signature."""
    if len(content) > MAX_NOTE_BYTES:
        raise _malformed(f"it is longer than {MAX_NOTE_BYTES} bytes")
    try:
        note = content.decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed("it is not UTF-8") from None
    if not _is_plain(note):
        raise _malformed("it has control characters")
    text, blank, tail = note.rpartition(_BLANK)
    if not blank:
        raise _malformed("no blank line stands before its signatures")
    if tail and not tail.endswith("\n"):
        raise _malformed("its last line does not end")
    lines = tail.split("\n")[:-1]
    if len(lines) > MAX_NOTE_SIGNATURES:
        raise _malformed(f"it has more than {MAX_NOTE_SIGNATURES} signatures")
    return text + "\n", [_signature(line) for line in lines]


def _signature(line: str) -> tuple[str, bytes, bytes]:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    try:
        raw = strict_base64(encoded)
    except ValueError:
        raw = b""
    if not line.startswith(_DASH) or not is_key_name(name) or len(raw) <= KEY_ID_BYTES:
        raise _malformed("a line after the blank line is no signature")
    return name, raw[:KEY_ID_BYTES], raw[KEY_ID_BYTES:]


def _is_plain(text: str) -> bool:
    return all(c >= " " or c == "\n" for c in text)


def _malformed(why: str) -> Break:
    return Break("checkpoint_format", f"the note is malformed: {why}")
