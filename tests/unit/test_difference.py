"""What one ticket allows and another does not: one example for each reason."""

from __future__ import annotations

import pytest

from broker.calls import Call
from broker.caveats import Caveat, calls, hosts, paths, reads, tools, until, writes
from broker.conditions import between, values
from broker.difference import Difference, difference
from broker.limits import MAX_RULE_NAMES
from broker.rules import Rule, argument, rule
from broker.ticket import mint


def only(one: list[Caveat], other: list[Caveat]) -> list[Difference]:
    """Return what the first scope allows and the second does not."""
    a, b = (mint(c, key=bytes(32), sid="s", minted_at=0, intent="d" * 64) for c in (one, other))
    found = difference(a, b)
    assert not found.unsure
    return list(found.differences)


def one(mine: list[Caveat], theirs: list[Caveat], caveat: str) -> Call:
    """Return the call of the only difference by a caveat."""
    (call,) = (found.call for found in only(mine, theirs) if found.refusal.caveat == caveat)
    return call


def pay(to: str, most: int) -> Rule:
    """Return a rule for paying."""
    return rule("pay", argument("to", values(*to)), argument("amount", between(0, most)))


def test_a_place_that_only_one_list_has() -> None:
    """The place fits every list of the one and no pattern of the other."""
    call = one([tools("t"), reads("src/**"), paths("**/*.py")], [reads("src/a/**")], "reads")
    (path,) = call.paths
    assert path.access == "read"
    assert path.places[0].startswith("src/")
    assert path.places[0].endswith(".py/")


def test_git_is_written_only_where_it_is_named() -> None:
    """A folder of git is told apart from the folder around it."""
    call = one([tools("t"), writes("**", ".git/**")], [writes("**")], "writes")
    assert call.paths[0].inner_git
    assert only([tools("t"), writes("**")], [tools("t"), writes("**", ".git/**")]) == []


def test_hosts_are_told_apart_by_name_and_port() -> None:
    """The address is one that only the first list has."""
    (url,) = one([tools("t"), hosts("*.a.test", "b.test:8443")], [hosts("*.a.test")], "hosts").urls
    assert url.spelled == "https://b.test:8443/"
    assert only([tools("t"), hosts("a.test")], [tools("t"), hosts("*")]) == []


def test_numbers_and_instants() -> None:
    """The call after the last one, and the instant of the end."""
    (late, more) = only([tools("t")], [calls(3), until(50)])
    assert (late.refusal.caveat, late.at) == ("until", 50)
    assert (more.refusal.caveat, more.spent) == ("calls", 3)


def test_arguments_that_only_one_rule_admits() -> None:
    """Alternatives are weighed together: `B` may have less by the second scope."""
    mine = [tools(pay("AB", 20))]
    assert only(mine, [tools(pay("A", 20), pay("B", 20))]) == []
    call = one(mine, [tools(pay("A", 20), pay("B", 10))], "tools")
    assert call.arguments is not None
    assert call.arguments["to"] == "B"
    assert 10 < float(str(call.arguments["amount"])) <= 20


def test_a_plain_name_is_more_than_any_rule() -> None:
    """An argument that no rule names tells them apart."""
    assert one([tools("pay")], [tools(pay("A", 5))], "tools").arguments == {"anything": "else"}


def test_a_tool_whose_effects_are_unseen() -> None:
    """Naming a tool outright is a difference where paths are limited."""
    mine, theirs = [tools("sh"), paths("**")], [tools("s*"), paths("**")]
    assert one(mine, theirs, "tools").opaque


def test_a_scope_that_allows_nothing_differs_in_nothing() -> None:
    """No call, no example, however wide the lists are."""
    assert only([tools(), paths("**")], [paths("src")]) == []
    assert only([tools("a"), tools("b")], [tools("c"), calls(1)]) == []


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ([tools(pay("A", 1)), tools(pay("AB", 1))], [tools(pay("B", 1))]),
        (
            [tools(rule("*", argument("to", values("A"))))],
            [
                tools(*[rule(f"p{n}*", argument("to", values("A"))) for n in range(9)]),
            ],
        ),
    ],
)
def test_what_cannot_be_decided_is_said(mine: list[Caveat], theirs: list[Caveat]) -> None:
    """Two lists with rules, or too many names, are never taken for equal."""
    assert MAX_RULE_NAMES < 9
    a, b = (mint(c, key=bytes(32), sid="s", minted_at=0) for c in (mine, theirs))
    assert difference(a, b).unsure
