"""What a ticket could ever allow of a server's tools."""

from __future__ import annotations

import pytest

from broker.caveats import paths, tools
from broker.errors import TicketFormatError
from broker.mcp.offer import Offer, bounds_of
from broker.ticket import attenuate, mint
from tests.mcpkit import offer

CASES = [
    ((), "anything", True),
    (("tools=mcp__filesystem__*",), "write_file", True),
    (("tools=Read",), "write_file", False),
    (("tools=*", "writes=none"), "write_file", False),
    (("tools=*", "writes=none"), "read_file", True),
    (("tools=*", "reads=none"), "read_file", False),
    (("paths=src/**",), "made_up", False),
    (("paths=src/**", "tools=mcp__filesystem__made_up"), "made_up", True),
    (("paths=src/**", "tools=*"), "made_up", False),
    (("hosts=none",), "read_file", True),
    ((), "", False),
    ((), "x" * 300, False),
    ((), "look\u200b", False),
]


@pytest.mark.parametrize(("texts", "tool", "shown"), CASES)
def test_a_tool_is_shown_if_a_call_could_pass(
    texts: tuple[str, ...], tool: str, shown: bool
) -> None:
    """What no arguments could make right is left out, and nothing else."""
    assert offer(*texts, server="filesystem").admits(tool) is shown


def test_an_address_is_needed_and_none_is_allowed() -> None:
    """A tool that must reach an address is left out where no host is allowed."""
    assert not offer("hosts=none", server="fetch").admits("fetch")
    assert not offer("paths=src/**", server="fetch").admits("fetch")
    assert offer("hosts=example.org", server="fetch").admits("fetch")


def test_the_name_is_the_one_of_our_configuration() -> None:
    """Another server's tool of the same name is not known, so it is not shown under paths."""
    assert not offer("paths=src/**", server="evil").admits("read_file")


def test_bounds_are_read_from_a_ticket_of_a_chain() -> None:
    """Every link counts, and no key is needed."""
    root = mint([tools("*")], key=bytes(32), sid="s", minted_at=0)
    narrow = attenuate(root, tools("mcp__notes__look"), paths("src/**"))
    from broker.catalogs import load_catalogs

    found = Offer(bounds_of(narrow.wire()), load_catalogs(), "notes")
    assert not found.admits("drop")
    assert not found.admits("look")  # named later than at the root, it stays unseen
    with pytest.raises(TicketFormatError):
        bounds_of("nothing")
