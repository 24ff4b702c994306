"""A ticket's bytes: the one way to write a link, and everything that is not one."""

from __future__ import annotations

import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import limits
from broker.caveats import Caveat, calls, hosts, paths, tools, until
from broker.errors import InputError, LimitError, TicketFormatError
from broker.wire import link_block, mac, read_link, read_root, root_block, split, take_apart

TAG = b"0" * 64
CAVEATS = (tools("read"), paths("src/**", "ü"), hosts(), calls(3), until(1_700_000_000_000_000_001))


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=300))
def test_mac_is_hmac_sha256(key: bytes, body: bytes) -> None:
    """Our two plain hashes give what the standard library's HMAC gives."""
    assert mac(key, body) == hmac.digest(key, body, "sha256")


def test_mac_gives_the_published_answer() -> None:
    """A key that RFC 4231 pads to 32 bytes and more gives the digest the RFC prints."""
    key = bytes([0x0B] * 20).ljust(32, b"\0")  # HMAC itself pads with zeros
    digest = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    assert mac(key, b"Hi There").hex() == digest


def test_the_bytes_of_a_link() -> None:
    """The format is these bytes and no others: a change of one is another version."""
    assert root_block("s1", 1_000_000_001, "ab", "n", CAVEATS).decode() == (
        '["ticket/1","s1",1,1,"ab","n",[["tools","read"],["paths","src/**","ü"],["hosts"],'
        '["calls",3],["until",1700000000,1]]]'
    )
    assert link_block("", (calls(0),)) == b'["",[["calls",0]]]'


def test_a_link_is_read_as_it_was_written() -> None:
    """Reading gives back the caveats in their order, whatever they are."""
    assert read_link(link_block("n", CAVEATS)).caveats == CAVEATS
    sid, at, intent, step = read_root(root_block("s", -5, "ab", "", CAVEATS))
    assert (sid, at, intent, step.caveats) == ("s", -5, "ab", CAVEATS)


def test_the_bytes_are_canonical_json() -> None:
    """A link is what a canonical JSON encoder would write."""
    block = root_block('a"\n', 0, "", "é", CAVEATS).decode()
    assert json.dumps(json.loads(block), separators=(",", ":"), ensure_ascii=False) == block


def test_a_step_is_taken_apart() -> None:
    """The smallest number of each kind counts, and lists keep their order."""
    step = take_apart((calls(5), paths("a"), calls(3), tools("b"), until(9), until(8), calls(4)))
    assert (step.calls, step.until, step.lists) == (3, 8, (paths("a"), tools("b")))
    assert take_apart(()).calls is None


@pytest.mark.parametrize(
    "caveat",
    [
        Caveat("users", ("a",)),
        Caveat("calls", ("a",)),
        Caveat("tools", 3),
        Caveat("users", 3),
        Caveat("calls", True),
        Caveat("until", 1.5),  # type: ignore[arg-type]  # the wrong types are the test
        Caveat("tools", ["a"]),  # type: ignore[arg-type]  # the wrong types are the test
    ],
)
def test_a_caveat_that_does_not_exist(caveat: Caveat) -> None:
    """A kind that does not exist, or a value of the wrong type, is never written."""
    with pytest.raises(InputError):
        take_apart((caveat,))


def test_the_number_of_caveats_is_limited() -> None:
    """A link holds MAX_CAVEATS caveats and not one more, written or read."""
    full = (calls(1),) * limits.MAX_CAVEATS
    assert read_link(link_block("", take_apart(full).caveats)).calls == 1
    with pytest.raises(LimitError):
        take_apart((*full, calls(1)))
    with pytest.raises(TicketFormatError):
        read_link(link_block("", (*full, calls(1))))


def test_the_number_of_patterns_is_limited() -> None:
    """A list of a ticket holds MAX_SCOPE_ITEMS patterns and not one more."""
    names = tuple(f"t{number}" for number in range(limits.MAX_SCOPE_ITEMS + 1))
    assert read_link(link_block("", (Caveat("tools", names[:-1]),)))
    with pytest.raises(TicketFormatError, match="more than"):
        read_link(link_block("", (Caveat("tools", names),)))


