"""
The recorder below the official clients: a transport that records what passes, sync and async.

It stands where the bytes of a request are complete and nothing changes them any more, so it sees
every model call, whoever makes it, and every attempt of a client that tries again::

    client = anthropic.Anthropic(
        http_client=anthropic.DefaultHttpxClient(
            transport=recording_transport(httpx2.HTTPTransport(), recorder)
        )
    )

Decided here: how bytes are seen on their way. An answer is passed on chunk by chunk as it comes;
what is recorded of it is written when it ends. Not decided here: what is recorded.

It works with `httpx2`, which the official clients speak, and with `httpx`: the library of the inner
transport is the one that is used.

Rules a maintainer keeps: nothing leaves before ``Recorder.begin`` has returned; a connection that
cannot be recorded, because it becomes another protocol, is refused; errors of the inner transport
are passed on as they are.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import lru_cache, partial
from typing import Any, Final, Protocol

from broker.errors import InputError
from broker.limits import MAX_RECORDED_BYTES
from broker.records.failures import failed
from broker.records.model import Failure
from broker.records.recorder import Decoded, Pending, Recorder, Sent

_LIBRARIES = ("httpx2", "httpx")
_ENCODINGS: Final = frozenset({"br", "deflate", "gzip", "identity", "zstd"})
_SLICE_BYTES: Final = 4_096  # bytes that are decoded at once: a few may stand for many


class _Sync(Protocol):
    def handle_request(self, request: Any) -> Any: ...

    def close(self) -> None: ...


class _Async(Protocol):
    async def handle_async_request(self, request: Any) -> Any: ...

    async def aclose(self) -> None: ...


def recording_transport(inner: _Sync, recorder: Recorder) -> Any:
    """
    Return a transport that records what passes through another one, for a client of its library.

    Raises:
        InputError: the other one is of no library that is known.
    """
    return RecordingTransport(inner, recorder)


def recording_async_transport(inner: _Async, recorder: Recorder) -> Any:
    """
    Return an async transport that records what passes through another one.

    Raises:
        InputError: the other one is of no library that is known.
    """
    return AsyncRecordingTransport(inner, recorder)


class RecordingTransport:
    """See ``recording_transport``."""

    def __init__(self, inner: _Sync, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder
        self._library = library_of(inner)

    def __enter__(self) -> RecordingTransport:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the inner transport."""
        self._inner.close()

    def handle_request(self, request: Any) -> Any:
        """
        Record a request, send it, and record its answer while that passes.

        Raises:
            InputError, StoreError: it cannot be recorded, and was not sent.
        """
        pending = self._recorder.begin(_sent(request, request.read(), self._library))
        try:
            response = self._inner.handle_request(request)
        except BaseException as error:
            self._recorder.end(pending, failure=_failure(error, self._library))
            raise
        end = _heard(response, pending, self._recorder, self._library)
        if response.is_closed:  # its body is here already, as a test's is
            end(None)
        else:
            tee = _tees(self._library)[0]
            response.stream = tee(response.stream, pending, end, self._library)
        return response


