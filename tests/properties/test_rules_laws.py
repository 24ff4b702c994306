"""
Rules and their inclusion, against brute force over every call of a small world.

The world is small enough to be listed and rich enough that whatever one rule admits and others
do not shows in it: a value that no rule names, a number between any two, a day more than the
rules know, lists of several elements, an object with a name that nobody asks for.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import chain, combinations, product

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from broker.authorize import authorize
from broker.calls import Call, Look, PathSubject, TypedText, UrlSubject
from broker.catalogs import Argument
from broker.caveats import tools
from broker.conditions import (
    Absent,
    Free,
    HostIn,
    InIntent,
    Links,
    LinksTyped,
    Range,
    Under,
    Values,
    on,
)
from broker.errors import AttenuationError, InputError, ScopeError, TicketVerificationError
from broker.language.rulecover import rules_cover
from broker.language.rulewire import read_rule, write_rule
from broker.rulebook import judge
from broker.rules import Condition, Hop, Rule, check_rule
from broker.scope import parse_scope, render
from broker.ticket import attenuate, mint, verify_chain
from tests.reference_rules import rule_admits

# Each example goes through thousands of calls.
SOME = settings.default.max_examples // 2
KEY = bytes(32)
DIGEST = "d" * 64

# ── the world ──

WEB = {
    host: (host, f"{host}:443") if port == 443 else (f"{host}:{port}",)
    for host, port in (("h.test", 443), ("x.h.test", 443), ("b.test", 443), ("n.test", 8443))
}
URLS = [UrlSubject("a", "z", "https", host, 443 if len(keys) > 1 else 8443, keys)
        for host, keys in WEB.items()]  # fmt: skip
PATHS = [
    PathSubject("a", "z", "write", (place,), inner_git=".git/" in place)
    for place in ("s/", "s/t/", "s/.git/k/", "s/t/u/", "o/")
]
SCALARS = ["x", "y", "z", 0, 0.5, 1, 1.5, 2, 2.5, 3, 99, True, False]
DAYS = [f"0001-01-0{n}" for n in range(1, 6)]
NAMING = ["l.test", "m.test", "n.test", "l.test m.test", "k n.test"]  # texts that name addresses


def subsets(items):
    return chain.from_iterable(combinations(items, n) for n in range(1, len(items) + 1))


LISTS = [list(items) for items in subsets(["x", "y", "z", 1, True])]
LISTS += [list(items) for n in (1, 2) for items in combinations([0, 0.5, 1, 1.5, 2, 2.5, 3, 99], n)]
OBJECTS = [
    {**({} if c is None else {"c": c}), **({} if d is None else {"d": d})}
    for c in (None, "x", "y", "z", 1, True, ["x"])
    for d in (None, "x", "y", "z", 1, True)
    if c is not None or d is not None
]
OBJECTS.append({"c": None})  # an object, though nothing is in it
LISTS += [
    [{"c": v} for v in vs] for n in (1, 2) for vs in combinations(["x", "y", "z", 1, True], n)
]
FIRST = [
    None,
    *SCALARS,
    *DAYS,
    *NAMING,
    *LISTS,
    *OBJECTS,
    {"q": "x"},
    [{"c": "x", "d": "x"}],
    ["x", ["y"]],
]
SECOND = [None, "x", "y", "z", 1, True, {"q": "z"}]
LINES = ["", "x", "y z", "l.test", "x y z 0 1 2 3 99 c l.test m.test n.test " + " ".join(DAYS)]
LOOSE_A = {"a": Argument("text")}
LOOSE_B = {"b": Argument("amount"), "q": Argument("text")}
BESIDE = [*[(None, line) for line in LINES], (LOOSE_A, "y z"), (LOOSE_B, "x"), (LOOSE_B, "")]


@cache
def world(lines: bool = True, rest: bool = True) -> tuple[tuple[Call, str], ...]:
    """
    Every call of the small world, with a typed line.

    ``lines`` says that some rule looks at the line, ``rest`` that one has `... in intent`: where
    none does, calls that differ in nothing else are left out.
    """
    beside = BESIDE if rest else BESIDE[: len(LINES) if lines else 1]
    found = []
    for a, b in product(FIRST, SECOND):
        arguments = {name: v for name, v in (("a", a), ("b", b)) if v is not None}
        found += [(Call("t", arguments=arguments, labels=k), line) for k, line in beside]
    for a, b in product(["x", "y", "z", "n.test"], SECOND[:-1]):
        arguments = {"a": a} | ({} if b is None else {"b": b})
        urls = [replace(url, spelled=a) for url in URLS]
        for line in ("", LINES[-1]) if lines else ("",):
            found += [(Call("t", urls=(url,), arguments=arguments), line) for url in urls]
            found += [(Call("t", paths=(path,), arguments=arguments), line) for path in PATHS]
    if rest:  # an argument that no rule names; others refuse it at once
        found += [
            (replace(call, arguments={**call.arguments, "q": "x"}), line)
            for call, line in found
            if "x" in line.split()
        ]
    else:
        found += [(Call("t", arguments={"a": "x", "q": "x"}), "")]
    return tuple(found)


def seen_by(*given: Rule) -> tuple[tuple[Call, str], ...]:
    """The part of the world in which these rules can differ."""
    return world(any(one.reads_line for one in given), any(one.rest for one in given))


def test_the_world_has_every_kind_of_call():
    """The listed world is neither empty nor too large to go through for each example."""
    assert 2_000 < len(world()) < 20_000


# ── rules over it ──

scalars = st.sampled_from(["x", "y", 1, True])
some_values = st.lists(scalars, min_size=1, max_size=3).map(
    lambda vs: Values(
        tuple(dict.fromkeys(v for v in vs if type(v) is str)),
        tuple(dict.fromkeys(v for v in vs if type(v) is int)),
        tuple(dict.fromkeys(v for v in vs if type(v) is bool)),
    )
)
ranges = st.tuples(st.integers(0, 3), st.integers(0, 3) | st.none()).map(
    lambda r: Range(r[0], r[1] if r[1] is None else max(r))
)
ranges = ranges.map(lambda r: Range(0, r.high) if r.high is not None and r.high < r.low else r)
days = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 4)).map(lambda d: (min(d), max(d))),
    min_size=1,
    max_size=2,
).map(lambda spans: on(*spans))
host_tests = st.lists(
    st.sampled_from(["h.test", "*.h.test", "b.test", "n.test:8443"]), min_size=1, max_size=2
).map(lambda ps: HostIn(tuple(dict.fromkeys(ps))))
under_tests = st.sampled_from([Under("s"), Under("s/t"), Under("."), Under("s/.git")])
# What a rule names is never all that a text may name: `n.test` is in none of these.
naming = st.sampled_from(
    [Links(()), Links(("l.test",)), Links(("l.test", "m.test")), LinksTyped(), LinksTyped()]
)
naming_values = st.sampled_from([Values(("l.test",)), Values(("x", "l.test m.test"))])
plain_tests = st.one_of(
    some_values, some_values, ranges, days, st.just(InIntent()), naming, naming | naming_values
)
texts = st.sampled_from([Values(("x",)), Values(("y",)), Values(("x", "y"))])
beside = st.lists(texts | st.just(InIntent()) | naming, max_size=1)
leaf_tests = st.one_of(
    st.lists(plain_tests, min_size=1, max_size=2),
    st.lists(plain_tests, min_size=1, max_size=2),
    st.builds(lambda test, more: [test, *more], host_tests | under_tests, beside),
)
A, B, C, D, E = Hop("a"), Hop("b"), Hop("c"), Hop("d"), Hop(None)
MAYBE_A, MAYBE_C = Hop("a", True), Hop("c", True)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    conditions = []
    shape = draw(st.sampled_from(["value", "value", "value", "list", "object", "objects", "free"]))
    front = draw(st.sampled_from([A, A, MAYBE_A]))
    if shape == "value":
        for test in draw(leaf_tests):
            conditions.append(Condition((front,), test))
    elif shape == "list":
        conditions.append(Condition((front, E), draw(some_values | ranges | st.just(InIntent()))))
    elif shape == "object":
        conditions.append(
            Condition((front, draw(st.sampled_from([C, MAYBE_C]))), draw(some_values))
        )
        if draw(st.booleans()):
            conditions.append(Condition((front, D), draw(some_values | st.just(Free()))))
    elif shape == "objects":
        conditions.append(Condition((front, E, C), draw(some_values)))
    else:
        conditions.append(Condition((A,), draw(st.sampled_from([Free(), Absent()]))))
    if draw(st.booleans()):
        where = draw(st.sampled_from([B, Hop("b", True)]))
        test = draw(
            some_values | naming | st.just(InIntent()) | st.just(Free()) | st.just(Absent())
        )
        conditions.append(Condition((where,), test))
    try:
        return check_rule(Rule("t", tuple(conditions), draw(st.integers(0, 5)) == 0))
    except InputError:
        return assume(False)


@settings(max_examples=SOME)
@given(rules())
def test_a_rule_admits_what_the_naive_reading_admits(rule):
    """The compiled rule and the naive reading agree on every call of the small world."""
    for call, line in seen_by(rule):
        got = judge(rule, Look(call, line)) is None
        assert got == rule_admits(rule, call, line), (str(rule), call.arguments, line)


def outside(narrow: Rule, wide: list[Rule]):
    """The first call of the world that ``narrow`` admits and none of ``wide`` does."""
    for call, line in seen_by(narrow, *wide):
        if rule_admits(narrow, call, line) and not any(rule_admits(w, call, line) for w in wide):
            return call.arguments, call.urls, call.paths, call.labels, line
    return None


def r(*conditions, rest=False):
    return check_rule(Rule("t", tuple(Condition(p, test) for p, test in conditions), rest))


XY, X, Y = Values(("x", "y")), Values(("x",)), Values(("y",))


@settings(max_examples=SOME)
@given(rules(), st.lists(rules(), max_size=2))
@example(r(((A,), XY), ((B,), X)), [r(((A,), X), ((B,), X)), r(((A,), Y), ((B,), XY))])
@example(r(((A, E), XY)), [r(((A, E), X)), r(((A, E), Y))])
@example(r(((A,), Range(0, 3))), [r(((A,), Range(0, 1))), r(((A,), Range(1, 3)))])
@example(r(((A,), Range(0, 3))), [r(((A,), Range(0, 1))), r(((A,), Range(2, 3)))])
@example(r(((MAYBE_A,), X)), [r(((A,), X)), r(((A,), Absent()))])
@example(r(((MAYBE_A, E), X)), [r(((A, E), X)), r(((A,), Absent()))])
@example(r(((A,), Under("s/.git"))), [r(((A,), Under("s")))])
@example(r(((A,), InIntent())), [r(rest=True)])
@example(r(rest=True), [r(((A,), InIntent()), rest=True)])
@example(r(((A,), Values((), (1,)))), [r(((A,), Values((), (), (True,))))])
@example(r(((A,), Links(("l.test",)))), [r(((A,), Links(("l.test", "m.test"))))])
@example(r(((A,), InIntent())), [r(((A,), LinksTyped()))])
@example(r(((A,), LinksTyped()), ((A,), Links(()))), [r(((A,), LinksTyped()))])
@example(r(((A,), LinksTyped())), [r(((A,), Links(()))), r(((A,), InIntent()))])
def test_inclusion_is_what_brute_force_finds(narrow, wide):
    """Rules cover a rule exactly when no call of the small world fits it and none of them."""
    covered = rules_cover(tuple(wide), (narrow,)) is None
    found = outside(narrow, wide)
    assert covered == (found is None), (str(narrow), list(map(str, wide)), found)


NAMED = ["t", "ta", "tb", "tab", "u", "mcp__s__t", "mcp__s__ta"]
patterns = st.sampled_from(["*", "t*", "ta", "t*b", "u", "*a", "mcp__s__*", "mcp__s__ta"])


@given(
    st.tuples(patterns, some_values),
    st.lists(st.tuples(patterns, some_values), max_size=4),
    st.lists(patterns, max_size=1),
)
@example(("t*", X), [("ta", X), ("t*", Y)], [])
@example(("*a", X), [("t*", X), ("*a", Y)], [])
def test_names_are_weighed_together_too(narrow, wide, plain):
    """A rule for a pattern is covered only where every name it may mean is covered."""
    asked = check_rule(Rule(narrow[0], (Condition((A,), narrow[1]),)))
    held = [check_rule(Rule(p, (Condition((A,), v),))) for p, v in wide]
    if rules_cover((*plain, *held), (asked,)) is not None:
        return
    for name, value in product([*NAMED, "tzzb", "za", "t" * 9], ["x", "y", 1, True]):
        call = Call(name, arguments={"a": value})
        if rule_admits(asked, call, None):
            allowed = authorize(ticket(*plain, *held), call, 0).allowed
            assert allowed, (name, value)


# ── through a ticket ──


def ticket(*items, intent=DIGEST):
    return mint([tools(*items)], key=KEY, sid="s", minted_at=0, intent=intent)


@given(rules(), rules(), st.data())
def test_narrowing_by_rules_never_permits_more(held, asked, data):
    """What a ticket that was narrowed by a rule allows, its parent allows."""
    parent = ticket(held)
    try:
        child = attenuate(parent, tools(asked))
    except AttenuationError as error:
        assert error.kind == "tools"
        return
    again = verify_chain(child.wire(), KEY)
    assert again.caveats == child.caveats
    for call, line in data.draw(st.lists(st.sampled_from(world()), min_size=20, max_size=20)):
        typed = TypedText(line, DIGEST)
        if authorize(again, call, 0, line=typed).allowed:
            assert authorize(parent, call, 0, line=typed).allowed


@given(rules(), rules())
def test_a_hand_made_chain_is_believed_only_if_it_does_not_widen(held, asked):
    """A link with a right MAC whose rule widens is not believed."""
    from broker.wire import link_block, mac

    parent = ticket(held)
    block = link_block("", (tools(asked),))
    wire = b"\n".join([*parent.blocks, block, mac(parent.macs[-1], block).hex().encode()])
    if rules_cover((held,), (asked,)) is None:
        assert verify_chain(wire, KEY).caveats[-1] == tools(asked)
    else:
        try:
            verify_chain(wire, KEY)
        except TicketVerificationError as error:
            assert "widens" in str(error)
        else:
            raise AssertionError("a widening was believed")


@given(rules())
def test_a_rule_has_one_form_in_text_and_in_a_ticket(rule):
    """What is written of a rule is read as the same rule: as scope text, and as a ticket's JSON."""
    import json

    caveat = tools("read", rule)
    try:
        assert parse_scope(list(render([caveat])), at=0).caveats == (caveat,)
    except ScopeError as error:
        assert "can never hold" in error.message
    assert read_rule(json.loads(write_rule(rule))) == rule
    assert check_rule(rule) == rule


@given(rules(), st.data())
def test_more_arguments_never_help(rule, data):
    """Closed: an argument that a rule does not name never turns a refusal into an allow."""
    call, line = data.draw(st.sampled_from(world()))
    value = data.draw(st.sampled_from(["x", 1, True, ["x"], {"q": 1}]))
    more = Call("t", arguments={**call.arguments, "extra": value}, urls=call.urls, paths=call.paths)
    if judge(rule, Look(more, line)) is None:
        assert judge(rule, Look(Call("t", arguments=call.arguments, urls=call.urls,
                                     paths=call.paths), line)) is None  # fmt: skip
        assert rule.rest
