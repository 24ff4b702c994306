"""What can be registered: frozen items, and a call in the hands of a hook."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from broker.harness.items import (
    CallHook,
    Flag,
    HookedCall,
    Provider,
    Shortcut,
    SlashCommand,
    Tool,
    Veto,
)

ITEMS = [
    Tool("t", "", {}, lambda work, arguments: ""),
    CallHook("h", "arguments", lambda call: None),
    SlashCommand("c", "", lambda rest: rest),
    Shortcut("ctrl+c", "c"),
    Flag("f", "", default=True),
    Provider("p", lambda name: name),
    Veto("no"),
]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: type(item).__name__)
def test_an_item_does_not_change(item: object) -> None:
    """What was registered is what runs: no field is set later."""
    field = next(iter(type(item).__dataclass_fields__))  # type: ignore[attr-defined]  # all are dataclasses
    with pytest.raises(FrozenInstanceError):
        setattr(item, field, "other")


def test_a_hook_may_change_its_call() -> None:
    """Arguments and text are the hook's to change, and nothing can be hung onto the call."""
    call = HookedCall("read", "c1", "main", {"path": "a"})
    call.arguments["path"], call.text = "b", "x"
    assert (call.arguments, call.text, call.ok) == ({"path": "b"}, "x", True)
    with pytest.raises(AttributeError):
        call.more = 1  # type: ignore[attr-defined]  # what must not work
