"""
One in-toto statement about a whole receipt, in a signed DSSE envelope.

Decided here: the subject (the receipt's file, by its digest), the predicate ``agent-decision``,
and how such a statement is believed and compared with a receipt. Not decided here: the envelope
(``dsse``), which key is trusted (the caller).

The statement is one document, so it is the one export that cannot grow with its receipt: it
lists up to ``MAX_LISTED`` decisions that take up to ``MAX_LISTED_BYTES``. Of a longer receipt it
only counts them, and says so in ``decisions.listed``; the root still covers every line.

Rule a maintainer keeps: a field is never taken away or changed in meaning under one predicate
type; a new meaning gets a new type.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from broker.errors import Break, LimitError
from broker.export.dsse import Verifies, open_envelope, seal_envelope
from broker.export.fields import Data, refused, text, texts
from broker.export.source import Line, Measure, Source
from broker.limits import MAX_RECORD_DEPTH
from broker.receipt.entry import HEX64, Entry, canonical, format_at, strict_object
from broker.receipt.signing import SigningKey
from broker.receipt.verify import Verdict

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "urn:capability-broker:agent-decision:v1"
MAX_LISTED: Final = 10_000  # decisions in one statement
MAX_LISTED_BYTES: Final = 8 * 2**20  # bytes of their lines
MAX_ENVELOPE_BYTES: Final = 32 * 2**20

_KEPT: Final = (
    "call", "tool", "server", "args", "decision", "caveat", "value", "reason", "enforcement",
    "actor", "ticket",
)  # fmt: skip


@dataclass
class Story:
    """What the lines of a receipt come to in a statement."""

    opening: Data = field(default_factory=dict)
    intent: Data = field(default_factory=dict)
    line: Data = field(default_factory=dict)
    ticket: Data = field(default_factory=dict)
    seal: Data = field(default_factory=dict)
    first_at: str = ""
    last_at: str = ""
    last: str = ""
    allowed: int = 0
    refused: int = 0
    room: int = MAX_LISTED_BYTES
    listed: list[dict[str, object]] = field(default_factory=list)
    measure: Measure = field(default_factory=Measure)

    def take(self, line: Line) -> None:
        """Take in the next line."""
        entry = line.entry
        self.measure.add(line.raw)
        self.last = entry.hash
        self.last_at = format_at(entry.at)
        self.first_at = self.first_at or self.last_at
        match entry.kind:
            case "open":
                self.opening = entry.data
            case "intent":
                self.line = entry.data
            case "ticket" if "beside" not in entry.data:  # that one is for a single call
                self.intent, self.ticket = self.line, entry.data
            case "seal":
                self.seal = entry.data
            case "decision":
                self._count(line)

    def _count(self, line: Line) -> None:
        no = refused(line.entry)
        self.refused += no
        self.allowed += not no
        self.room -= len(line.raw)
        if self.complete:
            self.listed.append(_decision(line.entry))
        else:
            self.listed.clear()

    @property
    def complete(self) -> bool:
        """Whether every decision is listed."""
        return self.room >= 0 and self.allowed + self.refused <= MAX_LISTED


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that a trusted key has signed: what it says of which file."""

    digest: str
    size: int
    sealed: bool
    predicate: dict[str, Any]


def envelope(source: Source, signer: SigningKey) -> bytes:
    """
    Return the signed statement about a receipt, as one line of JSON.

    Raises:
        Break, UnverifiableError: the receipt does not verify.
    """
    story = Story()
    for line in source:
        story.take(line)
    return sealed(story, source.verdict, signer)


def sealed(story: Story, verdict: Verdict, signer: SigningKey) -> bytes:
    """Return the signed statement about lines that were all taken in, and their verdict."""
    statement = {
        "_type": STATEMENT,
        "predicate": _predicate(story, verdict),
        "predicateType": PREDICATE,
        "subject": [{"digest": {"sha256": story.measure.sha256}, "name": _name(verdict.sid)}],
    }
    return seal_envelope(canonical(statement).encode(), PAYLOAD_TYPE, signer)


