"""Calls that one rule admits and others do not; that they are right is asked of `authorize`."""

from __future__ import annotations

import pytest

from broker.authorize import authorize
from broker.calls import Call, PathSubject, TypedText, UrlSubject
from broker.caveats import rules, tools
from broker.language.rulewitness import Scene, escapes
from broker.rules import Rule
from broker.scope import parse_scope
from broker.ticket import mint

LINE = "d" * 64


def read(text: str) -> Rule:
    """Return a rule from its text."""
    (caveat,) = parse_scope([f"tools={text}"], at=0).caveats
    assert isinstance(caveat.value, tuple)
    return rules(caveat.value)[0]


def world() -> Scene:
    """A world where each folder has a file of its own, and each host is reached."""
    return Scene(
        lambda held, failed: PathSubject("", "p", "read", (f"{held[-1].folder}/only/",)),
        lambda held, failed: UrlSubject(
            "", "https://h.test/", "https", "h.test", 443, ("h.test", "h.test:443")
        ),
    )


def example(one: str, *others: str) -> tuple[Call, str] | None:
    """Return the first example, after it was tried."""
    rule, held = read(one), [read(other) for other in others]
    found = next(escapes(rule, held, rule.tool, None, world), None)
    if found is not None:
        call, line = found
        for ticket, due in ((rule, True), *((other, False) for other in held)):
            minted = mint([tools(ticket)], key=bytes(32), sid="s", minted_at=0, intent=LINE)
            assert authorize(minted, call, 0, line=TypedText(line, LINE)).allowed == due
    return found


@pytest.mark.parametrize(
    ("one", "others"),
    [
        ('t(a in {"x", "y"})', ['t(a="x")']),
        ('t(a in {"x", "y"}, b="x")', ['t(a="x", b="x")', 't(a="y", b="z")']),
        ("t(n<=10)", ["t(n<=3)", "t(n>=4)"]),
        ("t(d on 2026)", ["t(d on 2026-01..2026-11)"]),
        ("t(a)", ['t(a="x")', "t(a absent)"]),
        ('t(a?="x")', ['t(a="x")']),
        ('t(l[]="x")', ['t(a="x")']),
        ('t(l[] in {"x", "y"})', ['t(l[]="x")', 't(l[]="y")']),
        ('t(l[].f in {"x", "y"})', ['t(l[].f="x")']),
        ('t(o.a="x", o.b)', ['t(o.a="x", o.b="y")']),
        ("t(a in intent)", ['t(a="x")']),
        ('t(a in {"x", "y"})', ["t(a in intent)"]),
        ("t(... in intent)", ["t(a in intent)"]),
        ("t(... in intent)", ['t(a="x", ... in intent)']),
        ('t(u host in {h.test}, b in {"x", "y"})', ['t(u host in {h.test}, b="x")']),
        ('t(p under "src/")', ['t(p under "src/in/")']),
    ],
)
def test_an_example_is_a_call_that_only_the_one_admits(one: str, others: list[str]) -> None:
    """Each kind of condition has an example, with the world that it needs."""
    assert example(one, *others) is not None


@pytest.mark.parametrize(
    ("one", "others"),
    [
        ('t(a="x")', ['t(a in {"x", "y"})']),
        ("t(n<=3)", ["t(n<=2)", "t(n>=2)"]),
        ('t(l[]="x")', ["t(l)"]),
        ("t(a in intent)", ["t(... in intent)"]),
    ],
)
def test_what_is_covered_has_no_example(one: str, others: list[str]) -> None:
    """Nothing is made up where there is nothing."""
    assert example(one, *others) is None
