"""A rule in a ticket: one form, read strictly, and never by a reader that knows no rules."""

from __future__ import annotations

import json

import pytest

from broker.caveats import tools
from broker.conditions import between, values
from broker.errors import TicketFormatError
from broker.language.rulewire import read_rule, write_rule
from broker.rules import argument, rule
from broker.scope import parse_scope
from broker.ticket import KEY_BYTES, mint, verify_chain
from broker.wire import mac, root_block

ALL = (
    'tools=a(b="x", c in {1, 2.5, true}, d>=-1, d<=5, e on 2024, f host in {x.test}, '
    'g under "src/", h in intent, i absent, m links in intent, n links absent, '
    'o links in {"x.test"}, j, k?[].l="y", ... in intent)'
)
KEY = bytes(KEY_BYTES)


def test_every_kind_survives() -> None:
    """A rule with every kind of condition is the same after its JSON."""
    (given,) = parse_scope(ALL, at=0).caveats[0].value
    assert read_rule(json.loads(write_rule(given))) == given


GOOD = ["pay", 0, [["to"], "values", ["A"], [], []]]


def changed(**more: object) -> list:
    return [more.get("tool", "pay"), more.get("rest", 0), *more.get("conditions", GOOD[2:])]  # type: ignore[misc]  # on purpose


@pytest.mark.parametrize(
    "array",
    [
        [],
        ["pay"],
        ["pay", 0],
        changed(tool=1),
        changed(tool="a b"),
        changed(tool="a**"),
        changed(rest=2),
        changed(rest=True),
        changed(rest="0"),
        changed(conditions=["x"]),
        changed(conditions=[[["to"], "valeus", ["A"], [], []]]),
        changed(conditions=[[["to"], "values", ["A"], []]]),
        changed(conditions=[[["to"], "values", ["A", "A"], [], []]]),
        changed(conditions=[[["to"], "values", ["A "], [], []]]),
        changed(conditions=[[["to"], "values", [1], [], []]]),
        changed(conditions=[[["to"], "values", [], [True], []]]),
        changed(conditions=[[["to"], "values", [], [1.0], []]]),
        changed(conditions=[[["to"], "values", [], ["1"], []]]),
        changed(conditions=[[["to"], "values", [], ["1.0"], []]]),
        changed(conditions=[[["to"], "values", [], ["-0.0"], []]]),
        changed(conditions=[[["to"], "range", 0, "5.0"]]),
        changed(conditions=[[["to"], "values", [], ["1.50"], []]]),
        changed(conditions=[[["to"], "values", [], ["nan"], []]]),
        changed(conditions=[[["to"], "values", [], [], [1]]]),
        changed(conditions=[[["to"], "range", 5, 1]]),
        changed(conditions=[[["to"], "range", None, 1]]),
        changed(conditions=[[["to"], "range", 1]]),
        changed(conditions=[[["to"], "on", [5, 4]]]),
        changed(conditions=[[["to"], "on", [1, 2], [3, 4]]]),
        changed(conditions=[[["to"], "on", [True, 2]]]),
        changed(conditions=[[["to"], "host", "A.test"]]),
        changed(conditions=[[["to"], "host"]]),
        changed(conditions=[[["to"], "links", "X@y.test", 1]]),
        changed(conditions=[[["to"], "links", "no address"]]),
        changed(conditions=[[["to"], "links", "https://x.test"]]),
        changed(conditions=[[["to"], "links", "x.test", "x.test"]]),
        changed(conditions=[[["to"], "typed-links", "x.test"]]),
        changed(conditions=[[["to"], "under", "src/"]]),
        changed(conditions=[[["to"], "absent", 1]]),
        changed(conditions=[[[], "free"]]),
        changed(conditions=[[[None], "free"]]),
        changed(conditions=[[["to", [None]], "free"]]),
        changed(conditions=[[[["to", "x"]], "free"]]),
        changed(conditions=[[[1], "free"]]),
        changed(conditions=[["to", "free"]]),
        changed(conditions=[[["to"]]]),
        changed(conditions=[[["to"], "free"], [["to"], "absent"]]),
    ],
)
def test_anything_else_is_refused(array: list[object]) -> None:
    """An unknown kind, another type, or a second spelling of a rule is no rule."""
    with pytest.raises(TicketFormatError):
        read_rule(array)


def test_a_flag_is_never_read_as_a_number() -> None:
    """`true` and 1 make two rules, two texts and two tickets, whatever was cached before."""
    one = rule("t", argument("a", values(1)))
    true = rule("t", argument("a", values(True)))
    wires = [mint([tools(r)], key=KEY, sid="s", minted_at=0).wire() for r in (one, true)]
    assert [verify_chain(w, KEY).caveats[0].value for w in wires] == [(one,), (true,)]
    assert write_rule(one) != write_rule(true)


def test_a_ticket_holds_a_rule_as_a_list_in_its_tools() -> None:
    """A reader that takes texts only refuses the item, by its place in `tools`."""
    ticket = mint([tools("read", rule("pay", argument("sum", between(0, 0.5))))],
                  key=KEY, sid="s", minted_at=0)  # fmt: skip
    written = json.loads(ticket.blocks[0])[6]
    assert written == [["tools", "read", ["pay", 0, [["sum"], "range", 0, "0.5"]]]]
    assert verify_chain(ticket.wire(), KEY) == ticket


def test_a_rule_stands_in_tools_only() -> None:
    """A list where a path or host pattern is due is refused."""
    block = root_block("s", 0, "", "", ()).replace(b"[]]", b'[["paths",["pay",0,[["a"],"free"]]]]]')
    wire = b"\n".join([block, mac(KEY, block).hex().encode()])
    with pytest.raises(TicketFormatError, match="is not text"):
        verify_chain(wire, KEY)
