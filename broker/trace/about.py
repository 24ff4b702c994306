"""
What is known of a run when it begins, and the manifest that says so.

Decided here: which variables of the environment are told, and how a manifest is spelled. Not
decided here: what is well-formed (``broker.trace.format``), and when it is written.

Rule a maintainer keeps: a variable is told only if it is in the list here; what is told is cleared
of secrets like everything else.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker.redaction.hiding import Hider
from broker.redaction.trees import hide_object
from broker.redaction.words import hide_words
from broker.trace.format import SCHEMA_VERSION

# What shapes a run without being the person's: nothing that could name an account or a place.
TOLD_VARIABLES: Final = frozenset(
    "CI COLORTERM COLUMNS LANG LC_ALL LC_CTYPE LINES NO_COLOR SHELL TERM TZ".split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class StartedBy:
    """By what the agent was started: our adapter, and the agent's own version, if known."""

    id: str
    version: str = ""
    harness_version: str = ""


@dataclass(frozen=True, slots=True)
class GitState:
    """Where the workspace's repository stood."""

    head: str = ""
    branch: str = ""
    dirty: bool | None = None  # None: nobody looked


@dataclass(frozen=True, slots=True)
class Parent:
    """The run that this one was forked from or replays, and where."""

    run_id: str
    fork_point: int | None = None  # the seq up to which it is the parent's
    model: str = ""  # the other model, if it was forked onto one


@dataclass(frozen=True, slots=True)
class About:
    """
    What is known of a run when it begins.

    ``environ`` may be the whole environment: only ``TOLD_VARIABLES`` are told. ``session`` is the
    session's folder, to which the run gets a link.
    """

    adapter: StartedBy
    argv: Sequence[str]
    cwd: str
    environ: Mapping[str, str] = field(default_factory=dict)
    run_id: str | None = None
    git: GitState | None = None
    session: Path | None = None
    sid: str = ""
    parent: Parent | None = None


def manifest_document(
    about: About, run_id: str, created_at: str, version: str, hider: Hider
) -> dict[str, object]:
    """
    Return the manifest of a run that begins, without secrets.

    Args:
        about: what is known.
        run_id: the run's name.
        created_at: an RFC 3339 instant.
        version: the broker's version.
        hider: what hides and counts the secrets.

    >>> about = About(StartedBy("sh"), ["sh", "--password", "x"], "/w", {"TERM": "x", "A": "b"})
    >>> found = manifest_document(about, "run_000000", "2027-01-15T08:00:00.000Z", "0.1", Hider())
    >>> found["argv"], found["env_allowlisted"]
    (['sh', '--password', '[hidden]'], {'TERM': 'x'})
    """
    adapter = {"id": about.adapter.id}
    if about.adapter.version:
        adapter["version"] = about.adapter.version
    if about.adapter.harness_version:
        adapter["harness_version"] = about.adapter.harness_version
    told: dict[str, object] = {
        name: value for name, value in sorted(about.environ.items()) if name in TOLD_VARIABLES
    }
    found: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "run_id": run_id,
        "created_at": created_at,
        "orca_version": f"capability-broker {version}",
        "adapter": adapter,
        "argv": hide_words(about.argv, hider),
        "cwd": hider.text(about.cwd),
        "env_allowlisted": hide_object(told, hider)[0],
        "platform": {
            "os": platform.system().lower() or "unknown",
            "arch": platform.machine() or "unknown",
            # The format asks for a Node version; this names what ran the recorder in its place.
            "node": f"none, {platform.python_implementation()} {platform.python_version()}",
        },
    }
    if about.git is not None:
        found["git"] = {
            **({"head": about.git.head} if about.git.head else {}),
            **({"branch": hider.text(about.git.branch)} if about.git.branch else {}),
            **({} if about.git.dirty is None else {"dirty": about.git.dirty}),
        }
    if about.parent is not None:
        found["parent_run"] = about.parent.run_id
        if about.parent.fork_point is not None:
            found["fork_point"] = about.parent.fork_point
        if about.parent.model:
            found["fork_model"] = about.parent.model
    return found
