"""Turns, checkpoints, and what led to what."""

from __future__ import annotations

import orca_trace
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import InputError
from broker.trace import graph
from broker.trace.format import Event
from broker.trace.graph import Edge
from tests.unit.tracekit import event

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["model.request", "model.response", "fs.snapshot", "tool.call", "tool.result", "note"]
        ),
        st.integers(0, 3),
        st.lists(st.integers(0, 12), max_size=3),
        st.sampled_from(["", "a" * 40]),
    ),
    max_size=12,
)


def made(rows: list[tuple[str, int, list[int], str]]) -> tuple[list[Event], list[object]]:
    """Return the same events for us and for the independent reader."""
    ours, theirs = [], []
    for seq, (kind, turn, causes, tree) in enumerate(rows):
        attrs = {"tree": tree} if tree else {}
        raw = {
            "seq": seq, "ts": "2027-01-15T08:00:00Z", "mono_us": seq, "turn": turn, "type": kind,
            "actor": "orca", "causes": causes, "attrs": attrs,
        }  # fmt: skip
        ours.append(event(seq, kind, turn=turn, causes=tuple(causes), attrs=attrs))
        theirs.append(orca_trace.TraceEvent.from_json(raw))
    return ours, theirs


@given(EVENTS, st.integers(0, 12))
def test_the_independent_reader_names_the_same_places(
    rows: list[tuple[str, int, list[int], str]], seq: int
) -> None:
    """Turns, checkpoints, snapping and chains are those of the format's own implementation."""
    ours, theirs = made(rows)
    assert [(t.turn, t.start_seq, t.end_seq) for t in graph.turns_of(ours)] == [
        (t.turn, t.start_seq, t.end_seq) for t in orca_trace.turns_of(theirs)
    ]
    mine = graph.checkpoints(ours)
    other = orca_trace.derive_checkpoints(theirs)
    assert [(c.seq, c.turn, c.tree or None) for c in mine] == [
        (c.seq, c.turn, c.fs_tree) for c in other
    ]
    try:
        expected = orca_trace.snap_to_checkpoint(other, seq)
    except ValueError:
        with pytest.raises(InputError):
            graph.snap(mine, seq)
    else:
        found, moved = graph.snap(mine, seq)
        assert (found.seq, moved) == (expected[0].seq, expected[1])
    try:
        chain = orca_trace.causal_chain(theirs, seq)
    except ValueError:
        with pytest.raises(InputError):
            graph.chain(ours, seq)
    else:
        assert [e.seq for e in graph.chain(ours, seq)] == [e.seq for e in chain]


@given(EVENTS)
def test_edges_point_forward_and_guesses_repeat_nothing(
    rows: list[tuple[str, int, list[int], str]],
) -> None:
    """No edge leads back, and an inferred one is none that is recorded."""
    ours, _ = made(rows)
    found = graph.edges(ours)
    assert all(edge.cause < edge.effect for edge in found)
    assert len({(edge.cause, edge.effect) for edge in found}) == len(found)
    recorded = graph.edges(ours, inferred=False)
    assert {edge for edge in found if edge.kind == "recorded"} == set(recorded)


def test_what_names_and_order_suggest() -> None:
    """Answers follow their requests, results their calls, by conversation, id and process."""
    events = [
        event(0, "model.request", attrs={"conversation": "main"}),
        event(1, "model.request", attrs={"conversation": "sub-1"}),
        event(2, "model.response", attrs={"conversation": "main"}),
        event(3, "model.response", attrs={"conversation": "sub-1"}),
        event(4, "tool.call", attrs={"conversation": "main", "call": "c1"}),
        event(5, "note", attrs={"kind": "authority.decision", "call": "c1"}),
        event(6, "shell.exec", attrs={"pid": 7}),
        event(7, "shell.exec", attrs={"pid": 8}),
        event(8, "shell.result", attrs={"pid": 7}),
        event(9, "tool.result", attrs={"call": "c1"}, causes=(4,)),
        event(10, "tool.result", attrs={"call": "other"}),
    ]
    assert graph.edges(events) == [
        Edge(0, 2, "inferred"),
        Edge(1, 3, "inferred"),
        Edge(2, 4, "inferred"),
        Edge(4, 5, "inferred"),
        Edge(4, 9, "recorded"),
        Edge(6, 8, "inferred"),
    ]
    assert [e.seq for e in graph.chain(events, 9)] == [4, 9]
    assert [e.seq for e in graph.chain(events, 9, inferred=True)] == [0, 2, 4, 9]
    assert [e.seq for e in graph.chain(events, 8)] == [8]
