"""The recorded answers of a run, found again for whoever asks the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.replay.normal import Normal
from broker.replay.playback import Playback, tally
from tests.replaykit import PATH, recording

NORMAL = Normal({})


def _body(*said: str) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", "content": text} for text in said]}


def _play(playback: Playback, *said: str) -> tuple[int, bytes | None]:
    found = playback.play("POST", PATH, json.dumps(_body(*said)).encode())
    return found.match.rung, None if found.answer is None else found.answer.body


def test_answers_come_back_as_they_were(tmp_path: Path) -> None:
    """Each request gets its own answer, byte for byte, and what is left is known."""
    stream = b"data: 1\n\ndata: [DONE]\n\n"
    kind = {"content_type": "text/event-stream", "stream": True}
    rows = [
        ("main", _body("a"), {}, {"said": "A" * 9_000}),
        ("main", _body("a", "b"), kind, stream),
    ]
    playback = Playback(recording(tmp_path, rows), NORMAL, NORMAL)
    assert playback.recorded == 2
    assert _play(playback, "a", "b") == (1, stream)
    assert [kept.seq for kept in playback.left] == [0]
    rung, body = _play(playback, "a")
    assert (rung, json.loads(body or b"")) == (1, {"said": "A" * 9_000})
    assert playback.left == ()
    assert _play(playback, "a") == (4, None)
    assert tally(playback.rungs.items()) == "rung 1: 2, rung 4: 1"
    assert [played.match.rung for played in playback.told] == [4]


def test_what_was_hidden_is_met_by_what_is_hidden_now(tmp_path: Path) -> None:
    """A request that holds a secret is the same as its recording, which does not."""
    secret = "use ghp_16C7e42F292c6912E7710c838347Ae178B4a now"
    reader = recording(tmp_path, [("main", _body(secret), {}, {})])
    assert b"ghp_" not in b"".join(p.read_bytes() for p in reader.folder.rglob("*") if p.is_file())
    assert _play(Playback(reader, NORMAL, NORMAL), secret)[0] == 1


def test_places_have_their_names_on_both_sides(tmp_path: Path) -> None:
    """What names the recorded folder is the same as what names the folder of the replay."""
    reader = recording(tmp_path, [("main", _body("in /gone/ws/src"), {}, {})])
    playback = Playback(reader, Normal({"/tmp/x": "<cwd>"}), Normal({"/gone/ws": "<cwd>"}))
    assert _play(playback, "in /tmp/x/src")[0] == 1


def test_questions_on_the_side_are_answered_as_often_as_they_are_asked(tmp_path: Path) -> None:
    """A request of no conversation is no part of the count, and its answer may be given again."""
    reader = recording(tmp_path, [("", {"count": 1}, {}, {"tokens": 3})])
    playback = Playback(reader, NORMAL, NORMAL)
    for _ in range(2):
        found = playback.play("POST", PATH, b'{"count": 1}')
        assert (found.aside, found.answer and found.answer.body) == (True, b'{"tokens": 3}')
    assert (playback.aside, playback.recorded, dict(playback.rungs)) == (2, 0, {})


@pytest.mark.parametrize(
    "attrs", [{"left_out": "too large"}, {"status": None, "message": "no connection"}]
)
def test_an_answer_that_was_not_kept_is_not_made_up(
    attrs: dict[str, object], tmp_path: Path
) -> None:
    """Where nothing of an answer was kept, the request stays unmatched, and it is said why."""
    playback = Playback(recording(tmp_path, [("main", _body("a"), attrs, b"")]), NORMAL, NORMAL)
    found = playback.play("POST", PATH, json.dumps(_body("a")).encode())
    assert (found.match.rung, found.answer) == (4, None)
    assert str(attrs.get("left_out") or attrs.get("message")) in found.match.why


def test_an_answer_that_was_cut_off_is_known(tmp_path: Path) -> None:
    """What came before the cut is given, and that it was cut is told with it."""
    attrs = {"content_type": "text/event-stream", "stream": True, "error": "network"}
    reader = recording(tmp_path, [("main", _body("a"), attrs, b"data: 1\n\n")])
    found = Playback(reader, NORMAL, NORMAL).play("POST", PATH, json.dumps(_body("a")).encode())
    assert found.answer is not None
    assert (found.answer.cut, found.answer.body) == (True, b"data: 1\n\n")


def test_a_fork_plays_up_to_its_point(tmp_path: Path) -> None:
    """With a fork point, what was asked from there on is not in the recording."""
    rows = [("main", _body("a"), {}, {}), ("main", _body("a", "b"), {}, {})]
    playback = Playback(recording(tmp_path, rows), NORMAL, NORMAL, upto=1)
    assert (playback.recorded, _play(playback, "a", "b")[0], playback.over) == (1, 4, False)
    assert (_play(playback, "a")[0], playback.over) == (1, True)
    assert Playback(recording(tmp_path, rows), NORMAL, NORMAL, upto=2).recorded == 1


@pytest.mark.parametrize("content", [b"", b"no JSON", b"[" * 100_000, b"\xff"])
def test_any_content_is_answered(content: bytes, tmp_path: Path) -> None:
    """Whatever is sent, it is unmatched and breaks nothing."""
    playback = Playback(recording(tmp_path, [("main", _body("a"), {}, {})]), NORMAL, NORMAL)
    assert playback.play("POST", PATH, content).match.rung == 4


def test_a_batch_is_answered_in_the_order_that_is_asked(tmp_path: Path) -> None:
    """Texts to embed in another order have their own vectors; a foreign one is not met (row 64)."""
    data = [{"index": n, "embedding": [n]} for n in range(2)]
    body = {"model": "m", "input": ["a", "b"]}
    path = "/v1/embeddings"
    playback = Playback(recording(tmp_path, [("", body, {}, {"data": data})], path), NORMAL, NORMAL)
    turned = playback.play("POST", path, json.dumps({**body, "input": ["b", "a"]}).encode())
    assert turned.answer is not None
    assert [each["embedding"] for each in json.loads(turned.answer.body)["data"]] == [[1], [0]]
    assert (turned.aside, playback.aside) == (True, 1)
    for texts in (["a", "c"], ["a"], ["a", "b", "b"]):
        found = playback.play("POST", path, json.dumps({**body, "input": texts}).encode())
        assert (found.match.rung, found.answer) == (4, None)
