"""What a rule is: its one form, and the tree that it comes to."""

from __future__ import annotations

import pytest

from broker.conditions import Absent, Free, between, values
from broker.errors import InputError
from broker.rules import Condition, Hop, argument, check_rule, node_of, rule

TO_A = argument("to", values("A"))
PAY = rule("pay", TO_A, argument("sum", between(0, 50)), argument("note", Free()))


def nested(*steps: str | None) -> Condition:
    return Condition(tuple(Hop(s) for s in steps), values("1"))


@pytest.mark.parametrize(
    "conditions",
    [
        (),
        (TO_A, TO_A),
        (TO_A, argument("to", Absent())),
        (TO_A, argument("to", Free())),
        (TO_A, nested("to", None)),
        (nested("to", None), nested("to", "x")),
        (Condition((), values("A")),),
        (Condition((Hop(None),), values("A")),),
        (Condition((Hop(""),), values("A")),),
        (Condition((Hop("a\u200b"),), values("A")),),
        (Condition((Hop("a"), Hop(None, True)), values("A")),),
        (Condition((Hop("a"), Hop(None)), Absent()),),
        (Condition((Hop("a"),) * 17, values("A")),),
        tuple(argument(f"a{n}", Free()) for n in range(65)),
    ],
)
def test_a_malformed_rule_is_an_error(conditions: tuple[Condition, ...]) -> None:
    """What cannot be one shape of arguments is never a rule."""
    with pytest.raises(InputError):
        rule("t", *conditions)


def test_the_form_of_a_rule_is_its_own() -> None:
    """Checking twice is checking once, and the tree says what must be there."""
    assert check_rule(PAY) == PAY
    assert node_of(PAY).required == ("to", "sum")
    assert str(rule("t", rest=True)) == "t(... in intent)"
