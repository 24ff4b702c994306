"""
What an event and a blob reference of the Orca trace format v0 are.

Decided here: which values are well-formed. Not decided here: what a reader does with one that is
not (``broker.trace.reader``), or what the events mean together (``broker.trace.graph``).

The format is public (Orca trace v0, schema 0.2.0); its section numbers stand beside the rules.

Rules a maintainer keeps: the sets of types and actors are those of the format, and ours ride on
`note`, since a type of our own would be a problem to every other reader; what a newer minor version
adds is passed over, never refused; no value of a file makes this fail in another way than
``TraceError``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from broker.trace.wellformed import (
    a_list,
    a_number,
    a_text,
    an_instant,
    an_object,
    fault,
    needs,
    only,
    texts,
)

SCHEMA_VERSION: Final = "0.2.0"
MANIFEST: Final = "manifest.json"
EVENTS: Final = "events.jsonl"
BLOBS: Final = "blobs"
REDACTIONS: Final = "redactions.json"
RECEIPT: Final = "receipt"  # a link to the session's folder
INLINE_BYTES: Final = 4_096  # bytes of a payload that stands in its line (§2.2)

# §2.3: the closed set. A type outside of it was written by a newer version.
EVENT_TYPES: Final = frozenset(
    """
    agent.guardrail agent.handoff agent.start checkpoint divergence error fork fs.change fs.snapshot
    mcp.request mcp.response model.request model.response net.request net.response note
    retrieval.context route.decision run.end run.start session.snapshot shell.exec shell.result
    tool.call tool.result
    """.split()  # noqa: SIM905 - a list of words reads better than a page of quotes
)
ACTORS: Final = frozenset(("agent", "gateway", "harness", "model", "orca", "tool", "user"))

RUN_ID: Final = re.compile(r"run_[0-9a-f]{6,32}\Z")
DIGEST: Final = re.compile(r"[0-9a-f]{64}\Z")
_PREFIX: Final = "sha256:"
_EVENT_NEEDS: Final = ("seq", "ts", "mono_us", "turn", "type", "actor")
_EVENT_KEYS: Final = frozenset((*_EVENT_NEEDS, "causes", "attrs", "payload", "redacted"))
_BLOB_KEYS: Final = frozenset(("$blob", "bytes", "media_type"))


@dataclass(frozen=True, slots=True)
class BlobRef:
    """A payload that lies in a file of its own, named by the digest of its content (§2.2)."""

    digest: str  # 64 hex digits
    size_bytes: int
    media_type: str = ""

    def document(self) -> dict[str, object]:
        """
        Return the reference as it stands in a line.

        >>> BlobRef("0" * 64, 3, "text/plain").document()["bytes"]
        3
        """
        found: dict[str, object] = {"$blob": _PREFIX + self.digest, "bytes": self.size_bytes}
        if self.media_type:
            found["media_type"] = self.media_type
        return found


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a run (§2.1). ``mono_us`` measures durations; ``ts`` is for people."""

    seq: int
    ts: str
    mono_us: int
    turn: int
    type: str
    actor: str
    causes: tuple[int, ...] = ()
    attrs: Mapping[str, object] = field(default_factory=dict)
    payload: object = None  # a value, a ``BlobRef``, or None where there is none
    redacted: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        """
        Return an attribute that is a text, else the empty text.

        >>> Event(0, "", 0, 0, "note", "orca", attrs={"kind": "x", "n": 1}).text("n")
        ''
        """
        value = self.attrs.get(name)
        return value if isinstance(value, str) else ""


# ── reading ──


def blob_ref(raw: object, path: str = "/payload") -> BlobRef:
    """
    Return a reference, of which the key ``$blob`` was seen.

    Raises:
        TraceError: it is not well-formed; the message begins with the place.

    >>> blob_ref({"$blob": "sha256:x", "bytes": 1})
    Traceback (most recent call last):
      ...
    broker.errors.TraceError: /payload/$blob must be `sha256:` and 64 hex digits
    """
    found = an_object(raw, path)
    needs(found, ("$blob", "bytes"), path)
    only(found, _BLOB_KEYS, path)
    return BlobRef(
        digest_of(found["$blob"], f"{path}/$blob"),
        a_number(found["bytes"], f"{path}/bytes"),
        a_text(found["media_type"], f"{path}/media_type") if "media_type" in found else "",
    )


def digest_of(raw: object, path: str = "/$blob") -> str:
    """
    Return the 64 hex digits of a written digest. Nothing else ever becomes the name of a file.

    Raises:
        TraceError: it is no digest.
    """
    text = a_text(raw, path)
    bare = text.removeprefix(_PREFIX)
    if bare == text or not DIGEST.match(bare):
        fault(path, "must be `sha256:` and 64 hex digits")
    return bare


def event(raw: object, *, newer: bool = False) -> Event:
    """
    Return the event that a line's JSON value is.

    Args:
        raw: the value.
        newer: it was written by a newer minor version, whose further keys are passed over.

    Raises:
        TraceError: it is not well-formed.
    """
    found = an_object(raw, "/")
    needs(found, _EVENT_NEEDS, "/")
    if not newer:
        only(found, _EVENT_KEYS, "/")
    kind = a_text(found["type"], "/type")
    if kind not in EVENT_TYPES:
        fault("/type", "is no known type of event")
    actor = a_text(found["actor"], "/actor")
    if actor not in ACTORS:
        fault("/actor", "is no known actor")
    attrs = found.get("attrs")
    payload = found.get("payload")
    if isinstance(payload, dict) and "$blob" in payload:
        payload = blob_ref(payload)
    return Event(
        a_number(found["seq"], "/seq"),
        an_instant(found["ts"], "/ts"),
        a_number(found["mono_us"], "/mono_us"),
        a_number(found["turn"], "/turn"),
        kind,
        actor,
        tuple(
            a_number(each, f"/causes/{at}")
            for at, each in enumerate(a_list(found.get("causes", []), "/causes"))
        ),
        {} if attrs is None else an_object(attrs, "/attrs"),
        payload,
        texts(found.get("redacted", []), "/redacted"),
    )
