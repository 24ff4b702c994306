"""The laws of a suggested scope, over generated calls."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.authorize import authorize
from broker.calls import Call
from broker.catalogs import Catalogs, ToolEntry
from broker.globs import path_matcher
from broker.replay.reading import ReadCall
from broker.replay.seen import SeenCall
from broker.replay.suggest import Suggestion, suggest
from broker.replay.trees import readable
from broker.replay.whatif import what_if
from broker.scope import parse_scope
from broker.ticket import Ticket, mint
from tests.strategies import places, plain_calls

CATALOGS = Catalogs(
    [
        ToolEntry("read", None, "read"),
        ToolEntry("write", None, "write"),
        ToolEntry("fetch", None, "egress"),
        ToolEntry("mcp__git__log", "git", "read"),
    ]
)


def _read(calls: list[Call]) -> list[ReadCall]:
    return [ReadCall(SeenCall(n, n, c.tool), c, "receipt") for n, c in enumerate(calls)]


def _ticket(texts: list[str]) -> Ticket:
    scope = parse_scope(texts, at=0, groups=CATALOGS.groups(), lookup=CATALOGS.known)
    return mint(scope.caveats, key=bytes(32), sid="s", minted_at=0)


def _admitted(found: Suggestion, reads: list[ReadCall]) -> list[ReadCall]:
    beyond = {call.n for call, _ in found.beyond}
    return [read for read in reads if read.seen.n not in beyond]


@given(st.lists(plain_calls(), min_size=1, max_size=8))
def test_what_is_suggested_refuses_nothing(calls: list[Call]) -> None:
    """The scope refuses no call of the run but those that it names as beyond every scope."""
    reads = _read(calls)
    found = suggest([("r", reads)], CATALOGS)
    outcome = what_if(_ticket(list(found.scope)), _admitted(found, reads))
    assert [answer.refusal for answer in outcome.refused] == []


@given(st.lists(plain_calls(), min_size=1, max_size=8))
def test_only_what_no_scope_admits_is_beyond(calls: list[Call]) -> None:
    """A call that is beyond every scope is refused even where nothing is limited but calls."""
    reads = _read(calls)
    found = suggest([("r", reads)], CATALOGS)
    open_ticket = _ticket(["calls=1000"])
    for call, _ in found.beyond:
        assert not authorize(open_ticket, reads[call.n].call, 0).allowed


@given(st.lists(plain_calls(), min_size=1, max_size=8))
def test_every_item_is_needed(calls: list[Call]) -> None:
    """Without any one item of a list, just the calls that it is said to cost are refused."""
    reads = _read(calls)
    found = suggest([("r", reads)], CATALOGS)
    admitted = _admitted(found, reads)
    for text in found.texts:
        for item in text.items:
            rest = ",".join(i.text for i in text.items if i is not item) or "none"
            texts = [t.text for t in found.texts if t is not text] + [f"{text.key}={rest}"]
            refused = {a.read.seen.n for a in what_if(_ticket(texts), admitted).refused}
            assert refused == {call.n for call in item.calls}
            assert refused


@given(st.dictionaries(places, st.booleans(), max_size=12), st.booleans(), st.integers(1, 4))
def test_a_readable_list_reaches_every_place(
    touched: dict[str, bool], root: bool, most: int
) -> None:
    """The patterns match every place, and all below one that was touched with all below it."""
    matcher = path_matcher(tuple(p.text for p in readable(touched, root=root, most=most)))
    for place, below in touched.items():
        assert matcher.covers(place) if below else matcher.match(place)
