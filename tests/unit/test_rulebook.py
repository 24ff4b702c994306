"""Rules before calls: closed, typed, and total over whatever an agent sends."""

from __future__ import annotations

import pytest

from broker.authorize import authorize
from broker.calls import Call, Fault, Look, TypedText, UrlSubject
from broker.catalogs import Argument
from broker.caveats import paths, tools
from broker.conditions import Absent, Free, InIntent, LinksTyped, between, links, values
from broker.errors import InputError
from broker.rulebook import judge, rule_book
from broker.rules import Condition, Hop, Rule, argument, rule
from broker.ticket import Ticket, attenuate, mint

TO_A = argument("to", values("A"))
PAY = rule("pay", TO_A, argument("sum", between(0, 50)), argument("note", Free()))


def unmet(of: Rule, arguments: object, line: str | None = None, labels=None) -> str | None:
    """Where a call does not fit a rule; None: it fits."""
    found = judge(of, Look(Call(of.tool, arguments=arguments, labels=labels), line))
    return None if found is None else found.label


def test_what_is_named_passes_and_everything_else_is_closed() -> None:
    """Named arguments as asked, the others left out: that is all that passes."""
    assert unmet(PAY, {"to": "A", "sum": 5}) is None
    assert unmet(PAY, {"to": "A", "sum": 5, "note": ["any", {"thing": 1}]}) is None
    assert unmet(PAY, {"to": "A", "sum": 5, "cc": None, "bcc": [], "x": {}, "y": ""}) is None
    assert unmet(PAY, {"to": "A", "sum": 5, "cc": "B"}) == "cc"
    assert unmet(PAY, {"to": "A", "sum": 5, "force": False}) == "force"
    assert unmet(PAY, {"to": "A"}) == "sum"
    assert unmet(PAY, {"to": "", "sum": 5}) == "to"


@pytest.mark.parametrize("name", ["To", "TO", " to", "to ", "tо", "t\u200do", "to\u0000", "ｔｏ"])
def test_an_argument_s_name_is_its_characters(name: str) -> None:
    """A name in another case or with look-alikes is another argument, and so refused."""
    assert unmet(PAY, {"to": "A", "sum": 5, name: "B"}) == name


@pytest.mark.parametrize(
    "value", [["A"], ["A", "B"], {"A": "A"}, "5", True, 10**400, float("nan"), float("-inf"), -0.5]
)
def test_types_come_before_values(value: object) -> None:
    """A list, an object, a flag or a text where a number is due is refused."""
    assert unmet(PAY, {"to": "A", "sum": value}) == "sum"
    assert unmet(PAY, {"to": value, "sum": 5}) == "to"


def nested(*steps: str | None, test=None, maybe: bool = False) -> Condition:
    path = tuple(Hop(s, maybe and n == 0) for n, s in enumerate(steps))
    return Condition(path, test or values("1"))


def test_every_element_of_a_list_must_pass() -> None:
    """A list passes when all its elements do; one value in its place does not."""
    send = rule("send", nested("to", None))
    assert unmet(send, {"to": ["1", "1"]}) is None
    assert unmet(send, {"to": ["1", "2"]}) == "to[1]"
    assert unmet(send, {"to": "1"}) == "to"
    assert unmet(send, {"to": []}) == "to"
    assert unmet(send, {"to": ["1", ["1"]]}) == "to[1]"
    assert unmet(send, {"to": ["1", None]}) == "to[1]"
    assert unmet(send, {"to": {"0": "1"}}) == "to"
    maybe = rule("send", nested("to", None, maybe=True))
    assert unmet(maybe, {"to": []}) is None
    assert unmet(maybe, {}) is None
    assert unmet(maybe, {"to": ["2"]}) == "to[0]"


def test_objects_are_closed_at_every_depth() -> None:
    """A key that is not named inside an object is refused like one at the top."""
    send = rule("send", nested("files", None, "id"), nested("files", None, "kind", test=Free()))
    assert unmet(send, {"files": [{"id": "1", "kind": "x"}, {"id": "1"}]}) is None
    assert unmet(send, {"files": [{"id": "1", "path": "/etc"}]}) == "files[0].path"
    assert unmet(send, {"files": [{"kind": "x"}]}) == "files[0].id"
    assert unmet(send, {"files": [["id", "1"]]}) == "files[0]"
    assert unmet(send, {"files": {"id": "1"}}) == "files"
    assert unmet(send, {"files": [{"id": {"id": "1"}}]}) == "files[0].id"


def test_a_name_with_dots_is_no_way_into_an_object() -> None:
    """`a.b` at the top is an argument of that name, and never what stands inside `a`."""
    of = rule("t", nested("a", "b"))
    assert unmet(of, {"a.b": "1"}) == "a.b"
    assert unmet(of, {"a": {"b": "1"}, "a.b": "1"}) == "a.b"


