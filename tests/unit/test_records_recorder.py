"""What ties a request to its answer, and both to the store."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from dataclasses import replace

import pytest

from broker.capabilities.clock import FakeClock
from broker.capabilities.memory import MemoryFiles
from broker.errors import InputError, StoreError
from broker.records.failures import failed
from broker.records.model import ProviderRequest, ProviderResponse
from broker.records.recorder import SWITCH, Recorder, Sent, keeps_bodies, on_branch
from broker.records.store import RecordStore
from broker.records.turns import derived

ASK = b'{"model":"m-1","messages":[{"role":"user","content":"PASSWORD=hunter2"}]}'
ANSWER = json.dumps({"stop_reason": "end_turn", "usage": {"input_tokens": 3}}).encode()


def sent(content: bytes = ASK, path: str = "/v1/messages") -> Sent:
    """Return a request to a model."""
    return Sent("POST", "api.test", path, content)


class Scene:
    """A recorder on fakes."""

    def __init__(self, **options: object) -> None:
        self.files = MemoryFiles()
        self.clock = FakeClock()
        self.store = RecordStore(self.files.below("/r"))
        self.recorder = Recorder(self.store, self.clock, **options)  # type: ignore[arg-type]  # as given

    def answer(
        self, status: int = 200, content: bytes = ANSWER, **more: object
    ) -> ProviderResponse:
        """Record one request and its answer."""
        pending = self.recorder.begin(sent())
        pending.status = status
        pending.take(content)
        pending.whole = True
        response = self.recorder.end(pending, **more)  # type: ignore[arg-type]  # as given
        assert response is not None
        return response

    def requests(self) -> list[ProviderRequest]:
        """Return the requests that were recorded."""
        return [r for r in self.store.read().records if isinstance(r, ProviderRequest)]


def test_a_digest_is_of_what_was_sent_and_the_body_has_no_secret() -> None:
    """Hash and length describe the bytes on the wire; what is kept was cleared, and says where."""
    scene = Scene()
    scene.answer()
    (request,) = scene.requests()
    assert request.sha256 == hashlib.sha256(ASK).hexdigest()
    assert request.size_bytes == len(ASK)
    assert request.body is not None
    assert request.body.redacted == ("messages[0].content (substring)",)
    assert b"hunter2" not in scene.store.read().body(request.body)
    assert b"hunter2" not in b"".join(node.content for node in scene.files.nodes.values())
    assert (request.model, request.provider, request.api) == (
        "m-1",
        "api.test",
        "anthropic-messages",
    )


def test_an_answer_tells_finish_usage_and_duration() -> None:
    """An answer is joined by its id, and has what the provider says and what the clock says."""
    scene = Scene()
    pending = scene.recorder.begin(sent())
    scene.clock.advance(1.5)
    pending.status = 200
    pending.take(ANSWER)
    pending.whole = True
    response = scene.recorder.end(pending)
    assert response is not None
    assert response.id == pending.request.id
    assert (response.finish, response.usage, response.failure) == ("end_turn", {"input": 3}, None)
    assert response.duration_ns == 1_500_000_000
    assert response.sha256 == hashlib.sha256(ANSWER).hexdigest()
    assert scene.recorder.end(pending) is None
    assert len(scene.store.read().records) == 2


def test_turns_go_on_where_a_session_is_opened_again() -> None:
    """Counts and ids go on from what is in the store, and are what the records alone say."""
    scene = Scene()
    scene.answer(529, b"{}")
    scene.answer(200)
    scene.recorder = Recorder(scene.store, scene.clock)
    with on_branch("helper-1"):
        scene.answer(500, b"")
    scene.answer(200)
    places = [(r.id, r.branch, r.turn, r.attempt) for r in scene.requests()]
    assert places == [
        ("req-000001", "main", 0, 0),
        ("req-000002", "main", 0, 1),
        ("req-000003", "helper-1", 0, 0),
        ("req-000004", "main", 1, 0),
    ]
    assert derived(scene.store.read().records) == {name: (t, a) for name, _, t, a in places}


@pytest.mark.parametrize("word", ["0", "false", "off", "no", " 0 "])
def test_a_switch_leaves_bodies_out(word: str) -> None:
    """Without bodies a record still has the digest of what was sent, and the turns still count."""
    scene = Scene()
    scene.recorder = Recorder(scene.store, scene.clock, bodies=keeps_bodies({SWITCH: word}))
    response = scene.answer()
    (request,) = scene.requests()
    assert request.body is None
    assert response.body is None
    assert request.sha256 == hashlib.sha256(ASK).hexdigest()
    assert b"content" not in scene.files.nodes["/r/records.jsonl"].content


def test_bodies_are_kept_unless_somebody_says_not_to() -> None:
    """No word, and any other word, keeps them."""
    for environ in ({}, {SWITCH: "1"}, {SWITCH: ""}):
        scene = Scene()
        scene.recorder = Recorder(scene.store, scene.clock, bodies=keeps_bodies(environ))
        scene.answer()
        assert scene.requests()[0].body is not None


def test_a_request_that_cannot_be_recorded_does_not_leave() -> None:
    """A failed write is an error before anything is sent, and costs no turn."""
    scene = Scene()
    scene.files.fail_write(1)
    with pytest.raises(StoreError, match="cannot be written"):
        scene.recorder.begin(sent())
    assert scene.recorder.begin(sent()).request.attempt == 0
    assert [r.id for r in scene.requests()] == ["req-000001"]


def test_an_answer_that_cannot_be_recorded_is_the_last() -> None:
    """After it nothing is sent any more: a run whose records have a hole does not go on."""
    scene = Scene()
    pending = scene.recorder.begin(sent())
    pending.status = 200
    scene.files.fail_write(1)
    with pytest.raises(StoreError, match="cannot be written"):
        scene.recorder.end(pending)
    with pytest.raises(StoreError, match="nothing is sent any more"):
        scene.recorder.begin(sent())


def test_an_unsafe_id_stops_the_request() -> None:
    """Ids from outside are looked at before anything is written or sent."""
    scene = Scene(ids=lambda: "../x")
    with pytest.raises(InputError, match="no id of a request"):
        scene.recorder.begin(sent())
    assert list(scene.files.nodes) == ["/", "/r"]


def test_what_was_not_seen_to_its_end_was_given_up() -> None:
    """An answer that the caller closed is aborted, unless its last event had come."""
    scene = Scene()
    for stream, content, kind in (
        (False, b'{"stop_reason":', "aborted"),
        (True, b'data: {"type":"message_start"}\n\n', "aborted"),
        (True, b'data: {"type":"message_stop"}\n\n', None),
    ):
        pending = scene.recorder.begin(sent())
        pending.status, pending.stream = 200, stream
        pending.take(content)
        response = scene.recorder.end(pending)
        assert response is not None
        assert (response.failure and response.failure.kind) == kind


def test_an_encoded_answer_is_read_and_its_digest_is_of_the_wire() -> None:
    """The transfer's encoding is taken away for reading; the digest is of what came."""
    scene = Scene()
    packed = gzip.compress(ANSWER)
    response = scene.answer(content=packed, decoded=gzip.decompress)
    assert response.finish == "end_turn"
    assert response.sha256 == hashlib.sha256(packed).hexdigest()
    assert response.body is not None
    assert scene.store.read().body(response.body) == ANSWER


