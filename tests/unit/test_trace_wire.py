"""What a harness meant to send, and what went over the wire, held against each other."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from broker.trace.wire import MeantRequest, join_wire
from tests.unit.tracekit import event

DIGESTS = st.sampled_from(["a" * 64, "b" * 64, "c" * 64])


@given(st.lists(DIGESTS, max_size=8), st.lists(DIGESTS, max_size=8))
def test_every_request_and_every_record_is_told_once(sent: list[str], meant: list[str]) -> None:
    """Equal digests go together, as many as there are on both sides; the rest is left over."""
    events = [event(n, "model.request", attrs={"sha256": d}) for n, d in enumerate(sent)]
    found = join_wire(events, [MeantRequest(f"r{n}", d) for n, d in enumerate(meant)])
    both = Counter(sent) & Counter(meant)
    assert len(found.matched) == both.total()
    assert all(meant[int(name[1:])] == sent[seq] for name, seq in found.matched)
    assert sorted([*(seq for _, seq in found.matched), *found.unmeant]) == list(range(len(sent)))
    names = [*(name for name, _ in found.matched), *found.unsent]
    assert sorted(names) == sorted(f"r{n}" for n in range(len(meant)))


def test_requests_without_a_digest_are_told() -> None:
    """Only requests count, and one that says no digest is neither meant nor unmeant."""
    events = [
        event(0, "model.response", attrs={"sha256": "a" * 64}),
        event(1, "model.request"),
        event(2, "model.request", attrs={"sha256": "A" * 64}),
    ]
    found = join_wire(events, [])
    assert (found.matched, found.unmeant, found.undigested) == ((), (), (1, 2))
