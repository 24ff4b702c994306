"""What a catalog makes of a rule: slips become errors, lists and addresses are understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.authorize import authorize
from broker.calls import Call, Decision
from broker.catalogs import Catalogs
from broker.catalogs.reader import read_catalog
from broker.errors import ScopeError
from broker.policy import check_expects, load_policy
from broker.resolve import Resolver
from broker.scope import Scope, parse_scope, render
from broker.ticket import mint

CATALOG = b"""
[tools.send]
effect = "egress"
[tools.send.arguments]
to = { role = "recipient", many = true }
cc = { role = "recipient", many = true }
body = "text"
files = { many = true, optional = true, fields = { id = "identifier", kind = "text" } }

[tools.pay]
effect = "egress"
[tools.pay.arguments]
recipient = "recipient"
amount = "amount"
date = "date"
subject = "text"
recurring = "permission"

[tools.get]
effect = "egress"
arguments = { url = "address", method = "permission", body = "text" }

[tools.look]
effect = "read"
others = "text"
arguments = { path = "path-read" }
"""
CATALOGS = Catalogs(read_catalog(CATALOG, "x.toml"))
HOSTILE = Catalogs(read_catalog(CATALOG, "x.toml", vouched=False))


def read(text: str, catalogs: Catalogs = CATALOGS) -> Scope:
    return parse_scope(text, at=0, groups=catalogs.groups(), lookup=catalogs.known)


def kept(text: str) -> str:
    return render(read(f"tools={text}").caveats)[0].removeprefix("tools=")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ('send(to="a")', 'send(to[]="a", body)'),
        ('send(to[]="a", body absent)', 'send(to[]="a", body absent)'),
        ('send(to="a", cc?="b")', 'send(to[]="a", cc?[]="b", body)'),
        ('send(to="a", files.id="1")', 'send(to[]="a", files[].id="1", body, files[].kind)'),
        ('send(to="a", files?.id="1")', 'send(to[]="a", files?[].id="1", body, files?[].kind)'),
        ('send(to="a", files)', 'send(to[]="a", files, body)'),
        ("send(to, cc absent)", "send(to, cc absent, body)"),
        ("pay(amount<=5)", "pay(amount<=5, subject)"),
        ('get(url="a.b/x")', 'get(url in {"a.b/x", "https://a.b/x", "http://a.b/x"}, body)'),
        ('get(url="https://a.test")', 'get(url in {"https://a.test", "https://a.test/"}, body)'),
        ('look(path under "src", lines=5)', 'look(path under "src/", lines=5)'),
        ("send(to in intent, ... in intent)", "send(to[] in intent, ... in intent)"),
        ('get(url="https://a.test/", body links absent)',
         'get(url="https://a.test/", body links absent)'),
    ],
)  # fmt: skip
def test_a_rule_says_by_itself_what_the_catalog_makes_of_it(typed: str, meant: str) -> None:
    """Lists, addresses and free text are written into the rule; reading it again adds nothing."""
    assert kept(typed) == meant
    assert kept(meant) == meant


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('pay(recepient="A")', "`pay` has no argument `recepient`", "recipient"),
        ('pay(zzz="A")', "`pay` has no argument `zzz`", "its arguments are"),
        ('send(to="a", files.idd="1")', "`files[]` of `send` has no argument `idd`", "id"),
        ('send(to="a", files="1")', "`files` holds an object", "files[].id"),
        ('send(to.x="a")', "`to[]` of `send` has no argument `x`", None),
        ('pay(recipient[]="A")', "`recipient` of `pay` is no list", "leave the `[]` out"),
        ("pay(recipient<=5)", "is no number", None),
        ("pay(recipient=5)", "is a text", None),
        ('pay(amount="5")', "is a number", None),
        ("pay(amount=true)", "is a number", None),
        ("pay(recipient on 2024)", "is no date", None),
        ("pay(recipient host in {a.test})", "is no address", None),
        ('pay(recipient under "src")', "is no path", None),
        ("pay(recipient links in intent)", "is no free text", None),
        ('pay(recipient="A", subject links in {"hello"})', "no address", None),
        ("get(url=5)", "is a text", None),
        ('pay(amount<=5, amount in {6, 7})', "can never hold", None),
        ('pay(date on 2024, date="2023-01-01")', "can never hold", None),
    ],
)  # fmt: skip
def test_slips_are_errors_when_they_are_typed(text: str, message: str, hint: str | None) -> None:
    """No such argument, a wrong kind, what never holds: each is named, with a hint."""
    with pytest.raises(ScopeError) as caught:
        read(f"tools={text}")
    assert message in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")
    assert caught.value.offset >= text.index("(")


def test_without_a_catalog_a_rule_is_taken_as_typed() -> None:
    """A tool that nobody vouches for is not linted, its text is not opened, and that is said."""
    for catalogs in (HOSTILE, Catalogs(())):
        found = read('tools=pay(recepient="A")', catalogs)
        assert render(found.caveats) == ('tools=pay(recepient="A")',)
        assert "no catalog describes `pay`" in found.warnings[0]


def test_what_changes_nothing_is_warned_of() -> None:
    """A rule beside a name, a group or a wider rule for the same tool is idle, and said to be."""
    (warning,) = read('tools=@reads,look(path under "src")').warnings
    assert "change nothing: `@reads` allows it" in warning
    (warning,) = read('tools=pay,pay(amount<=5)').warnings  # fmt: skip
    assert "change nothing: `pay` allows it" in warning
    (warning,) = read('tools=p*(recipient="A"),pay(amount<=5)').warnings
    assert "by its own rule or by that of `p*`" in warning
    assert read("tools=pay(amount<=5)|pay(amount>=9, amount<=10)").warnings == ()


def test_the_rest_of_every_tool_leaves_reading_open() -> None:
    """`*(... in intent)` speaks of what writes and sends; reading tools stay open by name."""
    items = read("tools=*(… in intent)").caveats[0].value
    assert items[0] == "look"
    assert str(items[-1]) == "*(... in intent)"
    alone = parse_scope("tools=*(… in intent)", at=0).caveats[0].value
    assert [str(item) for item in alone] == ["*(... in intent)"]


def test_an_address_without_a_scheme_is_read_and_held(tmp_path: Path) -> None:
    """An `address` is read as `https://` where it has no scheme: by `hosts` and by a condition."""
    resolver = Resolver(tmp_path, CATALOGS)

    def allowed(text: str, url: str) -> bool:
        ticket = mint(read(text).caveats, key=bytes(32), sid="s", minted_at=0)
        return authorize(ticket, resolver.resolve("get", {"url": url}), 0).allowed

    for text in ("tools=get(url host in {*.a.test})", "hosts=*.a.test"):
        assert allowed(text, "www.a.test/x")
        assert allowed(text, "http://www.a.test/x")
        assert not allowed(text, "www.a.test.evil.test")
        assert not allowed(text, "www.a.test@evil.test")
        assert not allowed(text, "www.a.test\\@evil.test")
        assert not allowed(text, "javascript:alert(1)")
    assert allowed('tools=get(url="www.a.test")', "https://www.a.test/")
    assert not allowed('tools=get(url="www.a.test")', "www.a.test/?q=secret")


def test_wrong_policies_are_found_out() -> None:
    """A missing argument and a pattern by lint; swapped and inverted ones by their own tests."""
    with pytest.raises(ScopeError, match="no argument"):
        read('tools=pay(beneficiary="A")')
    with pytest.raises(ScopeError, match="unexpected `like`"):
        read('tools=pay(recipient like "A.*")')
    with pytest.raises(ScopeError, match="is a number"):
        read('tools=pay(recipient="50", amount="A")')  # the two are swapped

    def failures(rule: str) -> list[str]:
        policy = load_policy(
            f"# Pay A, at most 50.\ntools={rule}\n"
            'expect allow pay(recipient="A", amount=20)\n'
            'expect refuse pay(recipient="A", amount=900)\n'
            'expect refuse pay(recipient="B", amount=20)\n',
            "pay",
        )
        ticket = mint(read(policy.texts[0]).caveats, key=bytes(32), sid="s", minted_at=0)

        def decide(tool: str, arguments: dict[str, object], _line: str) -> Decision:
            return authorize(ticket, Call(tool, arguments=arguments), 0)

        return check_expects(policy, decide)

    assert failures('pay(recipient="A", amount<=50)') == []
    assert len(failures('pay(recipient="A", amount>=50)')) == 2  # inverted
    assert len(failures('pay(recipient="B", amount<=50)')) == 2  # two tasks' recipients swapped
