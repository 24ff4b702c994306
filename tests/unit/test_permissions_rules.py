"""All rules for one call: the hard layer first, then the mode, then taint, then a yes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.calls import Call, PathSubject, UrlSubject
from broker.permissions.effects import EFFECTS, effects
from broker.permissions.modes import MODES, Mode, answer
from broker.permissions.rules import Judgement, judge

READ = Call("read", paths=(PathSubject("path", "a", "read", ("a/",)),))
WRITE = Call("write", paths=(PathSubject("path", "a", "write", ("a/",)),))
FETCH = Call("fetch", urls=(UrlSubject("url", "https://x/", "https", "x", 443, ("x",)),))
SHELL = Call("shell", opaque=True, command="make")
OUTSIDE = Call("read", paths=(PathSubject("path", "/x", "read", ()),))
CALLS = st.sampled_from([READ, WRITE, FETCH, SHELL, OUTSIDE, Call("batch", nested=(READ, SHELL))])
YES = st.frozensets(st.sampled_from(EFFECTS))


@given(CALLS, st.sampled_from(MODES), st.booleans(), YES)
def test_the_rules_agree_with_their_parts(
    call: Call, mode: Mode, tainted: bool, yes: frozenset[str]
) -> None:
    """The answer is the strictest of the parts', and a yes only ever answers a plain question."""
    found = judge(call, {}, mode=mode, said_yes=yes, tainted=tainted)
    parts = {effect: answer(mode, effect, tainted=tainted) for effect in effects(call)}
    if call is OUTSIDE or "refuse" in parts.values():
        assert found.answer == "refuse"
    else:
        open_ones = {
            effect
            for effect, said in parts.items()
            if said == "ask" and (effect not in yes or tainted)
        }
        assert found.answer == ("ask" if open_ones else "allow")
        assert all(effect in found.reason for effect in open_ones)


@pytest.mark.parametrize("mode", MODES)
def test_no_yes_and_no_mode_lifts_the_hard_layer(mode: Mode) -> None:
    """What the hard layer refuses stays refused whatever else is said."""
    found = judge(OUTSIDE, {}, mode=mode, said_yes=EFFECTS)
    assert found.answer == "refuse"
    assert "no mode lifts this" in found.reason or mode == "read-only"


def test_taint_asks_again_after_a_yes() -> None:
    """In `auto` a yes for writing does not cover writing on a stranger's words."""
    assert judge(WRITE, {}, mode="auto") == Judgement("allow")
    tainted = judge(WRITE, {}, mode="auto", said_yes=["write"], tainted=True)
    assert tainted.answer == "ask"
    assert "a stranger's words" in tainted.reason
    assert judge(READ, {}, mode="auto", tainted=True) == Judgement("allow")


@given(CALLS, st.booleans(), YES)
def test_a_narrower_mode_lets_through_no_more(
    call: Call, tainted: bool, yes: frozenset[str]
) -> None:
    """Whoever may choose a narrower mode, as for a subagent, gets around no question by it."""
    order = ("refuse", "ask", "allow")
    answers = [judge(call, {}, mode=m, said_yes=yes, tainted=tainted).answer for m in MODES]
    assert [order.index(one) for one in answers] == sorted(order.index(one) for one in answers)


def test_read_only_says_what_it_refuses() -> None:
    """The reason names the mode and the effect."""
    assert judge(WRITE, {}, mode="read-only", said_yes=["write"]) == Judgement(
        "refuse", "the mode is `read-only`, and the call's effect is `write`"
    )