def test_an_answer_that_cannot_be_decoded_is_the_providers_fault() -> None:
    """Of what claims an encoding that it does not have only the digest is kept, and why."""
    scene = Scene()

    def decoded(content: bytes) -> bytes:
        raise ValueError("not gzip")

    response = scene.answer(content=b"plain", decoded=decoded)
    assert response.failure == failed("provider", "the answer cannot be decoded: not gzip")
    assert (response.sha256, response.body) == (hashlib.sha256(b"plain").hexdigest(), None)


def test_an_encoded_request_is_kept_without_its_encoding() -> None:
    """Secrets are looked for in what a request says, not in what it was packed into."""
    scene = Scene()
    packed = gzip.compress(ASK)
    scene.recorder.begin(replace(sent(packed), decoded=gzip.decompress))
    (request,) = scene.requests()
    assert request.body is not None
    assert scene.store.read().body(request.body) == ASK.replace(b"hunter2", b"[hidden]")
    assert (request.model, request.sha256) == ("m-1", hashlib.sha256(packed).hexdigest())

    def undecodable(content: bytes) -> bytes:
        raise ValueError

    scene.recorder.begin(replace(sent(packed), decoded=undecodable))
    assert scene.requests()[-1].body is None


def test_what_names_a_model_or_an_end_may_be_a_secret() -> None:
    """Whoever sends a body chooses what stands there, and it is recorded apart from the body."""
    scene = Scene()
    ask = b'{"model":"ghp_0123456789abcdef0123 %s"}' % (b"x" * 9_000)
    pending = scene.recorder.begin(sent(ask))
    pending.status, pending.whole = 200, True
    pending.take(b'{"stop_reason":"PASSWORD=hunter2"}')
    response = scene.recorder.end(pending)
    assert response is not None
    assert response.finish == "PASSWORD=[hidden]"
    (request,) = scene.requests()
    assert request.model.startswith("[hidden] x")
    assert len(request.model) < 300


