"""Executions and the decisions that let them run, held against each other."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from broker.errors import TraceError
from broker.resolution.arguments import canonical_digest
from broker.trace.format import Event
from broker.trace.join import Decided, Joined, TracedCall, executions, join
from tests.unit.tracekit import event

ARGS = {"path": "src/app.py"}
DIGEST = canonical_digest(ARGS)


def payload(each: Event) -> object:
    """Return the payload of an event made by hand."""
    return each.payload


def ran(
    seq: int, tool: str = "ls", call: str = "", args: str = "", layer: str = "model"
) -> TracedCall:
    """Return a call that was answered."""
    return TracedCall(seq, layer, tool, call, args, answered=True)  # type: ignore[arg-type]  # a layer


def allowed(n: int, tool: str = "ls", call: str = "", args: str = "") -> Decided:
    """Return a decision that allowed a call."""
    return Decided(n, call, tool, args, True)


def hows(found: Joined) -> list[tuple[int, int, str]]:
    """Return which call went with which decision, and how."""
    return [(m.execution.seq, m.decision.n, m.how) for m in found.matches]


def test_a_call_is_found_by_its_id_before_its_content() -> None:
    """Two calls of the same content keep their own decisions, whatever their order."""
    calls = [ran(1, call="a", args=DIGEST), ran(2, call="b", args=DIGEST)]
    decisions = [allowed(7, call="b", args=DIGEST), allowed(8, call="a", args=DIGEST)]
    assert hows(join(calls, decisions)) == [(1, 8, "id"), (2, 7, "id")]


def test_without_an_id_content_decides() -> None:
    """Tool and arguments match, in order; other arguments match nothing."""
    calls = [ran(1, args=DIGEST), ran(2, args=DIGEST), ran(3, args="f" * 64)]
    decisions = [allowed(7, call="x", args=DIGEST), allowed(8, args=DIGEST)]
    found = join(calls, decisions)
    assert hows(found) == [(1, 7, "content"), (2, 8, "content")]
    assert [e.seq for e in found.undecided] == [3]


def test_a_server_s_tool_has_two_names() -> None:
    """The same arguments under a name that holds the other match; under a foreign name not."""
    calls = [ran(1, "mcp__notes__add", args=DIGEST), ran(2, "add", args=DIGEST, layer="mcp")]
    found = join(calls, [allowed(7, "notes/add", args=DIGEST)])
    assert hows(found) == [(2, 7, "arguments")]
    assert [e.seq for e in found.undecided] == [1]
    assert hows(join(calls[:1], [allowed(7, "add", args=DIGEST)])) == [(1, 7, "arguments")]
    assert not join(calls[:1], [allowed(7, "dd", args=DIGEST)]).matches
    assert not join([ran(1, "", args=DIGEST)], [allowed(7, "add", args=DIGEST)]).matches


def test_where_secrets_were_hidden_order_decides() -> None:
    """A call whose arguments nobody can compare any more is matched by tool and order."""
    assert hows(join([ran(1), ran(2)], [allowed(7, args=DIGEST), allowed(8, args=DIGEST)])) == [
        (1, 7, "order"),
        (2, 8, "order"),
    ]


def test_one_decision_answers_for_one_call() -> None:
    """A second run of an allowed call has no decision, and is told."""
    found = join([ran(1, args=DIGEST), ran(2, args=DIGEST)], [allowed(7, args=DIGEST)])
    assert [e.seq for e in found.undecided] == [2]


def test_a_call_seen_in_two_layers_needs_one_decision() -> None:
    """What the model asked for and the gateway passed on may share a decision."""
    calls = [ran(1, "mcp__n__add", "a", DIGEST), ran(2, "add", "", DIGEST, "mcp")]
    found = join(calls, [allowed(7, "mcp__n__add", "a", DIGEST)])
    assert hows(found) == [(1, 7, "id"), (2, 7, "arguments")]
    assert not found.undecided


def test_a_call_that_was_decided_twice() -> None:
    """A hook that was asked again leaves no decision without a call."""
    found = join([ran(1, call="a")], [allowed(7, call="a"), allowed(8, call="a")])
    assert hows(found) == [(1, 7, "id")]
    assert not found.idle


def test_left_overs_are_told_apart() -> None:
    """Calls nobody saw answered, allowances without a call, refusals without a call."""
    waiting = TracedCall(3, "model", "rm")
    found = join([waiting], [allowed(7), Decided(8, "", "ls", "", False)])
    assert found.unanswered == (waiting,)
    assert [d.n for d in found.idle] == [7]
    assert [d.n for d in found.refused] == [8]


def test_notes_are_held_against_the_receipt() -> None:
    """A note that tells another decision than the receipt has is told."""
    notes = [
        event(1, attrs={"n": 7, "allowed": True, "call": "a"}),
        event(2, attrs={"n": 7, "allowed": False, "call": "a"}),
        event(3, attrs={"n": 9, "allowed": True}),
        event(4, attrs={"n": 7, "allowed": True, "call": "b"}),
        event(5, attrs={"n": "\x1b", "allowed": True}),
        event(6, attrs={"n": [1], "allowed": True}),
    ]
    told = join([ran(0, "other")], [allowed(7, call="a")], notes).told
    assert [each.split()[1] for each in told] == ["2", "3", "4", "5", "6"]
    assert "\x1b" not in "".join(told)


def test_the_calls_of_a_trace() -> None:
    """Calls are taken from both layers, with their digests, and whether they were answered."""
    events = [
        event(1, "tool.call", attrs={"name": "a", "call": "c1"}, payload=ARGS),
        event(2, "tool.result", attrs={"call": "c1"}),
        event(3, "tool.call", attrs={"name": "a"}, payload='{"path": "src/app.py"}'),
        event(4, "tool.result", causes=(3,)),
        event(5, "tool.call", attrs={"name": "a"}, payload=ARGS, redacted=("payload.path",)),
        event(6, "tool.call", attrs={"name": "a", "args": "e" * 64}, redacted=("payload",)),
        event(
            7, "mcp.request", attrs={"method": "tools/call", "server": "s"},
            payload={"name": "add", "arguments": ARGS},
        ),
        event(8, "mcp.response", causes=(7,)),
        event(9, "mcp.request", attrs={"method": "tools/list"}, payload={}),
        event(10, "note", attrs={"kind": "authority.decision", "n": 1}),
        event(11, "tool.result", attrs={"call": ""}),
        event(12, "tool.call", attrs={"name": "a"}, payload="no json"),
    ]  # fmt: skip
    found, notes = executions(events, payload)
    assert [(e.seq, e.layer, e.tool, e.args, e.answered) for e in found] == [
        (1, "model", "a", DIGEST, True),
        (3, "model", "a", DIGEST, True),
        (5, "model", "a", "", False),
        (6, "model", "a", "e" * 64, False),
        (7, "mcp", "add", DIGEST, True),
        (12, "model", "a", "", False),
    ]
    assert [n.seq for n in notes] == [10]


def test_a_payload_that_cannot_be_read_has_no_digest() -> None:
    """A missing blob hides the arguments; the call is there all the same."""

    def gone(each: Event) -> object:
        raise TraceError("gone")

    found, _ = executions([event(1, "tool.call", attrs={"name": "a"}, payload="x")], gone)
    assert [(e.seq, e.args) for e in found] == [(1, "")]


def test_a_decision_that_was_made_while_a_call_was_open() -> None:
    """Without ids and with other names, the time at which a decision was noted tells its call."""

    def note(seq: int, n: int) -> Event:
        return event(seq, attrs={"kind": "authority.decision", "n": n, "allowed": True})

    view = TracedCall(3, "model", "view", "c1", DIGEST, answered=True, opened=1, closed=8)
    shell = TracedCall(4, "model", "bash", "c2", DIGEST, answered=True, opened=1, closed=9)
    late = TracedCall(12, "model", "view", "c3", DIGEST, answered=True, opened=10, closed=15)
    decisions = [allowed(20, "Bash", args="1" * 64), allowed(21, "Read", args="2" * 64)]
    notes = [note(2, 20), note(5, 21)]
    found = join([view, shell, late], decisions, notes)
    assert hows(found) == [(3, 21, "time"), (4, 20, "time")]
    assert found.undecided == (late,)
    named = [allowed(20, "Bash", "other", "1" * 64)]
    assert not join([shell], named, notes[:1]).matches  # two ids that differ are two calls
    numbered = [allowed(20, "Agent", "1", "1" * 64)]  # the broker's own number, where it had no id
    assert hows(join([shell], numbered, notes[:1])) == [(4, 20, "time")]
    assert not join([late], decisions, notes).matches


CALLS = st.builds(
    TracedCall,
    seq=st.integers(0, 50),
    layer=st.just("model"),
    tool=st.sampled_from(["a", "b"]),
    call=st.sampled_from(["", "1", "2"]),
    args=st.sampled_from(["", "x", "y"]),
    answered=st.booleans(),
)
DECISIONS = st.builds(
    Decided,
    n=st.integers(0, 50),
    call=st.sampled_from(["", "1", "2"]),
    tool=st.sampled_from(["a", "b"]),
    args=st.sampled_from(["x", "y"]),
    allowed=st.booleans(),
)


@given(
    st.lists(CALLS, max_size=12, unique_by=lambda e: e.seq),
    st.lists(DECISIONS, max_size=12, unique_by=lambda d: d.n),
)
def test_nothing_is_lost_and_nothing_counts_twice(
    calls: list[TracedCall], decisions: list[Decided]
) -> None:
    """Every call is matched or left over, once; no decision answers for two calls of a layer."""
    found = join(calls, decisions)
    told = [m.execution for m in found.matches] + [*found.undecided, *found.unanswered]
    assert Counter(told) == Counter(calls)
    used = [m.decision.n for m in found.matches]
    assert len(used) == len(set(used))
    for match in found.matches:
        call, decision = match.execution, match.decision
        same = {
            "id": call.call and call.call == decision.call,
            "content": (call.tool, call.args) == (decision.tool, decision.args),
            "arguments": call.args == decision.args,
            "order": not call.args and call.tool == decision.tool,
            "time": False,  # nothing was noted
        }
        assert same[match.how]
    left = {d.n for d in (*found.idle, *found.refused)}
    assert not left & set(used)
