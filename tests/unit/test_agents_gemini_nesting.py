"""Whose call it is, where no payload says so."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.agents.gemini.nesting import Nesting
from broker.session import MAIN


def started(*tasks: tuple[str, int], asked_by: str = MAIN) -> tuple[Nesting, list[str]]:
    """Return a nesting in which subagents began at these instants."""
    nesting, actors = Nesting(), []
    for task, at_ms in tasks:
        actors.append(nesting.next("generalist"))
        nesting.begin(actors[-1], asked_by, task, at_ms)
    return nesting, actors


def test_a_call_between_start_and_end_is_the_subagents() -> None:
    """Before it began and after it ended, the main agent calls."""
    nesting, (one,) = started(("look", 1000))
    assert nesting.callers(999) == (MAIN,)
    assert nesting.callers(1000) == (one,)
    nesting.end("look")
    assert nesting.callers(1000) == (MAIN,)


def test_calls_made_together_with_the_start_are_the_main_agents() -> None:
    """What one agent calls at once was made before the subagent could start."""
    nesting, _ = started(("look", 1000))
    assert nesting.callers(998) == (MAIN,)


def test_a_call_that_two_may_have_made_names_both() -> None:
    """Two subagents at once cannot be told apart, until one has ended."""
    nesting, (one, two) = started(("a", 1000), ("b", 1001))
    assert nesting.callers(1005) == (one, two)
    assert nesting.callers(1000) == (one,)
    nesting.end("a")
    assert nesting.callers(1005) == (two,)


def test_an_agent_that_waits_for_another_does_not_call() -> None:
    """A subagent's subagent is the one that calls; its ticket is the narrower one."""
    nesting, (one,) = started(("a", 1000))
    inner = nesting.next("reader")
    nesting.begin(inner, one, "b", 1010)
    assert nesting.callers(1020) == (inner,)
    nesting.end("b")
    assert nesting.callers(1020) == (one,)


def test_of_equal_tasks_the_last_ends_first() -> None:
    """A subagent that gave its own task on ends after the one that it waits for."""
    nesting, (one,) = started(("a", 1000))
    nesting.begin(nesting.next("generalist"), one, "a", 1010)
    nesting.end("a")
    assert nesting.callers(1020) == (one,)


def test_a_call_without_a_time_may_be_any_subagents() -> None:
    """Where it is not known when, the narrower tickets hold."""
    nesting, actors = started(("a", 1000), ("b", 2000))
    assert nesting.callers(None) == tuple(actors)


def test_a_new_line_of_a_person_ends_all_errands() -> None:
    """What never told its end does not hold the main agent for ever."""
    nesting, _ = started(("a", 1000))
    nesting.end("something else")
    assert nesting.callers(1001) != (MAIN,)
    nesting.forget()
    assert nesting.callers(1001) == (MAIN,)


@given(kind=st.text(max_size=80))
def test_an_actor_is_a_kind_and_a_number(kind: str) -> None:
    """No agent's name can read as another agent, or as the ticket of another kind."""
    first, second = (nesting := Nesting()).next(kind), nesting.next(kind)
    assert first != second
    assert first.count(":") == 2
    assert first.startswith("agent:")
    assert first.endswith(":1")


@given(
    begun=st.lists(st.integers(0, 9), max_size=5),
    ended=st.sets(st.integers(0, 4)),
    fired=st.none() | st.integers(0, 9),
)
def test_nobody_who_may_have_called_is_left_out(
    begun: list[int], ended: set[int], fired: int | None
) -> None:
    """Subagents of the main agent: those that had begun and not ended, else the main agent."""
    nesting, actors = started(*((str(n), at) for n, at in enumerate(begun)))
    for n in ended:
        nesting.end(str(n))
    able = [
        actor
        for n, (actor, at) in enumerate(zip(actors, begun, strict=True))
        if n not in ended and (fired is None or fired >= at)
    ]
    assert list(nesting.callers(fired)) == (able or [MAIN])