def test_an_answer_of_which_no_record_can_be_made_is_the_last() -> None:
    """Whatever breaks between an answer and its record, no request leaves after it."""
    scene = Scene()
    pending = scene.recorder.begin(sent())
    pending.take(b"packed")

    def broken(content: bytes) -> bytes:
        raise TypeError("of a kind that nobody foresaw")

    with pytest.raises(StoreError, match="TypeError"):
        scene.recorder.end(pending, decoded=broken)
    with pytest.raises(StoreError, match="nothing is sent any more"):
        scene.recorder.begin(sent())


def test_an_answer_that_is_too_large_leaves_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit nothing is kept of it, and the record says its length all the same."""
    monkeypatch.setattr("broker.records.recorder.MAX_RECORDED_BYTES", 10)
    response = Scene().answer(content=b"x" * 11)
    assert (response.body, response.size_bytes, response.failure) == (None, 11, None)


def test_several_on_their_way_at_once() -> None:
    """Requests of many threads each have an id, an attempt and an answer of their own."""
    scene = Scene()
    gate = threading.Barrier(8)

    def run(n: int) -> None:
        with on_branch(f"b{n % 2}"):
            gate.wait()
            pending = scene.recorder.begin(sent(json.dumps({"model": f"m{n}"}).encode()))
            gate.wait()
            pending.status, pending.whole = 500, True
            pending.take(str(n).encode())
            scene.recorder.end(pending)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = scene.store.read()
    requests = scene.requests()
    assert sorted((r.branch, r.attempt) for r in requests) == [
        (f"b{n}", attempt) for n in range(2) for attempt in range(4)
    ]
    answers = {r.id: r for r in found.records if isinstance(r, ProviderResponse)}
    for request in requests:
        body = answers[request.id].body
        assert body is not None
        assert f"m{found.body(body).decode()}" == request.model


def test_what_asks_no_model_has_no_turn() -> None:
    """A count of tokens is recorded like any request, and stands outside of turns."""
    scene = Scene()
    pending = scene.recorder.begin(sent(b"{}", "/v1/messages/count_tokens"))
    pending.status, pending.whole = 200, True
    response = scene.recorder.end(pending)
    assert response is not None
    assert response.failure is None
    assert (pending.request.turn, pending.request.attempt) == (None, None)
    assert scene.recorder.begin(sent()).request.turn == 0


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (307, b"", "provider"),
        (204, b"", "provider"),
        (200, b'data: {"type":"message_stop"}\n\n', None),
        (200, b'event: x\ndata: {"type":"message_start"}\n\n', "network"),
        (200, b"<html>", "provider"),
    ],
)
def test_an_odd_answer(status: int, content: bytes, kind: str | None) -> None:
    """A redirect and an empty answer are none; a stream is one, whatever its head says."""
    failure = Scene().answer(status, content).failure
    assert (failure and failure.kind) == kind
