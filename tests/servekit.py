"""What tests of the decision service need: one in this process, one in its own, and requests."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.service.access import ServiceKeys
from broker.service.app import Application
from broker.service.hosted import Hosted, Premises
from broker.service.subjects import Subjects
from broker.service.watching import Watch
from tests.console import COMMAND
from tests.sessionkit import Bench

EVALUATOR = "e" * 40
OPERATOR = "o" * 40
KEYS = f"# who may ask\nevaluator pep {EVALUATOR}\noperator alex {OPERATOR}\n"
SUBJECTS = """
[[ticket]]
for = ["user:ana"]
scope = ['tools=can_read,can_update(type="todo", id, owner="ana")', "calls=100"]
"""
CALL = {
    "subject": {"type": "user", "id": "ana"},
    "action": {"name": "can_read"},
    "resource": {"type": "todo", "id": "7"},
}


@dataclass(frozen=True)
class Heard:
    """An answer: its status, its headers by lower-case name, its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


@dataclass
class Inside:
    """A service in this process, asked without a socket."""

    hosted: Hosted
    app: Application
    log: io.StringIO
    bench: Bench
    local: bool = False
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def ask(
        self,
        path: str,
        body: object = None,
        *,
        method: str = "",
        key: str = EVALUATOR,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Heard:
        """Make one request and return the answer."""
        return self.loop.run_until_complete(
            self.asked(path, body, method=method, key=key, raw=raw, headers=headers)
        )

    async def asked(
        self,
        path: str,
        body: object = None,
        *,
        method: str = "",
        key: str = EVALUATOR,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Heard:
        """Make one request, beside others."""
        content = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        given = {"content-type": "application/json", **(headers or {})}
        if key:
            given["authorization"] = f"Bearer {key}"
        scope = {
            "type": "http",
            "method": method or ("GET" if body is None and raw is None else "POST"),
            "path": path,
            "headers": [(k.lower().encode(), v.encode()) for k, v in given.items()],
            "client": None if self.local else ("127.0.0.1", 1),
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await (self.app.local if self.local else self.app)(scope, receive, send)
        found = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
        return Heard(sent[0]["status"], found, b"".join(m.get("body", b"") for m in sent[1:]))

    def entries(self, sid: str = "") -> list[tuple[str, dict[str, Any]]]:
        """Seal everything, and return the verified entries of a session; the own one's usually."""
        self.hosted.seal()
        return self.bench.entries(sid or self.hosted.own.session.sid)


def inside(bench: Bench, *, subjects: str = SUBJECTS, texts: tuple[str, ...] = ()) -> Inside:
    """Return a service in this process."""
    hosted = Hosted(
        Premises(bench.home, bench.workspace, bench.outside), texts, Subjects.read(subjects)
    )
    log = io.StringIO()
    watch = Watch(log, bench.clock)
    app = Application(hosted, ServiceKeys.read(KEYS), watch, base="http://pdp.test")
    return Inside(hosted, app, log, bench)


def private_file(path: Path, text: str) -> Path:
    """Write a file that only its owner may read."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text, encoding="utf-8")
    return path


@dataclass
class Served:
    """A service in a process of its own."""

    process: subprocess.Popen[bytes]
    port: int
    local: Path
    log: Path
    sid: str
    home: Path

    def ask(
        self, path: str, body: object = None, *, key: str = EVALUATOR, method: str = ""
    ) -> Heard:
        """Make one request over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        content = None if body is None else json.dumps(body)
        try:
            connection.request(
                method or ("GET" if body is None else "POST"), path, content, headers
            )
            found = connection.getresponse()
            told = {name.lower(): value for name, value in found.getheaders()}
            return Heard(found.status, told, found.read())
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        """Return a raw connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def events(self) -> list[dict[str, Any]]:
        """Return the log's lines."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Tell the service to go, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def served(
    root: Path,
    *words: str,
    subjects: str = SUBJECTS,
    environ: Mapping[str, str] | None = None,
    code: str = "",
) -> Iterator[Served]:
    """
    Start `broker serve` and end it.

    ``code`` is run in its process first, so that a test can set a shorter limit.
    """
    (root / "ws").mkdir(exist_ok=True)
    keys = private_file(root / "keys", KEYS)
    named = private_file(root / "subjects.toml", subjects)
    home, log = root / "home", root / "log"
    command = [*COMMAND[:2], f"{code}\n{COMMAND[2]}"] if code else list(COMMAND)
    given = ["serve", "--listen", "127.0.0.1:0", "--socket", str(root / "s"), "--keys", str(keys)]
    given += ["--subjects", str(named), "--workspace", str(root / "ws"), *words]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*command, *given],
            stderr=stream,
            env={**os.environ, "BROKER_HOME": str(home), **(environ or {})},
        )
    try:
        begun = _begun(process, log)
        port = int(begun["url"].rpartition(":")[2])
        yield Served(process, port, root / "s", log, begun["sid"], home)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _begun(process: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for line in log.read_text().splitlines():
            if '"serving"' in line:
                found: dict[str, Any] = json.loads(line)
                return found
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise AssertionError(f"the service did not begin: {log.read_text()}")


def exchanged(connection: socket.socket, data: bytes) -> bytes:
    """Send raw bytes, and return everything that comes back until the peer hangs up."""
    parts = []
    try:
        connection.sendall(data)
        while part := connection.recv(65_536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)