def test_absent_is_absent() -> None:
    """What must be absent may be empty and nothing else."""
    of = rule("t", TO_A, argument("cc", Absent()))
    assert unmet(of, {"to": "A", "cc": None}) is None
    assert unmet(of, {"to": "A", "cc": 0}) == "cc"


LABELS = {
    "body": Argument("text"),
    "sum": Argument("amount"),
    "to": Argument("recipient"),
    "files": Argument("fields", fields={"id": Argument("identifier"), "kind": Argument("text")}),
}


def test_the_rest_stands_in_the_line_or_is_loose() -> None:
    """`... in intent` binds names and leaves text and amounts alone, by a vouched catalog only."""
    of = rule("pay", rest=True)
    line = "pay Anna, and send f7"
    assert unmet(of, {"to": "Anna", "body": "hello", "sum": 5}, line, LABELS) is None
    assert unmet(of, {"to": "Eve"}, line, LABELS) == "to"
    assert unmet(of, {"to": ["Anna", "Eve"]}, line, LABELS) == "to"
    assert unmet(of, {"body": "hello"}, line) == "body"  # no catalog: nothing is loose
    assert unmet(of, {"x": {"Anna": "Anna"}}, line) is None
    assert unmet(of, {"x": {"Eve": "Anna"}}, line) == "x"
    assert unmet(of, {"x": True}, line) == "x"
    assert unmet(of, {"files": [{"id": "f7", "kind": "any"}]}, line, LABELS) is None
    assert unmet(of, {"files": [{"id": "f8"}]}, line, LABELS) == "files.id"
    assert unmet(of, {"files": ["f7"]}, line, LABELS) == "files[0]"
    assert unmet(of, {"to": "Anna"}, None, LABELS) == "to"


def test_a_call_without_arguments_of_its_own_is_refused() -> None:
    """Where nobody says what the arguments were, no rule admits the call."""
    assert judge(PAY, Look(Call("pay"))) is not None


# ── through a ticket ──


def ticket(*items, more=(), intent: str = ""):
    caveats = [tools(*items), *more]
    return mint(caveats, key=bytes(32), sid="s", minted_at=0, intent=intent)


def test_the_wider_item_of_a_list_wins() -> None:
    """A list admits what any item admits: a plain name beside its own rule opens the tool."""
    call = Call("pay", arguments={"to": "B"})
    assert not authorize(ticket(PAY), call, 0).allowed
    assert authorize(ticket(PAY, "pay"), call, 0).allowed
    assert authorize(ticket(PAY, "p*"), call, 0).allowed


def test_alternatives_do_not_mix() -> None:
    """One alternative admits the whole call; half of each is not enough."""
    a = rule("pay", argument("to", values("A")), argument("sum", between(0, 10)))
    b = rule("pay", argument("to", values("B")), argument("sum", between(0, 50)))
    both = ticket(a, b)
    assert authorize(both, Call("pay", arguments={"to": "B", "sum": 50}), 0).allowed
    refused = authorize(both, Call("pay", arguments={"to": "A", "sum": 50}), 0)
    assert refused.refusal.caveat == "tools"
    assert "pay" in refused.refusal.reason


def test_a_refusal_names_the_argument_and_what_is_allowed() -> None:
    """The reason says where, what was given and what the rule asks for."""
    refusal = authorize(ticket(PAY), Call("pay", arguments={"to": "B", "sum": 1}), 0).refusal
    assert refusal.value == "to"
    assert 'argument `to` of `pay`: "B" is not "A"' in refusal.reason
    assert "pay(to=" in refusal.reason


def test_a_refused_text_names_the_address_in_it() -> None:
    """The reason says which address is one too many, and not the whole text."""
    for test, allowed in ((links("x.test"), 'links in {"x.test"}'), (LinksTyped(), "links in")):
        look = Look(Call("say", arguments={"body": f"x.test {'long ' * 99} y.test"}), "to x.test")
        unmet = judge(rule("say", argument("body", test)), look)
        assert unmet is not None
        assert unmet.reason.startswith('it names "y.test", and may have ')
        assert allowed.split(" in ")[0] in unmet.reason
    assert judge(rule("say", argument("body", links())), Look(Call("say", arguments={"body": 5})))


def test_rules_hold_inside_a_batch_and_for_servers() -> None:
    """Nested calls are held to rules too, and a server's tool is not the agent's own."""
    held = ticket(PAY, "batch")
    inner = Call("pay", arguments={"to": "B", "sum": 1})
    assert not authorize(held, Call("batch", nested=(inner,)), 0).allowed
    good = {"to": "A", "sum": 1}
    assert authorize(held, Call("pay", arguments=good), 0).allowed
    assert not authorize(held, Call("pay", "bank", arguments=good), 0).allowed
    whole = ticket(rule("mcp__bank__pay", TO_A))
    assert authorize(whole, Call("pay", "bank", arguments={"to": "A"}), 0).allowed
    star = ticket(rule("mcp__bank__*", TO_A))
    assert authorize(star, Call("mcp__bank__pay", "bank", arguments={"to": "A"}), 0).allowed
    assert not authorize(star, Call("pay", arguments={"to": "A"}), 0).allowed


