"""
Handing a request on to the model itself: beyond the fork point, or where nothing was recorded.

Decided here: what is sent (what the agent asked, at another model's name where one was given), and
that the answer passes as it comes. Not decided here: which requests are live
(``broker.replay.serving``), where the model is (``broker.capture.redirect``).

Rules a maintainer keeps: a key is put in only where its token stood, and is kept nowhere; what
fails on the way is answered with 502 and its reason, and never from the recording.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler
from typing import Final

from broker.capture.upstream import ModelUpstream, connect
from broker.replay.playback import KeptAnswer
from broker.replay.translation.asking import ask_other
from broker.replay.translation.other import OtherModel

_HOP: Final = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te"),
        *("trailer", "transfer-encoding", "upgrade", "host", "content-length"),
        *("accept-encoding", "content-encoding", "expect"),
    )
)
_NAMED: Final = re.compile(r"(/models/)[^/:?]+")  # where Gemini says which model is meant
_CHUNK: Final = 65_536


class LiveModels:
    """
    The models that the recorder's servers stand for.

    Args:
        environ: the agent's environment, for proxies and certificates.
        model: the name that is put in the place of every model's; "" leaves them.
        other: a model of another provider, which is asked in the place of all of them.

    ``told`` is told of each request that was translated.
    """

    def __init__(
        self, environ: Mapping[str, str], model: str = "", other: OtherModel | None = None
    ) -> None:
        self.upstreams: Mapping[str, ModelUpstream] = {}
        self.model = model
        self.other = other
        self.told: Callable[[Mapping[str, object]], object] = lambda _: None
        self._environ = dict(environ)

    def pass_on(
        self, asked: BaseHTTPRequestHandler, name: str, target: str, content: bytes
    ) -> KeptAnswer | None:
        """
        Ask the model, and send what it answers as it comes.

        Args:
            asked: the request, whose answer is sent here.
            name: of the upstream.
            target: what it is asked for, without our own front.
            content: the body, its encodings undone.

        Returns:
            None once an answer was begun; else the answer that says why there is none.
        """
        if self.other is not None:
            return ask_other(self.other, self._environ, self.told, asked, (target, content))
        upstream = self.upstreams.get(name)
        if upstream is None:
            return _failed("the run that is played asked a model that this one does not")
        try:
            link = connect(upstream, self._environ)
        except OSError as error:
            return _failed(f"{upstream.where} cannot be reached: {error}")
        with link.socket:
            connection = HTTPConnection(upstream.host, upstream.port)
            connection.sock = link.socket
            path = link.front + _swapped(_joined(upstream, self._renamed(target)), upstream)
            headers = _headers(asked, upstream, link.fields)
            try:
                connection.request(asked.command, path, self._body(content), headers)
                answer = connection.getresponse()
            except (OSError, HTTPException) as error:
                return _failed(f"{upstream.where} did not answer: {error}")
            _stream(asked, answer)
            return None

    def _renamed(self, target: str) -> str:
        return _NAMED.sub(rf"\g<1>{self.model}", target) if self.model else target

    def _body(self, content: bytes) -> bytes:
        if not self.model or not content:
            return content
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            return content
        if not isinstance(body, dict) or "model" not in body:
            return content
        return json.dumps({**body, "model": self.model}).encode()


def _headers(
    asked: BaseHTTPRequestHandler,
    upstream: ModelUpstream,
    more: tuple[tuple[bytes, bytes], ...],
) -> dict[str, str]:
    """Return what is sent of the fields of a request, with the keys that stand behind tokens."""
    found = {"Host": upstream.authority, "Accept-Encoding": "identity"}
    for name, value in asked.headers.items():
        if name.lower() in _HOP:
            continue
        found[name] = _swapped(value, upstream)
    return found | {name.decode("latin-1"): value.decode("latin-1") for name, value in more}


def _joined(upstream: ModelUpstream, target: str) -> str:
    """Return a target behind an upstream's base, with the query that the base may have."""
    path, mark, query = target.partition("?")
    both = "&".join(part for part in (upstream.query, query) if part)
    return upstream.base + path + ("?" if mark or both else "") + both


def _swapped(text: str, upstream: ModelUpstream) -> str:
    """Return a text with the keys in the place of the run's tokens."""
    for token, key in upstream.keys.items():
        text = text.replace(token, key)
    return text


def _stream(asked: BaseHTTPRequestHandler, answer: HTTPResponse) -> None:
    """Send an answer as it comes, in chunks of whatever size came."""
    asked.send_response(answer.status)
    for name, value in answer.getheaders():
        if name.lower() not in _HOP | {"server", "date"}:
            asked.send_header(name, value)
    asked.send_header("transfer-encoding", "chunked")
    asked.end_headers()
    asked.wfile.flush()
    if asked.command == "HEAD":
        return
    try:
        while piece := answer.read1(_CHUNK):
            asked.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            asked.wfile.flush()
    except (OSError, HTTPException):
        asked.close_connection = True  # cut off there, so cut off here
        return
    asked.wfile.write(b"0\r\n\r\n")
    asked.wfile.flush()


def _failed(why: str) -> KeptAnswer:
    body = {"type": "error", "error": {"type": "api_error", "message": f"live: {why}"}}
    return KeptAnswer(-1, 502, "application/json", json.dumps(body).encode())