def open_statement(content: bytes, keys: Iterable[Verifies]) -> Statement:
    """
    Return what an envelope states, once a trusted key is seen to have signed it.

    Raises:
        Break: it was not signed so, is of another type, or is no statement of ours (``dsse``).
        LimitError: it is too large to be one.
    """
    if len(content) > MAX_ENVELOPE_BYTES:
        raise LimitError(f"a statement has at most {MAX_ENVELOPE_BYTES} bytes")
    payload = open_envelope(content, PAYLOAD_TYPE, keys)
    try:
        statement = strict_object(payload.decode(), 2 * MAX_RECORD_DEPTH)
    except UnicodeDecodeError as error:
        raise Break("dsse", "the statement is not UTF-8") from error
    except Break as error:
        raise Break("dsse", f"the statement cannot be read: {error.message}") from error
    if statement.get("_type") != STATEMENT or statement.get("predicateType") != PREDICATE:
        raise Break("dsse", f"not a statement of the type `{PREDICATE}`")
    match statement:
        case {
            "subject": [{"digest": {"sha256": str(digest)}}],
            "predicate": {"receipt": {"bytes": int(size), "seal": seal}} as predicate,
        } if HEX64.fullmatch(digest) and size > 0:
            return Statement(digest, size, seal is not None, predicate)
    raise Break("dsse", "the statement does not name one receipt by its SHA-256 and its size")


def compare(statement: Statement, pieces: Iterable[bytes]) -> int:
    """
    Compare a statement with the receipt that it should be of.

    Args:
        statement: what was signed.
        pieces: the bytes of the receipt, in pieces of any size.

    Returns:
        How many bytes an open receipt has grown by since; the statement does not speak of those.

    Raises:
        Break: the statement is of another file (``subject``).
    """
    digest = sha256()
    size = 0
    for piece in pieces:
        digest.update(piece[: max(0, statement.size - size)])
        size += len(piece)
    if size < statement.size or (statement.sealed and size > statement.size):
        raise Break(
            "subject", f"the statement is of {statement.size} bytes, and the receipt has {size}"
        )
    if digest.hexdigest() != statement.digest:
        raise Break("subject", "the statement is of another file: the digests differ")
    return size - statement.size


def _name(sid: str) -> str:
    return f"{sid}/receipt.jsonl"


def _decision(entry: Entry) -> dict[str, object]:
    said = {name: value for name in _KEPT if (value := text(entry.data, name))}
    touched = entry.data.get("subjects")
    return {
        "at": format_at(entry.at),
        "line": entry.n,
        "sha256": entry.hash,
        "subjects": touched if isinstance(touched, list) else [],
        **said,
    }


def _predicate(story: Story, verdict: Verdict) -> dict[str, object]:
    measure = story.measure
    return {
        "decisions": {
            "allowed": story.allowed,
            "items": story.listed,
            "listed": story.complete,
            "refused": story.refused,
        },
        "intent": {name: text(story.intent, name) for name in ("digest", "line")},
        "receipt": {
            "bytes": measure.size,
            "format": text(story.opening, "format"),
            "last": story.last,
            "lines": measure.lines,
            "root": measure.root,
            "seal": dict(story.seal) or None,
        },
        "session": {
            "agent": text(story.opening, "agent"),
            "first_at": story.first_at,
            "id": verdict.sid,
            "last_at": story.last_at,
            "workspace": text(story.opening, "workspace"),
            "writer": text(story.opening, "writer"),
        },
        "ticket": {
            "caveats": texts(story.ticket, "caveats"),
            "id": text(story.ticket, "ticket"),
        },
        "verification": {
            "completeness": verdict.completeness,
            "level": verdict.level,
            "signed_lines": verdict.signed_lines,
            "state": verdict.state,
            "tags": verdict.tags,
            "warnings": list(verdict.warnings),
        },
    }