def test_a_rule_names_its_tool_outright() -> None:
    """A shell whose command is spelled out in a rule passes beside `paths`, unseen as it is."""
    shell = Call("Bash", opaque=True, arguments={"command": "make test"})
    held = ticket(rule("Bash", argument("command", values("make test"))), more=[paths("src/**")])
    assert authorize(held, shell, 0).enforcement == "none"
    other = Call("Bash", opaque=True, arguments={"command": "make test; curl evil"})
    assert authorize(held, other, 0).refusal.caveat == "tools"


def test_a_fault_is_named_before_the_rule() -> None:
    """A call that cannot be read is refused for that, not for its arguments."""
    broken = Call("pay", fault=Fault("arguments", "x", "not JSON"), arguments={"to": "B"})
    assert "not JSON" in authorize(ticket(PAY), broken, 0).refusal.reason


def test_the_line_must_be_the_ticket_s_own() -> None:
    """Another line, or none, lets nothing pass that has to stand in it; without one none mints."""
    looking = rule("pay", argument("to", InIntent()))
    held = ticket(looking, intent="d1")
    call = Call("pay", arguments={"to": "A"})
    assert authorize(held, call, 0, line=TypedText("pay A", "d1")).allowed
    assert not authorize(held, call, 0, line=TypedText("pay A", "d2")).allowed
    refusal = authorize(held, call, 0).refusal
    assert "the line that the person typed is not here" in refusal.reason
    with pytest.raises(InputError, match="needs the line"):
        ticket(looking)


def test_a_book_finds_rules_by_the_whole_name() -> None:
    """Exact names and patterns are both found; nothing else is."""
    book = rule_book((PAY, rule("p*", TO_A)))
    assert len(book.of("pay", "pay", None)) == 2
    assert len(book.of("play", "play", None)) == 1
    assert book.of("mcp__p__pay", "pay", "p") == []


def test_a_rule_names_what_cannot_be_seen_for_its_own_arguments_alone() -> None:
    """Beside a pattern, a rule for a shell or a fetch opens that tool no further than it says."""
    run = rule("shell", argument("command", values("ls")))
    get = rule("get", argument("page", values("a")))
    url = UrlSubject("page", "a", "https", "h.test", 443, ("h.test",))
    root = ticket(run, get, "*", more=[paths("src/**")])

    def allowed(held: Ticket, command: str, page: str) -> tuple[bool, bool]:
        shell = Call("shell", opaque=True, arguments={"command": command})
        fetch = Call("get", urls=(url,), arguments={"page": page})
        return authorize(held, shell, 0).allowed, authorize(held, fetch, 0).allowed

    for held in (root, attenuate(root, tools("shell", "get")), attenuate(root, paths("src/a"))):
        assert allowed(held, "ls", "a") == (True, True)
        assert allowed(held, "rm", "b") == (False, False)
    plain = ticket(run, get, "*", "shell", "get", more=[paths("src/**")])
    assert allowed(plain, "rm", "b") == (True, True)
    refused = authorize(root, Call("shell", opaque=True, arguments={"command": "rm"}), 0).refusal
    assert "names `shell` in tools for other arguments alone" in refused.reason


def test_a_huge_call_is_refused_and_not_gone_through() -> None:
    """Values times rules is bounded, for the whole chain and for calls in a call, by name."""
    held = ticket(*[rule("pay", nested("to", None, test=values(f"{n}"))) for n in range(200)])
    huge = Call("pay", arguments={"to": ["0"] * 20_000})
    refusal = authorize(held, huge, 0).refusal
    assert (refusal.caveat, "200 rules" in refusal.reason) == ("call", True)
    child = attenuate(held, tools(rule("pay", nested("to", None, test=values("0")))))
    assert authorize(child, huge, 0).refusal.caveat == "call"
    assert authorize(child, Call("pay", arguments={"to": ["0"] * 1_000}), 0).allowed
    batch = ticket(*[rule("pay", nested("to", None, test=values(f"{n}"))) for n in range(200)], "b")
    inner = [Call("pay", arguments={"to": ["0"] * 1_000}) for _ in range(20)]
    outer = Call("b", nested=tuple(inner), arguments={"calls": [c.arguments for c in inner]})
    assert authorize(batch, outer, 0).refusal.caveat == "call"


def test_many_paths_are_each_looked_up_once() -> None:
    """A condition on a list of a hundred thousand paths takes a moment, and not their square."""
    from broker.calls import PathSubject
    from broker.conditions import Under

    names = [f"src/{n}" for n in range(100_000)]
    found = tuple(
        PathSubject(f"p[{n}]", name, "read", (f"{name}/",)) for n, name in enumerate(names)
    )
    held = ticket(rule("read", nested("p", None, test=Under("src"))))
    assert authorize(held, Call("read", paths=found, arguments={"p": names}), 0).allowed
