"""The official clients against scripted servers: the record of each is right, and of all of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from broker.capabilities.clock import SystemClock
from broker.capabilities.fs import SystemFiles
from broker.errors import StoreError
from broker.records.model import ProviderRequest, ProviderResponse, Record
from broker.records.recorder import SWITCH, Recorder, keeps_bodies, on_branch
from broker.records.store import RecordStore
from broker.records.transport import recording_async_transport, recording_transport
from broker.records.turns import derived
from tests.providerkit import Act, Provider, fails, provider, says

KEY = "sk-test-0123456789abcdef0123"
MESSAGES, CHAT, RESPONSES = "/v1/messages", "/v1/chat/completions", "/v1/responses"


@dataclass
class Desk:
    """An official client over a recorder, and one way to ask a model with it."""

    path: str
    store: RecordStore
    ask: Callable[..., str]
    ask_async: Callable[..., Any]
    folder: Path

    @property
    def records(self) -> tuple[Record, ...]:
        """Every record."""
        return self.store.read().records

    @property
    def requests(self) -> list[ProviderRequest]:
        """The requests, in order."""
        return [r for r in self.records if isinstance(r, ProviderRequest)]

    @property
    def responses(self) -> list[ProviderResponse]:
        """The answers, in order."""
        return [r for r in self.records if isinstance(r, ProviderResponse)]

    @property
    def kinds(self) -> list[str | None]:
        """Why each answer is none, or None."""
        return [r.failure.kind if r.failure else None for r in self.responses]


def text_of(path: str, answer: Any, *, stream: bool) -> str:
    """Read an answer as a caller does, to its end; return what it says."""
    if path == MESSAGES:
        if stream:
            return "".join(e.delta.text for e in answer if e.type == "content_block_delta")
        return str(answer.content[0].text)
    if path == CHAT:
        if stream:
            return "".join(c.choices[0].delta.content or "" for c in answer if c.choices)
        return str(answer.choices[0].message.content)
    if stream:
        return "".join(e.delta for e in answer if e.type == "response.output_text.delta")
    return str(answer.output_text)


def call(client: Any, path: str, text: str, *, stream: bool) -> Any:
    """Ask over the method of the client that belongs to a path."""
    rows: Any = [{"role": "user", "content": text}]
    if path == MESSAGES:
        return client.messages.create(model="m-1", max_tokens=9, messages=rows, stream=stream)
    if path == CHAT:
        return client.chat.completions.create(model="m-1", messages=rows, stream=stream)
    return client.responses.create(model="m-1", input=rows, stream=stream)


def desk(place: Path, path: str, server: Provider, retries: int = 0, **options: Any) -> Desk:
    """Set up the official client of a path over a recorder in a folder."""
    store = RecordStore(SystemFiles().below(str(place / "records")))
    recorder = Recorder(store, SystemClock(), bodies=keeps_bodies(options))
    module: Any = anthropic if path == MESSAGES else openai
    base = server.url if path == MESSAGES else server.url + "/v1"
    common = {"api_key": KEY, "base_url": base, "max_retries": retries}
    kind, kind_async = (
        ("Anthropic", "AsyncAnthropic") if path == MESSAGES else ("OpenAI", "AsyncOpenAI")
    )
    client = getattr(module, kind)(
        **common,
        http_client=module.DefaultHttpxClient(
            transport=recording_transport(httpx2.HTTPTransport(), recorder)
        ),
    )

    def ask(text: str = "hi", *, stream: bool = False) -> str:
        return text_of(path, call(client, path, text, stream=stream), stream=stream)

    async def ask_async(text: str = "hi") -> str:
        wrapped = recording_async_transport(httpx2.AsyncHTTPTransport(), recorder)
        aclient = getattr(module, kind_async)(
            **common, http_client=module.DefaultAsyncHttpxClient(transport=wrapped)
        )
        async with aclient:
            answer = await call(aclient, path, text, stream=False)
        return text_of(path, answer, stream=False)

    return Desk(path, store, ask, ask_async, place / "records")


PATHS = pytest.mark.parametrize("path", [MESSAGES, CHAT, RESPONSES])


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loopback is asked without a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return


@PATHS
@pytest.mark.parametrize("stream", [False, True])
def test_what_the_server_received_is_what_was_recorded(
    path: str, stream: bool, tmp_path: Path
) -> None:
    """The digest and the length are those of the bytes that arrived, and the answer is whole."""
    with provider(says(path, stream=stream)) as server:
        desk_ = desk(tmp_path, path, server)
        assert desk_.ask("PASSWORD=hunter2", stream=stream) == "hello"
        (request,), (response,) = desk_.requests, desk_.responses
        assert [request.sha256] == server.digests
        assert request.size_bytes == len(server.received[0])
        assert b"hunter2" in server.received[0]
        assert request.body is not None
        kept = desk_.store.read().body(request.body)
        assert kept == server.received[0].replace(b"hunter2", b"[hidden]")
        assert (response.status, response.failure) == (200, None)
        assert response.finish in ("end_turn", "stop", "completed")
    for file in desk_.folder.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes()


@PATHS
@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (fails(401, {"type": "authentication_error", "code": "invalid_api_key"}), "auth"),
        (fails(429, {"type": "rate_limit_error", "message": "slower"}), "rate_limit"),
        (fails(529, {"type": "overloaded_error", "message": "Overloaded"}), "overloaded"),
        (fails(400, {"type": "invalid_request_error", "code": "context_length_exceeded",
                     "message": "prompt is too long"}), "context_overflow"),
        (fails(500, {"type": "api_error"}), "provider"),
        (Act(502, "text/html", [b"<html>"]), "provider"),
    ],
    ids=["auth", "429", "529", "overflow", "500", "html"],
)  # fmt: skip
def test_a_status_is_normalised(path: str, act: Act, kind: str, tmp_path: Path) -> None:
    """The client raises its own error, and the record has one of the eight words."""
    with provider(act) as server:
        desk_ = desk(tmp_path, path, server)
        with pytest.raises((anthropic.APIStatusError, openai.APIStatusError)):
            desk_.ask()
        assert desk_.kinds == [kind]
        assert desk_.responses[0].status == act.status
        assert [r.sha256 for r in desk_.requests] == server.digests


@PATHS
def test_fail_fail_ok(path: str, tmp_path: Path) -> None:
    """What a client tries again are attempts at one turn; the next question is the next turn."""
    busy = fails(529, {"type": "overloaded_error"})
    with provider(busy, busy, says(path)) as server:
        desk_ = desk(tmp_path, path, server, retries=2)
        desk_.ask()
        desk_.ask("and now?")
        places = [(r.turn, r.attempt) for r in desk_.requests]
        assert places == [(0, 0), (0, 1), (0, 2), (1, 0)]
        assert list(derived(desk_.records).values()) == places
        assert [r.sha256 for r in desk_.requests] == server.digests
        # No record is part of what the model is shown.
        for body in server.received:
            assert not any(r.id.encode() in body for r in desk_.requests)


@PATHS
def test_a_connection_that_drops_in_a_stream(path: str, tmp_path: Path) -> None:
    """What had come is in the record, and the turn stays open."""
    whole = says(path, stream=True).parts[0]
    half = whole[: whole.index(b"\n\n") + 2]
    with provider(Act(kind="text/event-stream", parts=[half], drop=True)) as server:
        desk_ = desk(tmp_path, path, server)
        with pytest.raises((httpx2.TransportError, anthropic.APIError, openai.APIError)):
            desk_.ask(stream=True)
        assert desk_.kinds == ["network"]
        (response,) = desk_.responses
        assert response.sha256 == hashlib.sha256(half).hexdigest()


@PATHS
def test_a_stream_that_just_ends(path: str, tmp_path: Path) -> None:
    """A stream without its last event is no whole answer, even where the client sees nothing."""
    whole = says(path, stream=True).parts[0]
    half = whole[: whole.index(b"\n\n") + 2]
    with provider(Act(kind="text/event-stream", parts=[half])) as server:
        desk_ = desk(tmp_path, path, server)
        desk_.ask(stream=True)
        assert desk_.kinds == ["network"]


@PATHS
def test_a_malformed_stream(path: str, tmp_path: Path) -> None:
    """An event that is no JSON is the provider's fault."""
    parts = [b'event: message_start\ndata: {"type": \n\n', says(path, stream=True).parts[0]]
    with provider(Act(kind="text/event-stream", parts=parts)) as server:
        desk_ = desk(tmp_path, path, server)
        with pytest.raises((ValueError, anthropic.APIError, openai.APIError)):
            desk_.ask(stream=True)
        assert desk_.kinds == ["provider"]


