"""
A model that says what a script tells it to, over the Messages protocol, on loopback only.

A script is a list of turns for each conversation. A conversation is known by a word in the first
text that its user wrote, ``[script NAME]``, and its turn by how many answers the model has given
in it; so nothing is remembered between requests, and questions on the side (titles, quotas) do
not move the script along. What the agent sent back as the result of its calls is kept for the
test to read.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

_NAME = re.compile(r"\[script ([a-z]+)\]")


@dataclass(frozen=True)
class Say:
    """A turn that only talks, and so ends the conversation."""

    text: str


@dataclass(frozen=True)
class Use:
    """A turn that calls tools: (name, arguments) pairs."""

    calls: Sequence[tuple[str, Mapping[str, object]]]


@dataclass(frozen=True)
class Seen:
    """What the agent sent back for one call."""

    call: str
    text: str
    is_error: bool


class Model:
    """
    The server; use it in a ``with``.

    ``seen`` holds the results in the order in which they came, each once; ``asked`` the text of
    every request.
    """

    def __init__(self, scripts: Mapping[str, Sequence[Say | Use]]) -> None:
        self.scripts = scripts
        self.seen: dict[str, Seen] = {}
        self.asked: list[str] = []
        self.lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(size) or b"{}")
                if self.path.split("?")[0].endswith("/count_tokens"):
                    self.answer(b'{"input_tokens":1}', "application/json")
                    return
                message = model.reply(body)
                if body.get("stream"):
                    self.answer(b"".join(events(message)), "text/event-stream")
                else:
                    self.answer(json.dumps(message).encode(), "application/json")

            def do_GET(self) -> None:
                self.answer(b"{}", "application/json")

            do_HEAD = do_GET

            def answer(self, body: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Model:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the message that the script has for this request."""
        name, turn = None, 0
        for message in body.get("messages", []):
            if message["role"] == "assistant":
                turn += 1
                continue
            parts = message["content"]
            if isinstance(parts, str):
                parts = [{"type": "text", "text": parts}]
            for part in parts:
                if part["type"] == "text" and name is None:
                    found = _NAME.search(part["text"])
                    if found:
                        name, turn = found[1], 0
                elif part["type"] == "tool_result":
                    self.keep(part)
        turns = self.scripts.get(name or "", ())
        with self.lock:
            self.asked.append(json.dumps(body, ensure_ascii=False))
        what = turns[turn] if body.get("tools") and turn < len(turns) else Say("nothing to add")
        return as_message(what, f"{name}-{turn}", body.get("model", "model"))

    def keep(self, part: dict[str, Any]) -> None:
        """Keep a result, as the agent told it."""
        content = part.get("content") or ""
        if not isinstance(content, str):
            content = "\n".join(p.get("text", "") for p in content)
        with self.lock:
            self.seen.setdefault(
                part["tool_use_id"],
                Seen(part["tool_use_id"], content, bool(part.get("is_error"))),
            )


_numbers = count()


def as_message(what: Say | Use, name: str, model: str) -> dict[str, Any]:
    """Return a turn as the protocol's message. A call's id tells its script, turn and place."""
    if isinstance(what, Say):
        content: list[dict[str, Any]] = [{"type": "text", "text": what.text}]
    else:
        content = [
            {"type": "tool_use", "id": f"toolu_{name}-{at}", "name": tool, "input": dict(given)}
            for at, (tool, given) in enumerate(what.calls)
        ]
    return {
        "id": f"msg_{next(_numbers)}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "end_turn" if isinstance(what, Say) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def events(message: dict[str, Any]) -> list[bytes]:
    """Return the message as a stream of server-sent events."""
    start = {**message, "content": [], "stop_reason": None}
    told: list[tuple[str, dict[str, Any]]] = [("message_start", {"message": start})]
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        told.append(("content_block_start", {"index": index, "content_block": empty}))
        told.append(("content_block_delta", {"index": index, "delta": delta}))
        told.append(("content_block_stop", {"index": index}))
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    told.append(("message_delta", {"delta": end, "usage": {"output_tokens": 1}}))
    told.append(("message_stop", {}))
    return [
        f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()
        for kind, data in told
    ]
