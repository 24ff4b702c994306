"""A call on its way: copies of what was frozen, and stops in words."""

from __future__ import annotations

import pytest

from broker.authorize import enforce
from broker.calls import Decision, Refusal
from broker.errors import Refused
from broker.harness.hooks import HookStop
from broker.harness.passing import Passing, denial, invalid, refusal, stopped_by
from broker.harness.registry import Registered
from broker.harness.script import ToolCall
from broker.harness.snapshot import freeze
from tests.harnesskit import CALLER


def passing() -> Passing:
    """A call that has just come."""
    return Passing(ToolCall("read", {"path": "a"}), CALLER, "c1", Registered(), 0)


def test_before_the_snapshot_there_is_nothing_to_thaw() -> None:
    """A stage that comes too early sees no arguments, and later each a copy of its own."""
    one = passing()
    assert one.thawed() == {}
    one.snapshot = freeze({"path": "a"})
    one.thawed()["path"] = "b"
    assert one.thawed() == {"path": "a"}


def test_invalid_arguments_say_who_left_them() -> None:
    """The model is told whether it was a hook that broke its arguments."""
    one = passing()
    assert invalid(one, "no").text.startswith("there are arguments that do not fit `read`")
    one.handed.append({})
    assert invalid(one, "no").text.startswith("a hook left arguments")


def test_a_veto_refuses_and_a_broken_hook_fails() -> None:
    """Who said no is named either way."""
    veto = stopped_by(HookStop("blocked", "h", "why"))
    assert (veto.outcome, veto.caveat, veto.stop) == ("refused", "hook", "blocked")
    broken = stopped_by(HookStop("hook_timeout", "h", "why"))
    assert (broken.outcome, broken.stop, "`h`" in broken.text) == ("failed", "hook_timeout", True)


def test_a_refusal_names_its_caveat() -> None:
    """The caveat comes from the decision, or from whoever refused."""
    with pytest.raises(Refused) as caught:
        enforce(Decision(Refusal("paths", "x", "not within")))
    assert refusal(caught.value, "ticket").caveat == "paths"
    assert refusal(Refused("too deep", caveat="depth"), "ticket").caveat == "depth"


def test_a_denial_tells_the_model_not_to_go_around() -> None:
    """What the rules or the person deny reads like a refusal, and asks for no wider scope."""
    denied = refusal(denial("the person said no to `write`"), "permission")
    assert (denied.outcome, denied.caveat) == ("refused", "permission")
    assert "do not work around this" in denied.text
    assert "scope" not in denied.text
