"""The recorder below a client: both libraries, sync and async."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

import httpx
import httpx2
import pytest

from broker.capabilities.clock import FakeClock
from broker.capabilities.memory import MemoryFiles
from broker.errors import InputError, StoreError
from broker.records.model import ProviderRequest, ProviderResponse
from broker.records.recorder import Recorder
from broker.records.store import RecordStore
from broker.records.transport import (
    library_of,
    recording_async_transport,
    recording_transport,
)

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
URL = "http://api.test/v1/messages"
STOP = b'data: {"type":"message_stop"}\n\n'


class Scene:
    """A recorder on fakes, and what it has recorded."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.store = RecordStore(self.files.below("/r"))
        self.recorder = Recorder(self.store, FakeClock())

    @property
    def request(self) -> ProviderRequest:
        """The last request."""
        return [r for r in self.store.read().records if isinstance(r, ProviderRequest)][-1]

    @property
    def response(self) -> ProviderResponse:
        """The last answer."""
        return [r for r in self.store.read().records if isinstance(r, ProviderResponse)][-1]


def transport(library: ModuleType, answer: Any) -> Any:
    """Return an inner transport that answers as told, sync and async."""

    class Inner(library.BaseTransport):  # type: ignore[name-defined, misc]  # a base by parameter
        def handle_request(self, request: Any) -> Any:
            return answer(request)

        async def handle_async_request(self, request: Any) -> Any:
            return answer(request)

        async def aclose(self) -> None:
            self.close()

    return Inner()


