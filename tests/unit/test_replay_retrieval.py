"""Embeddings and rankings are found again for the same texts in another order."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from broker.replay.normal import Normal
from broker.replay.retrieval import LookupBatch, batch_of, in_order

NORMAL = Normal({})
TEXTS = st.lists(st.text(max_size=4), min_size=1, max_size=6)


def _batch(texts: list[str], path: str = "/v1/embeddings", **more: object) -> LookupBatch:
    where = "input" if path.endswith("embeddings") else "documents"
    found = batch_of(path, {"model": "m", where: texts, **more}, NORMAL)
    assert found is not None
    return found


def _answer(texts: list[str]) -> dict[str, Any]:
    return {"data": [{"index": n, "embedding": [text]} for n, text in enumerate(texts)], "n": 7}


@given(TEXTS, st.randoms())
def test_a_batch_in_another_order_is_put_together_again(texts: list[str], random: Any) -> None:
    """Each text has its own vector, in the order that is asked for, and all else is as it was."""
    asked = random.sample(texts, len(texts))
    body = json.dumps(_answer(texts)).encode()
    found = in_order(_batch(texts), _batch(asked), body)
    assert json.loads(found or b"") == _answer(asked)


@given(TEXTS, TEXTS)
def test_other_texts_are_another_batch(one: list[str], two: list[str]) -> None:
    """One text more, less or else, and nothing is put together."""
    found = in_order(_batch(one), _batch(two), json.dumps(_answer(one)).encode())
    assert (found is not None) == (sorted(one) == sorted(two))


def test_a_ranking_names_the_texts_where_they_stand_now() -> None:
    """The order of the scores stays, and each points at its own text."""
    path = "/v2/rerank"
    said = {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]}
    asked = _batch(["y", "x"], path, query="q")
    found = in_order(_batch(["x", "y"], path, query="q"), asked, json.dumps(said).encode())
    assert [(r["index"], r["relevance_score"]) for r in json.loads(found or b"")["results"]] == [
        (0, 0.9),
        (1, 0.1),
    ]
    assert in_order(_batch(["x", "y"], path, query="else"), asked, b"{}") is None


def test_what_is_no_batch_is_none() -> None:
    """Other paths, one text, a text in tokens; and answers of another shape."""
    assert batch_of("/v1/messages", {"input": ["a"]}, NORMAL) is None
    assert batch_of("/v1/embeddings", {"input": "a"}, NORMAL) is None
    assert batch_of("/v1/embeddings", {"input": [1, 2]}, NORMAL) is None
    assert batch_of("/v1/embeddings", None, NORMAL) is None
    batch = _batch(["a"])
    for answer in (b"no", b"[]", b'{"data": 1}', b'{"data": [{"index": 4}]}', b'{"data": [7]}'):
        assert in_order(batch, batch, answer) is None
