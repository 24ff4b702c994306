"""`broker serve`: what was typed, and what its help teaches."""

from __future__ import annotations

import sys

import pytest

from tests.console import Console


def test_the_help_teaches(broker: Console) -> None:
    """It shows a whole command line, the file of keys, and what the exit code means."""
    said = broker("serve", "--help")
    assert said.code == 0
    for word in (
        "--listen 127.0.0.1:8181",
        "ROLE NAME KEY",
        "openssl rand",
        "SIGTERM",
        "Exit code",
    ):
        assert word in said.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "--listen HOST:PORT"),
        (["--listen", "8181"], "HOST:PORT"),
        (["--listen", "127.0.0.1:0"], "--keys"),
        (["--listen", "127.0.0.1:0", "--keys", "no-such-file"], "there is no file of keys"),
        (["--listen", "127.0.0.1:0", "--tls-cert", "x"], "--tls-key"),
        (["--client-ca", "x"], "--client-ca"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(broker: Console, words: list[str], told: str) -> None:
    """Whatever is missing is named, with how to mend it."""
    said = broker("serve", *words)
    assert said.code == 2
    assert told in said.err
    assert said.err.count("\n") == 1


def test_without_the_extra_it_says_what_to_install(
    broker: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain installation has no server, and says how to get one."""
    for name in [n for n in sys.modules if n.startswith("broker.service.listening")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    said = broker("serve", "--socket", "s")
    assert said.code == 2
    assert "capability-broker[serve]" in said.err
