"""An AuthZEN decision point on loopback: one that answers as told, and servers that misbehave."""

from __future__ import annotations

import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from broker.calls import Access, Call, PathSubject
from broker.opinions.question import Consultation, questions

Rule = Callable[[dict[str, Any]], object]


class DecisionPoint:
    """
    Answers evaluations by a rule, and remembers what it was asked.

    The rule is given one evaluation (subject, action, resource, context) and returns whether it is
    allowed, or an answer of its own, or bytes to answer with.
    """

    def __init__(self, rule: Rule, *, tls: ssl.SSLContext | None = None, **headers: str) -> None:
        point = self
        self.rule = rule
        self.asked: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.answers: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.connections: set[object] = set()
        self.status = 200
        self.kind = "application/json"

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                """Opined one request."""
                body = self.rfile.read(int(self.headers["content-length"]))
                point.connections.add(self.client_address)
                point.headers.append({k.lower(): v for k, v in self.headers.items()})
                answer = point._answer(self.path, body)
                point.bodies.append(body)
                point.answers.append(answer)
                self.send_response(point.status)
                self.send_header("content-type", point.kind)
                self.send_header("content-length", str(len(answer)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        port = self.server.server_address[1]
        self.base = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}/access/v1"
        self.url = f"{self.base}/evaluation"

    def __enter__(self) -> DecisionPoint:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _answer(self, path: str, body: bytes) -> bytes:
        request = json.loads(body)
        if not path.startswith("/access/v1/evaluations"):
            return self._one(request)
        common = {k: v for k, v in request.items() if k != "evaluations"}
        each = [self._one({**common, **one}) for one in request["evaluations"]]
        return b'{"evaluations":[' + b",".join(each) + b"]}"

    def _one(self, evaluation: dict[str, Any]) -> bytes:
        self.asked.append(evaluation)
        said = self.rule(evaluation)
        if isinstance(said, bytes):
            return said
        return json.dumps({"decision": said} if isinstance(said, bool) else said).encode()


class Odd:
    """A server that does with each connection what it is told to."""

    def __init__(self, does: Callable[[socket.socket], object]) -> None:
        self._does = does
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/access/v1/evaluation"
        self.met = 0

    def __enter__(self) -> Odd:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.met += 1
                threading.Thread(target=self._served, args=(connection,), daemon=True).start()

    def _served(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            self._does(connection)


def path(place: str, access: Access = "read", **more: Any) -> PathSubject:
    """Return a path in the workspace."""
    return PathSubject("path", place, access, (f"{place}/",), **more)


def about(call: Call, **more: Any) -> Consultation:
    """Return what is asked about a call."""
    given = call.arguments or {}
    return Consultation(
        questions(call), "main", "k3v", "9f2c", "ab" * 16, call.digest, given, **more
    )


def certificate(folder: Path) -> tuple[Path, Path]:
    """Return the files of a certificate for 127.0.0.1, signed by itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert, secret
