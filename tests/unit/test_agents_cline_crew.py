"""Whose call it is, where Cline says only the agent, its parent and its tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.agents.cline import crew as module
from broker.agents.cline.crew import Crew


def begun(crew: Crew, task: str, asked_by: str = "main", *, of_team: bool = False) -> str:
    """Let a helper start, and return who it will be."""
    actor = crew.next("subagent")
    crew.begin(actor, asked_by, task, of_team=of_team)
    return actor


def test_the_main_agent_has_no_parent() -> None:
    """Without a team, an agent that nobody started is the person's own, also in a new talk."""
    crew = Crew()
    assert crew.caller("a1", "", ["go"]) == "main"
    assert crew.caller("a2", "", ["go on"]) == "main"


def test_a_subagent_is_found_by_its_task_and_its_parent() -> None:
    """The words must be those that its own parent gave; another's task is not its own."""
    crew = Crew()
    crew.caller("a1", "", [])
    one = begun(crew, "look")
    assert crew.caller("a2", "a1", [" look\n"]) == one
    deep = begun(crew, "dig", asked_by=one)
    assert crew.caller("a3", "a2", ["dig"]) == deep
    assert crew.caller("a4", "a1", ["dig"]) is None
    assert crew.caller("a5", "unknown", ["look"]) is None


def test_the_latest_task_counts() -> None:
    """Of the tasks of one agent the last one known, and of the same words the last let through."""
    crew = Crew()
    crew.gather()
    first, second = begun(crew, "look", of_team=True), begun(crew, "dig", of_team=True)
    assert crew.caller("a2", "", ["look"]) == first
    assert crew.caller("a2", "", ["look", "dig"]) == second
    again = begun(crew, "look", of_team=True)
    assert crew.caller("a2", "", ["look", "dig", "look"]) == again


def test_a_stranger_is_nobody_once_there_is_a_team() -> None:
    """Who was the main agent stays it; an agent that nobody knows may be a teammate."""
    crew = Crew()
    assert crew.caller("a1", "", ["go"]) == "main"
    crew.gather()
    assert crew.caller("a1", "", ["go"]) == "main"
    assert crew.caller("a9", "", ["go"]) is None


def test_tasks_of_a_team_and_of_subagents_are_apart() -> None:
    """A teammate does not pass for a subagent with the same words, nor the other way round."""
    crew = Crew()
    crew.caller("a1", "", [])
    crew.gather()
    begun(crew, "look")
    assert crew.caller("mate", "", ["look"]) is None
    begun(crew, "dig", of_team=True)
    assert crew.caller("sub", "a1", ["dig"]) is None


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest task is forgotten first, and whoever works at it is nobody then."""
    monkeypatch.setattr(module, "MAX_ERRANDS", 2)
    crew = Crew()
    crew.caller("a1", "", [])
    for task in ("one", "two", "three"):
        begun(crew, task)
    assert crew.caller("a2", "a1", ["one"]) is None
    assert crew.caller("a3", "a1", ["three"]) == "agent:subagent:3"


@given(st.text(max_size=100))
def test_an_actor_is_always_a_name(kind: str) -> None:
    """Whatever a kind is called, the actor has three parts, and no two are the same."""
    crew = Crew()
    one, other = crew.next(kind), crew.next(kind)
    assert one != other
    assert one.count(":") == 2
    assert one.isprintable()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=6), st.data())
def test_nobody_gets_a_ticket_of_another_task(
    errands: list[tuple[str, bool]], data: st.DataObject
) -> None:
    """An agent is only ever one of those that were let start with one of its own tasks."""
    crew = Crew()
    crew.caller("a1", "", [])
    crew.gather()
    holders = {begun(crew, task, of_team=team): (task, team) for task, team in errands}
    tasks = data.draw(st.lists(st.sampled_from("abcd"), max_size=4))
    parent = data.draw(st.sampled_from(["", "a1"]))
    found = crew.caller("x", parent, tasks)
    fitting = [h for h, (task, team) in holders.items() if task in tasks and team == (not parent)]
    assert found in fitting if fitting else found is None
