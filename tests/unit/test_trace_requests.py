"""Requests to models, each kept as what is new in it."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.limits import MAX_CONVERSATIONS
from broker.redaction.hiding import Hider
from broker.redaction.trees import hide_object
from broker.trace import requests as room
from broker.trace.bodies import rebuilt
from broker.trace.reader import RunReader
from broker.trace.requests import Requests
from tests.unit.tracekit import begun, independent, lines

KEYS = st.sampled_from(["messages", "model", "password", "name", "value", "properties", "x y"])
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from(["a", "PASSWORD=hunter22", "ü" * 9]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
BODIES = st.dictionaries(KEYS, VALUES, max_size=5)


@given(st.lists(BODIES, min_size=1, max_size=5))
@settings(max_examples=settings().max_examples // 2)
def test_what_is_kept_is_the_whole_body_without_its_secrets(
    tmp_path_factory: object, said: list[dict[str, object]]
) -> None:
    """Cut in parts, remembered and told as a change, a body is what hiding it whole makes of it."""
    run = begun(tmp_path_factory.mktemp("runs"))  # type: ignore[attr-defined]  # pytest's own type
    requests = Requests(run)
    seqs = [requests.write("main", body) for body in said]
    run.seal(0)
    reader = RunReader.open(run.folder)
    for seq, body in zip(seqs, said, strict=True):
        hidden, _ = hide_object(body, Hider(run.hiding.salt))
        assert json.dumps(rebuilt(reader, seq)) == json.dumps(hidden)


def test_conversations_are_apart(tmp_path: Path) -> None:
    """A request is a change to the last of its own conversation, and names it."""
    run = begun(tmp_path)
    requests = Requests(run)
    said = ["x" * 300]
    for name in ("main", "sub-1", "main", "sub-1"):
        requests.write(name, {"messages": said, "of": name})
    got = [(e["attrs"]["conversation"], e["payload"].get("base")) for e in lines(run.folder)]
    assert got == [("main", None), ("sub-1", None), ("main", 0), ("sub-1", 1)]


def test_a_body_that_is_no_object(tmp_path: Path) -> None:
    """Bytes that spell no JSON, and JSON that is no object, are kept whole."""
    run = begun(tmp_path)
    requests = Requests(run)
    requests.write("main", b"\x00\xff", media_type="application/octet-stream")
    requests.write("main", ["a"])
    run.seal(0)
    independent(run.folder)
    reader = RunReader.open(run.folder)
    assert [rebuilt(reader, seq) for seq in (0, 1)] == [b"\x00\xff", ["a"]]


def test_few_conversations_are_kept_in_mind(tmp_path: Path) -> None:
    """Of the conversation that rested longest the next request is kept whole again."""
    run = begun(tmp_path)
    requests = Requests(run)
    body = {"messages": ["x" * 300]}
    for number in range(MAX_CONVERSATIONS + 1):
        requests.write(f"sub-{number}", body)
    for number in (0, MAX_CONVERSATIONS):
        requests.write(f"sub-{number}", body)
    assert ["base" in e["payload"] for e in lines(run.folder)[-2:]] == [False, True]


def test_what_was_searched_is_not_searched_again(tmp_path: Path, monkeypatch: object) -> None:
    """Each message is searched for secrets once, however often it is sent."""
    searched: list[object] = []
    run = begun(tmp_path)
    before = run.hiding.object

    def counted(value: dict[str, object]) -> object:
        searched.append(value)
        return before(value)

    run.hiding.object = counted  # type: ignore[method-assign, assignment]  # to count
    requests = Requests(run)
    for size in range(1, 30):
        requests.write("main", {"model": "m", "messages": [f"m{n}" for n in range(size)]})
    assert len(searched) == 1 + 29


def test_many_threads_ask(tmp_path: Path) -> None:
    """Fifty requests of one conversation at once: each can be rebuilt as it was."""
    run = begun(tmp_path)
    requests = Requests(run)
    found: dict[int, dict[str, object]] = {}

    def ask(number: int) -> None:
        body = {"messages": ["x" * 300] * number, "n": number}
        found[requests.write("main", body)] = body

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(50)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    run.seal(0)
    reader = RunReader.open(run.folder)
    assert len(found) == 50
    assert all(rebuilt(reader, seq) == body for seq, body in found.items())
    assert room.Requests is Requests
