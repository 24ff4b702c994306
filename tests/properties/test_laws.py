"""The laws of a ticket, numbered as in docs/laws.md; each test cites its law."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from broker.authorize import authorize
from broker.calls import Call, Decision, Fault, PathSubject, UrlSubject
from broker.caveats import Caveat, calls, hosts, paths, reads, tools, until, writes
from broker.errors import AttenuationError, BrokerError, TicketVerificationError
from broker.ticket import Ticket, attenuate, mint, verify_chain
from broker.wire import link_block, mac, root_block
from tests.reference import permits
from tests.strategies import (
    caveats,
    counts,
    instants,
    path_caveats,
    places,
    plain_calls,
    steps,
)

KEY = bytes(range(32))
SEARCH = Call("grep", paths=(PathSubject("path", "a", "read", ("a/",), below=True),))


def minted(step: list[Caveat]) -> Ticket:
    return mint(step, key=KEY, sid="s", minted_at=0)


def grown(root: list[Caveat], *more: list[Caveat]) -> Ticket:
    """A chain by honest attenuation; a step that would widen is left out."""
    ticket = minted(root)
    for step in more:
        for caveat in step:
            try:
                ticket = attenuate(ticket, caveat)
            except AttenuationError:
                continue
    return ticket


def by_hand(chain: list[list[Caveat]]) -> str:
    """A wire form with right MACs, whatever its links say."""
    blocks = [root_block("s", 0, "", "", tuple(chain[0]))]
    tag = mac(KEY, blocks[0])
    for step in chain[1:]:
        blocks.append(link_block("", tuple(step)))
        tag = mac(tag, blocks[-1])
    return b"\n".join([*blocks, tag.hex().encode()]).decode()


@given(steps, plain_calls(), instants, counts)
@example([paths(".git/**")], Call("write"), 0, 0)
def test_law_1_a_ticket_is_the_conjunction_of_its_caveats(root, call, at, spent):
    """Law 1: a root ticket permits exactly what the naive conjunction of its caveats permits."""
    got = authorize(minted(root), call, at, spent)
    assert got.allowed == permits([root], call, at, [spent])


@given(plain_calls(), instants, counts)
def test_law_1_an_absent_kind_is_unrestricted_and_an_empty_one_is_nothing(call, at, spent):
    """Law 1: no caveat lets every readable call through, and an empty list lets none."""
    readable = permits([[]], call, at, [spent])
    assert authorize(minted([]), call, at, spent).allowed == readable
    assert not authorize(minted([tools()]), call, at, spent).allowed


@given(steps, plain_calls(), instants, counts, st.randoms())
def test_law_1_order_and_repetition_of_caveats_do_not_matter(root, call, at, spent, rng):
    """Law 1: shuffling or repeating the caveats of a scope changes no answer."""
    other = root + root
    rng.shuffle(other)
    one, two = (authorize(minted(step), call, at, spent) for step in (root, other))
    assert (one.allowed, one.enforcement) == (two.allowed, two.enforcement)


@given(st.lists(caveats, max_size=3))
def test_law_2_an_unknown_kind_is_never_minted(root):
    """Law 2: a caveat of a kind that does not exist is an error when a ticket is minted."""
    with pytest.raises(BrokerError, match="no such caveat kind: `users`"):
        minted([*root, Caveat("users", ("x",))])


@given(steps, steps, plain_calls(), instants, counts)
@example([paths("**/*")], [paths("a/**")], SEARCH, 0, 0)
def test_law_3_attenuation_never_permits_more(root, more, call, at, spent):
    """Law 3: whatever a narrowed ticket allows, its parent allows."""
    parent = minted(root)
    child = grown(root, more)
    if authorize(child, call, at, spent).allowed:
        assert authorize(parent, call, at, spent).allowed


@given(steps, steps, steps, plain_calls(), instants, counts)
def test_law_3_attenuating_twice_is_attenuating_with_both(root, one, two, call, at, spent):
    """Law 3: two steps of narrowing mean the same as one step with the caveats of both."""
    parent = minted(root)
    try:
        twice = attenuate(attenuate(parent, *one), *two)
    except AttenuationError:
        assume(False)
    both = attenuate(parent, *one, *two)
    a, b = authorize(twice, call, at, spent), authorize(both, call, at, spent)
    assert (a.allowed, a.enforcement) == (b.allowed, b.enforcement)


@given(steps, steps)
def test_law_3_attenuation_appends_and_keeps_what_was_there(root, more):
    """Law 3: a narrowed ticket still carries every caveat of its parent, first and unchanged."""
    parent, child = minted(root), grown(root, more)
    assert child.caveats[: len(parent.caveats)] == parent.caveats
    assert child.line[0] == parent.id


@given(steps, steps, steps, plain_calls(), instants, counts)
def test_law_4_an_honest_chain_is_believed_and_means_the_same(root, one, two, call, at, spent):
    """Law 4: an honest chain survives its wire form and then decides as before."""
    ticket = grown(root, one, two)
    again = verify_chain(ticket.wire(), KEY)
    assert again == ticket
    assert again.caveats == ticket.caveats
    assert authorize(again, call, at, spent) == authorize(ticket, call, at, spent)


@given(steps, caveats, plain_calls(), instants, counts)
def test_law_4_a_chain_made_by_hand_passes_only_if_it_does_not_widen(root, made, call, at, spent):
    """Law 4: a link with a right MAC is believed exactly when honest attenuation would make it."""
    parent = minted(root)
    try:
        honest = attenuate(parent, made)
    except AttenuationError as refused:
        with pytest.raises(TicketVerificationError, match="widens"):
            verify_chain(by_hand([root, [made]]), KEY)
        assert refused.kind == made.kind
        return
    assert verify_chain(by_hand([root, [made]]), KEY).caveats == honest.caveats


@given(steps, st.lists(caveats, min_size=1, max_size=3), plain_calls(), instants, counts)
def test_law_4_what_is_believed_agrees_with_the_naive_chain(root, more, call, at, spent):
    """Law 4: a believed chain of any length permits what the naive reading of its links does."""
    ticket = grown(root, more)
    chain = [list(step) for step in ticket.steps]
    each = [spent] * len(chain)
    assert authorize(ticket, call, at, spent).allowed == permits(chain, call, at, each)


@given(steps, steps, st.data())
def test_law_4_a_changed_byte_or_a_dropped_link_is_not_believed(root, more, data):
    """Law 4: any change of the wire form's bytes, and any missing link, is found."""
    ticket = grown(root, more)
    wire = ticket.wire().encode()
    place = data.draw(st.integers(0, len(wire) - 1))
    flip = data.draw(st.integers(1, 255))
    changed = wire[:place] + bytes([wire[place] ^ flip]) + wire[place + 1 :]
    with pytest.raises(BrokerError):
        verify_chain(changed, KEY)
    lines = wire.split(b"\n")
    if len(lines) > 2:
        drop = data.draw(st.integers(0, len(lines) - 2))
        with pytest.raises(BrokerError):
            verify_chain(b"\n".join(lines[:drop] + lines[drop + 1 :]), KEY)
    with pytest.raises(TicketVerificationError):
        verify_chain(wire, bytes(32))


