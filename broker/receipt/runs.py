"""
Moving a chain past many lines at once.

Decided here: which lines need not go through ``Chain.accept`` one by one. Not decided here: what
one line must be (``chain``), how a file is cut into lines (``scan``).

A *leg* is some hundred lines whose numbers have as many digits, so that all their ends are
equally long. ``Scan`` takes a leg in two steps, and asks ``accept`` wherever one fails:

1. *Proving.* The end of each line is compared, byte by byte, with the one end that the next line
   can have: number, link, session, and the tag over all before it. The ends of a leg are compared
   together, in constant time.
2. *Reading.* Each line begins with an instant of the calendar. What stands between that and the
   end matches a shape, so it is milliseconds, data that is canonical, our key's name, and a kind
   that has no rules of its own. A line that has no known shape goes to ``accept``, which parses
   it, and its shape is known from there on.

The quick level does not read, and proves a leg by its links and the tag of its last line alone.
That line's tag covers its number and its link, its link is the hash of the line before, tag and
all, and so on back to the line that the chain had come to. Whoever has the key made a line only
behind lines that it had verified. So nobody without the key can bring a line in, change one or
leave one out, and be passed: they would have to make that last tag, or two lines with one hash.

Rules a maintainer keeps:

- Only what ``Chain.accept`` accepts may be passed by, and the chain is left as it would leave it.
- Nothing is refused here: where anything is in doubt, ``accept`` decides, line by line.
- No byte of a line is read before it is proven.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from hmac import compare_digest
from operator import gt
from typing import Final

from broker.limits import MAX_LINE_BYTES
from broker.receipt.chain import TAIL_BYTES, Chain
from broker.receipt.entry import parse_at
from broker.receipt.shapes import Shapes

# What to do when so many lines have been accepted; told where the last of them starts.
Stops = Mapping[int, Callable[[int], None]]

_AT: Final = 31  # as far as an instant goes: {"at":"2026-11-30T08:00:00.000
_MILLIS: Final = 27  # where its milliseconds begin
_SEAL_BYTES: Final = b'","kind":"seal","n":'
_SIG_BYTES: Final = 66  # the tag, and what ends the line
_HEX: Final = "0" * 64  # as long as a link or a tag


class Scan:
    """
    Takes stretches of lines past a chain; remembers the shapes of what it has read.

    Args:
        chain: what is moved.
        quick: prove the lines by their links, and do not read them.
        stops: what to look at when so many lines have been accepted.
    """

    __slots__ = ("_kid", "_shapes", "chain", "quick", "stops")

    def __init__(self, chain: Chain, *, quick: bool, stops: Stops) -> None:
        self.chain = chain
        self.quick = quick
        self.stops = stops
        self._kid = ""
        self._shapes = Shapes()

    def take(self, stretch: bytes) -> None:
        """
        Move the chain past whole lines.

        Raises:
            Break: as ``Chain.accept``, at the first line that it does not accept.
        """
        chain, stops = self.chain, self.stops
        lines = stretch.split(b"\n")
        # Of a stretch that is no longer than a line may be, no line is too long; and if all of
        # it is UTF-8, each line is, since no other character has a byte 0x0A in it.
        alike = len(stretch) <= MAX_LINE_BYTES and _is_utf8(stretch)
        quick = self.quick and stretch.rfind(_SEAL_BYTES) < 0  # twice as fast as `in`
        ahead = {n - chain.n for n in stops if chain.n < n <= chain.n + len(lines)}
        begin = 0
        for end in sorted({*ahead, len(lines)}):
            while begin < end:
                begin += self._step(lines[begin:end], alike, quick)
            if end in ahead:
                stops[chain.n](chain.size - len(lines[end - 1]) - 1)

    def _step(self, lines: list[bytes], alike: bool, quick: bool) -> int:
        """Move the chain past one leg of the lines, or at least past one line."""
        chain = self.chain
        if not alike or chain.mac is None or chain.n == 0 or chain.closing:
            chain.accept(lines[0])
            return 1
        if quick and len(lines) > 1:
            # What is proven by links is not read, so the last line goes the other way.
            leg = lines[:-1]
            last = linked(chain, leg)
            if last:
                chain.pass_by(leg, last, chain.at, 0)
                chain.accept(lines[-1])
                return len(lines)
        leg = lines[: 10 ** len(str(chain.n)) - chain.n]
        last = proven(chain, leg)
        if last:
            return self._read(leg, last)
        for line in leg:
            chain.accept(line)
        return len(leg)

    def _read(self, leg: list[bytes], last: str) -> int:
        """
        Move the chain past lines that are proven, if they also say what a line may say.

        Returns:
            how many that were: all of them, or as far as a seal.
        """
        chain, shapes = self.chain, self._known()
        stop = -len(_end(chain, chain.n, _HEX, _HEX))
        texts = [line[_MILLIS:stop] for line in leg]
        dated = _in_calendar(leg)
        done = 0
        if not dated or not shapes.all_fit(texts):
            for i, text in enumerate(texts):
                if dated and shapes.find(text, 0, len(text)):
                    continue
                _pass_by(chain, leg[done:i], _link(chain, leg[i]))
                chain.accept(leg[i])
                if chain.plain:
                    shapes.learn(chain.text, text, 0, len(text))
                done = i + 1
                if chain.closing:
                    return done
        _pass_by(chain, leg[done:], last)
        return len(leg)

    def _known(self) -> Shapes:
        """Return the shapes of lines that name the chain's key."""
        chain = self.chain
        if self._kid != chain.kid:  # a stop may let another key sign from its line on
            self._kid = chain.kid
            kinds = "|".join(sorted(chain.form.appended))
            after = f',"kid":"{re.escape(chain.kid)}","kind":"(?:{kinds})'
            self._shapes = Shapes('[0-9]{3}Z","data":', after)
        return self._shapes