def test_the_size_and_the_links_are_limited() -> None:
    """A wire form has MAX_TICKET_BYTES bytes and MAX_CHAIN_LINKS links, and not one more."""
    room = limits.MAX_TICKET_BYTES - len(TAG) - 1
    assert split(b"a" * room + b"\n" + TAG) == ([b"a" * room], TAG)
    with pytest.raises(TicketFormatError, match="bytes"):
        split(b"a" * (room + 1) + b"\n" + TAG)
    assert len(split(b"a\n" * limits.MAX_CHAIN_LINKS + TAG)[0]) == limits.MAX_CHAIN_LINKS
    with pytest.raises(TicketFormatError, match="links"):
        split(b"a\n" * (limits.MAX_CHAIN_LINKS + 1) + TAG)


@pytest.mark.parametrize("wire", ["", "\n", "0" * 64, b"a\n" + TAG[:-1], "\ud800\n" + "0" * 64])
def test_the_shape_of_a_ticket(wire: str | bytes) -> None:
    """Without a link, without a whole MAC, or with half a character it is no ticket."""
    with pytest.raises(TicketFormatError):
        split(wire)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"{}",
        b"null",
        b'["",[]] ',
        b' ["",[]]',
        b'["",[]][]',
        b'["",[],0]',
        b"[0,[]]",
        b'["",{}]',
        b'["",[0]]',
        b'["",[[]]]',
        b'["",[["users","a"]]]',
        b'["",[["calls"]]]',
        b'["",[["calls",true]]]',
        b'["",[["calls",-1]]]',
        b'["",[["calls",2147483648]]]',
        b'["",[["calls",1.0]]]',
        b'["",[["until",1]]]',
        b'["",[["until",1,1000000000]]]',
        b'["",[["until",1,-1]]]',
        b'["",[["until","1",0]]]',
        b'["",[["tools",1]]]',
        b'["",[["tools","a b"]]]',
        b'["",[["paths","./a"]]]',
        b'["",[["paths","../a"]]]',
        b'["",[["hosts","A.test"]]]',
        b"\xff",
        b"[" * 100_000,
        b'["' + b"9" * 5_000,
        b'["",[["calls",' + b"9" * 5_000 + b"]]]",
    ],
)
def test_what_is_no_link(block: bytes) -> None:
    """Whatever is not exactly one link is a format error, and never another exception."""
    with pytest.raises(TicketFormatError):
        read_link(block)


@pytest.mark.parametrize(
    "block",
    [
        b'["",[]]',
        b'["ticket/2","s",0,0,"","",[]]',
        b'["ticket/1",1,0,0,"","",[]]',
        b'["ticket/1","s",0.0,0,"","",[]]',
        b'["ticket/1","s",0,true,"","",[]]',
        b'["ticket/1","s",0,0,null,"",[]]',
        b'["ticket/1","s",0,0,"",0,[]]',
        b'["ticket/1","s",0,0,"","",[],0]',
    ],
)
def test_what_is_no_root(block: bytes) -> None:
    """A root of another version, or with a field of another type, is a format error."""
    with pytest.raises(TicketFormatError):
        read_root(block)


@given(st.binary(max_size=200))
def test_reading_is_total(block: bytes) -> None:
    """Bytes are a link or a format error."""
    for read in (read_link, read_root):
        try:
            read(block)
        except TicketFormatError as error:
            assert "\n" not in str(error)


@given(st.data())
def test_a_cut_or_changed_link_is_never_another_exception(data: st.DataObject) -> None:
    """One changed byte of a link gives a link or a format error."""
    block = bytearray(link_block("n", CAVEATS))
    at = data.draw(st.integers(0, len(block) - 1))
    block[at] = data.draw(st.integers(0, 255))
    try:
        step = read_link(bytes(block))
    except TicketFormatError:
        return
    assert take_apart(step.caveats) == step
