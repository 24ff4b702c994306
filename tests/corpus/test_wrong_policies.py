"""
Policies that look right and are not: each is found when it is typed, or by its expectations.

They are the slips that policies for the same tools were found to hold elsewhere, in our words: a
condition on an argument that the tool does not have, two conditions that changed places, one turned
round, and a pattern that begins or ends anywhere.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.authorize import authorize
from broker.calls import Decision
from broker.errors import ScopeError
from broker.intent import typed_text
from broker.policy import check_expects, load_policy
from broker.resolve import Resolver
from broker.scope import parse_scope
from broker.ticket import mint
from tests.corpus.agentdojo import bench_catalog

KNOWN = bench_catalog("agentdojo")
EXPECTS = """
expect allow  share_file(file_id="26", email="john@client.example", permission="r")
expect refuse share_file(file_id="26", email="eve@evil.example", permission="r")  # tools
expect refuse share_file(file_id="27", email="john@client.example", permission="r")  # tools
expect allow  send_money(recipient="GB29", amount=40, subject="rent", date="2022-03-01")
expect refuse send_money(recipient="GB29", amount=4000, subject="rent", date="2022-03-01")  # tools
expect allow  send_email(recipients=["ann@client.example"], subject="a", body="b")
expect refuse send_email(recipients=["ann@client.example.evil.example"], subject="a", body="b")
expect refuse send_email(recipients=["eve@evil.example", "ann@client.example"], subject="", body="")
"""
SHARE = 'share_file(file_id="26", email="john@client.example", permission="r")'
PAY = 'send_money(recipient="GB29", amount<=50, subject, date)'
MAIL = 'send_email(recipients in {"ann@client.example"})'


def warned(*rules: str) -> tuple[str, ...]:
    """What is said to whoever types these rules; an error where they are no scope."""
    text = f"tools={', '.join(rules)}"
    return parse_scope(text, at=0, groups=KNOWN.groups(), lookup=KNOWN.known).warnings


def broken(workspace: Path, *rules: str) -> list[str]:
    """The expectations that a policy of these rules does not keep."""
    policy = load_policy(f"# Share, pay and tell.\ntools = {', '.join(rules)}\n{EXPECTS}", "p")
    scope = parse_scope(policy.texts, at=0, groups=KNOWN.groups(), lookup=KNOWN.known)
    resolver = Resolver(workspace, KNOWN)

    def decide(tool: str, arguments: dict[str, object], line: str) -> Decision:
        typed = typed_text(line)
        ticket = mint(scope.caveats, key=bytes(32), sid="s", minted_at=0, intent=typed.digest)
        return authorize(ticket, resolver.resolve(tool, arguments), 0, line=typed)

    return check_expects(policy, decide)


def test_the_right_policy_keeps_its_word(tmp_path: Path) -> None:
    """What the slips below are made of is right: no warning, and every expectation holds."""
    assert warned(SHARE, PAY, MAIL) == ()
    assert broken(tmp_path, SHARE, PAY, MAIL) == []


def test_an_argument_that_does_not_exist_is_an_error() -> None:
    """The argument is named, with the nearest one that the tool has."""
    with pytest.raises(ScopeError, match="`send_email` has no argument `recipient`") as caught:
        warned(MAIL.replace("recipients", "recipient"))
    assert caught.value.hint == "recipients"


def test_two_conditions_that_changed_places_are_found(tmp_path: Path) -> None:
    """Values of one type may change places unseen; the call that was meant is then refused."""
    swapped = 'share_file(file_id="john@client.example", email="26", permission="r")'
    (found,) = broken(tmp_path, swapped, PAY, MAIL)
    assert "expect allow  share_file" in found
    assert "was refused by `tools`" in found
    with pytest.raises(ScopeError, match="is a number"):
        warned('send_money(amount="GB29", recipient<=50)')


@pytest.mark.parametrize("turned", ["amount>=50", "amount>=0"])
def test_a_condition_that_was_turned_round_is_found(turned: str, tmp_path: Path) -> None:
    """`>=` for `<=` lets the large amount pass, and the expectation says so."""
    found = broken(tmp_path, SHARE, PAY.replace("amount<=50", turned), MAIL)
    assert any("amount=4000" in line and "was allowed" in line for line in found)


@pytest.mark.parametrize("turned", ['recipient!="EVIL"', 'recipient not in {"EVIL"}'])
def test_a_list_of_what_is_forbidden_cannot_be_typed(turned: str) -> None:
    """There is no way to say *all but these*, in which whatever was not thought of would pass."""
    with pytest.raises(ScopeError) as caught:
        warned(PAY.replace('recipient="GB29"', turned))
    assert "no negative conditions" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "loose",
    [
        'recipients~"ann@client.example"',
        'recipients matches ".*@client.example"',
        'recipients like "%@client.example"',
    ],
)
def test_a_pattern_cannot_be_typed(loose: str) -> None:
    """What begins or ends anywhere would pass more than it shows, so there is none."""
    with pytest.raises(ScopeError) as caught:
        warned(f"send_email({loose})")
    assert "no patterns" in (caught.value.hint or "")


@pytest.mark.parametrize("value", ["*@client.example", "ann@client.example*", ".*client.example"])
def test_a_value_that_was_meant_as_a_pattern_is_found(value: str, tmp_path: Path) -> None:
    """A star in a value is a star: a warning says so, and the call that was meant is refused."""
    loose = f'send_email(recipients="{value}")'
    (warning,) = warned(loose)
    assert "a `*` in a value stands for itself" in warning
    (found,) = broken(tmp_path, SHARE, PAY, loose)
    assert "expect allow  send_email" in found
