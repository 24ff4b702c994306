"""What one ticket allows and another does not: examples are right, and none is missing."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.authorize import authorize
from broker.calls import TypedText
from broker.caveats import tools
from broker.conditions import Absent, Free, HostIn, InIntent, Links, Range, Under, Values
from broker.difference import difference
from broker.language.rulecover import rules_cover
from broker.ticket import mint
from tests import strategies as some
from tests.properties.test_rules_laws import MAYBE_A, XY, A, B, E, X, Y, r, rules, seen_by, ticket

KEY = bytes(32)
FEW = max(25, settings.default.max_examples // 3)  # these two go through many calls


def minted(step):
    return mint(step, key=KEY, sid="s", minted_at=0)


def checked(one, other):
    """Return the examples, each tried again under both tickets."""
    found = difference(one, other, names=["read", "fetch"])
    for each in found.differences:
        line = TypedText(each.line, one.intent)
        assert authorize(one, each.call, each.at, each.spent, line=line).allowed
        refused = authorize(
            other, each.call, each.at, each.spent, line=TypedText(each.line, other.intent)
        )
        assert refused.refusal == each.refusal
    return found


@settings(max_examples=FEW)
@given(
    some.steps,
    some.steps,
    st.lists(st.tuples(some.plain_calls(nested=False), some.instants, some.counts), max_size=20),
)
def test_where_there_is_no_example_no_call_is_told_apart(one, other, calls):
    """Every example is right; with none, whatever call one ticket allows the other allows too."""
    a, b = minted(one), minted(other)
    found = checked(a, b)
    if found.differences or found.unsure:
        return
    for call, at, spent in calls:
        if authorize(a, call, at, spent).allowed:
            assert authorize(b, call, at, spent).allowed, (call, at, spent)


@given(some.steps)
def test_a_ticket_differs_from_itself_in_nothing(step):
    """Equal scopes have no example, and none that could not be decided."""
    found = checked(minted(step), minted(list(reversed(step))))
    assert found.differences == ()


@given(rules(), st.lists(rules(), min_size=1, max_size=2))
@example(r(((A,), XY), ((B,), X)), [r(((A,), X), ((B,), X)), r(((A,), Y), ((B,), XY))])
@example(r(((A, E), XY)), [r(((A, E), X)), r(((A, E), Y))])
@example(r(((A,), Range(0, 3))), [r(((A,), Range(0, 1))), r(((A,), Range(1, 3)))])
@example(r(((A,), Range(0, 3))), [r(((A,), Range(0, 1))), r(((A,), Range(2, 3)))])
@example(r(((MAYBE_A,), X)), [r(((A,), X)), r(((A,), Absent()))])
@example(r(((MAYBE_A, E), X)), [r(((A, E), X)), r(((A,), Absent()))])
@example(r(((A,), Under("s/.git"))), [r(((A,), Under("s")))])
@example(r(((A,), InIntent())), [r(rest=True)])
@example(r(rest=True), [r(((A,), InIntent()), rest=True)])
@example(r(((A,), X), ((B,), Free())), [r(((A,), X), ((B,), Links(())), rest=True)])
@example(r(((A,), X), ((A,), InIntent()), ((B,), X), rest=True), [r(((A,), X), rest=True)])
@example(r(((A,), Values((), (1,)))), [r(((A,), Values((), (), (True,))))])
@example(r(((A,), HostIn(("*.h.test",)))), [r(((A,), HostIn(("x.h.test",))))])
def test_rules_have_an_example_exactly_where_they_are_not_covered(narrow, wide):
    """What inclusion says of rules and what the examples say is the same."""
    a, b = ticket(narrow), ticket(*wide)
    found = checked(a, b)
    covered = rules_cover(tuple(wide), (narrow,)) is None
    said = str(narrow), list(map(str, wide)), found
    if covered:
        assert (found.differences, found.unsure) == ((), ()), said
    elif not found.differences:
        assert found.unsure, said
        assert narrow.reads_line, said


@settings(max_examples=FEW)
@given(st.lists(some.tool_patterns, max_size=2), st.lists(rules(), max_size=1), rules())
def test_names_and_rules_stand_beside_one_another(plain, ruled, narrow):
    """A plain name admits what no rule does, and a rule what a plain name does."""
    a, b = ticket(narrow, *plain), ticket(*ruled, *plain)
    found = checked(a, b)
    if found.differences:
        return
    for call, line in seen_by(narrow, *ruled):
        typed = TypedText(line, a.intent)
        if authorize(a, call, 0, line=typed).allowed:
            assert authorize(b, call, 0, line=typed).allowed


def test_several_lists_with_rules_are_not_taken_for_equal():
    """What cannot be weighed is said."""
    one = mint([tools(r(((A,), X))), tools(r(((A,), XY)))], key=KEY, sid="s", minted_at=0)
    assert difference(one, ticket(r(((A,), Y)))).unsure
