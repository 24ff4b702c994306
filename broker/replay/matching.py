"""
Which recorded request a request is, by a ladder whose rung is always told.

Decided here: the four rungs, and which recorded requests may be asked for at all.

1. **same**: the normal forms are one and the same (``broker.replay.normal``).
2. **minor**: the next request of its conversation, with as many messages, and next to no distance.
3. **major**: the next request of its conversation, with the same last message after another past.
4. **none**: there is no such request.

Each recorded request is matched once. Of several that are the same the earliest counts, so that an
answer of "overloaded" comes before the one after it. Not decided here: what is done on each rung.
Pure, and total for bodies of any shape.

Rule a maintainer keeps: a lower rung is never taken while a higher one is there, in any
conversation; what is told of a match is enough to see why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal
from urllib.parse import urlsplit

from broker.replay.normal import Normal, spelled

Rung = Literal[1, 2, 3, 4]

NAMES: Final[Mapping[int, str]] = {1: "same", 2: "minor", 3: "major", 4: "none"}
SMALL: Final = 0.05  # of a request's characters; the most that a minor divergence may differ by
_MESSAGES: Final = ("messages", "input", "contents")


@dataclass(frozen=True, slots=True)
class RequestShape:
    """A request in its normal form: the fields around its messages, and each of those."""

    around: tuple[tuple[str, str], ...]
    messages: tuple[str, ...]
    digest: str

    @property
    def size(self) -> int:
        """How many characters it has."""
        return sum(len(v) for _, v in self.around) + sum(map(len, self.messages))


@dataclass(frozen=True, slots=True)
class KeptRequest:
    """A recorded request: its event, its path and conversation, and its shape."""

    seq: int
    path: str
    conversation: str
    shape: RequestShape


@dataclass(frozen=True, slots=True)
class LadderMatch:
    """
    On which rung a request stands, and which recorded one it is.

    ``distance`` is the part of the characters that differ, from 0 to 1; ``why`` says where.
    """

    rung: Rung
    kept: KeptRequest | None
    distance: float = 0.0
    why: str = ""


def shape_of(body: object, normal: Normal) -> RequestShape:
    """
    Return the shape of a body.

    >>> shape = shape_of({"model": "m", "messages": ["a", "b"]}, Normal({}))
    >>> shape.messages, shape.around
    (('"a"', '"b"'), (('model', '"m"'),))
    """
    found = normal.body(body)
    around: dict[str, object] = found if isinstance(found, dict) else {"": found}
    messages: Sequence[object] = ()
    for name in _MESSAGES:
        said = around.get(name)
        if isinstance(said, list):
            messages = said
            around = {key: value for key, value in around.items() if key != name}
            break
    fields = tuple((name, spelled(value)) for name, value in sorted(around.items()))
    texts = tuple(map(spelled, messages))
    hashed = sha256()
    for text in (*(part for pair in fields for part in pair), "", *texts):
        hashed.update(f"{len(text)}:{text}".encode())
    return RequestShape(fields, texts, hashed.hexdigest())


def path_of(target: str) -> str:
    """
    Return what of a request's target says which question it is: its path alone.

    >>> path_of("/v1/messages?beta=true")
    '/v1/messages'
    """
    return urlsplit(target).path


class Ladder:
    """
    The requests of a recording, each of which is matched once.

    >>> normal = Normal({})
    >>> shape = shape_of({"messages": ["a"]}, normal)
    >>> ladder = Ladder([KeptRequest(3, "/v1/messages", "main", shape)])
    >>> ladder.match("/v1/messages", shape).rung, ladder.match("/v1/messages", shape).rung
    (1, 4)
    """

    def __init__(self, recorded: Iterable[KeptRequest]) -> None:
        self._left = sorted(recorded, key=lambda kept: kept.seq)

    @property
    def left(self) -> tuple[KeptRequest, ...]:
        """The requests that nothing was matched with yet."""
        return tuple(self._left)

    def match(self, path: str, shape: RequestShape) -> LadderMatch:
        """Return the rung of a request, and take what it matches out of the recording."""
        found = self._match(path, shape)
        if found.kept is not None:
            self._left.remove(found.kept)
        return found

    def _match(self, path: str, shape: RequestShape) -> LadderMatch:
        same = [kept for kept in self._left if kept.path == path]
        for kept in same:
            if kept.shape.digest == shape.digest:
                return LadderMatch(1, kept)
        following: dict[str, KeptRequest] = {}
        for kept in same:
            following.setdefault(kept.conversation, kept)
        near = sorted((distance(kept.shape, shape), kept.seq, kept) for kept in following.values())
        for far, _, kept in near:
            if far <= SMALL and len(kept.shape.messages) == len(shape.messages):
                return LadderMatch(2, kept, far, difference(kept.shape, shape))
        for far, _, kept in near:
            if kept.shape.messages[-1:] == shape.messages[-1:] != ():
                return LadderMatch(3, kept, far, difference(kept.shape, shape))
        if not near:
            left = "no more requests" if self._left else "no requests at all"
            return LadderMatch(4, None, 1.0, f"{left} to `{path}` were recorded")
        far, _, kept = near[0]
        return LadderMatch(
            4, None, far, f"nearest to event {kept.seq}: {difference(kept.shape, shape)}"
        )


def distance(one: RequestShape, two: RequestShape) -> float:
    """
    Return which part of the characters of two requests differ, from 0 to 1.

    What two texts begin and end with alike does not differ. It is no metric: it is made to be
    quick, and to be nothing only for what is the same.

    >>> shapes = [shape_of({"messages": [text]}, Normal({})) for text in ("a" * 98, "a" * 97 + "b")]
    >>> distance(*shapes), distance(shapes[0], shapes[0])
    (0.01, 0.0)
    """
    whole = max(one.size, two.size)
    if one.digest == two.digest or not whole:
        return float(one.digest != two.digest)
    a, b = dict(one.around), dict(two.around)
    apart = sum(_apart(a.get(name, ""), b.get(name, "")) for name in {**a, **b})
    longest = max(len(one.messages), len(two.messages))
    for n in range(longest):
        pair = [s.messages[n] if n < len(s.messages) else "" for s in (one, two)]
        apart += _apart(*pair)
    return min(max(apart, 1) / whole, 1.0)


def difference(recorded: RequestShape, asked: RequestShape) -> str:
    """
    Return in words where two requests first differ.

    >>> one, two = (shape_of({"messages": ["a", t]}, Normal({})) for t in "bc")
    >>> difference(one, two)
    'message 2 of 2 differs: `"b"` was recorded, `"c"` is asked'
    """
    a, b = dict(recorded.around), dict(asked.around)
    for name in sorted({**a, **b}):
        if a.get(name) != b.get(name):
            return f"`{name}` differs: {_pair(a.get(name, 'nothing'), b.get(name, 'nothing'))}"
    for n, (was, is_) in enumerate(zip(recorded.messages, asked.messages, strict=False), 1):
        if was != is_:
            return f"message {n} of {len(asked.messages)} differs: {_pair(was, is_)}"
    if len(recorded.messages) != len(asked.messages):
        return f"{len(recorded.messages)} messages were recorded, {len(asked.messages)} are asked"
    return "nothing differs"


def _apart(one: str, two: str) -> int:
    """Return how many characters differ, between a common beginning and a common end."""
    if one == two:
        return 0
    least = min(len(one), len(two))
    start = _common(one, two, least)
    end = _common(one[::-1], two[::-1], least - start)
    return max(len(one), len(two)) - start - end


def _common(one: str, two: str, most: int) -> int:
    """Return how many first characters are the same, by halving: texts may be megabytes."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _pair(was: str, is_: str) -> str:
    start = max(_common(was, is_, min(len(was), len(is_))) - 20, 0)
    shown = [(f"…{t[start : start + 60]}" if start else t[:60]) for t in (was, is_)]
    return f"`{shown[0]}` was recorded, `{shown[1]}` is asked"
