"""
A server on loopback that answers as the model of a recorded run did.

Decided here: how a recorded answer is sent (a stream event by event, in chunks; one that was cut
off then is cut off now), and that a request which nothing was recorded for is refused by name and
stops the replay. Not decided here: which answer is right (``broker.replay.playback``), and what
happens to a request that is live (``broker.replay.live``).

A path is ``/WORD/NAME/REST``: a word that is new for each replay, so that nobody else of the
machine asks; the name of the upstream that was recorded; and what that one is asked for.

Rules a maintainer keeps: it listens on 127.0.0.1 alone; no header of a request is kept; a body is
limited; nothing is sent anywhere unless ``live`` was given.
"""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from zlib import error as ZlibError

from broker.boundary import contained
from broker.capture.wires.reading import undone
from broker.limits import MAX_REQUEST_BYTES
from broker.replay.playback import KeptAnswer, Playback, Played

UNMATCHED_STATUS: Final = 400  # which agents do not try again

Asked = BaseHTTPRequestHandler
Live = Callable[[Asked, str, str, bytes], KeptAnswer | None]
Told = Callable[[str, Played], None]


class ReplayServer:
    """
    Serves one replay; ``start`` it once the agent's process is made, and ``close`` it at the end.

    Args:
        playback: what was recorded.
        word: the secret that begins every path.
        told: is told of each request: what was asked, and what it was matched with.
        live: asks the model itself, from the fork point on; see ``LiveModels.pass_on``.
        loose: what nothing was recorded for is live too.

    ``live`` counts the requests that were.
    """

    def __init__(
        self,
        playback: Playback,
        word: str,
        told: Told,
        live: Live | None = None,
        *,
        loose: bool = False,
    ) -> None:
        self.playback = playback
        self.live = 0
        self._loose = loose
        self._front = f"/{word}/"
        self._told = told
        self._pass_on = live
        self._thread: threading.Thread | None = None
        self._server = _Silent(("127.0.0.1", 0), _handler(self))
        self.port = int(self._server.server_address[1])

    def base(self, name: str) -> str:
        """Return the path below which an upstream of that name is played."""
        return f"{self._front}{name}"

    def start(self) -> None:
        """Begin to answer, in threads of its own."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def named(self, target: str) -> tuple[str, str] | None:
        """Return the upstream that a target names, and what it is asked; None for a stranger."""
        front, rest = target[: len(self._front)], target[len(self._front) :]
        if not hmac.compare_digest(front.encode(), self._front.encode()):
            return None
        name, _, inner = rest.partition("/")
        return name, f"/{inner}"

    def answer(self, asked: Asked, name: str, target: str, content: bytes) -> None:
        """Answer one request: from the recording, or live."""
        if self._pass_on is not None and self.playback.over:
            self._ask(self._pass_on, asked, name, target, content)
            return
        played = self.playback.play(asked.command, target, content)
        self._told(f"{asked.command} {target}", played)
        if played.answer is not None:
            _send(asked, played.answer)
        elif self._loose and self._pass_on is not None:
            self._ask(self._pass_on, asked, name, target, content)
        else:
            _send(asked, _unmatched(played))

    def _ask(self, live: Live, asked: Asked, name: str, target: str, content: bytes) -> None:
        self.live += 1
        failed = live(asked, name, target, content)
        if failed is not None:
            _send(asked, failed)


class _Silent(ThreadingHTTPServer):
    """A server that says nothing of clients that go away."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: the agent has the terminal."""


def _handler(server: ReplayServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # header and body in one write, or a small second packet waits
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            named = server.named(self.path)
            content = self._content()
            if named is None or content is None:
                self.close_connection = True
                status = 404 if named is None else 413
                _send(self, KeptAnswer(-1, status, "application/json", b'{"error":"not replayed"}'))
                return
            work = partial(server.answer, self, *named, content)
            contained(work, self._failed)

        do_GET = do_HEAD = do_POST

        def _failed(self, error: Exception) -> None:
            self.close_connection = True

        def _content(self) -> bytes | None:
            """Return the body with its encodings undone; None when it is none that is read."""
            with suppress(ValueError, OSError, ZlibError):
                if "chunked" in (self.headers.get("transfer-encoding") or "").lower():
                    content = b"".join(self._chunks())
                else:
                    content = self._read(int(self.headers.get("content-length") or 0))
                encoding = self.headers.get("content-encoding") or ""
                return undone(content, encoding) if encoding else content
            return None

        def _chunks(self) -> Iterator[bytes]:
            whole = 0
            while size := int(self.rfile.readline(64).split(b";")[0].strip() or b"0", 16):
                whole += size
                if whole > MAX_REQUEST_BYTES:
                    raise ValueError("a body of this size is not read")
                yield self._read(size)
                self.rfile.readline(4)
            self.rfile.readline(4)

        def _read(self, size: int) -> bytes:
            if not 0 <= size <= MAX_REQUEST_BYTES:
                raise ValueError("a body of this size is not read")
            return self.rfile.read(size)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the agent has the terminal."""

    return Handler


def _send(asked: Asked, answer: KeptAnswer) -> None:
    """Send an answer: a stream in chunks, each a whole event; anything else in one piece."""
    stream = answer.stream or answer.cut
    asked.send_response(answer.status)
    asked.send_header("content-type", answer.kind)
    if stream:
        asked.send_header("transfer-encoding", "chunked")
    else:
        asked.send_header("content-length", str(len(answer.body)))
    asked.end_headers()
    if asked.command == "HEAD":
        return
    if not stream:
        asked.wfile.write(answer.body)
        asked.wfile.flush()
        return
    for piece in events_of(answer.body):
        asked.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        asked.wfile.flush()
    if answer.cut:
        asked.close_connection = True  # without the last chunk: as it ended then
    else:
        asked.wfile.write(b"0\r\n\r\n")
    asked.wfile.flush()


def events_of(body: bytes) -> Iterator[bytes]:
    """
    Yield the events of a stream, each with the empty line that ends it, and what is left.

    >>> list(events_of(b"data: 1\\n\\ndata: 2\\r\\n\\r\\nda"))
    [b'data: 1\\n\\n', b'data: 2\\r\\n\\r\\n', b'da']
    """
    at = 0
    while at < len(body):
        ends = [
            found + len(end) for end in (b"\n\n", b"\r\n\r\n") if (found := body.find(end, at)) >= 0
        ]
        end = min(ends, default=len(body))
        yield body[at:end]
        at = end


def _unmatched(played: Played) -> KeptAnswer:
    said = f"not in the recording: {played.match.why}"
    # The three spellings of an error that agents show to a person.
    body = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": said, "code": UNMATCHED_STATUS},
    }
    return KeptAnswer(-1, UNMATCHED_STATUS, "application/json", json.dumps(body).encode())
