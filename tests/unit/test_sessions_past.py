"""What a receipt says about a session's past."""

from __future__ import annotations

import pytest

from broker.caveats import calls, tools
from broker.errors import Break
from broker.sessions.past import Past
from broker.sessions.records import delegation_data, ticket_data
from broker.ticket import attenuate, mint

KEY = bytes(range(32))
ROOT = mint([tools("read"), calls(9)], key=KEY, sid="s", minted_at=0)
CHILD = attenuate(ROOT, calls(2))
OPEN = {"workspace": "/ws", "agent": "test"}


def past() -> Past:
    """Return a past with a root, a child and a holder."""
    found = Past(KEY)
    found.take("open", OPEN, 1)
    found.take("ticket", ticket_data(ROOT, []), 2)
    found.take("delegate", delegation_data(CHILD, [], asked_by="main", holder="agent:x"), 3)
    return found


def test_tickets_and_holders_are_found() -> None:
    """Every recorded ticket is known again, and who held it."""
    found = past()
    assert found.root() == ROOT
    assert found.tickets == {ROOT.id: ROOT, CHILD.id: CHILD}
    assert found.holders == {"agent:x": CHILD.id}
    assert (found.workspace, found.agent, found.at) == ("/ws", "test", 3)


def test_counts_are_those_of_allowed_decisions() -> None:
    """Allowed decisions count at every link of their ticket; refusals and notes do not."""
    found = past()
    found.take("decision", {"decision": "allow", "ticket": ROOT.id}, 4)
    found.take("decision", {"decision": "allow", "ticket": CHILD.id, "cost": 3}, 4)
    found.take("decision", {"decision": "refuse", "ticket": CHILD.id}, 4)
    found.take("note", {"text": "x"}, 5)
    found.take("delegate", {"decision": "refuse"}, 5)
    assert found.counts() == {ROOT.id: 4, CHILD.id: 3}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("open", {"agent": "x"}),
        ("ticket", {"ticket": "x"}),
        ("decision", {"decision": "allow"}),
        ("decision", {"decision": "allow", "ticket": "0" * 16}),
        ("decision", {"decision": "allow", "ticket": ROOT.id, "cost": 0}),
        ("decision", {"decision": "allow", "ticket": ROOT.id, "cost": True}),
        ("delegate", {"decision": "allow"}),
    ],
)
def test_an_entry_that_makes_no_sense_is_a_break(kind: str, data: dict[str, object]) -> None:
    """Passing over an entry could give calls back, so it is never done."""
    with pytest.raises(Break):
        past().take(kind, data, 9)


def test_a_receipt_without_a_ticket_has_no_root() -> None:
    """A session that was killed before its ticket was recorded cannot go on."""
    with pytest.raises(Break):
        Past(KEY).root()
