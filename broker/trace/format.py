"""
What an event, a blob reference and a manifest of the Orca trace format v0 are.

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
from typing import Final, NoReturn

from broker.errors import TraceError
from broker.limits import MAX_SAFE_INT

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
# RFC 3339 with an offset, which the schema's `date-time` asks for.
_INSTANT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})\Z"
)
_VERSION: Final = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\Z")

_EVENT_NEEDS: Final = ("seq", "ts", "mono_us", "turn", "type", "actor")
_EVENT_KEYS: Final = frozenset((*_EVENT_NEEDS, "causes", "attrs", "payload", "redacted"))
_BLOB_KEYS: Final = frozenset(("$blob", "bytes", "media_type"))
_MANIFEST_NEEDS: Final = (
    "schema_version",
    "run_id",
    "created_at",
    "orca_version",
    "adapter",
    "argv",
    "cwd",
)
_MANIFEST_KEYS: Final = frozenset(
    (
        *_MANIFEST_NEEDS,
        "ended_at",
        "env_allowlisted",
        "git",
        "platform",
        "counts",
        "redaction",
        "parent_run",
        "fork_point",
        "fork_model",
        "exit_code",
        "integrity",
    )
)


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


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run was, and what its events hashed to when it ended (§1, §6)."""

    schema_version: str
    run_id: str
    created_at: str
    orca_version: str
    adapter: Mapping[str, object]
    argv: tuple[str, ...]
    cwd: str
    document: Mapping[str, object]  # all of it, as it was read
    ended_at: str = ""
    parent_run: str = ""
    fork_point: int | None = None
    fork_model: str = ""
    exit_code: int | None = None
    events_sha256: str = ""  # empty: the run was never sealed
    newer: bool = False  # written by a newer minor version


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
    found = _object(raw, path)
    _needs(found, ("$blob", "bytes"), path)
    _only(found, _BLOB_KEYS, path)
    return BlobRef(
        digest_of(found["$blob"], f"{path}/$blob"),
        _whole(found["bytes"], f"{path}/bytes"),
        _text(found["media_type"], f"{path}/media_type") if "media_type" in found else "",
    )


def digest_of(raw: object, path: str = "/$blob") -> str:
    """
    Return the 64 hex digits of a written digest. Nothing else ever becomes the name of a file.

    Raises:
        TraceError: it is no digest.
    """
    text = _text(raw, path)
    bare = text.removeprefix(_PREFIX)
    if bare == text or not DIGEST.match(bare):
        _fault(path, "must be `sha256:` and 64 hex digits")
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
    found = _object(raw, "/")
    _needs(found, _EVENT_NEEDS, "/")
    if not newer:
        _only(found, _EVENT_KEYS, "/")
    kind = _text(found["type"], "/type")
    if kind not in EVENT_TYPES:
        _fault("/type", "is no known type of event")
    actor = _text(found["actor"], "/actor")
    if actor not in ACTORS:
        _fault("/actor", "is no known actor")
    attrs = found.get("attrs")
    payload = found.get("payload")
    if isinstance(payload, dict) and "$blob" in payload:
        payload = blob_ref(payload)
    return Event(
        _whole(found["seq"], "/seq"),
        _instant(found["ts"], "/ts"),
        _whole(found["mono_us"], "/mono_us"),
        _whole(found["turn"], "/turn"),
        kind,
        actor,
        tuple(
            _whole(each, f"/causes/{at}")
            for at, each in enumerate(_list(found.get("causes", []), "/causes"))
        ),
        {} if attrs is None else _object(attrs, "/attrs"),
        payload,
        _texts(found.get("redacted", []), "/redacted"),
    )


def manifest(raw: object) -> Manifest:
    """
    Return the manifest that a JSON value is.

    Raises:
        TraceError: it is not well-formed, or of another major version, which is named.
    """
    found = _object(raw, "/")
    version = _text(found.get("schema_version"), "/schema_version")
    newer = newer_minor(version)
    _needs(found, _MANIFEST_NEEDS, "/")
    if not newer:
        _only(found, _MANIFEST_KEYS, "/")
    run_id = _text(found["run_id"], "/run_id")
    if not RUN_ID.match(run_id):
        _fault("/run_id", "must be `run_` and 6 to 32 hex digits")
    adapter = _object(found["adapter"], "/adapter")
    _needs(adapter, ("id",), "/adapter")
    for key, value in adapter.items():
        _text(value, f"/adapter/{key}")
    _objects_of_a_manifest(found)
    return Manifest(
        version,
        run_id,
        _instant(found["created_at"], "/created_at"),
        _text(found["orca_version"], "/orca_version"),
        adapter,
        _texts(found["argv"], "/argv"),
        _text(found["cwd"], "/cwd"),
        found,
        _instant(found["ended_at"], "/ended_at") if found.get("ended_at") is not None else "",
        _parent(found.get("parent_run")),
        _optional(found, "fork_point", least=0),
        _text(found["fork_model"], "/fork_model") if found.get("fork_model") is not None else "",
        _optional(found, "exit_code"),
        _root(found.get("integrity")),
        newer,
    )