@PATHS
def test_an_error_in_the_midst_of_a_stream(path: str, tmp_path: Path) -> None:
    """A stream that says that it failed is normalised like a status."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    said = b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n"
    with provider(Act(kind="text/event-stream", parts=[said])) as server:
        desk_ = desk(tmp_path, path, server)
        with pytest.raises((anthropic.APIError, openai.APIError)):
            desk_.ask(stream=True)
        assert desk_.kinds == ["overloaded"]


def test_the_first_words_are_there_before_the_last_are_sent(tmp_path: Path) -> None:
    """Recording holds nothing back: the caller reads while the server still waits."""
    parts = [part + b"\n\n" for part in says(MESSAGES, stream=True).parts[0].split(b"\n\n") if part]
    heard = threading.Event()
    waited: list[bool] = []

    def between(number: int) -> None:
        if number == 2:
            waited.append(heard.wait(10))

    with provider(Act(kind="text/event-stream", parts=parts, between=between)) as server:
        desk_ = desk(tmp_path, MESSAGES, server)
        client = anthropic.Anthropic(
            api_key=KEY,
            base_url=server.url,
            http_client=anthropic.DefaultHttpxClient(
                transport=recording_transport(
                    httpx2.HTTPTransport(), Recorder(desk_.store, SystemClock())
                )
            ),
        )
        for event in call(client, MESSAGES, "hi", stream=True):
            if event.type == "content_block_delta":
                heard.set()
        assert waited == [True]
        assert desk_.kinds == [None]


@PATHS
def test_two_at_once(path: str, tmp_path: Path) -> None:
    """Two conversations at the same time have their own turns, and each digest is right."""
    gate = threading.Barrier(2, timeout=20)
    act = says(path)
    act.between = lambda _: None
    with provider(act) as server:
        desk_ = desk(tmp_path, path, server)

        def run(name: str) -> None:
            with on_branch(name):
                gate.wait()
                desk_.ask(f"from {name}")
                desk_.ask(f"more from {name}")

        threads = [threading.Thread(target=run, args=(f"helper-{n}",)) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        places = sorted((r.branch, r.turn, r.attempt) for r in desk_.requests)
        assert places == [(f"helper-{n}", turn, 0) for n in range(2) for turn in range(2)]
        assert sorted(r.sha256 for r in desk_.requests) == sorted(server.digests)
        assert desk_.kinds == [None] * 4


@PATHS
def test_async_at_once(path: str, tmp_path: Path) -> None:
    """Tasks that ask at the same time are recorded as if each were alone."""
    with provider(says(path)) as server:
        desk_ = desk(tmp_path, path, server)

        async def one(n: int) -> str:
            with on_branch(f"b{n}"):
                return str(await desk_.ask_async(f"n {n}"))

        async def run() -> list[str]:
            return list(await asyncio.gather(*(one(n) for n in range(6))))

        assert asyncio.run(run()) == ["hello"] * 6
        assert sorted(r.sha256 for r in desk_.requests) == sorted(server.digests)
        assert sorted(r.branch for r in desk_.requests) == [f"b{n}" for n in range(6)]
        assert desk_.kinds == [None] * 6


def test_a_body_of_thirty_megabytes(tmp_path: Path) -> None:
    """A large body is sent as it is, its digest is right, and what is kept of it lies in files."""
    text = "word " * (6 * 2**20)
    with provider(says(MESSAGES)) as server:
        desk_ = desk(tmp_path, MESSAGES, server)
        desk_.ask(text)
        desk_.ask(text)
        assert [r.sha256 for r in desk_.requests] == server.digests
        assert desk_.requests[0].size_bytes > 30 * 2**20
        body = desk_.requests[1].body
        assert body is not None
        assert body.spilled
        assert desk_.store.read().body(body) == server.received[1]
    blobs = list(desk_.folder.rglob("blobs/*/*"))
    assert len(blobs) == 1  # sent twice, kept once
    assert stat.S_IMODE(blobs[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(blobs[0].parent.stat().st_mode) == 0o700
    assert (desk_.folder / "records.jsonl").stat().st_size < 20_000


@PATHS
def test_nothing_leaves_when_it_cannot_be_recorded(path: str, tmp_path: Path) -> None:
    """With a store that cannot be written the server is never asked, and the run fails."""
    with provider(says(path)) as server:
        desk_ = desk(tmp_path, path, server, retries=1)
        desk_.folder.rename(tmp_path / "gone")
        desk_.folder.write_text("in the way")
        with pytest.raises((StoreError, anthropic.APIConnectionError)) as raised:
            desk_.ask()
        # One client wraps what it does not know, the other does not.
        assert StoreError in (type(raised.value), type(raised.value.__cause__))
        assert server.received == []


def test_a_switch_leaves_bodies_out(tmp_path: Path) -> None:
    """With the switch off no word of a conversation is kept, and every digest is."""
    with provider(says(MESSAGES)) as server:
        desk_ = desk(tmp_path, MESSAGES, server, **{SWITCH: "0"})
        desk_.ask("a secret plan")
        assert [r.sha256 for r in desk_.requests] == server.digests
        assert [r.body for r in (*desk_.requests, *desk_.responses)] == [None, None]
        assert "secret plan" not in (desk_.folder / "records.jsonl").read_text()
