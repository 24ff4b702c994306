"""
A body in pieces, so that a conversation that is sent again costs nothing.

A model call sends the whole conversation, so a hundred calls send its beginning a hundred times.
What is kept of a body is a list of parts: texts of its own, and references to pieces. A piece is
one element of a list at the top (a message, a tool) after the elements before it, or one large
value. It is named by the digest of all that it stands for, itself and what comes before, so a
list with a known beginning adds only its new elements.

Decided here: how a body is cut and joined again. Not decided here: where pieces lie.

Rules a maintainer keeps: joined, the parts are the body, byte by byte: a body that is not spelled
in one of the known ways is kept as one text; a name depends on content alone, never on an id that
somebody gave.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from broker.limits import MAX_INLINE_BYTES
from broker.records.model import Body, Part
from broker.redaction.trees import readable

_LEAST_CHARS: Final = 512  # characters of a value that is a piece of its own
# How JSON is spelled by the clients that we know: separators, and whether beyond ASCII as such.
_SPELLINGS: Final = tuple(
    (separators, ascii_only)
    for separators in ((",", ":"), (", ", ": "))
    for ascii_only in (False, True)
)


@dataclass(frozen=True, slots=True)
class BodyPiece:
    """A text that is kept once; ``before`` is the name of the piece that it comes after, or ""."""

    id: str
    before: str
    text: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A body in parts, and the pieces that they refer to, each before those that follow it."""

    parts: tuple[Part, ...]
    pieces: tuple[BodyPiece, ...]


def piece_id(before: str, text: str) -> str:
    """Return the name of a piece: the digest of what it stands for."""
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def cut(body: str) -> Cut:
    """
    Cut a body into parts.

    >>> cut('{"messages":["a","b"],"model":"m"}').parts[::2]
    ('{"messages":[', '],"model":"m"}')
    >>> cut("not JSON").parts
    ('not JSON',)
    """
    spelled = _spelled(body)
    if spelled is None:
        return Cut((body,), ())
    value, write, (comma, colon) = spelled
    parts: list[Part] = []
    pieces: list[BodyPiece] = []
    text = "{"
    for at, (key, inner) in enumerate(value.items()):
        text += f"{comma if at else ''}{write(key)}{colon}"
        members = [write(each) for each in inner] if isinstance(inner, list) else []
        whole = write(inner) if not members else ""
        if not members and len(whole) < _LEAST_CHARS:
            text += whole
            continue
        chain = list(_chain(members or [whole]))
        pieces += chain
        parts += [text + ("[" if members else ""), {"piece": chain[-1].id, "join": comma}]
        text = "]" if members else ""
    return Cut((*parts, text + "}"), tuple(pieces))


def _chain(texts: list[str]) -> Iterator[BodyPiece]:
    before = ""
    for text in texts:
        piece = BodyPiece(piece_id(before, text), before, text)
        before = piece.id
        yield piece


def _spelled(
    body: str,
) -> tuple[dict[str, object], Callable[[object], str], tuple[str, str]] | None:
    """Return the object that a body spells and how, if writing it again gives the same text."""
    if not body.startswith("{"):
        return None
    try:
        value = readable(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    for separators, ascii_only in _SPELLINGS:
        encoder = json.JSONEncoder(ensure_ascii=ascii_only, separators=separators)
        if encoder.encode(value) == body:
            return value, encoder.encode, separators
    return None


def together(parts: Iterable[Part], text_of: Callable[[str], tuple[str, str]]) -> str:
    """
    Return the body that the parts make.

    Args:
        parts: as they were cut.
        text_of: returns the text of a piece and the name of the one before it.

    >>> done = cut('{"messages":["a","b"]}')
    >>> kept = {piece.id: (piece.text, piece.before) for piece in done.pieces}
    >>> together(done.parts, kept.__getitem__)
    '{"messages":["a","b"]}'
    """
    found: list[str] = []
    for part in parts:
        if isinstance(part, str):
            found.append(part)
            continue
        texts: list[str] = []
        name = str(part["piece"])
        while name:
            text, name = text_of(name)
            texts.append(text)
        found.append(str(part["join"]).join(reversed(texts)))
    return "".join(found)


def kept(
    content: bytes, redacted: Iterable[str] = (), counts: Mapping[str, int] | None = None
) -> tuple[Body, tuple[BodyPiece, ...]]:
    """
    Return what is kept of the bytes of a body, and the pieces that belong to it.

    Args:
        content: the bytes, without their secrets.
        redacted: the paths of what was hidden in them.
        counts: how many were hidden, by kind.

    >>> body, pieces = kept(b'{"messages":["a"]}', ["messages[0]"])
    >>> body.spilled, len(pieces)
    (False, 1)
    """
    encoding: Literal["utf-8", "base64"] = "utf-8"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        encoding, text = "base64", base64.b64encode(content).decode()
    done = cut(text)
    spilled = len(content) > MAX_INLINE_BYTES
    if spilled and not done.pieces:  # too large for a line, and in no parts that we know
        only = BodyPiece(piece_id("", text), "", text)
        done = Cut(({"piece": only.id, "join": ""},), (only,))
    sha256 = hashlib.sha256(content).hexdigest()
    paths, found = tuple(redacted), dict(counts or {})
    return Body(done.parts, sha256, len(content), encoding, spilled, paths, found), done.pieces


def original(body: Body, text_of: Callable[[str], tuple[str, str]]) -> bytes:
    """
    Return the bytes that were kept of a body.

    Raises:
        ValueError, KeyError: a piece is not what it was; the digest says so.
    """
    text = together(body.parts, text_of)
    content = base64.b64decode(text) if body.encoding == "base64" else text.encode()
    if hashlib.sha256(content).hexdigest() != body.sha256:
        raise ValueError("the pieces of the body are not the ones that it was made of")
    return content