@given(steps, steps)
def test_law_5_a_widening_is_refused_by_name_and_never_clamped(root, more):
    """Law 5: narrowing either keeps the asked caveat whole or raises, naming its kind."""
    parent = minted(root)
    for asked in more:
        try:
            child = attenuate(parent, asked)
        except AttenuationError as error:
            assert error.kind == asked.kind
            assert f"`{asked.kind}=" in str(error)
        else:
            assert child.steps[-1] == (asked,)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))
def test_law_6_every_link_counts_its_own_calls(limit, below, used, used_below):
    """Law 6: a call passes only while the count of every link above it is below its `calls`."""
    assume(below <= limit)
    child = attenuate(minted([calls(limit)]), calls(below))
    got = authorize(child, Call("read"), 0, (used, used_below)).allowed
    assert got == (used < limit and used_below < below)


@given(plain_calls(), st.one_of(st.none(), st.just(-1), st.just((1, 2, 3)), st.just(("x",))))
def test_law_6_a_count_that_cannot_be_read_refuses(call, spent):
    """Law 6: under `calls`, an unreadable, negative or mismatched count refuses."""
    assert not authorize(minted([calls(5)]), call, 0, spent).allowed


@given(st.integers(-3, 3))
def test_law_7_the_instant_itself_is_too_late(distance):
    """Law 7: a call passes strictly before `until`, and without a clock not at all."""
    ticket = minted([until(100)])
    assert authorize(ticket, Call("read"), 100 + distance).allowed == (distance < 0)
    assert authorize(ticket, Call("read"), None).refusal.caveat == "until"


