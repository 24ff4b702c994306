"""`broker policy explain` answers what a person asks of a policy."""

from __future__ import annotations

from typing import Any

import pytest

from broker.catalogs import load_catalogs
from broker.cli.policywords import sections
from broker.policy import policy_names
from broker.scope import parse_scope
from broker.ticket import mint
from tests.console import Console

KNOWN = load_catalogs()
HEADS = [
    *("Which tools", "What it may read", "What it may write", "What it may reach"),
    *("How often", "Until when", "What stays closed"),
]


def told(*texts: str) -> dict[str, list[str]]:
    """Return the sections for a scope."""
    caveats = parse_scope(texts, at=0, groups=KNOWN.groups(), lookup=KNOWN.known).caveats
    ticket = mint(caveats, key=bytes(32), sid="s", minted_at=0, intent="d" * 64)
    return dict(sections(ticket, KNOWN, 0))


def test_every_question_is_answered_even_by_nothing() -> None:
    """What is not limited is said, and so is what is always closed."""
    found = told("calls=3")
    assert list(found) == HEADS
    assert found["What it may read"] == ["any path"]
    assert found["What it may reach"] == ["any host"]
    assert found["Until when"] == ["it does not end by itself"]
    assert any("own files" in line for line in found["What stays closed"])


def test_tools_are_grouped_by_what_they_do() -> None:
    """A shell does not hide among tools that read."""
    found = told("tools=Read,Edit,Bash,WebFetch,Task,mcp__x__*,unheard")["Which tools"]
    assert "only read: Read" in found
    assert "change files: Edit" in found
    assert "reach the network: WebFetch" in found
    assert "do what cannot be seen: Bash, unheard" in found
    assert any("mcp__x__*" in line for line in found)


def test_conditions_and_what_they_close() -> None:
    """A rule is told argument by argument, and that all others are closed."""
    found = told('tools=pay(to="A", amount<=5)')
    assert '- to is "A"' in found["Which tools"]
    assert any("must be left out" in line for line in found["What stays closed"])


def test_paths_and_no_network() -> None:
    """Several lists all hold, and silence about hosts closes the network."""
    found = told("paths=src/**", "writes=src/a")
    assert "and also:" in found["What it may write"]
    assert "and also:" not in found["What it may read"]
    assert found["What it may reach"] == ["no URL: paths are limited and no hosts are named"]


@pytest.mark.parametrize("name", policy_names())
def test_every_shipped_policy_is_explained(broker: Console, name: str) -> None:
    """Each of them, as text and as JSON."""
    said = broker("policy", "explain", name)
    assert (said.code, said.err) == (0, "")
    assert all(head in said.out.splitlines() for head in HEADS)
    document: Any = broker("policy", "explain", name, "--json").json()
    assert list(document["sections"]) == HEADS
