"""Many lines at once: what is proven by tags, what by links, and what is left to ``accept``."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import pytest

from broker.errors import Break
from broker.receipt import shapes
from broker.receipt.chain import Chain
from broker.receipt.entry import encode_data, format_at
from broker.receipt.runs import Scan, linked, proven
from tests.receiptkit import AT, KEY

Change = Callable[[list[bytes]], None]
OTHER = "0123456789abcdef" * 4


def made(count: int, step: int = 1_000_000, odd: int = -1) -> list[bytes]:
    """Return so many lines of one shape behind an open line; one may have another."""
    chain, lines = Chain("s1", KEY), []
    for n in range(count + 1):
        data = {"a": f"x{n}", "n": n} if n != odd else {"other": [f"x{n}"]}
        kind, data = ("note", data) if n else ("open", {"format": "receipt/1"})
        at = format_at(AT + n * step)
        lines.append(chain.compose(kind, encode_data(data), at))
        chain.push(kind, at, lines[-1])
    return lines


def behind(line: bytes) -> Chain:
    """Return a chain that has accepted the open line."""
    chain = Chain("s1", KEY)
    chain.accept(line)
    return chain


def one_by_one(chain: Chain, leg: list[bytes]) -> None:
    """Take each line the plain way."""
    for line in leg:
        chain.accept(line)


def relinked(leg: list[bytes], start: int) -> None:
    """Link every line from one on to the line before, as anybody can; tags take the key."""
    for n in range(start, len(leg)):
        link = sha256(leg[n - 1]).hexdigest().encode()
        place = leg[n].rindex(b',"prev":"') + 9
        leg[n] = leg[n][:place] + link + leg[n][place + 64 :]


def changed(leg: list[bytes]) -> None:
    leg[3] = leg[3].replace(b'"a":"x', b'"a":"y')


def changed_and_linked(leg: list[bytes]) -> None:
    changed(leg)
    relinked(leg, 4)


def another_tag(leg: list[bytes]) -> None:
    leg[3] = leg[3][:-66] + OTHER.encode() + leg[3][-2:]


def swapped(leg: list[bytes]) -> None:
    leg[3], leg[4] = leg[4], leg[3]


def one_out(leg: list[bytes]) -> None:
    del leg[3]


def first_out(leg: list[bytes]) -> None:
    del leg[0]


def last_changed(leg: list[bytes]) -> None:
    leg[-1] = leg[-1].replace(b'"a":"x', b'"a":"y')


def last_tag(leg: list[bytes]) -> None:
    leg[-1] = leg[-1][:-66] + OTHER.encode() + leg[-1][-2:]


def cut(leg: list[bytes]) -> None:
    leg[3] = b"{"


@pytest.mark.parametrize("prove", [proven, linked])
def test_honest_lines_are_proven(prove: Callable[[Chain, list[bytes]], str | None]) -> None:
    """The hash of the last line is told, and the chain has not moved."""
    first, *leg = made(8)
    chain = behind(first)
    assert prove(chain, leg) == sha256(leg[-1]).hexdigest()
    assert chain.n == 1


@pytest.mark.parametrize("prove", [proven, linked])
@pytest.mark.parametrize(
    "change",
    [
        changed,
        changed_and_linked,
        another_tag,
        swapped,
        one_out,
        first_out,
        last_changed,
        last_tag,
        cut,
    ],
)
def test_nothing_else_is(prove: Callable[[Chain, list[bytes]], str | None], change: Change) -> None:
    """Whatever anybody without the key does to the lines, neither by tags nor by links it holds."""
    first, *leg = made(8)
    change(leg)
    assert prove(behind(first), leg) is None


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("change", [changed, changed_and_linked, another_tag, swapped, one_out])
def test_the_break_is_at_its_line(quick: bool, change: Change) -> None:
    """Where a leg is not proven, the first line that is refused is told, at either level."""
    first, *leg = made(40)
    change(leg)
    with pytest.raises(Break) as caught:
        Scan(behind(first), quick=quick, stops={}).take(b"\n".join(leg))
    with pytest.raises(Break) as wanted:
        one_by_one(behind(first), leg)
    assert (caught.value.reason, caught.value.line) == (wanted.value.reason, wanted.value.line)


@pytest.mark.parametrize("step", [1_000_000, 300_000_000, -1_000_000, 0])
@pytest.mark.parametrize("odd", [-1, 57])
def test_the_chain_is_left_as_accept_leaves_it(step: int, odd: int) -> None:
    """Over numbers of one to three digits, seconds, clocks that go back, and an odd line."""
    first, *leg = made(130, step, odd)
    plain, whole = behind(first), behind(first)
    one_by_one(plain, leg)
    Scan(whole, quick=False, stops={}).take(b"\n".join(leg))
    assert whole.state() == plain.state()
    assert whole.text == plain.text


def test_the_second_of_a_shape_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of each shape is asked of ``accept``, also where many are held to it together."""
    monkeypatch.setattr(shapes, "_MANY", 1)
    asked: list[int] = []

    class Told(Chain):
        def accept(self, line: bytes) -> None:
            asked.append(self.n)
            super().accept(line)

    chain = Told("s1", KEY)
    Scan(chain, quick=False, stops={}).take(b"\n".join(made(130, odd=57)))
    assert (asked, chain.n) == ([0, 1, 57], 131)