def proven(chain: Chain, leg: list[bytes]) -> str | None:
    """
    Return the hash of the last line, if these are the next lines, by tag, number and link.

    The chain does not move. Its numbers must have as many digits throughout.
    """
    assert chain.mac is not None  # noqa: S101  the caller has seen to it
    inner_copy, outer_copy = chain.mac.inner, chain.mac.outer
    last, middle = chain.last, _middle(chain)
    ends: list[str] = []
    add = ends.append
    for n, line in enumerate(leg, chain.n):
        inner = inner_copy()
        inner.update(line[:-TAIL_BYTES] + b"}")
        outer = outer_copy()
        outer.update(inner.digest())
        add(f'","n":{n},"prev":"{last}{middle}{outer.hexdigest()}"}}')
        last = sha256(line).hexdigest()
    size = len(ends[0])
    found = b"".join([line[-size:] for line in leg])
    return last if compare_digest(found, "".join(ends).encode()) else None


def linked(chain: Chain, leg: list[bytes]) -> str | None:
    """
    Return the hash of the last line, if each is linked to the one before and the last is proven.

    The chain does not move.
    """
    assert chain.mac is not None  # noqa: S101  the caller has seen to it
    hashes = [chain.last, *[sha256(line).hexdigest() for line in leg]]
    last = hashes.pop()
    stop = -_SIG_BYTES - len(_middle(chain))
    start = stop - len(_HEX)
    if b"".join([line[start:stop] for line in leg]) != "".join(hashes).encode():
        return None
    tag = chain.mac.tag(leg[-1][:-TAIL_BYTES] + b"}")
    end = _end(chain, chain.n + len(leg) - 1, hashes[-1], tag)
    return last if compare_digest(leg[-1][-len(end) :], end) else None


def _middle(chain: Chain) -> str:
    return f'","sid":"{chain.sid}","sig":"'


def _end(chain: Chain, n: int, link: str, tag: str) -> bytes:
    """Return how line ``n`` must end."""
    return f'","n":{n},"prev":"{link}{_middle(chain)}{tag}"}}'.encode()


def _link(chain: Chain, line: bytes) -> str:
    """Return the hash of the line before, as a line says that is proven."""
    stop = -_SIG_BYTES - len(_middle(chain))
    return str(line[stop - len(_HEX) : stop], "ascii")


def _pass_by(chain: Chain, lines: list[bytes], last: str) -> None:
    """Move the chain past lines that are proven and read; ``last`` is the hash of the last."""
    if not lines:
        return
    openings = [f'{{"at":"{chain.at}'.encode(), lines[0][:_AT], lines[-1][:_AT]]
    went_back = 0
    if openings[0] > openings[1] or not _ascending(lines):
        openings[1:] = [line[:_AT] for line in lines]
        went_back = sum(map(gt, openings, openings[1:]))
    chain.pass_by(lines, last, openings[-1][7:].decode(), went_back)


def _ascending(lines: list[bytes]) -> bool:
    """Whether lines stand in the order of their bytes, and so of their instants: most do."""
    return lines == sorted(lines)


def _in_calendar(lines: list[bytes]) -> bool:
    """Whether each line begins with an instant, down to the second."""
    seconds = {lines[0][:_MILLIS], lines[-1][:_MILLIS]}
    if len(seconds) > 1 or not _ascending(lines):  # between two alike, all begin like them
        seconds = {line[:_MILLIS] for line in lines}
    return all(map(_is_opening, seconds))


def _is_opening(second: bytes) -> bool:
    try:
        parse_at(str(second[7:], "ascii") + "000Z")
    except ValueError:
        return False
    return second.startswith(b'{"at":"')


def _is_utf8(stretch: bytes) -> bool:
    if stretch.isascii():
        return True
    try:
        stretch.decode()
    except UnicodeDecodeError:
        return False
    return True
