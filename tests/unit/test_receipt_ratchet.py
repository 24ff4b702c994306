"""The evolving line key: its values, and what it forgets."""

from __future__ import annotations

import hmac
from hashlib import sha256

from broker.receipt.chain import Chain
from broker.receipt.form import RECEIPT
from broker.receipt.ratchet import Ratchet, first_aggregate
from tests.forwardkit import memory_of, traces
from tests.receiptkit import KEY


def moved(lines: int) -> Ratchet:
    """Return a ratchet after some lines."""
    ratchet = Ratchet.start(KEY, "s1")
    for n in range(lines):
        ratchet.tag(b'{"n":%d}' % n)
        ratchet.step()
    return ratchet


def test_line_0_is_signed_as_the_start_key_signs_any_line() -> None:
    """Under the key of its line a body gets the tag that a session's own key would give it."""
    ratchet = Ratchet.start(KEY, "s1")
    assert ratchet.tag(b"{}") == KEY.mac(RECEIPT.line_label, "s1").tag(b"{}")
    assert ratchet.kid == KEY.kid


def test_one_step() -> None:
    """A step is one HMAC with a label of its own, and no other use of the key gives its value."""
    ratchet = moved(1)
    wanted = hmac.digest(KEY.secret, b"receipt/1 step\0", "sha256")
    assert ratchet.position.key == wanted
    assert ratchet.n == 1
    others = {KEY.mac(use, "s1").tag(b"") for use in ("receipt/1 line", "receipt/1 aggregate")}
    assert wanted.hex() not in others


def test_the_first_aggregate_is_public() -> None:
    """Over no line the aggregate is a hash of the session's name, and of nothing secret."""
    wanted = sha256(b"receipt/1 aggregate\0s1").hexdigest()
    assert Ratchet.start(KEY, "s1").aggregate == first_aggregate("s1") == wanted


def test_asking_for_tags_moves_nothing() -> None:
    """A line that was composed and not written leaves the ratchet as it was."""
    asked, plain = Ratchet.start(KEY, "s1"), Ratchet.start(KEY, "s1")
    asked.tag(b"not written")
    for ratchet in (asked, plain):
        ratchet.tag(b"written")
        ratchet.step()
    assert asked.position == plain.position


def test_a_chain_steps_with_each_line() -> None:
    """A chain that writes and one that verifies move the key once for each line."""
    writer = Chain("s1", Ratchet.start(KEY, "s1"))
    walked = Ratchet.start(KEY, "s1")
    reader = Chain("s1", walked)
    at = "2026-11-30T08:00:00.000Z"
    for n, kind in enumerate(("open", "note", "note")):
        text = '{"format":"receipt/1"}' if kind == "open" else "{}"
        line = writer.compose(kind, text, at)
        writer.push(kind, at, line)
        reader.accept(line)
        assert walked.n == n + 1
    assert reader.last == writer.last


def test_nothing_shows_the_key() -> None:
    """No repr shows the key of a line or the aggregate."""
    ratchet = moved(2)
    shown = repr(ratchet) + repr(ratchet.position)
    assert ratchet.position.key.hex() not in shown
    assert repr(ratchet.position.key) not in shown
    assert ratchet.aggregate not in shown


def test_it_holds_no_key_of_a_line_before() -> None:
    """What a ratchet refers to, at any depth, holds an earlier key in no form."""
    memory = memory_of(moved(3))
    for n in range(3):
        assert not any(
            form in value for form in traces(moved(n).position.key, "s1") for value in memory
        )
    there = traces(moved(3).position.key, "s1")
    assert sum(any(form in value for value in memory) for form in there) >= 3
