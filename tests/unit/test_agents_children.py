"""Which tickets a subagent is held to, by what its agent tells of it and whatever it leaves out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.agents import children as module
from broker.agents.children import Children, Commission, News, Spawn, asked_scope, key_of, within
from broker.agents.definitions import Listing
from broker.calls import Refusal
from broker.caveats import paths, tools
from broker.errors import InputError, LimitError
from broker.scope import parse_scope, render
from broker.session import MAIN, Session
from broker.ticket import Ticket, attenuate, mint
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

SCOPE = ("tools=Read,Edit,Agent,Skill", "paths=src/**", "calls=9")
ROOT = mint([tools("Read", "Edit", "Agent", "Skill")], key=bytes(32), sid="s", minted_at=0)


def who(agent: str, **told: Any) -> News:
    """Return what is told of a caller."""
    return News("begun", key_of(agent), **told)


def spawned(
    children: Children,
    session: Session,
    call: str,
    task: str = "",
    caller: News | None = None,
    kind: str = "general",
) -> Commission | Refusal | None:
    """Ask for a subagent, and let it start."""
    by = caller or News("begun", MAIN)
    actor = MAIN if by.agent == MAIN else f"agent:x:{by.agent[3:]}"
    handed = children.hand_down(Spawn("Agent", kind, task), call, by, actor=actor, session=session)
    if isinstance(handed, Commission):
        children.begin(handed)
    return handed


def ids(handed: object) -> tuple[str, ...]:
    """Return the ids of the tickets that were handed down."""
    assert isinstance(handed, Commission)
    return tuple(ticket.id for ticket in handed.tickets)


# ── what is handed down ──


def test_a_task_names_its_scope() -> None:
    """Lines in any place and any case; what is no caveat is text."""
    task = "look\r\n  Scope: tools=Read\r\nscope: the parser\nscope:calls = 2 \nmy scope: paths=x\n"
    assert asked_scope(task) == ("tools=Read", "calls = 2")
    assert asked_scope("scope: @review") == ("@review",)


def test_a_subagent_gets_a_ticket_of_its_own(bench: Bench) -> None:
    """Narrowed from its caller's, on record with who asked, and below that of its parent."""
    session, children = bench.open(SCOPE), Children()
    one = spawned(children, session, "c1", "scope: tools=Read,Agent")
    assert children.held(who("a1", kind="general")) == ids(one)
    two = spawned(children, session, "c2", "scope: paths=src/a.py", who("a1"))
    assert children.held(who("a2", kind="general")) == ids(two)
    found = [data for kind, data in bench.entries(session.sid) if kind == "delegate"]
    assert [data["parent"] for data in found] == [session.ticket.id, *ids(one)]
    assert [data["asked_by"] for data in found] == ["main", "agent:x:a1"]
    assert found[0]["holder"].startswith("call:c1")


@pytest.mark.parametrize(
    ("task", "caveat"),
    [
        ("scope: tools=Read,Bash", "tools"),
        ("scope: paths=**", "paths"),
        ("scope: calls=10", "calls"),
        ("scope: tool=Read", "call"),
        ("scope: tools=Read\nscope: tools=Edit", "call"),
        ("scope: @review", "call"),
        ("scope: calls=many", "call"),
    ],
)
def test_more_than_the_caller_holds_is_refused(bench: Bench, task: str, caveat: str) -> None:
    """By name, for the model to read; nobody may start, and no ticket is kept."""
    session, children = bench.open(SCOPE), Children()
    refusal = spawned(children, session, "c1", task)
    assert isinstance(refusal, Refusal)
    assert refusal.caveat == caveat
    assert "the scope that this task asks for" in refusal.reason
    assert children.living() == ()


def test_a_caller_that_may_start_nobody_derives_nothing(bench: Bench) -> None:
    """Where its ticket does not name the tool, the call is refused for that alone."""
    session, children = bench.open(("tools=Read",)), Children()
    assert spawned(children, session, "c1", "scope: tools=Bash") is None
    assert [kind for kind, _ in bench.entries(session.sid)] == ["open", "ticket"]


