"""
Asking a model of another provider, and sending the agent its answer as it comes.

Decided here: what travels, and what an agent is told where nothing can. Not decided here: what is
said (``broker.replay.translation.other``).

Rules a maintainer keeps: what fails on the way is an answer that says so, and never one from the
recording; the key stands in the request to its provider and nowhere else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler
from typing import Final

from broker.capture.upstream import connect
from broker.errors import BrokerError, InputError
from broker.replay.playback import KeptAnswer
from broker.replay.translation.other import OtherModel, TranslatedRequest

Told = Callable[[Mapping[str, object]], object]

MAX_ERROR_BYTES: Final = 2**20
_CHUNK: Final = 65_536
_JSON: Final = "application/json"


def ask_other(
    other: OtherModel,
    environ: Mapping[str, str],
    told: Told,
    asked: BaseHTTPRequestHandler,
    question: tuple[str, bytes],
) -> KeptAnswer | None:
    """
    Ask another model what an agent asks its own, and send what it answers.

    Args:
        other: the model.
        environ: for proxies and certificates.
        told: is told of each question that was sent: what it became, and what was left out.
        asked: the request, whose answer is sent here.
        question: what is asked for, and the body with its encodings undone.

    Returns:
        None once an answer was begun; else the answer that says why there is none.
    """
    try:
        request = TranslatedRequest(other, *question)
    except InputError as error:
        return _failed(400, str(error))
    try:
        link = connect(other.upstream, environ)
    except OSError as error:
        return _failed(502, f"{other.upstream.where} cannot be reached: {error}")
    with link.socket:
        connection = HTTPConnection(other.upstream.host, other.upstream.port)
        connection.sock = link.socket
        more = {name.decode("latin-1"): value.decode("latin-1") for name, value in link.fields}
        headers = {"host": other.upstream.authority, **other.fields, **more}
        try:
            connection.request("POST", link.front + other.path, request.body, headers)
            answer = connection.getresponse()
            told(_note(other, request, answer.status))
            if not 200 <= answer.status < 300:
                body = request.refused(answer.read(MAX_ERROR_BYTES))
                return KeptAnswer(-1, answer.status, _JSON, body)
            if not request.question.stream:
                return KeptAnswer(-1, 200, _JSON, request.document(answer.read()))
        except (OSError, HTTPException) as error:
            return _failed(502, f"{other.upstream.where} did not answer: {error}")
        _stream(asked, request, answer)
    return None


def _note(other: OtherModel, request: TranslatedRequest, status: int) -> dict[str, object]:
    return {
        "kind": "translated",
        "from": request.api,
        "to": other.api,
        "upstream": other.upstream.name,
        "model": other.model,
        "sha256": hashlib.sha256(request.body).hexdigest(),
        "bytes": len(request.body),
        "status": status,
        **({"left_out": list(request.question.left_out)} if request.question.left_out else {}),
    }


def _stream(
    asked: BaseHTTPRequestHandler, request: TranslatedRequest, answer: HTTPResponse
) -> None:
    """Send an answer as it comes, in chunks."""
    asked.send_response(200)
    asked.send_header("content-type", request.media_type)
    asked.send_header("transfer-encoding", "chunked")
    asked.end_headers()
    for piece in filter(None, _pieces(request, answer)):
        asked.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        asked.wfile.flush()
    asked.wfile.write(b"0\r\n\r\n")
    asked.wfile.flush()


def _pieces(request: TranslatedRequest, answer: HTTPResponse) -> Iterator[bytes]:
    try:
        while chunk := answer.read1(_CHUNK):
            yield request.streamed(chunk)
    except (OSError, HTTPException, BrokerError):
        pass  # what did not come to its end says so
    yield request.ended()


def _failed(status: int, why: str) -> KeptAnswer:
    # The spellings of an error that agents show to a person.
    error = {"type": "invalid_request_error", "message": f"live: {why}", "code": status}
    body = json.dumps({"type": "error", "error": error}).encode()
    return KeptAnswer(-1, status, _JSON, body)
