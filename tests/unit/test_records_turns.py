"""Turns and attempts, from the records alone."""

from __future__ import annotations

from broker.records.model import Failure, ProviderRequest, ProviderResponse, Record
from broker.records.turns import Turns, derived


def asked(name: str, branch: str = "main", turn: int | None = 0) -> ProviderRequest:
    """Return a request; only its id, its branch and whether it has a turn matter here."""
    return ProviderRequest(name, 0, turn, turn, branch, "h", "m", "a", "", 0, None)


def came(name: str, *, whole: bool) -> ProviderResponse:
    """Return an answer, whole or not."""
    failure = None if whole else Failure("network", "")
    return ProviderResponse(name, 0, 200, None, {}, 0, failure, "", 0, None)


def test_fail_fail_ok() -> None:
    """Two failures are attempts at one turn, and a whole answer closes it."""
    records: list[Record] = []
    for name, whole in (("a", False), ("b", False), ("c", True)):
        records += [asked(name), came(name, whole=whole)]
    records.append(asked("d"))
    assert derived(records) == {"a": (0, 0), "b": (0, 1), "c": (0, 2), "d": (1, 0)}


def test_an_abandoned_request_is_an_attempt() -> None:
    """A request that was never answered opens the next attempt, as a failed one does."""
    assert derived([asked("a"), asked("b")]) == {"a": (0, 0), "b": (0, 1)}


def test_an_answer_closes_its_own_turn_and_no_other() -> None:
    """A late answer to an earlier turn does not close a later one."""
    records = [asked("a"), asked("b"), came("b", whole=True), asked("c"), came("a", whole=True)]
    assert derived([*records, asked("d")])["d"] == (1, 1)


def test_branches_count_for_themselves() -> None:
    """A subagent's conversation has turns of its own."""
    records = [asked("a"), asked("b", "helper"), came("b", whole=True), asked("c", "helper")]
    assert derived([*records, asked("d")]) == {
        "a": (0, 0),
        "b": (0, 0),
        "c": (1, 0),
        "d": (0, 1),
    }


def test_what_asks_no_model_counts_nothing() -> None:
    """A list of models between two requests is no turn."""
    records = [asked("x", turn=None), came("x", whole=True), asked("a")]
    assert derived(records) == {"a": (0, 0)}


def test_a_second_answer_counts_nothing() -> None:
    """An answer to a request that has one already, or to none, changes nothing."""
    turns = Turns()
    turns.begin("a", "main")
    for _ in range(3):
        turns.end("a", whole=True)
        turns.end("nobody", whole=True)
    assert turns.next("main") == (1, 0)
