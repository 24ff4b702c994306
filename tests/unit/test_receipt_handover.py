"""The agreement of an incoming key: over all that is handed over, and by that key alone."""

from __future__ import annotations

import pytest

from broker.errors import Break
from broker.receipt.handover import NAMES, agreement, check_agreed
from broker.receipt.keys import Key

KEY, OTHER = Key.of(bytes(range(32))), Key.of(bytes(range(1, 33)))
BEFORE = "a" * 64
DATA = {"kid_from": "a", "kid_to": "b", "vkey_from": "c", "vkey_to": "d"}


def agrees(key: Key, data: dict[str, str]) -> bool:
    """Whether a key agreed to what a row says."""
    try:
        check_agreed(key, data, BEFORE)
    except Break as error:
        assert error.reason == "kid"
        return False
    return True


def test_a_key_agrees_to_its_own_handover() -> None:
    """What the incoming key tagged is agreed, whatever else the row says."""
    assert agrees(KEY, {**DATA, "agreed": agreement(KEY, DATA, BEFORE)})
    assert agrees(KEY, {**DATA, "agreed": agreement(KEY, {**DATA, "agreed": "x"}, BEFORE)})


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_agreed_to(name: str) -> None:
    """With any of the four names changed there is no agreement."""
    assert not agrees(KEY, {**DATA, name: "e", "agreed": agreement(KEY, DATA, BEFORE)})


def test_nobody_agrees_for_another() -> None:
    """Another key's tag is no agreement, nor is one made for another use."""
    assert not agrees(KEY, {**DATA, "agreed": agreement(OTHER, DATA, BEFORE)})
    assert not agrees(KEY, {**DATA, "agreed": KEY.mac("ledger/1 line", "ledger").tag(b"{}")})
    assert not agrees(KEY, {**DATA, "agreed": ""})
    assert not agrees(KEY, {**DATA, "agreed": agreement(KEY, DATA, "b" * 64)})
