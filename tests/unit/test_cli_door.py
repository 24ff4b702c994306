"""Whatever a command raises becomes a line and an exit code, and never 0."""

from __future__ import annotations

import pytest

from broker.cli import door
from broker.errors import (
    AttenuationError,
    Break,
    BrokerError,
    InputError,
    Refused,
    ScopeError,
    StoreError,
    TicketVerificationError,
    UnverifiableError,
)
from tests.console import Console, process


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch, broker: Console) -> object:
    """Runs a command that raises what it is given."""

    def run(error: BaseException) -> object:
        def fails(words: list[str]) -> int:
            raise error

        monkeypatch.setattr(door, "_invoke", fails)
        return broker("check")

    return run


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("bad `\x1b[2J`"), 2, r"broker: bad `\x1b[2J`"),
        (UnverifiableError("no key"), 2, "broker: no key"),
        (StoreError("disk"), 2, "broker: disk"),
        (BrokerError("what"), 2, "broker: what"),
        (Break("mac", "line changed"), 1, "broker: line changed"),
        (TicketVerificationError("changed"), 1, "broker: changed"),
        (AttenuationError("widens", kind="tools"), 1, "broker: widens"),
        (Refused("no"), 1, "broker: no"),
        (FileNotFoundError(2, "No such file", "a\nb"), 2, r"broker: `a\nb`: no such file"),
        (OSError("odd"), 2, "broker: odd"),
        (RecursionError(), 2, "broker: the input is too large or nested too deeply"),
        (MemoryError(), 2, "broker: the input is too large or nested too deeply"),
        (
            ScopeError("no such key `p`", text="p=x", hint="paths"),
            2,
            "broker: no such key `p`\n  p=x\n  ^\n  did you mean `paths`?",
        ),
        (
            KeyError("x"),
            2,
            "broker: could not decide: KeyError: 'x' (a fault of the broker; BROKER_DEBUG=1 shows "
            "where)",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors(raising: object, error: BaseException, code: int, said: str) -> None:
    """Each error has its exit code, and says what is wrong without a traceback."""
    found = raising(error)
    assert (found.code, found.out) == (code, "")
    assert found.err == (said + "\n" if said else "")


def test_debugging(raising: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """BROKER_DEBUG shows where it happened, for whoever mends the broker."""
    monkeypatch.setenv("BROKER_DEBUG", "1")
    assert "Traceback" in raising(KeyError("x")).err


@pytest.mark.parametrize(
    ("words", "said", "command"),
    [
        (("zzzz",), "no such command `zzzz`", "broker"),
        (("check", "--jsno"), "no such option: --jsno; did you mean --json?", "broker check"),
        (("scope", "show"), "missing argument `TEXT...`", "broker scope show"),
        (("check", "--scope"), "option `--scope` requires an argument", "broker"),
    ],
)
def test_usage(broker: Console, words: tuple[str, ...], said: str, command: str) -> None:
    """A usage error is one line, too, and says where the help is."""
    found = broker(*words)
    assert (found.code, found.out) == (2, "")
    assert found.err == f"broker: {said} (see `{command} --help`)\n"


def test_completion() -> None:
    """A shell that asks gets the commands that begin as typed."""
    said = process(
        env={"_BROKER_COMPLETE": "complete_bash", "COMP_WORDS": "broker che", "COMP_CWORD": "1"}
    )
    assert (said.code, said.out.split(), said.err) == (0, ["check"], "")
