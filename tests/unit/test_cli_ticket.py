"""`broker ticket` shows, narrows and verifies, and never shows what it has not verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.caveats import calls, paths, tools
from broker.cli.wires import KEY_NAME
from broker.home import Home
from broker.receipt import load_or_create_key
from broker.ticket import mint, session_key
from tests.console import Console


@pytest.fixture
def wire(broker_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The wire form of a ticket of this installation, in the file `t` of the current folder."""
    monkeypatch.chdir(tmp_path)
    home = Home.find({"BROKER_HOME": str(broker_home)})
    key = session_key(load_or_create_key(home.keys / KEY_NAME).secret, "s")
    caveats = [tools("read", "edit"), paths("src/**"), calls(10)]
    ticket = mint(caveats, key=key, sid="s", minted_at=10**18)
    Path("t").write_text(ticket.wire())
    return ticket.wire()


def test_verify(broker: Console, wire: str) -> None:
    """A true ticket verifies, from a file or from stdin."""
    said = broker("ticket", "verify", "t")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("verified: ticket ")
    assert said.out.endswith(", 1 link\n")
    assert broker("ticket", "verify", "-", stdin=wire.encode()).out == said.out


def test_a_changed_ticket(broker: Console, wire: str) -> None:
    """A changed ticket is 1, and nothing of it is shown."""
    Path("t").write_text(wire.replace('"calls",10', '"calls",99'))
    for command in (
        ("verify",),
        ("show",),
        ("show", "--json"),
        ("attenuate", "--scope", "calls=1"),
    ):
        said = broker("ticket", command[0], "t", *command[1:])
        assert (said.code, said.out) == (1, "")
        assert "was changed" in said.err
        assert "99" not in said.err


def test_no_ticket(broker: Console, wire: str) -> None:
    """What is no ticket is 2, and so is one that there is no key for."""
    Path("x").write_text("hello")
    assert broker("ticket", "verify", "x").code == 2
    assert broker("ticket", "verify", "nowhere").code == 2
    assert broker("ticket", "show").code == 2
    assert broker("ticket").code == 2


def test_no_key(broker: Console, wire: str, broker_home: Path) -> None:
    """Without the key it cannot be told, which is 2 and neither yes nor no."""
    (broker_home / "data" / "keys" / KEY_NAME).unlink()
    said = broker("ticket", "verify", "t")
    assert (said.code, said.out) == (2, "")


def test_show(broker: Console, wire: str) -> None:
    """A ticket is shown link by link, and as one JSON document."""
    assert "  paths=src/**" in broker("ticket", "show", "t").out.splitlines()
    shown = broker("ticket", "show", "t", "--json").json()
    assert shown["session"] == "s"
    assert shown["minted_at"] == "2001-09-09T01:46:40Z"
    assert shown["intent"] is None
    assert shown["links"][0]["caveats"][2] == {"kind": "calls", "value": 10}


def test_attenuate(broker: Console, wire: str) -> None:
    """A narrowed ticket comes out on stdout, verifies, and decides what is narrower."""
    scope = ("--scope", "paths=src/parser/**", "--scope", "calls=2")
    said = broker("ticket", "attenuate", "t", *scope)
    assert (said.code, said.err) == (0, "")
    Path("c").write_text(said.out)
    assert "2 links" in broker("ticket", "verify", "c").out
    assert len(broker("ticket", "show", "c", "--json").json()["links"]) == 2
    call = ("check", "read_file", "--ticket", "c")
    Path("c").write_text(broker("ticket", "attenuate", "t", "--scope", "tools=read").out)
    assert broker(*call).code == 1
    assert broker("check", "read", "path=src/a", "--ticket", "t").code == 0


def test_siblings_differ(broker: Console, wire: str) -> None:
    """Two children with the same caveats are two tickets, each with a count of its own."""
    words = ("ticket", "attenuate", "t", "--scope", "calls=1")
    assert broker(*words).out != broker(*words).out


def test_a_widening(broker: Console, wire: str) -> None:
    """A widening is refused with 1 and the caveat named, and nothing comes out."""
    said = broker("ticket", "attenuate", "t", "--scope", "tools=read,shell")
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        "broker: `tools=read,shell` widens `tools=read,edit`: `shell` is not within it\n"
    )
    assert broker("ticket", "attenuate", "t").code == 2
    assert broker("ticket", "attenuate", "t", "--scope", "tool=read").code == 2
