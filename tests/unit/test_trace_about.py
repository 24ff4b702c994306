"""What is known of a run when it begins."""

from __future__ import annotations

from dataclasses import replace

import orca_trace

from broker.redaction.hiding import Hider
from broker.trace.about import TOLD_VARIABLES, About, GitState, Parent, StartedBy, manifest_document
from broker.trace.manifest import manifest

ABOUT = About(
    StartedBy("claude", "1", "2.1.4"),
    ("claude", "--api-key", "pw-1-secret"),
    "/w",
    {"TERM": "xterm", "ANTHROPIC_API_KEY": "pw-2-secret", "HOME": "/home/me", "LANG": "C"},
    git=GitState("4f1a", "https://me:pw-3-secret@host/", dirty=True),
    parent=Parent("run_abcdef", 3, "other"),
)


def document(about: About = ABOUT) -> dict[str, object]:
    """Return the manifest of a run."""
    return manifest_document(about, "run_123456", "2027-01-15T08:00:00Z", "0.1.0", Hider())


def test_a_manifest_is_well_formed() -> None:
    """Ours and the independent reader's take it, full and bare."""
    for about in (ABOUT, About(StartedBy("sh"), (), "")):
        raw = document(about)
        assert manifest(raw).run_id == orca_trace.Manifest.from_json(raw).run_id == "run_123456"


def test_no_secret_and_no_account_is_told() -> None:
    """Only variables of the list are told, and argv and branch lose their secrets."""
    raw = document()
    assert "secret" not in str(raw)
    assert raw["env_allowlisted"] == {"LANG": "C", "TERM": "xterm"}
    assert not {"HOME", "USER", "LOGNAME", "PATH", "PWD"} & TOLD_VARIABLES


def test_where_it_came_from() -> None:
    """A fork names its parent; what is not known is not told."""
    raw = document()
    assert (raw["parent_run"], raw["fork_point"], raw["fork_model"]) == ("run_abcdef", 3, "other")
    bare = document(replace(ABOUT, git=None, parent=Parent("run_abcdef")))
    assert not {"git", "fork_point", "fork_model", "exit_code"} & bare.keys()
