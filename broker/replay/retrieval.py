"""
Embeddings and rankings of a recorded run, found again for the same texts in another order.

A program that asks for many of them at once puts texts together as they come, so a batch holds the
same texts in another order than then. Each text has its own answer, so the batch can be put
together again.

Decided here: when two batches are the same (all but the order of the texts is), and how an answer
is put in the order that is asked for. Not decided here: how other requests are matched
(``broker.replay.matching``). Pure.

Rules a maintainer keeps: a text that is not in the recorded batch, or is there less often, is no
match; nothing is put together from several answers, since what those counted is not known by text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker.replay.normal import Normal, spelled

# By the end of the path: where a question has its texts, and an answer what belongs to each.
_LOOKUPS: Final[Mapping[str, tuple[str, str]]] = {
    "/embeddings": ("input", "data"),
    "/rerank": ("documents", "results"),
}


@dataclass(frozen=True, slots=True)
class LookupBatch:
    """A question about several texts: all that is around them, and each of them."""

    frame: str
    texts: tuple[str, ...]
    listed: str  # where the answer lists what belongs to the texts


def batch_of(path: str, body: object, normal: Normal) -> LookupBatch | None:
    """
    Return a question as a batch of texts, or None for one that is none.

    >>> batch_of("/v1/embeddings", {"model": "m", "input": ["a", "b"]}, Normal({})).texts
    ('["a"]', '["b"]')
    """
    ending = next((each for each in _LOOKUPS if path.endswith(each)), None)
    if ending is None or not isinstance(body, dict):
        return None
    where, listed = _LOOKUPS[ending]
    texts = body.get(where)
    # A list of numbers is one text in tokens, and not many.
    if not isinstance(texts, list) or any(isinstance(each, int | float) for each in texts):
        return None
    around = {name: value for name, value in body.items() if name != where}
    # One by one, since identifiers are named by the order in which they stand.
    each = tuple(spelled(normal.body([text])) for text in texts)
    return LookupBatch(f"{ending} {spelled(normal.body(around))}", each, listed)


def in_order(recorded: LookupBatch, asked: LookupBatch, answer: bytes) -> bytes | None:
    """
    Return a recorded answer in the order that is asked for, or None where it answers another batch.

    Args:
        recorded: the question that was answered.
        asked: the one that is asked.
        answer: the recorded answer.

    >>> one, two = (LookupBatch("f", texts, "data") for texts in (("a", "b"), ("b", "a")))
    >>> said = b'{"data": [{"index": 0, "e": "of a"}, {"index": 1, "e": "of b"}]}'
    >>> json.loads(in_order(one, two, said))["data"]
    [{'index': 0, 'e': 'of b'}, {'index': 1, 'e': 'of a'}]
    """
    if recorded.frame != asked.frame or Counter(recorded.texts) != Counter(asked.texts):
        return None
    try:
        body = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    rows = body.get(asked.listed) if isinstance(body, dict) else None
    if not isinstance(rows, list):
        return None
    places = _places(recorded.texts, asked.texts)
    moved: list[dict[str, object]] = []
    for row in rows:
        index = row.get("index") if isinstance(row, dict) else None
        if not isinstance(index, int) or not 0 <= index < len(places):
            return None
        moved.append({**row, "index": places[index]})
    if asked.listed == "data":  # in the order of the texts; a ranking is in that of its scores
        moved.sort(key=lambda row: int(str(row["index"])))
    return json.dumps({**body, asked.listed: moved}).encode()


def _places(recorded: Sequence[str], asked: Sequence[str]) -> list[int]:
    """Return where each recorded text stands in what is asked; of two alike, in their order."""
    left: dict[str, list[int]] = {}
    for at, text in enumerate(asked):
        left.setdefault(text, []).append(at)
    return [left[text].pop(0) for text in recorded]
