"""What another ticket would have said of a run's calls."""

from __future__ import annotations

from broker.calls import Call, PathSubject
from broker.caveats import Caveat, calls, paths, tools, until
from broker.conditions import values
from broker.replay.reading import ReadCall
from broker.replay.seen import SeenCall
from broker.replay.whatif import what_if
from broker.rules import argument, rule
from broker.ticket import Ticket, mint


def _ticket(*caveats: Caveat) -> Ticket:
    return mint(caveats, key=bytes(32), sid="s", minted_at=0)


def _call(tool: str, at: int = 0, unknown: str = "", **more: object) -> ReadCall:
    call = Call(tool, **more)  # type: ignore[arg-type]  # a test's keywords
    return ReadCall(SeenCall(at, at, tool), call, "receipt", unknown)


def test_calls_are_counted_as_the_ticket_would_have() -> None:
    """An allowed call is counted, a refused one costs nothing, and what is left is told."""
    reads = [_call("a"), _call("b"), _call("a"), _call("a")]
    outcome = what_if(_ticket(tools("a"), calls(2)), reads)
    assert [a.refusal and a.refusal.caveat for a in outcome.answers] == [
        None,
        "tools",
        None,
        "calls",
    ]
    assert (outcome.spent, outcome.left) == (2, 0)
    assert what_if(_ticket(tools("a")), reads).left is None


def test_each_call_has_its_own_instant() -> None:
    """A deadline is held against when the call was made."""
    outcome = what_if(_ticket(until(5)), [_call("a", 4), _call("a", 5)])
    assert [a.refusal is None for a in outcome.answers] == [True, False]


def test_what_is_not_known_is_not_allowed() -> None:
    """A call of which something is not known is told apart, unless what is known is refused."""
    inside = PathSubject("", "a", "read", ("a/",))
    outside = PathSubject("", "b", "read", ("b/",))
    reads = [
        _call("x", unknown="cut", paths=(inside,)),
        _call("x", unknown="cut", paths=(outside,)),
    ]
    outcome = what_if(_ticket(paths("a")), reads)
    assert [bool(a.unknown) for a in outcome.answers] == [True, False]
    assert outcome.undecided == outcome.answers[:1]
    assert outcome.refused == outcome.answers[1:]
    assert what_if(_ticket(calls(9)), reads).undecided == ()


def test_conditions_without_arguments_are_not_told() -> None:
    """A scope that looks into arguments says nothing of a call whose arguments are not known."""
    ticket = _ticket(tools(rule("pay", argument("to", values("A")))))
    unseen = _call("pay")
    seen = _call("pay", arguments={"to": "B"})
    outcome = what_if(ticket, [unseen, seen, _call("other")])
    assert [a.refusal and a.refusal.caveat for a in outcome.answers] == [None, "tools", "tools"]
    assert outcome.answers[0].unknown.startswith("the scope looks into its arguments")


def test_a_reason_is_for_a_person() -> None:
    """What an agent is told beside a reason is left out."""
    refused = what_if(_ticket(tools("a")), [_call("b")]).answers[0]
    assert refused.reason.endswith("is not in tools: a")
    assert what_if(_ticket(), [_call("b")]).answers[0].reason == ""
