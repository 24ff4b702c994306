"""Both ends of an MCP connection for tests: a session that says yes or no, and small servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from broker.bounds import root_bounds
from broker.calls import ALLOW, Decision, Refusal
from broker.catalogs import load_catalogs
from broker.mcp.gateway import Gateway
from broker.mcp.judge import Judge
from broker.mcp.offer import Offer
from broker.scope import parse_scope

# A server on standard streams. Its tools say what they were called with; `die` ends it.
SERVER = r"""
import json, sys
TOOLS = [{"name": n, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
         for n in ("look", "drop", "die")]
for line in sys.stdin:
    said = json.loads(line)
    print("server heard", said.get("method"), file=sys.stderr, flush=True)
    if "id" not in said or "method" not in said:
        continue
    method, params = said["method"], said.get("params") or {}
    if method == "tools/call" and params["name"] == "die":
        sys.exit(7)
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "notes", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": json.dumps(params)}]}
    else:
        result = {"method": method}
    print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
"""


def said(method: str, ident: object = None, **params: object) -> bytes:
    """Return a request, or a notification when it has no id."""
    body: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    if ident is not None:
        body["id"] = ident
    if params:
        body["params"] = params
    return json.dumps(body).encode()


def answer(ident: object, **result: object) -> bytes:
    """Return an answer."""
    return json.dumps({"jsonrpc": "2.0", "id": ident, "result": result}).encode()


def call(ident: object, name: str, **arguments: object) -> bytes:
    """Return a tool call."""
    return said("tools/call", ident, name=name, arguments=arguments)


class Yes:
    """A session that allows what is named, or everything, and remembers what it was asked."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed
        self.asked: list[tuple[object, object]] = []
        self.results: list[tuple[str, bool]] = []
        self.notes: list[str] = []

    def decide(self, tool: object, arguments: object, **more: Any) -> Decision:
        """Allow what is named."""
        self.asked.append((tool, arguments))
        if not self.allowed or tool in self.allowed:
            return ALLOW
        return Decision(Refusal("tools", str(tool), "not in tools"))

    def result(self, call_id: str, *, ok: bool, output: object = None) -> None:
        """Remember how a call ended."""
        self.results.append((call_id, ok))

    def note(self, text: str, *, source: str) -> None:
        """Remember what was said."""
        self.notes.append(text)


def offer(*texts: str, server: str = "notes") -> Offer:
    """Return what a scope could ever allow of a server."""
    catalogs = load_catalogs()
    scope = parse_scope(texts, at=0, groups=catalogs.groups())
    lists = tuple(c for c in scope.caveats if isinstance(c.value, tuple))
    return Offer(root_bounds(lists), catalogs, server)


def gateway(session: Any, *texts: str) -> Gateway:
    """Return a gateway before a server named `notes`."""
    return Gateway(Judge(session, offer(*texts), "notes"), "t")


Respond = Callable[[str, dict[str, str], bytes], tuple[int, dict[str, str], list[bytes]]]


class WebServer:
    """
    An HTTP server that answers as a test says: status, headers, and the body in pieces.

    ``heard`` has method, headers in lower case and body of every request.
    """

    def __init__(self, respond: Respond) -> None:
        heard: list[tuple[str, dict[str, str], bytes]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                headers = {k.lower(): v for k, v in self.headers.items()}
                body = self.rfile.read(int(headers.get("content-length", 0)))
                heard.append((self.command, headers, body))
                status, more, pieces = respond(self.command, headers, body)
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("Connection", "close")
                self.end_headers()
                for piece in pieces:
                    self.wfile.write(piece)
                    self.wfile.flush()
                self.close_connection = True

            do_GET = do_POST = do_DELETE = _any

            def log_message(self, format: str, *args: object) -> None:
                return

        self.heard = heard
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/mcp"

    def __enter__(self) -> WebServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def echo(method: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], Any]:
    """Answer as a server would that answers every request as JSON and offers no stream."""
    if method != "POST":
        return 405, {}, [b""]
    asked = json.loads(body)
    if "id" not in asked or "method" not in asked:
        return 202, {}, []
    result: dict[str, object] = {"heard": asked["method"]}
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}}
    if asked["method"] == "tools/list":
        result = {"tools": [{"name": "look"}, {"name": "drop"}]}
    head = {"Content-Type": "application/json", "Mcp-Session-Id": "s-1"}
    return 200, head, [answer(asked["id"], **result)]


def notes(method: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], Any]:
    """Answer as the server of tests for agents does on standard streams: `look` and `drop`."""
    if method != "POST":
        return 405, {}, [b""]
    asked = json.loads(body)
    if "id" not in asked or "method" not in asked:
        return 202, {}, []
    what, params = asked["method"], asked.get("params") or {}
    result: dict[str, object] = {}
    if what == "initialize":
        result = {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "notes", "version": "1"},
        }
    elif what == "tools/list":
        schema = {"type": "object", "properties": {}}
        tools = [{"name": n, "description": n, "inputSchema": schema} for n in ("look", "drop")]
        result = {"tools": tools}
    elif what == "tools/call":
        result = {"content": [{"type": "text", "text": f"{params['name']} was called"}]}
    return 200, {"Content-Type": "application/json"}, [answer(asked["id"], **result)]