def test_a_definition_is_read_when_its_subagent_starts(bench: Bench) -> None:
    """What it says later changes nothing, and one that cannot be read refuses."""
    said: list[Listing | None] = [Listing(("Read", "Bash"))]

    def listed(kind: str) -> Listing | None:
        if said[0] is None:
            raise InputError("cannot be read")
        return said[0]

    session, children = bench.open(SCOPE), Children(listed)
    handed = spawned(children, session, "c1")
    said[0] = Listing(("Read", "Edit"))
    (held,) = [session.find(name) for name in children.held(who("a1", kind="general"))]
    assert (held.id,) == ids(handed)
    assert held.caveats[-1] == tools("Read")
    said[0] = None
    assert isinstance(spawned(children, session, "c2"), Refusal)


def test_a_definition_asks_for_nothing() -> None:
    """What its caller does not hold is left out; a pattern comes to the names that are held."""
    held = attenuate(ROOT, tools("Read", "Edit"))
    assert within(held.bounds, Listing(("Read", "Bash"))) == tools("Read")
    assert within(held.bounds, Listing(("Bash",))) == tools()
    assert within(held.bounds, Listing(None, ("Edit",))) == tools("Read")
    assert within(held.bounds, Listing(("Read", "Edit"), ("Edit",))) == tools("Read")
    wide = mint([tools("mcp__a__*")], key=bytes(32), sid="s", minted_at=0)
    assert within(wide.bounds, Listing(("mcp__a__look", "mcp__b__look"))) == tools("mcp__a__look")
    assert within(wide.bounds, Listing(None, ("mcp__a__drop",))) is None
    assert (
        within(mint([], key=bytes(32), sid="s", minted_at=0).bounds, Listing(None, ("x",))) is None
    )


# ── who goes on with another task ──


def resumed(
    children: Children, session: Session, call: str, agent: str, caller: str, task: str = ""
) -> Commission | Refusal | None:
    """Ask an agent that was there before to go on, and let it."""
    spawn = Spawn("Agent", "general", task, resumes=key_of(agent))
    by, actor = who(caller), f"agent:x:{caller}"
    handed = children.hand_down(spawn, call, by, actor=actor, session=session)
    if isinstance(handed, Commission):
        children.begin(handed)
    return handed


def test_who_goes_on_for_a_narrower_agent_is_held_to_both(bench: Bench) -> None:
    """Nobody has another subagent do what its own ticket refuses, nor gives it more than it had."""
    session, children = bench.open(SCOPE), Children()
    wide = spawned(children, session, "c1", "scope: paths=src/a.py")
    assert children.held(who("a1", kind="general")) == ids(wide)
    narrow = spawned(children, session, "c2", "scope: tools=Read,Agent")
    assert children.held(who("a2", kind="general")) == ids(narrow)
    again = resumed(children, session, "c3", "a1", "a2")
    assert set(children.held(who("a1", kind="general"))) == {*ids(wide), *ids(again)}
    assert children.held(who("a2", kind="general")) == ids(narrow)
    further = resumed(children, session, "c4", "a2", "a2", "scope: tools=Read")
    assert children.held(who("a2", kind="general")) == ids(further)


def test_nobody_goes_on_who_is_not_known(bench: Bench) -> None:
    """It could be the main agent's own session, which no ticket of a subagent holds."""
    session, children = bench.open(SCOPE), Children()
    spawned(children, session, "c1")
    children.held(who("a1", kind="general"))
    refusal = resumed(children, session, "c2", "main", "a1")
    assert isinstance(refusal, Refusal)
    assert "which subagent" in refusal.reason


# ── whose call it is ──


def handed(call: str, *caveats: Any, by: str = MAIN, **spawn: Any) -> Commission:
    """Return what a call handed down, without a session."""
    ticket = attenuate(ROOT, *caveats, nonce=call)
    return Commission(call, by, Spawn("Agent", **spawn), (call,), (ticket,))


def tickets(*held: Commission) -> set[str]:
    """Return the ids of tickets."""
    return {ticket.id for each in held for ticket in each.tickets}


