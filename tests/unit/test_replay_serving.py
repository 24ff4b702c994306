"""A server on loopback that answers as the model of a recorded run did."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.replay.normal import Normal
from broker.replay.playback import KeptAnswer, Playback, Played
from broker.replay.serving import Live, ReplayServer
from tests.replaykit import PATH, recording

STREAM = b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n"
KIND = {"content_type": "text/event-stream", "stream": True}
BODY = {"model": "m", "messages": ["go"]}
CUT = {"model": "m", "messages": ["cut"]}
BUSY = {"model": "m", "messages": ["busy"]}


class Served:
    """A server, and what it told of what it was asked."""

    def __init__(self, root: Path, live: Live | None = None) -> None:
        rows = [
            ("main", BODY, KIND, STREAM),
            ("main", CUT, {**KIND, "error": "network"}, STREAM),
            ("main", BUSY, {"status": 529, "error": "overloaded"}, {"error": "busy"}),
            ("", {"n": 1}, {}, {"tokens": 1}),
        ]
        self.told: list[tuple[str, Played]] = []
        playback = Playback(recording(root, rows), Normal({}), Normal({}))
        self.server = ReplayServer(
            playback,
            "w0rd",
            lambda asked, played: self.told.append((asked, played)),
            live,
            loose=live is not None,
        )
        self.server.start()

    def ask(
        self, body: object, path: str = f"/w0rd/anthropic{PATH}?beta=true", method: str = "POST"
    ) -> tuple[int, str | None, bytes]:
        """Ask once, and return status, media type and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        try:
            connection.request(method, path, json.dumps(body).encode())
            answer = connection.getresponse()
            return answer.status, answer.getheader("content-type"), answer.read()
        finally:
            connection.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A running server."""
    found = Served(tmp_path)
    yield found
    found.server.close()


def test_a_stream_is_a_stream_again(served: Served) -> None:
    """Status, media type and every byte are as they were recorded."""
    assert served.ask(BODY) == (200, "text/event-stream", STREAM)
    assert [(asked, p.match.rung) for asked, p in served.told] == [(f"POST {PATH}?beta=true", 1)]


def test_what_was_cut_off_is_cut_off(served: Served) -> None:
    """An answer that ended early ends early again, without an end of its own."""
    with pytest.raises(http.client.IncompleteRead) as found:
        served.ask(CUT)
    assert found.value.partial == STREAM


def test_an_error_is_an_error_again(served: Served) -> None:
    """A refusal of the model's maker comes back with its status."""
    assert served.ask(BUSY)[0] == 529


def test_what_was_not_recorded_is_refused_by_name(served: Served) -> None:
    """A request of no recording gets an error that agents do not try again, and that says why."""
    status, _, body = served.ask({"model": "m", "messages": ["other"]})
    assert status == 400
    assert json.loads(body)["error"]["message"].startswith("not in the recording: nearest to")
    assert served.told[-1][1].answer is None


def test_a_stranger_is_told_nothing(served: Served) -> None:
    """Without the word of the replay there is nothing, and nothing of the recording is used up."""
    assert served.ask(BODY, path=f"/wrong/anthropic{PATH}")[0] == 404
    assert served.told == []
    assert len(served.server.playback.left) == 3


def test_a_compressed_or_chunked_body_is_read(served: Served) -> None:
    """What agents send in pieces or packed is compared by what it says."""
    import gzip

    connection = http.client.HTTPConnection("127.0.0.1", served.server.port, timeout=10)
    packed = gzip.compress(json.dumps(BODY).encode())
    pieces = iter([packed[:5], packed[5:]])
    headers = {"content-encoding": "gzip", "transfer-encoding": "chunked"}
    connection.request("POST", f"/w0rd/a{PATH}", pieces, headers, encode_chunked=True)
    assert connection.getresponse().read() == STREAM
    connection.close()


def test_a_body_without_end_is_not_waited_for(served: Served) -> None:
    """A length that is no length is refused."""
    connection = http.client.HTTPConnection("127.0.0.1", served.server.port, timeout=10)
    connection.putrequest("POST", f"/w0rd/a{PATH}")
    connection.putheader("content-length", "99999999999")
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_loose_asks_the_model_what_was_not_recorded(tmp_path: Path) -> None:
    """What nothing was recorded for goes live where that was asked for, and is told of besides."""
    taken: list[str] = []

    def live(asked: object, name: str, target: str, content: bytes) -> KeptAnswer:
        taken.append(f"{name} {target}")
        return KeptAnswer(-1, 502, "text/plain", b"live")

    served = Served(tmp_path, live)
    assert served.ask({"model": "m", "messages": ["other"]}) == (502, "text/plain", b"live")
    assert served.ask(BODY)[2] == STREAM
    served.server.close()
    assert (taken, served.server.live) == ([f"anthropic {PATH}?beta=true"], 1)
    assert [played.match.rung for _, played in served.told] == [4, 1]