def streamed(library: ModuleType, chunks: list[Any], seen: list[str]) -> Any:
    """Return a stream of chunks; an error among them is raised there."""

    class Chunks(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[name-defined, misc]  # as above
        def __iter__(self) -> Iterator[bytes]:
            for chunk in chunks:
                if isinstance(chunk, BaseException):
                    raise chunk
                seen.append("sent")
                yield chunk

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in self:
                yield chunk

        def close(self) -> None:
            seen.append("closed")

        async def aclose(self) -> None:
            seen.append("closed")

    return Chunks()


@LIBRARIES
def test_a_stream_passes_as_it_comes(library: ModuleType) -> None:
    """The caller has the first chunk before the second was sent, and the record has both."""
    scene, seen = Scene(), []
    chunks = [b"data: {}\n\n", STOP]
    inner = transport(
        library,
        lambda _: library.Response(
            200,
            headers={"content-type": "text/event-stream"},
            stream=streamed(library, chunks, seen),
        ),
    )
    with (
        library.Client(transport=recording_transport(inner, scene.recorder)) as client,
        client.stream("POST", URL, content=b"{}") as response,
    ):
        raw = response.iter_raw()
        assert next(raw) == chunks[0]
        assert seen == ["sent"]
        assert list(raw) == chunks[1:]
    assert seen == ["sent", "sent", "closed"]
    assert scene.response.failure is None
    assert scene.response.sha256 == hashlib.sha256(b"".join(chunks)).hexdigest()


@LIBRARIES
@pytest.mark.parametrize("closed_after", [0, 1])
def test_a_caller_that_closes_early_has_given_up(library: ModuleType, closed_after: int) -> None:
    """What had passed is in the record."""
    scene = Scene()
    inner = transport(
        library, lambda _: library.Response(200, stream=streamed(library, [b"ab", b"cd"], []))
    )
    with (
        library.Client(transport=recording_transport(inner, scene.recorder)) as client,
        client.stream("POST", URL, content=b"{}") as response,
    ):
        for _ in zip(range(closed_after), response.iter_raw(), strict=False):
            pass
    assert scene.response.failure is not None
    assert scene.response.failure.kind == "aborted"


@LIBRARIES
def test_a_connection_that_breaks(library: ModuleType) -> None:
    """Before the answer and in its midst it is the network, and the error is passed on."""
    scene = Scene()
    error = library.ReadError("gone")

    def refused(request: Any) -> Any:
        raise library.ConnectError("no")

    midway = transport(
        library, lambda _: library.Response(200, stream=streamed(library, [b"ab", error], []))
    )
    for inner, kind, size in (
        (transport(library, refused), library.ConnectError, 0),
        (midway, library.ReadError, 2),
    ):
        with (
            library.Client(transport=recording_transport(inner, scene.recorder)) as client,
            pytest.raises(kind),
        ):
            client.post(URL, content=b"{}")
        assert scene.response.failure is not None
        assert scene.response.failure.kind == "network"
        assert scene.response.size_bytes == size


@LIBRARIES
def test_any_other_error_is_unknown(library: ModuleType) -> None:
    """An error that is not of the network is told as such, and passed on."""
    scene = Scene()

    def broken(request: Any) -> Any:
        raise RuntimeError("a bug")

    inner = transport(library, broken)
    with (
        library.Client(transport=recording_transport(inner, scene.recorder)) as client,
        pytest.raises(RuntimeError),
    ):
        client.post(URL, content=b"{}")
    assert scene.response.failure is not None
    assert scene.response.failure.kind == "unknown"


@LIBRARIES
def test_nothing_leaves_unrecorded(library: ModuleType) -> None:
    """If the record cannot be written the inner transport is never asked, sync or async."""
    for asynchronous in (False, True):
        scene, asked = Scene(), []
        scene.files.fail_write(1)

        def answer(request: Any, asked: list[Any] = asked) -> Any:
            asked.append(request)
            return library.Response(200, content=b"{}")

        inner = transport(library, answer)
        with pytest.raises(StoreError):
            post(library, inner, scene, asynchronous=asynchronous)
        assert asked == []


@LIBRARIES
def test_an_encoded_request(library: ModuleType) -> None:
    """What a client packs is unpacked for the record, so that its secrets are found."""
    scene = Scene()
    inner = transport(library, lambda _: library.Response(200, json={"stop_reason": "end_turn"}))
    packed = gzip.compress(b'{"model":"m-1","password":"hunter2"}')
    with library.Client(transport=recording_transport(inner, scene.recorder)) as client:
        client.post(URL, content=packed, headers={"Content-Encoding": "GZIP"})
        assert scene.request.sha256 == hashlib.sha256(packed).hexdigest()
        assert scene.request.body is not None
        kept = scene.store.read().body(scene.request.body)
        assert kept == b'{"model":"m-1","password":"[hidden]"}'
        for encoding in ("x-unheard-of", "x-unheard-of, gzip", "br"):  # the last is a lie
            client.post(URL, content=packed, headers={"content-encoding": encoding})
            assert scene.request.body is None


@LIBRARIES
def test_a_small_answer_that_unpacks_without_end(
    library: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more is unpacked than would be kept, and then nothing is; the digest stays."""
    monkeypatch.setattr("broker.records.transport.MAX_RECORDED_BYTES", 10_000)
    scene = Scene()
    packed = gzip.compress(b" " * 1_000_000)
    headers = {"content-encoding": "gzip"}
    stream = streamed(library, [packed], [])
    inner = transport(library, lambda _: library.Response(200, headers=headers, stream=stream))
    post(library, inner, scene, asynchronous=False)
    assert scene.response.body is None
    assert scene.response.sha256 == hashlib.sha256(packed).hexdigest()


def post(library: ModuleType, inner: Any, scene: Scene, *, asynchronous: bool) -> Any:
    """Send one request through a recording client."""
    if not asynchronous:
        with library.Client(transport=recording_transport(inner, scene.recorder)) as client:
            return client.post(URL, content=b'{"model":"m"}')

    async def run() -> Any:
        wrapped = recording_async_transport(inner, scene.recorder)
        async with library.AsyncClient(transport=wrapped) as client:
            return await client.post(URL, content=b'{"model":"m"}')

    return asyncio.run(run())


@LIBRARIES
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("ready", [False, True])
def test_an_encoded_answer(library: ModuleType, asynchronous: bool, ready: bool) -> None:
    """The caller gets it decoded as always, and so does the record."""
    scene = Scene()
    plain = b'{"stop_reason":"end_turn"}'
    packed = gzip.compress(plain)
    headers = {"content-encoding": "gzip"}
    how = (
        {"content": packed}
        if ready
        else {"stream": streamed(library, [packed[:9], packed[9:]], [])}
    )
    inner = transport(library, lambda _: library.Response(200, headers=headers, **how))
    assert post(library, inner, scene, asynchronous=asynchronous).content == plain
    assert scene.response.finish == "end_turn"
    assert scene.response.body is not None
    assert scene.store.read().body(scene.response.body) == plain
    if not ready:
        assert scene.response.sha256 == hashlib.sha256(packed).hexdigest()


@LIBRARIES
@pytest.mark.parametrize("waits", [True, False])
def test_a_cancelled_task_is_recorded(library: ModuleType, waits: bool) -> None:
    """A task that is cancelled while it waits, or while it reads, leaves an aborted answer."""
    scene = Scene()

    async def run() -> None:
        started = asyncio.Event()

        async def forever() -> None:
            started.set()
            await asyncio.sleep(60)

        class Slow(library.AsyncByteStream):  # type: ignore[name-defined, misc]  # as above
            async def __aiter__(self) -> AsyncIterator[bytes]:
                yield b"ab"
                await forever()

        class Inner(library.AsyncBaseTransport):  # type: ignore[name-defined, misc]  # as above
            async def handle_async_request(self, request: Any) -> Any:
                if waits:
                    await forever()
                return library.Response(200, stream=Slow())

        wrapped = recording_async_transport(Inner(), scene.recorder)
        async with library.AsyncClient(transport=wrapped) as client:
            task = asyncio.create_task(client.post(URL, content=b"{}"))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())
    assert scene.response.failure is not None
    assert scene.response.failure.kind == "aborted"
    assert scene.response.size_bytes == (0 if waits else 2)


@LIBRARIES
def test_an_upgrade_is_refused(library: ModuleType) -> None:
    """A connection that becomes another protocol would pass unrecorded."""
    scene = Scene()
    inner = transport(library, lambda _: library.Response(101))
    with (
        library.Client(transport=recording_transport(inner, scene.recorder)) as client,
        pytest.raises(InputError, match="cannot be recorded"),
    ):
        client.get(URL, headers={"Upgrade": "websocket", "Connection": "Upgrade"})
    assert scene.store.read().records == ()


@LIBRARIES
def test_a_body_that_is_generated_is_sent_as_it_was_recorded(library: ModuleType) -> None:
    """What comes from a generator is read once, recorded, and sent."""
    scene, got = Scene(), []

    def answer(request: Any) -> Any:
        got.append(b"".join(request.stream))
        return library.Response(200, content=b"{}")

    inner = transport(library, answer)
    with library.Client(transport=recording_transport(inner, scene.recorder)) as client:
        client.post(URL, content=iter([b'{"model":', b'"m"}']))
    assert got == [b'{"model":"m"}']
    assert scene.request.sha256 == hashlib.sha256(got[0]).hexdigest()
    assert scene.request.model == "m"


def test_a_transport_of_another_library_is_refused() -> None:
    """What is passed in must be a transport of a library that is known."""
    assert library_of(httpx.MockTransport(lambda _: httpx.Response(200))) is httpx
    with pytest.raises(InputError, match="no transport"):
        recording_transport(object(), Scene().recorder)  # type: ignore[arg-type]  # on purpose
