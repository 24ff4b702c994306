"""A ticket in a file is believed only with this installation's key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.caveats import calls
from broker.cli.wires import KEY_NAME, believed, installation_key
from broker.errors import InputError, TicketVerificationError, UnverifiableError
from broker.home import Home
from broker.receipt import load_or_create_key
from broker.ticket import mint, session_key


@pytest.fixture
def home(broker_home: Path) -> Home:
    """A home with a key."""
    home = Home.find({"BROKER_HOME": str(broker_home)})
    load_or_create_key(home.keys / KEY_NAME)
    return home


def test_the_key_is_the_sessions(home: Home) -> None:
    """The key is looked for where sessions put it."""
    from broker.sessions.ground import key_path

    assert key_path(home) == home.keys / KEY_NAME
    assert installation_key(home).secret


def test_believed(home: Home, tmp_path: Path) -> None:
    """A ticket of this installation is believed, blank lines around it or not."""
    key = session_key(installation_key(home).secret, "s")
    ticket = mint([calls(3)], key=key, sid="s", minted_at=0)
    (tmp_path / "t").write_text(f"\n{ticket.wire()}\n\n")
    assert believed(str(tmp_path / "t"), home) == ticket


def test_not_believed(home: Home, tmp_path: Path) -> None:
    """A ticket of another session or installation, or a changed one, is not believed."""
    key = session_key(installation_key(home).secret, "s")
    place = tmp_path / "t"
    for wire in (
        mint([calls(3)], key=key, sid="other", minted_at=0).wire(),
        mint([calls(3)], key=bytes(range(32)), sid="s", minted_at=0).wire(),
        mint([calls(3)], key=key, sid="s", minted_at=0)
        .wire()
        .replace('["calls",3]', '["calls",4]'),
    ):
        place.write_text(wire)
        with pytest.raises(TicketVerificationError):
            believed(str(place), home)
    place.write_text("nonsense")
    with pytest.raises(InputError, match="not a ticket"):
        believed(str(place), home)


def test_no_key_is_made(broker_home: Path, tmp_path: Path) -> None:
    """Without a key nothing can be verified, and none appears."""
    home = Home.find({"BROKER_HOME": str(broker_home)})
    wire = mint([], key=bytes(range(32)), sid="s", minted_at=0).wire()
    (tmp_path / "t").write_text(wire)
    with pytest.raises(UnverifiableError):
        believed(str(tmp_path / "t"), home)
    assert os.listdir(broker_home) == []


def test_a_missing_key_says_what_helps(broker_home: Path) -> None:
    """Before the first run the next step is named; later, that the key must be put back."""
    home = Home.find({"BROKER_HOME": str(broker_home)})
    with pytest.raises(UnverifiableError, match="`broker run` begins a session"):
        installation_key(home)
    home.sessions.mkdir(parents=True)
    with pytest.raises(UnverifiableError, match="put it back"):
        installation_key(home)
