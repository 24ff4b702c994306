"""What becomes of one request to shared counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.budgets import ruling
from broker.budgets.ruling import RUN, Facts, Growth, HolderPlace, Reservation, StoreAnswer

ASKED = Reservation("s", RUN + 2, RUN + 1, ("r", "a"), ("r",), (5, None), 2)
KNOWN = Facts({"r": ""}, {"r": 3, "a": 1}, {}, HolderPlace(RUN + 1, True, 1, ("r",), (2,)))


def test_a_call_is_counted_for_its_whole_line() -> None:
    """Each link grows by the cost in one change, and the holder's place says what was counted."""
    answer, change = ruling.reserve(ASKED, KNOWN)
    assert answer == StoreAnswer("granted", (3, 1))
    assert change == Growth({"r": 2, "a": 2}, HolderPlace(RUN + 2, True, 2, ("r", "a"), (3, 1)))


def test_one_more_than_the_number_is_refused_and_costs_nothing() -> None:
    """Where any link's number would be passed, no count changes, and the counts are told."""
    answer, change = ruling.reserve(replace(ASKED, limits=(4, None)), KNOWN)
    assert answer == StoreAnswer("full", (3, 1))
    assert change == Growth()


def test_a_request_that_comes_again_counts_once() -> None:
    """After a lost answer the same number is granted with the same counts, and nothing changes."""
    _, change = ruling.reserve(ASKED, KNOWN)
    again = replace(KNOWN, place=change.place, counts={"r": 99, "a": 99})
    assert ruling.reserve(ASKED, again) == (StoreAnswer("granted", (3, 1)), Growth())


def test_a_number_is_never_used_for_another_call() -> None:
    """A second call under the number of an earlier one is refused."""
    _, change = ruling.reserve(ASKED, KNOWN)
    other = replace(ASKED, line=("r",), limits=(5,))
    answer, changed = ruling.reserve(other, replace(KNOWN, place=change.place))
    assert (answer.kind, changed) == ("stale", Growth())


def test_what_comes_late_counts_nothing() -> None:
    """A request behind one that came after it changes nothing."""
    answer, change = ruling.reserve(ASKED, replace(KNOWN, place=HolderPlace(RUN + 3)))
    assert (answer.kind, change) == ("stale", Growth())


@pytest.mark.parametrize("why", ["granted", "full", "revoked"])
def test_what_nobody_learned_of_is_taken_back(why: str) -> None:
    """A grant whose answer was lost is taken back by the next request, whatever becomes of that."""
    unlearned = HolderPlace(RUN + 1, True, 3, ("r", "b"), (0, 0))
    known = replace(KNOWN, place=unlearned)
    asked = replace(ASKED, known=RUN, limits=(1 if why == "full" else 5, None))
    if why == "revoked":
        known = replace(known, revoked={"a": "enough"})
    answer, change = ruling.reserve(asked, known)
    assert answer.kind == why
    assert change.counts["b"] == -3
    assert change.counts["r"] == (-1 if why == "granted" else -3)
    assert change.place is not None
    assert change.place.held == (why == "granted")


def test_a_revoked_link_stops_all_below_it() -> None:
    """The first link that is revoked is named, with its reason."""
    answer, change = ruling.reserve(ASKED, replace(KNOWN, revoked={"a": "enough"}))
    assert answer == StoreAnswer("revoked", link="a", why="enough")
    assert change == Growth()


@pytest.mark.parametrize(
    "known",
    [
        replace(KNOWN, place=HolderPlace(RUN)),
        replace(KNOWN, place=None),
    ],
)
def test_counts_that_are_not_there_any_more_lose_the_tree(known: Facts) -> None:
    """Where a holder knows of more than the store, the tree is lost, for all who count there."""
    answer, change = ruling.reserve(ASKED, known)
    assert answer.kind == "lost"
    assert set(change.lost) == {"r"}
    after = replace(KNOWN, trees={"r": change.lost["r"]})
    assert ruling.reserve(ASKED, after) == (
        StoreAnswer("lost", link="r", why=change.lost["r"]),
        Growth(),
    )


def test_a_tree_that_is_not_there_allows_nothing() -> None:
    """Nothing is counted under a root that nobody began."""
    assert ruling.reserve(ASKED, replace(KNOWN, trees={}))[0].kind == "lost"
    assert ruling.join("s", 0, ("r",), replace(KNOWN, trees={}))[0][0].kind == "lost"


def test_a_call_is_taken_back_once() -> None:
    """Taking back a second time, or one that a later request followed, changes no count."""
    held = HolderPlace(RUN + 2, True, 2, ("r", "a"), (3, 1))
    answer, change = ruling.refund(RUN + 2, replace(KNOWN, place=held))
    assert (answer.kind, change.counts) == ("granted", {"r": -2, "a": -2})
    assert ruling.refund(RUN + 2, replace(KNOWN, place=change.place))[1].counts == {}
    assert ruling.refund(RUN + 1, replace(KNOWN, place=held))[1] == Growth()


def test_what_is_taken_back_before_it_arrives_never_counts() -> None:
    """A request that arrives after it was taken back is refused."""
    _, change = ruling.refund(ASKED.number, KNOWN)
    assert ruling.reserve(ASKED, replace(KNOWN, place=change.place))[0].kind == "stale"


def test_a_holder_goes_on_above_all_its_numbers() -> None:
    """What its earlier process may still have sent is stale; what it recorded stays counted."""
    (answer, change), base = ruling.join("s", RUN + 1, ("r",), KNOWN)
    assert (answer.kind, change.counts, base) == ("granted", {}, 2 * RUN)
    assert ruling.reserve(ASKED, replace(KNOWN, place=change.place))[0].kind == "stale"


def test_what_a_holder_never_recorded_is_taken_back_when_it_goes_on() -> None:
    """It was not released, so it is not a call."""
    (_, change), _ = ruling.join("s", RUN, ("r",), KNOWN)
    assert change.counts == {"r": -1}


def test_a_holder_whose_record_is_ahead_has_lost_counts() -> None:
    """A store that forgot recorded calls is found out when their session goes on."""
    (answer, change), _ = ruling.join("s", RUN + 2, ("r",), KNOWN)
    assert answer.kind == "lost"
    assert set(change.lost) == {"r"}
