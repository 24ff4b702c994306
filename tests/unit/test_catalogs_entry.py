"""Roles and effects: each says what it means, and which arguments may be absent."""

from __future__ import annotations

import pytest

from broker.catalogs.entry import EFFECTS, ROLES, Argument, ToolEntry


def test_each_word_is_explained() -> None:
    """Every role and effect has one line that says what it means."""
    for meaning in (*ROLES.values(), *EFFECTS.values()):
        assert meaning
        assert "\n" not in meaning


@pytest.mark.parametrize(
    ("argument", "required"),
    [
        (Argument("path-read"), True),
        (Argument("url"), True),
        (Argument("patch"), True),
        (Argument("fields", fields={}), True),
        (Argument("path-list", default="."), False),
        (Argument("url", optional=True), False),
        (Argument("text"), False),
        (Argument("headers"), False),
        (Argument("cwd"), False),
    ],
)
def test_what_may_be_absent(argument: Argument, required: bool) -> None:
    """A path or address is due unless the catalog says otherwise; text never is."""
    assert argument.required is required


def test_entries_do_not_change() -> None:
    """An entry is frozen."""
    entry = ToolEntry("x", None, "read")
    with pytest.raises(AttributeError):
        entry.effect = "none"  # type: ignore[misc]  # that it fails is what is tested