def test_the_main_agent_and_nobody_else_is_the_main_agent() -> None:
    """An id that reads like its name is an id; a payload without one is its own."""
    children = Children()
    children.begin(handed("c1", tools("Read")))
    assert children.held(News("begun", key_of(None))) == ()
    assert children.held(who("main")) != ()


def test_one_that_is_not_known_is_held_to_all(bench: Bench) -> None:
    """It never has the root's while others may work, and keeps what it was first held to."""
    children = Children()
    assert children.held(who("early")) == ()
    one, two = handed("c1", tools("Read"), kind="a"), handed("c2", tools("Edit"), kind="b")
    children.begin(one)
    children.begin(two)
    assert set(children.held(who("x", kind="c"))) == tickets(one, two)
    children.hear(News("begun", key_of("a1"), "a"))
    children.hear(News("ended", key_of("a1")))
    assert set(children.held(who("x", kind="c"))) == tickets(one, two)
    assert set(children.held(who("y", kind="c"))) == tickets(one, two)
    assert children.held(who("early")) == ()


def test_two_that_cannot_be_told_apart_are_held_to_both() -> None:
    """Until their agent says which call started which; then each has its own."""
    children = Children()
    one, two = handed("c1", tools("Read")), handed("c2", paths("src/**"))
    children.begin(one)
    children.begin(two)
    assert set(children.held(who("a1"))) == set(children.held(who("a2"))) == tickets(one, two)
    children.hear(News("paired", key_of("a2"), call="c1"))
    assert set(children.held(who("a2"))) == tickets(one)
    assert set(children.held(who("a1"))) == tickets(two)


def test_what_was_taken_for_another_is_put_right() -> None:
    """A stranger that was taken for the subagent of a call does not keep its ticket alone."""
    children = Children()
    one = handed("c1", tools("Read"))
    children.begin(one)
    assert set(children.held(who("stranger"))) == tickets(one)
    children.hear(News("paired", key_of("a1"), call="c1"))
    assert set(children.held(who("a1"))) == tickets(one)
    assert set(children.held(who("stranger"))) == tickets(one)


def test_equal_ones_need_not_be_told_apart() -> None:
    """Two that were handed the same by the same caller each get one of the two tickets."""
    children = Children()
    one = handed("c1", tools("Read"))
    two = Commission("c2", MAIN, one.spawn, one.added, (attenuate(ROOT, tools("Read"), nonce="2"),))
    children.begin(one)
    children.begin(two)
    assert [children.held(who("a1")), children.held(who("a2"))] == [
        (one.tickets[0].id,),
        (two.tickets[0].id,),
    ]


def test_kind_parent_call_and_task_tell_them_apart() -> None:
    """Each of them alone is enough; a task that reads otherwise rules nobody out."""
    children = Children()
    found = [
        handed("c1", tools("Read"), kind="Explore", task="one"),
        handed("c2", paths("src/**"), kind="Plan", task="two", by="id:a9"),
    ]
    for each in found:
        children.begin(each)
    assert set(children.held(who("x1", task="else"))) == tickets(*found)
    assert set(Children.held(children, who("x1", kind="explore"))) == tickets(found[0])
    assert set(children.held(who("x2", parent="id:a9"))) == tickets(found[1])
    children.begin(third := handed("c3", tools("Edit"), task="three"))
    children.begin(fourth := handed("c4", tools("Read"), task="four"))
    assert set(children.held(who("x4", task="four"))) == tickets(fourth)
    assert set(children.held(who("x3", call="c3"))) == tickets(third)
    assert children.held(who("x5", call="c5")) != ()


def test_a_call_id_that_comes_twice_lends_nothing() -> None:
    """A subagent that is named after its call is held to both calls of that id."""
    children = Children()
    one, two = handed("c1", tools("Read")), handed("c1", paths("src/**"))
    children.begin(one)
    assert set(children.held(who("k-c1", call="c1"))) == tickets(one)
    children.begin(two)
    assert set(children.held(who("k-c1", call="c1"))) == tickets(one, two)


