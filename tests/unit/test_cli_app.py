"""The help teaches: every command has examples and says its exit codes."""

from __future__ import annotations

import itertools
from importlib.metadata import version

import pytest

from broker.cli.app import ORDER
from tests.console import Console

GROUPS = {
    "scope": ("show", "check"),
    "policy": ("list", "show", "check", "explain", "test", "diff"),
    "catalog": ("draft", "check", "show"),
    "ticket": ("show", "attenuate", "verify"),
    "runs": ("list", "show", "events", "checkpoints", "graph", "export", "scrub", "gc"),
    "key": ("show", "new", "rotate", "archive"),
    "inspect": ("runtime",),
}
COMMANDS = [
    words
    for name in ORDER
    for words in ([(name,)] if name not in GROUPS else [(name, sub) for sub in GROUPS[name]])
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help(broker: Console, words: tuple[str, ...]) -> None:
    """Each command's help has two or three examples of itself, and its exit codes."""
    said = broker(*words, "--help")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    examples = itertools.takewhile(str.strip, lines[lines.index("  Examples:") + 1 :])
    own = [line for line in examples if line.startswith("    broker " + " ".join(words))]
    assert len(own) >= 2
    assert "Exit code:" in said.out
    assert broker(*words, "-h").out == said.out


def test_top(broker: Console) -> None:
    """Without a command the help is shown, in the order in which a person meets them, as 2."""
    said = broker()
    assert said.code == 2
    assert broker("--help").out == said.out
    listed = said.out[said.out.index("Commands:") :].splitlines()[1:]
    assert tuple(line.split()[0] for line in listed[: len(ORDER)]) == ORDER
    for group in GROUPS:
        assert broker(group).code == (0 if group == "runs" else 2)  # no word lists the runs


def test_version(broker: Console) -> None:
    """--version says the installed one."""
    said = broker("--version")
    assert (said.code, said.out) == (0, f"broker {version('capability-broker')}\n")
