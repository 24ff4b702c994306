"""A ticket for one call beside another ticket."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.authorize import authorize
from broker.budget import MemoryBudget
from broker.calls import Call, TypedText
from broker.caveats import Caveat, calls, hosts, paths, tools, until
from broker.errors import InputError
from broker.guard import TicketGuard
from broker.resolve import canonical_digest
from broker.rules import Rule
from broker.sessions.admitting import Beside, could_admit, rule_for
from broker.ticket import attenuate, mint
from tests.properties.test_rules_laws import A, X, r

KEY = bytes(range(32))
RULE = r(((A,), X))  # of the tool `t`: its argument `a` is "x"
ARGUMENTS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.recursive(
        st.sampled_from(["x", "y", "a\nb", "", 1, 2.5, True, None]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["f", "g"]), inner, max_size=2)
        ),
        max_leaves=6,
    ),
    max_size=3,
)


def call(arguments: dict[str, Any], **more: Any) -> Call:
    """Return a call of the tool that there is a rule for."""
    return Call("t", arguments=arguments, digest=canonical_digest(arguments), **more)


def guard(*caveats: Caveat) -> TicketGuard:
    """Return the guard of a ticket."""
    ticket = mint([tools(RULE), *caveats], key=KEY, sid="s", minted_at=0)
    return TicketGuard(ticket, MemoryBudget())


def beside(held: TicketGuard, one: Call) -> Beside | None:
    """Return the guard of a ticket for one call, if there can be one."""
    caveats = could_admit(held, one, 0)
    if caveats is None:
        return None
    ticket = mint(caveats, key=KEY, sid="s", minted_at=0, intent="d" * 64)
    return Beside(held, ticket, TypedText("yes", "d" * 64))


SCALARS = st.sampled_from(["x", "y", "1", 1, 0, 2.5, True, False])
PLAIN = st.dictionaries(st.sampled_from(["a", "b"]), SCALARS, max_size=2)


@given(ARGUMENTS)
def test_whatever_can_be_said_in_a_rule_is_admitted_by_it(arguments: dict[str, Any]) -> None:
    """A ticket that is minted for a call lets this call through."""
    held = beside(guard(), call(arguments))
    if held is not None:
        assert authorize(held.ticket, call(arguments), 0).allowed


@given(PLAIN, PLAIN)
def test_another_value_is_another_call(arguments: dict[str, Any], other: dict[str, Any]) -> None:
    """The rule alone tells plain values apart, by type and value."""
    held = beside(guard(), call(arguments))
    mine, theirs = ({k: (type(v), v) for k, v in each.items()} for each in (arguments, other))
    if held is not None:
        assert authorize(held.ticket, call(other), 0).allowed == (mine == theirs)


@given(st.integers(1, 4), st.integers(1, 4) | st.none(), st.integers(0, 6))
def test_it_spends_what_its_ticket_has_left(limit: int, lower: int | None, tries: int) -> None:
    """The two together never make more calls than each link of the ticket allows."""
    root = guard(calls(limit))
    held = root
    if lower is not None and lower <= limit:
        held = root.holding(attenuate(root.ticket, calls(lower)))
    one = call({"a": "y"})
    own = beside(held, one)
    assert own is not None
    made = sum(own.check(one, 0).allowed for _ in range(tries))
    made += sum(held.check(call({"a": "x"}), 0).allowed for _ in range(tries))
    assert made == min(2 * tries, held.ticket.least or 0)


@pytest.mark.parametrize(
    ("caveats", "one"),
    [
        ((), Call("other", arguments={"a": "y"})),
        ((), Call("t", arguments=None)),
        ((), call({"a": "y"}, nested=(Call("t"),))),
        ((), call({"a": "y", "amount": float("nan")})),
        ((), call({"a\u202e": "y"})),
        ((), call({f"a{n}": "y" for n in range(60)})),
        ((paths("**"),), call({"a": "y"}, missing=("path",))),
        ((until(-1),), call({"a": "y"})),
    ],
)
def test_what_is_refused_for_more_than_its_arguments_cannot_be_admitted(
    caveats: tuple[Caveat, ...], one: Call
) -> None:
    """Another tool, an unreadable call, one that names too much, and one that comes too late."""
    assert could_admit(guard(*caveats), one, 0) is None


def test_unseen_effects_and_the_network_are_no_condition() -> None:
    """Where the root names no such tool, a yes about arguments does not open a shell or a URL."""
    anything = Rule("*", RULE.conditions)
    star = mint([tools(anything), paths("**")], key=KEY, sid="s", minted_at=0)
    held = TicketGuard(star)
    assert could_admit(held, call({"a": "y"}, opaque=True), 0) is None
    assert could_admit(held, call({"a": "y"}), 0) is not None
    assert could_admit(guard(hosts()), call({"a": "y"}), 0) is not None


def test_a_secret_is_not_written_into_a_ticket() -> None:
    """What looks like one is held by the digest of the call alone."""
    secret = "ghp_" + "a1B2" * 9
    found = str(rule_for("t", {"to": "B", "token": secret}))
    assert secret not in found
    assert found == 't(to="B", token)'


def test_shapes_that_a_rule_can_and_cannot_say() -> None:
    """Lists, objects and lists of objects are spelled out; what is of several shapes is free."""
    assert str(rule_for("t", {"l": ["x", "y"]})) == 't(l[] in {"x", "y"})'
    assert str(rule_for("t", {"o": {"f": "x"}})) == 't(o.f="x")'
    assert str(rule_for("t", {"l": [{"f": "x"}, {"f": "y"}]})) == 't(l[].f in {"x", "y"})'
    assert str(rule_for("t", {"l": ["x", {"f": 1}], "b": "a\nb"})) == "t(l, b)"
    with pytest.raises(InputError):
        rule_for("t", {"a": ""})