def newer_minor(version: str) -> bool:
    """
    Whether a version is one that came after ours and is read with what is new left out.

    Raises:
        TraceError: it is no version, or one of another major version.

    >>> newer_minor("0.1.0"), newer_minor("0.2.9"), newer_minor("0.3.0")
    (False, False, True)
    >>> newer_minor("1.0.0")
    Traceback (most recent call last):
      ...
    broker.errors.TraceError: the trace is of format 1.0.0, and this broker reads 0.x
    """
    match = _VERSION.match(version)
    if match is None:
        _fault("/schema_version", "must be three numbers, as `0.2.0`")
    ours = [int(part) for part in SCHEMA_VERSION.split(".")]
    if int(match[1]) != ours[0]:
        raise TraceError(
            f"the trace is of format {version}, and this broker reads {ours[0]}.x",
            code="trace.version",
        )
    return int(match[2]) > ours[1]


def _objects_of_a_manifest(found: Mapping[str, object]) -> None:
    """Check what a manifest may say besides, so that whoever reads it need not ask again."""
    for key, value in _inner(found, "env_allowlisted").items():
        _text(value, f"/env_allowlisted/{key}")
    git = _inner(found, "git")
    for key in ("head", "branch"):
        if key in git:
            _text(git[key], f"/git/{key}")
    if not isinstance(git.get("dirty", False), bool):
        _fault("/git/dirty", "must be true or false")
    platform = _inner(found, "platform")
    if platform:
        _needs(platform, ("os", "arch", "node"), "/platform")
    for key, value in platform.items():
        _text(value, f"/platform/{key}")
    for key, value in _inner(found, "counts").items():
        _whole(value, f"/counts/{key}")
    redaction = _inner(found, "redaction")
    if redaction:
        _whole(redaction.get("policy_version"), "/redaction/policy_version")
    for key, value in _inner(redaction, "rules_fired", "/redaction").items():
        _whole(value, f"/redaction/rules_fired/{key}")


def _inner(found: Mapping[str, object], key: str, above: str = "") -> Mapping[str, object]:
    value = found.get(key)
    return {} if value is None else _object(value, f"{above}/{key}")


def _parent(raw: object) -> str:
    if raw is None:
        return ""
    text = _text(raw, "/parent_run")
    if not RUN_ID.match(text):
        _fault("/parent_run", "must be `run_` and 6 to 32 hex digits")
    return text


def _root(raw: object) -> str:
    if raw is None:
        return ""
    found = _object(raw, "/integrity")
    _needs(found, ("events_sha256", "blob_count"), "/integrity")
    _whole(found["blob_count"], "/integrity/blob_count")
    digest = _text(found["events_sha256"], "/integrity/events_sha256")
    if not DIGEST.match(digest):
        _fault("/integrity/events_sha256", "must be 64 hex digits")
    return digest


def _optional(found: Mapping[str, object], key: str, least: int | None = None) -> int | None:
    value = found.get(key)
    return None if value is None else _whole(value, f"/{key}", least)


def _fault(path: str, message: str) -> NoReturn:
    raise TraceError(f"{path} {message}", code="trace.format", path=path)


def _object(value: object, path: str) -> dict[str, object]:
    if not isinstance(value, dict):
        _fault(path, "must be an object")
    return value


def _list(value: object, path: str) -> list[object]:
    if not isinstance(value, list):
        _fault(path, "must be a list")
    return value


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        _fault(path, "must be a text")
    return value


def _texts(value: object, path: str) -> tuple[str, ...]:
    return tuple(_text(each, f"{path}/{at}") for at, each in enumerate(_list(value, path)))


def _instant(value: object, path: str) -> str:
    text = _text(value, path)
    if not _INSTANT.match(text):
        _fault(path, "must be an RFC 3339 instant with an offset")
    return text


def _whole(value: object, path: str, least: int | None = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        _fault(path, "must be a whole number")
    if least is not None and value < least:
        _fault(path, f"must be at least {least}")
    if abs(value) > MAX_SAFE_INT:
        _fault(path, "is a larger number than every reader keeps")
    return value


def _needs(found: Mapping[str, object], keys: tuple[str, ...], path: str) -> None:
    for key in keys:
        if key not in found:
            _fault(path, f"lacks `{key}`")


def _only(found: Mapping[str, object], keys: frozenset[str], path: str) -> None:
    extra = sorted(found.keys() - keys)
    if extra:
        _fault(path, f"has a key that the format does not know: `{extra[0][:64]}`")