@given(steps)
def test_law_8_nobody_mints_without_the_key(root):
    """Law 8: a root made under another key is not believed, whatever it says."""
    forged = mint(root, key=bytes(32), sid="s", minted_at=0).wire()
    with pytest.raises(TicketVerificationError):
        verify_chain(forged, KEY)


@given(steps, steps, plain_calls(), instants)
def test_law_9_only_the_root_names_a_tool_whose_effects_are_unseen(root, more, call, at):
    """Law 9: under path or host caveats an opaque call passes only if the root names its tool."""
    ticket = grown(root, more)
    opaque = Call(call.tool, opaque=True)
    kinds = {c.kind for c in ticket.caveats} & {"paths", "reads", "writes", "hosts"}
    got = authorize(ticket, opaque, at)
    if kinds and got.allowed:
        assert got.enforcement == "none"
        assert authorize(ticket, opaque, at, sandboxed=True).enforcement == "kernel"
        assert any(c.kind == "tools" and call.tool in c.value for c in root)


@given(steps, plain_calls(), instants)
def test_law_9_one_path_outside_refuses_the_whole_call(root, call, at):
    """Law 9: a call that passes still refuses when one more path, outside, is added to it."""
    outside = PathSubject("extra", "/etc/passwd", "read", ())
    widened = Call(call.tool, paths=(*call.paths, outside), urls=call.urls)
    if any(c.kind in {"paths", "reads"} for c in root):
        assert not authorize(minted(root), widened, at).allowed


@given(steps, places)
def test_law_9_what_an_unknown_tool_names_is_read_and_written(root, place):
    """Law 9: a tool that is in no catalog passes where both a read and a write of its path do."""
    ticket = minted([*root, tools("novel")])

    def allowed(access, opaque):
        path = PathSubject("p", place or ".", access, (place,))
        return authorize(ticket, Call("novel", paths=(path,), opaque=opaque), 0, 0).allowed

    assert allowed("write", True) == (allowed("read", False) and allowed("write", False))


def searched(*found: str, below: bool = True) -> Call:
    """A call that reads these places and, unless it says otherwise, all that lies below them."""
    return Call("grep", paths=(PathSubject("path", "spelled", "read", found, below=below),))


@given(st.lists(path_caveats, min_size=1, max_size=3), places, places)
@example([paths("a*")], "a/", "b/")
@example([paths("*/*", "a")], "b/a/", "")
@example([paths("**/*")], "a/", "b/a/")
@example([paths("*", "*/[!a]*/**", "*/a/**", "*/a?*/**")], "a/", "ab/")
def test_law_9_a_search_is_judged_by_all_that_lies_below(root, place, deeper):
    """Law 9: a folder is searched exactly where it and every place below it may be read."""
    ticket = minted(root)
    got = authorize(ticket, searched(place), 0).allowed
    assert got == permits([root], searched(place), 0, [0])
    if got:
        assert authorize(ticket, searched(place + deeper), 0).allowed
        assert authorize(ticket, searched(place + deeper, below=False), 0).allowed


