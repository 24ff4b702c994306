"""The one way each rule is written."""

from __future__ import annotations

import pytest

from broker.conditions import Absent, Free, between, values
from broker.language.ruletext import spell_path, spell_rule, spell_test, spell_value
from broker.rules import Hop
from broker.scope import parse_scope


@pytest.mark.parametrize(
    "text",
    [
        'a(b="x")',
        'a(b in {"x", 1, -2.5, true})',
        "a(b<=5)",
        "a(b>=5)",
        "a(b>=-1, b<=5)",
        "a(b>=0)",
        "a(b<=0.0000001)",
        "a(b on 2024-05-19)",
        "a(b on {2024-05-01..2024-05-31, 2025-01-01})",
        "a(b host in {*.x.test, y.test:8080})",
        'a(b under "src/a/")',
        'a(b under ".")',
        "a(b links absent, c? links in intent)",
        'a(b links in {"x.test/y", "bob@x.test"})',
        "a(b in intent, c absent, d?, e)",
        'a("b c"?[]."in".f="\\"quoted\\" \\\\")',
        "a(... in intent)",
        'mcp__s__t*(b="ü")',
    ],
)
def test_what_is_written_is_what_was_typed(text: str) -> None:
    """A rule in its one form is written as it was typed."""
    (rule,) = parse_scope(f"tools={text}", at=0).caveats[0].value
    assert spell_rule(rule) == text


def test_messages_show_long_sets_in_part() -> None:
    """A set of many values is cut in a message, and says how many more there are."""
    assert spell_test(values(*"abcd"), 2) == ' in {"a", "b" and 2 more}'


def test_values_of_any_kind_can_be_told() -> None:
    """What an agent sent is spelled without ever failing."""
    given = [None, [1], {}, float("nan"), 10**400, 1e22, True, "a\nb", -0.5]
    told = [spell_value(value) for value in given]
    assert told[:5] == ["what is given"] * 5
    assert told[5:] == ["10000000000000000000000", "true", '"a\\nb"', "-0.5"]


def test_small_parts() -> None:
    """Paths and bare conditions have the spelling that a rule gives them."""
    assert spell_path((Hop("a"), Hop(None), Hop("b", True))) == "a[].b?"
    assert [spell_test(Free()), spell_test(Absent())] == ["", " absent"]
    assert spell_test(between(2, 5)) == ">=2 and <=5"
    with pytest.raises(TypeError):
        spell_test(None)  # type: ignore[arg-type]  # on purpose
