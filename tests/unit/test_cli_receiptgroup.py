"""`broker receipt` is a command that shows, and a group of commands."""

from __future__ import annotations

from pathlib import Path

from broker.cli.wires import KEY_NAME
from broker.home import Home
from broker.receipt import Receipts, load_or_create_key
from tests.console import Console

AT = 1_767_225_600_000_000_000


def _session(home: Path, sid: str) -> None:
    place = Home.find({"BROKER_HOME": str(home)})
    receipt = Receipts(place, load_or_create_key(place.keys / KEY_NAME)).create(
        sid, opening={}, at=AT
    )
    receipt.close()


def test_a_word_that_is_no_command_names_a_session(broker: Console, broker_home: Path) -> None:
    """A name, an option and nothing at all are each taken as for `show`."""
    _session(broker_home, "abc1")
    shown = broker("receipt", "show", "abc1")
    assert shown.code == 0
    assert broker("receipt", "abc1").out == shown.out
    assert broker("receipt").out == shown.out
    assert broker("receipt", "--json").json()["sid"] == "abc1"


def test_a_session_named_like_a_command_is_reached(broker: Console, broker_home: Path) -> None:
    """`show show` shows the session called `show`."""
    _session(broker_home, "show")
    assert broker("receipt", "show", "show").out.startswith("receipt show ")


def test_help_names_the_options_and_the_commands(broker: Console) -> None:
    """One page of help teaches both what a person types most and what there is beside it."""
    said = broker("receipt", "--help")
    assert said.code == 0
    assert "--verify" in said.out
    assert "Commands:" in said.out
    assert "Examples:" in said.out