def removed(*found: str, below: bool = True) -> Call:
    """A call that removes these places and, unless it says otherwise, all that lies below them."""
    return Call("rm", paths=(PathSubject("path", "spelled", "write", found, below=below),))


@given(st.lists(path_caveats, min_size=1, max_size=3), places, places)
@example([writes("a*")], "a/", "b/")
@example([writes("a"), paths("**/*")], "a/", "b/")
def test_law_9_a_folder_is_moved_or_removed_with_all_that_lies_below(root, place, deeper):
    """Law 9: a folder goes exactly where it and every place below it may be written."""
    ticket = minted(root)
    got = authorize(ticket, removed(place), 0).allowed
    assert got == permits([root], removed(place), 0, [0])
    if got:
        assert authorize(ticket, removed(place + deeper), 0).allowed
        assert authorize(ticket, removed(place + deeper, below=False), 0).allowed


WEB = UrlSubject("url", "https://a.test/", "https", "a.test", 443, ("a.test", "a.test:443"))


@given(plain_calls())
def test_law_10_each_dimension_is_judged_by_its_own_caveat(call):
    """Law 10: `hosts=none` allows no host, `paths` alone no network but for a named tool."""
    url = Call("fetch", urls=(WEB,))
    assert authorize(minted([hosts()]), url, 0).refusal.caveat == "hosts"
    assert authorize(minted([paths("**")]), url, 0).refusal.caveat == "hosts"
    assert authorize(minted([paths("**"), tools("fetch")]), url, 0).allowed
    assert authorize(minted([paths("**"), hosts("a.test")]), url, 0).allowed
    file = Call("read", paths=(PathSubject("path", "a", "read", ("a/",)),))
    assert authorize(minted([hosts()]), file, 0).allowed


@given(steps, plain_calls(), instants, counts)
def test_law_11_what_cannot_be_read_is_refused(root, call, at, spent):
    """Law 11: a call with a fault is refused under every ticket, and the fault is named."""
    broken = Call(call.tool, fault=Fault("path", "path", "a loop of links"))
    got = authorize(minted(root), broken, at, spent)
    assert not got.allowed
    assert got.refusal.reason


@given(steps, steps, plain_calls(), instants, counts | st.none())
def test_deciding_is_total_and_deterministic(root, more, call, at, spent):
    """authorize returns a Decision for every call, twice the same, and it is not a bool."""
    ticket = grown(root, more)
    one = authorize(ticket, call, at, spent)
    assert isinstance(one, Decision)
    assert one == authorize(ticket, call, at, spent)
    assert one.allowed == (one.refusal is None)
    with pytest.raises(TypeError, match="not a bool"):
        bool(one)


def test_reads_and_writes_stay_within_paths_when_they_are_delegated():
    """A child asks for reads or writes outside its parent's paths: refused by that name."""
    parent = minted([paths("src/**")])
    for make in (reads, writes):
        with pytest.raises(AttenuationError, match="widens `paths=src"):
            attenuate(parent, make("docs/**"))
        assert attenuate(parent, make("src/a/**")).caveats[-1] == make("src/a/**")


def test_naming_git_is_a_widening_where_the_parent_does_not():
    """`.git/**` lies within `**` as a language, yet it permits writes that `**` refuses."""
    parent = minted([paths("**")])
    with pytest.raises(AttenuationError, match="widens"):
        attenuate(parent, paths(".git/**"))
    assert attenuate(parent, reads(".git/**")).caveats[-1] == reads(".git/**")


def test_the_reference_is_short_enough_to_be_believed():
    """The naive reference stays a page that one can check by reading."""
    text = (Path(__file__).parent.parent / "reference.py").read_text()
    assert len(text.splitlines()) < 200
