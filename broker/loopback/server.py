"""
The scripted model behind one address on loopback, over every protocol that it speaks.

Decided here: which path is which protocol, and what a test or a check may ask of the model
afterwards: what it was asked, and what each call came to. Not decided here: what it says.

Rules a maintainer keeps: it listens on 127.0.0.1 alone; it keeps no header, so no key that an
agent sends is remembered; header and body leave in one write, since a small second packet may
wait for an acknowledgement; a body is limited.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

from broker.loopback.anthropic import Anthropic
from broker.loopback.chat import Chat
from broker.loopback.gemini import Gemini
from broker.loopback.responses import Responses
from broker.loopback.script import Say, Script, Told, Wire, next_turn, place

MAX_BODY_BYTES: Final = 64 * 2**20
_WIRES: Final[tuple[tuple[str, Wire], ...]] = (
    ("/messages", Anthropic()),
    ("/chat/completions", Chat()),
    ("/responses", Responses()),
    (":generateContent", Gemini()),
    (":streamGenerateContent", Gemini()),
)
_COUNTS: Final = {"/count_tokens": {"input_tokens": 1}, ":countTokens": {"totalTokens": 1}}
_MODEL: Final = "scripted"
_EITHER: Final = zlib.MAX_WBITS | 32  # a head of gzip's, or of zlib's


class _Quiet(ThreadingHTTPServer):
    """A server that says nothing of clients that go away: an agent is ended while it asks."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: the agent has the terminal."""


class LoopbackModel:
    """
    The server; use it in a ``with``, or ``start`` it later: until then clients connect and wait.

    Args:
        script: what it says.
        word: a secret that begins every path, where others of this machine must not speak to it.

    ``results`` holds what each call came to, by ``SCRIPT-TURN-PLACE``, as first told; ``asked``
    the text of every request; ``elsewhere`` where else an agent wanted to go, whose proxy it is.

    >>> with LoopbackModel({"main": [Say("hello")]}) as model:
    ...     model.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, script: Script, word: str = "") -> None:
        self.script = script
        self.front = f"/{word}/" if word else "/"
        self.results: dict[str, Told] = {}
        self.asked: list[str] = []
        self.elsewhere: list[str] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._server = _Quiet(("127.0.0.1", 0), _handler(self))
        self.proxy = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url = self.proxy + self.front.rstrip("/")

    def __enter__(self) -> LoopbackModel:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Begin to answer, in threads of its own."""
        # The loop looks for the end that often.
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

    def answer(self, wire: Wire, body: dict[str, Any], model: str) -> dict[str, Any]:
        """Return what the script has for a request, and keep what the request tells."""
        where = place(wire.read(body))
        with self._lock:
            self.asked.append(json.dumps(body, ensure_ascii=False))
            for result in where.results:
                self.results.setdefault(result.call, result)
        aside = Say(_aside(body)) if not wire.offers_tools(body) else None
        turn = aside or next_turn(self.script, where)
        return wire.write(turn, f"{where.name or 'none'}-{where.turn}", model)


def _aside(body: dict[str, Any]) -> str:
    """Return what to say on the side; who asks for JSON gets the empty object."""
    asked = json.dumps(body)
    return "{}" if "json_schema" in asked or "application/json" in asked else "nothing to add"


def _handler(model: LoopbackModel) -> type[BaseHTTPRequestHandler]:
    """Return a handler of requests to one model."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one write for header and body
        disable_nagle_algorithm = True

        def do_CONNECT(self) -> None:
            model.elsewhere.append(self.path)
            self.close_connection = True
            self._send(403, b'{"error":{"message":"nothing is forwarded"}}')

        def do_POST(self) -> None:
            if not self._meant():
                return
            path = urlsplit(self.path).path
            try:
                body = json.loads(self._body() or b"{}")
            except (ValueError, RecursionError, zlib.error):
                self.close_connection = True  # where the next request begins is not known
                self._send(400, b'{"error":{"message":"no JSON"}}')
                return
            for end, count in _COUNTS.items():
                if path.endswith(end):
                    self._send(200, json.dumps(count).encode())
                    return
            for end, wire in _WIRES:
                if path.endswith(end) and isinstance(body, dict):
                    self._answer(wire, body, path)
                    return
            self._send(404, b'{"error":{"message":"no such path"}}')

        def _answer(self, wire: Wire, body: dict[str, Any], path: str) -> None:
            named = path.rpartition("/models/")[2].partition(":")[0] if "/models/" in path else ""
            answer = model.answer(wire, body, str(body.get("model") or named or _MODEL))
            if body.get("stream") or ":stream" in path:
                self._send(200, events(wire.stream(answer)), "text/event-stream")
            else:
                self._send(200, json.dumps(answer).encode())

        def do_GET(self) -> None:
            if not self._meant():
                return
            row = {"id": _MODEL, "object": "model", "type": "model", "created": 0}
            self._send(200, json.dumps({"object": "list", "data": [row], "models": []}).encode())

        do_HEAD = do_GET

        def _meant(self) -> bool:
            """Whether it is asked as the model; else it is answered here."""
            # Some take a proxy for the way to this machine too.
            self.path = self.path.removeprefix(model.proxy)
            if not self.path.startswith("/"):
                self.do_CONNECT()
            elif not self.path.startswith(model.front):
                self.close_connection = True
                self._send(404, b'{"error":{"message":"no such path"}}')
            else:
                return True
            return False

        def _body(self) -> bytes:
            content = self._chunks() if self.headers.get("transfer-encoding") else self._plain()
            if self.headers.get("content-encoding") in ("gzip", "deflate"):
                return zlib.decompressobj(_EITHER).decompress(content, MAX_BODY_BYTES)
            return content

        def _plain(self) -> bytes:
            return self._read(int(self.headers.get("content-length") or 0))

        def _read(self, size: int) -> bytes:
            if not 0 <= size <= MAX_BODY_BYTES:
                raise ValueError("a body of this size is not read")
            return self.rfile.read(size)

        def _chunks(self) -> bytes:
            parts: list[bytes] = []
            while size := int(self.rfile.readline(64).split(b";")[0].strip() or b"0", 16):
                parts.append(self._read(size))
                self.rfile.readline(4)
                if sum(map(len, parts)) > MAX_BODY_BYTES:
                    raise ValueError("a body of this size is not read")
            self.rfile.readline(4)
            return b"".join(parts)

        def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the agent has the terminal."""

    return Handler


def events(told: Iterable[tuple[str, object]]) -> bytes:
    """
    Return events as the bytes of a stream (WHATWG HTML, server-sent events).

    >>> events([("a", {"b": 1}), ("", "[DONE]")])
    b'event: a\\ndata: {"b": 1}\\n\\ndata: [DONE]\\n\\n'
    """
    lines: list[str] = []
    for kind, data in told:
        named = f"event: {kind}\n" if kind else ""
        text = data if isinstance(data, str) else json.dumps(data)
        lines.append(f"{named}data: {text}\n\n")
    return "".join(lines).encode()
