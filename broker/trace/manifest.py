"""
What the manifest of a run is: who ran what, and what its events hashed to when it ended.

Decided here: which manifests are well-formed, and which versions of the format are read. Not
decided here: what stands in the events (``broker.trace.format``).

Rules a maintainer keeps: an older minor version is read; of a newer one the keys that are not known
are passed over; another major version is refused by its name, since nobody knows what it means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker.errors import TraceError
from broker.trace.format import DIGEST, RUN_ID, SCHEMA_VERSION
from broker.trace.wellformed import (
    a_number,
    a_text,
    an_instant,
    an_object,
    fault,
    needs,
    only,
    texts,
)

_VERSION: Final = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\Z")
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


def manifest(raw: object) -> Manifest:
    """
    Return the manifest that a JSON value is.

    Raises:
        TraceError: it is not well-formed, or of another major version, which is named.
    """
    found = an_object(raw, "/")
    version = a_text(found.get("schema_version"), "/schema_version")
    newer = newer_minor(version)
    needs(found, _MANIFEST_NEEDS, "/")
    if not newer:
        only(found, _MANIFEST_KEYS, "/")
    run_id = a_text(found["run_id"], "/run_id")
    if not RUN_ID.match(run_id):
        fault("/run_id", "must be `run_` and 6 to 32 hex digits")
    adapter = an_object(found["adapter"], "/adapter")
    needs(adapter, ("id",), "/adapter")
    for key, value in adapter.items():
        a_text(value, f"/adapter/{key}")
    _objects_of_a_manifest(found)
    return Manifest(
        version,
        run_id,
        an_instant(found["created_at"], "/created_at"),
        a_text(found["orca_version"], "/orca_version"),
        adapter,
        texts(found["argv"], "/argv"),
        a_text(found["cwd"], "/cwd"),
        found,
        an_instant(found["ended_at"], "/ended_at") if found.get("ended_at") is not None else "",
        _parent(found.get("parent_run")),
        _optional(found, "fork_point", least=0),
        a_text(found["fork_model"], "/fork_model") if found.get("fork_model") is not None else "",
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
        fault("/schema_version", "must be three numbers, as `0.2.0`")
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
        a_text(value, f"/env_allowlisted/{key}")
    git = _inner(found, "git")
    for key in ("head", "branch"):
        if key in git:
            a_text(git[key], f"/git/{key}")
    if not isinstance(git.get("dirty", False), bool):
        fault("/git/dirty", "must be true or false")
    platform = _inner(found, "platform")
    if platform:
        needs(platform, ("os", "arch", "node"), "/platform")
    for key, value in platform.items():
        a_text(value, f"/platform/{key}")
    for key, value in _inner(found, "counts").items():
        a_number(value, f"/counts/{key}")
    redaction = _inner(found, "redaction")
    if redaction:
        a_number(redaction.get("policy_version"), "/redaction/policy_version")
    for key, value in _inner(redaction, "rules_fired", "/redaction").items():
        a_number(value, f"/redaction/rules_fired/{key}")


def _inner(found: Mapping[str, object], key: str, above: str = "") -> Mapping[str, object]:
    value = found.get(key)
    return {} if value is None else an_object(value, f"{above}/{key}")


def _parent(raw: object) -> str:
    if raw is None:
        return ""
    text = a_text(raw, "/parent_run")
    if not RUN_ID.match(text):
        fault("/parent_run", "must be `run_` and 6 to 32 hex digits")
    return text


def _root(raw: object) -> str:
    if raw is None:
        return ""
    found = an_object(raw, "/integrity")
    needs(found, ("events_sha256", "blob_count"), "/integrity")
    a_number(found["blob_count"], "/integrity/blob_count")
    digest = a_text(found["events_sha256"], "/integrity/events_sha256")
    if not DIGEST.match(digest):
        fault("/integrity/events_sha256", "must be 64 hex digits")
    return digest


def _optional(found: Mapping[str, object], key: str, least: int | None = None) -> int | None:
    value = found.get(key)
    return None if value is None else a_number(value, f"/{key}", least)
