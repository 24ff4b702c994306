"""Rules in plain words."""

from __future__ import annotations

import pytest

from broker.cli.ruleswords import rule_words
from broker.scope import parse_scope


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('a="x"', 'a is "x"'),
        ('a in {"x", 1}', 'a is one of "x", 1'),
        ("a<=5", "a is a number from 0 to 5"),
        ("a>=5", "a is a number, 5 or more"),
        ("a on 2024-05-01..2024-05-02", "a falls on 2024-05-01 to 2024-05-02, as it is spelled"),
        ("a host in {x.test}", "a leads to x.test"),
        ("a links absent", "a names no address and no account"),
        ('a links in {"x.test"}', "a names no address and no account but x.test"),
        ("a links in intent", "a names no address and no account but those in the line you typed"),
        ('a under "s"', "a lies in s, links followed"),
        ('a under "."', "a lies in the workspace, links followed"),
        ("a in intent", "a stands word for word in the line you typed"),
        ("a absent", "a is not given"),
        ('a?[]="x"', 'each of a, if given, is "x"'),
        ('a[].b="x"', 'a[].b is "x"'),
    ],
)
def test_each_condition_has_its_words(text: str, words: str) -> None:
    """Each condition is one line; what is not named is said to be left out."""
    (rule,) = parse_scope(f"tools=t({text})", at=0).caveats[0].value
    assert rule_words(rule) == ["t, when", f"- {words}", "- nothing else is given"]


def test_the_rest_and_free_arguments_have_theirs() -> None:
    """What may be anything is listed once, and the rest is told in one line."""
    (rule,) = parse_scope("tools=*(a, b?, ... in intent)", at=0).caveats[0].value
    assert rule_words(rule)[:2] == ["any tool, when", "- a, b: anything, or nothing"]
    assert "every other name" in rule_words(rule)[2]
    (rule,) = parse_scope("tools=x*(a)", at=0).caveats[0].value
    assert rule_words(rule)[0] == "tools called like x*, when"
