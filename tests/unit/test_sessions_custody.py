"""The tickets of one session, and who holds which."""

from __future__ import annotations

import pytest

from broker.caveats import calls, tools
from broker.errors import BrokerError, InputError, LimitError
from broker.guard import TicketGuard
from broker.sessions import custody as module
from broker.sessions.custody import Custody
from broker.ticket import mint

KEY = bytes(range(32))


@pytest.fixture
def custody() -> Custody:
    """The custody of a fresh root."""
    root = mint([tools("read", "edit"), calls(9)], key=KEY, sid="s", minted_at=0)
    return Custody(TicketGuard(root), KEY)


def test_a_ticket_is_found_by_id_by_wire_and_by_holder(custody: Custody) -> None:
    """Each way leads to the same ticket, and none to the root by mistake."""
    child = custody.root.narrowed(tools("read"))
    custody.keep(child, "agent:reviewer")
    assert custody.find(child.ticket.id, "main") is child
    assert custody.find(child.ticket.wire(), "main") is child
    assert custody.find(None, "agent:reviewer") is child
    assert custody.find(None, "agent:reviewer:17") is child
    assert custody.find(None, "agent:other:17") is custody.root
    assert custody.find(None, "main") is custody.root
    assert custody.find("", "main") is custody.root


def test_a_ticket_of_its_own_comes_before_that_of_its_type(custody: Custody) -> None:
    """An agent with a ticket of its own is held to that one."""
    kind = custody.root.narrowed(tools("read"))
    custody.keep(kind, "agent:reviewer")
    own = kind.narrowed(calls(1))
    custody.keep(own, "agent:reviewer:17")
    assert custody.find(None, "agent:reviewer:17") is own
    assert custody.find(None, "agent:reviewer:18") is kind


def test_a_wire_form_that_is_new_is_believed_and_not_yet_kept(custody: Custody) -> None:
    """A ticket that its holder narrowed by itself is taken, on the same budget."""
    wire = custody.root.narrowed(calls(1)).ticket.wire()
    found = custody.find(wire, "main")
    assert not custody.knows(found)
    assert found.budget is custody.root.budget
    custody.keep(found)
    assert custody.find(wire, "main") is found


def test_what_is_no_ticket_of_this_session_is_an_error(custody: Custody) -> None:
    """A misspelt id, a foreign ticket and a forged one never fall back to the root."""
    foreign = mint([], key=bytes(reversed(KEY)), sid="s", minted_at=0).wire()
    wire = custody.root.ticket.wire()
    forged = wire.replace('"edit"', '"shell"')
    assert forged != wire
    for name in ("0" * 16, "nonsense", "\n", foreign, forged, wire[:-1] + "0" * 9):
        with pytest.raises(BrokerError):
            custody.find(name, "main")


def test_a_holder_is_only_ever_narrowed(custody: Custody) -> None:
    """What is kept for a holder descends from what it holds, or from its type's."""
    kind = custody.root.narrowed(tools("read"))
    custody.keep(kind, "agent:x")
    for holder in ("agent:x", "agent:x:1"):
        custody.check_holder(holder, kind.narrowed(calls(1)))
        with pytest.raises(InputError):
            custody.check_holder(holder, custody.root)
    custody.check_holder("agent:y", custody.root)


def test_there_is_room_for_so_many(custody: Custody, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that delegates for ever is stopped."""
    monkeypatch.setattr(module, "MAX_TICKETS", 2)
    custody.check_room()
    custody.keep(custody.root.narrowed(calls(1)))
    with pytest.raises(LimitError):
        custody.check_room()