def test_a_call_that_may_start_many_stands_beside_the_others() -> None:
    """A subagent that may be of either is held to both, and the other one's ticket stays free."""
    children = Children()
    many = Commission(
        "c0", "id:a0", Spawn("Skill", many=True), (), (attenuate(ROOT, tools("Read")),)
    )
    children.begin(many)
    children.begin(many)
    one = handed("c1", paths("src/**"))
    children.begin(one)
    assert set(children.held(who("x"))) == set(children.held(who("y"))) == tickets(many, one)
    root = Commission("c2", MAIN, Spawn("Skill", many=True), (), (ROOT,))
    children.begin(root)
    assert ROOT.id not in children.held(who("z"))


def test_a_call_that_started_nobody_is_forgotten() -> None:
    """What failed is nobody's any more, and the next subagent is known at once."""
    children = Children()
    children.begin(handed("c1", tools("Read")))
    children.hear(News("failed", call="c1"))
    children.begin(two := handed("c2", tools("Edit")))
    assert set(children.held(who("a1"))) == tickets(two)
    assert set(children.living()) == tickets(two)
    children.hear(News("ended", key_of("a1")))
    assert children.living() == ()
    assert set(children.held(who("a1"))) == tickets(two)  # it was told to go on
    assert set(children.living()) == tickets(two)


def test_ids_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes up ids meets a limit, and a refusal."""
    monkeypatch.setattr(module, "MAX_TICKETS", 3)
    children = Children()
    for n in range(3):
        children.held(who(str(n)))
    with pytest.raises(LimitError):
        children.held(who("3"))


EVENTS = st.lists(
    st.tuples(st.sampled_from(("spawn", "start", "call", "pair", "end")), st.integers(0, 5)),
    min_size=6,
    max_size=30,
)


@given(EVENTS, st.booleans())
def test_no_call_passes_that_its_own_ticket_refuses(
    events: list[tuple[str, int]], kinds: bool
) -> None:
    """In every order of spawns, starts, calls and news, a subagent is held to its own ticket."""
    children = Children()
    waiting: list[Commission] = []
    true: dict[str, Commission] = {}
    lists = [tools("Read"), tools("Edit"), paths("src/**"), paths("docs/**")]
    for at, (what, choice) in enumerate(events):
        agents = sorted(true)
        if what == "spawn":
            kind = ("explore", "plan")[choice % 2] if kinds else ""
            made = handed(f"c{at}", lists[choice % 4], kind=kind)
            children.begin(made)
            waiting.append(made)
        elif what == "start" and waiting:
            true[f"a{at}"] = waiting.pop(choice % len(waiting))
        elif agents:
            agent = agents[choice % len(agents)]
            own = true[agent]
            if what == "pair":
                children.hear(News("paired", key_of(agent), call=own.call))
            elif what == "end":
                children.hear(News("ended", key_of(agent)))
            else:
                held = set(children.held(who(agent, kind=own.spawn.kind)))
                assert tickets(own) <= held
        assert held_by_strangers(children, at)


def held_by_strangers(children: Children, at: int) -> bool:
    """Whether one that nobody started has the root's ticket only where nobody may be at work."""
    alone = children.living() == ()
    return (children.held(who(f"stranger{at}", kind="other", call=f"none{at}")) == ()) == alone


def test_tickets_that_another_descends_from_are_left_out() -> None:
    """The narrower one of a line says all that the wider one does."""
    child: Ticket = attenuate(ROOT, tools("Read"))
    children = Children()
    children.begin(Commission("c1", MAIN, Spawn("Agent"), ("x",), (ROOT,)))
    children.begin(Commission("c2", MAIN, Spawn("Agent"), ("y",), (child,)))
    assert children.held(who("a1")) == (child.id,)


def test_rules_of_a_caller_stay_with_the_tools_that_are_listed() -> None:
    """A definition that lists a tool leaves it to its subagent under the caller's conditions."""
    held = parse_scope(['tools=Read,pay(to="A"),send(to="B")'], at=0).caveats
    parent = mint(held, key=bytes(32), sid="s", minted_at=0)
    kept = within(parent.bounds, Listing(("Read", "pay", "Bash")))
    assert kept is not None
    assert render([kept]) == ('tools=Read,pay(to="A")',)
    left = within(parent.bounds, Listing(("Read", "pay"), without=("pay",)))
    assert left is not None
    assert render([left]) == ("tools=Read",)