class AsyncRecordingTransport:
    """See ``recording_async_transport``."""

    def __init__(self, inner: _Async, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder
        self._library = library_of(inner)

    async def __aenter__(self) -> AsyncRecordingTransport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()

    async def handle_async_request(self, request: Any) -> Any:
        """
        Record a request, send it, and record its answer while that passes.

        Raises:
            InputError, StoreError: it cannot be recorded, and was not sent.
        """
        sent = _sent(request, await request.aread(), self._library)
        pending = await _aside(partial(self._recorder.begin, sent))
        try:
            response = await self._inner.handle_async_request(request)
        except BaseException as error:
            failure = _failure(error, self._library)
            await _aside(partial(self._recorder.end, pending, failure=failure))
            raise
        end = _heard(response, pending, self._recorder, self._library)
        if response.is_closed:
            await _aside(partial(end, None))
        else:
            tee = _tees(self._library)[1]
            response.stream = tee(response.stream, pending, end, self._library)
        return response


End = Callable[[Failure | None], object]


class _Tee:
    """The bytes of an answer, seen while they pass."""

    def __init__(self, inner: Any, pending: Pending, end: End, library: Any) -> None:
        self._inner = inner
        self._pending = pending
        self._end = end
        self._library = library

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._inner:
                self._pending.take(chunk)
                yield chunk
        except GeneratorExit:  # it is closed, and then recorded
            raise
        except BaseException as error:
            self._end(_failure(error, self._library))
            raise
        self._pending.whole = True
        self._end(None)

    def close(self) -> None:
        """Record what has passed, unless the end of it was seen."""
        try:
            self._end(None)
        finally:
            self._inner.close()


class _AsyncTee:
    """The same for an async client. Hiding and writing go on in a thread."""

    def __init__(self, inner: Any, pending: Pending, end: End, library: Any) -> None:
        self._inner = inner
        self._pending = pending
        self._end = end
        self._library = library

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                self._pending.take(chunk)
                yield chunk
        except GeneratorExit:
            raise
        except BaseException as error:
            await _aside(partial(self._end, _failure(error, self._library)))
            raise
        self._pending.whole = True
        await _aside(partial(self._end, None))

    async def aclose(self) -> None:
        """Record what has passed, unless the end of it was seen."""
        try:
            await _aside(partial(self._end, None))
        finally:
            await self._inner.aclose()


@lru_cache(maxsize=len(_LIBRARIES))
def _tees(library: Any) -> tuple[type, type]:
    """Return the two streams as a library's own, since its clients ask for that."""
    return (
        type("RecordedStream", (_Tee, library.SyncByteStream), {}),
        type("AsyncRecordedStream", (_AsyncTee, library.AsyncByteStream), {}),
    )


async def _aside(work: Callable[[], Any]) -> Any:
    """Return what work returns, done in a thread; a cancelled task waits for it all the same."""
    import anyio  # noqa: PLC0415  comes with the library
    import anyio.to_thread  # noqa: PLC0415  as above

    with anyio.CancelScope(shield=True):
        return await anyio.to_thread.run_sync(work)


def library_of(transport: object) -> Any:
    """
    Return the library that a transport is of.

    Raises:
        InputError: it is none that is known.

    >>> library_of(object())
    Traceback (most recent call last):
    broker.errors.InputError: `object` is no transport of httpx2 or httpx
    """
    # By what it is and not by its module's name, which clients change to their own.
    for name in _LIBRARIES:
        library = sys.modules.get(name)
        if library is not None and isinstance(
            transport, library.BaseTransport | library.AsyncBaseTransport
        ):
            return library
    raise InputError(f"`{type(transport).__name__}` is no transport of {' or '.join(_LIBRARIES)}")


def _sent(request: Any, content: bytes, library: Any) -> Sent:
    if "upgrade" in request.headers:
        raise InputError(
            "a connection that becomes another protocol cannot be recorded: use plain requests"
        )
    url, decoded = request.url, _decoding(request.headers, library)
    return Sent(request.method, url.host, url.path, content, decoded)


def _heard(response: Any, pending: Pending, recorder: Recorder, library: Any) -> End:
    """Take in the head of an answer, and return what records its end."""
    pending.status = response.status_code
    pending.stream = "text/event-stream" in response.headers.get("content-type", "")
    decoded = None
    if response.is_closed:
        pending.take(response.content)
        pending.whole = True
    else:
        decoded = _decoding(response.headers, library)
    return lambda failure: recorder.end(pending, decoded=decoded, failure=failure)


def _decoding(headers: Any, library: Any) -> Decoded | None:
    """Return what takes away the encoding that the head of a message names, if it names one."""
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding == "identity":
        return None
    return partial(_decoded, encoding=encoding, library=library)


def _decoded(content: bytes, *, encoding: str, library: Any) -> bytes | None:
    if not _ENCODINGS.issuperset(map(str.strip, encoding.split(","))):
        raise ValueError("its encoding is not known")
    places = range(0, len(content), _SLICE_BYTES)
    slices = (content[at : at + _SLICE_BYTES] for at in places)
    found = bytearray()
    try:
        response = library.Response(200, headers={"content-encoding": encoding}, content=slices)
        for chunk in response.iter_bytes():
            found += chunk
            if len(found) > MAX_RECORDED_BYTES:
                return None
    except library.DecodingError as error:
        raise ValueError(str(error)) from error
    if found == content and content:  # the library leaves alone what it has no decoder for
        raise ValueError("there is no decoder for its encoding")
    return bytes(found)


def _failure(error: BaseException, library: Any) -> Failure:
    said = f"{type(error).__name__}: {error}"
    if isinstance(error, library.TransportError):
        return failed("network", said)
    if not isinstance(error, Exception):  # a task is cancelled, a person interrupts
        return failed("aborted", type(error).__name__)
    return failed("unknown", said)
