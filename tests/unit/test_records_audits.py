"""The record of a call whose arguments a hook changed, or that was stopped."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from broker.capabilities.clock import FakeClock
from broker.capabilities.memory import MemoryFiles
from broker.records.audits import ToolAudits
from broker.records.store import RecordStore


@dataclass(frozen=True)
class Ended:
    """A call at its end, as a pipeline tells of it."""

    call: str = "call-1"
    tool: str = "read"
    asked: str = '{"path":"a"}'
    ran: str | None = '{"path":"a"}'
    changed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    stop: str = ""
    reason: str = ""
    stages: tuple[str, ...] = ("resolve", "finalize")


class Scene:
    """Audits on fakes."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.store = RecordStore(self.files.below("/r"))
        self.audits = ToolAudits(self.store, FakeClock())


@pytest.mark.parametrize("stop", ["", "tool", "ticket", "permission", "session", "unknown_tool"])
def test_a_clean_call_leaves_no_audit(stop: str) -> None:
    """Nothing is written where nothing differs, and what the receipt tells is not told again."""
    scene = Scene()
    assert scene.audits.watch(Ended(stop=stop)) is None
    assert scene.store.read().records == ()


@pytest.mark.parametrize(
    ("stages", "outcome"),
    [(("resolve", "finalize"), "blocked"), (("resolve", "execute", "finalize"), "ran")],
)
def test_a_call_that_broke_on_its_way_leaves_one(stages: tuple[str, ...], outcome: str) -> None:
    """Whether it may have run is told by how far it came, and why it broke is kept."""
    scene = Scene()
    audit = scene.audits.watch(Ended(stop="broken", reason="KeyError: x", stages=stages))
    assert audit is not None
    assert (audit.outcome, audit.reason) == (outcome, "KeyError: x")


def test_a_changed_call_leaves_one_with_its_paths() -> None:
    """What ran is kept, and where it differs from what was asked."""
    scene = Scene()
    audit = scene.audits.watch(Ended(ran='{"path":"b"}', changed=("/path",)))
    assert audit is not None
    assert (audit.outcome, audit.changed, audit.arguments) == ("ran", ("/path",), {"path": "b"})
    assert scene.store.read().records == (audit,)


def test_a_change_that_came_too_late_is_recorded() -> None:
    """A hook that changes what is frozen already had no effect, and somebody should know."""
    audit = Scene().audits.watch(Ended(ignored=("/path",)))
    assert audit is not None
    assert (audit.outcome, audit.ignored) == ("ran", ("/path",))


@pytest.mark.parametrize(
    ("stop", "outcome"),
    [
        ("blocked", "blocked"),
        ("hook_failed", "blocked"),
        ("hook_timeout", "blocked"),
        ("invalid_arguments", "invalid_arguments"),
    ],
)
def test_a_stopped_call_leaves_one_with_its_reason(stop: str, outcome: str) -> None:
    """A call that a hook or its schema stopped is recorded, without its secrets."""
    scene = Scene()
    asked = json.dumps({"header": "Authorization: Bearer abcdef"})
    ended = Ended(asked=asked, ran=None, stop=stop, reason="TOKEN=abc is no reason")
    audit = scene.audits.watch(ended)
    assert audit is not None
    assert (audit.outcome, audit.reason) == (outcome, "TOKEN=[hidden] is no reason")
    assert audit.redacted == ("header (substring)",)
    assert b"abcdef" not in scene.files.nodes["/r/records.jsonl"].content


def test_a_changed_call_that_the_ticket_refused_did_not_run() -> None:
    """A hook's change is told even if the call was refused afterwards."""
    audit = Scene().audits.watch(Ended(changed=("/path",), stop="ticket"))
    assert audit is not None
    assert audit.outcome == "blocked"


@pytest.mark.parametrize("asked", ["{}", "no JSON"])
def test_a_failed_audit_never_fails_the_call(asked: str) -> None:
    """A store that cannot be written, and a report that cannot be read, are counted as lost."""
    scene = Scene()
    if asked == "{}":
        scene.files.fail_write(1)
    assert scene.audits.watch(Ended(asked=asked, ran=None, stop="blocked")) is None
    assert scene.audits.lost == 1
    assert scene.audits.watch(Ended(stop="blocked")) is not None


def test_what_a_model_chose_is_cleared_in_every_place() -> None:
    """An id and the places of a change may hold a secret, as the arguments may."""
    secret = "ghp_0123456789abcdef0123"
    ended = Ended(call=secret, changed=(f"/{secret}",), ignored=(f"/a/{secret}",))
    audit = Scene().audits.watch(ended)
    assert audit is not None
    assert secret not in str(audit.data())
