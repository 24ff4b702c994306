"""The client for Node.js, under Node.js: against a real service, and against bad ones."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.servekit import EVALUATOR, OPERATOR, served

FOLDER = Path(__file__).resolve().parents[2] / "clients" / "typescript"
HEAD = f"""
import {{ Broker, BrokerError }} from "{FOLDER.as_uri()}/broker.mjs";
const [address, key] = process.argv.slice(2);
const said = {{}};
const fault = async (work) => {{
  try {{ await work(); return "nothing"; }} catch (error) {{
    return [error instanceof BrokerError, error.status, error.kind ?? null];
  }}
}};
"""
NODE = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

WHOLE = """
const operator = new Broker(address, { key });
const root = await operator.mint("read a.py", "tools=Read,Edit", "calls=3");
const child = await root.attenuate("tools=Read");
said.read = await child.check("Read", { file_path: "a.py" }, { callId: "c1" });
said.edit = await child.check("Edit", { file_path: "a.py" });
await child.result("c1", { ok: true, output: "a = 1" });
const described = await child.describe();
said.spent = described.spent;
said.wide = await fault(() => child.attenuate("tools=Read,Edit"));
said.many = (await Promise.all([1, 2, 3].map(() => child.check("Read", { file_path: "a.py" }))))
  .map((decision) => decision.allowed).sort();
const todo = { type: "todo", id: "7" };
said.ana = await operator.evaluate({ type: "user", id: "ana" }, { name: "can_read" }, todo);
said.ben = await operator.evaluate({ type: "user", id: "ben" }, { name: "can_read" }, todo);
said.held = (await root.evaluate({ type: "agent", id: "x" },
  { name: "call", properties: { file_path: "a.py" } }, { type: "tool", id: "Read" })).allowed;
await operator.end(described.sid);
said.ended = await child.check("Read", { file_path: "a.py" });
said.key = await new Broker(address, { key: "x".repeat(40) }).check("Read", {});
said.mint = await fault(() => new Broker(address, { key: process.argv[4] }).mint("x", "calls=1"));
console.log(JSON.stringify(said));
"""
BAD = """
const broker = new Broker(address, { ticket: "t", timeoutMs: 2000 });
said.found = [];
for (let n = Number(key); n > 0; n--) {
  said.found.push((await broker.check("Read", {})).caveat ?? "allowed");
}
const circular = {};
circular.self = circular;
said.circular = (await broker.check("Read", circular)).caveat;
said.addresses = ["http://10.0.0.1", "ftp://a", "https://a/b", "nonsense"].map((place) => {
  try { new Broker(place); return "made"; } catch { return "refused"; }
});
console.log(JSON.stringify(said));
"""


def _node(root: Path, code: str, *words: str) -> Any:
    program = root / "program.mjs"
    program.write_text(HEAD + code, encoding="utf-8")
    done = subprocess.run(
        ["node", str(program), *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@NODE
def test_a_ticket_from_mint_to_end(tmp_path: Path) -> None:
    """Node mints, narrows, checks at once and in turn, tells, evaluates and ends."""
    with served(tmp_path) as pdp:
        address = f"http://127.0.0.1:{pdp.port}"
        said = _node(tmp_path, WHOLE, address, OPERATOR, EVALUATOR)
    assert said["read"] == {"allowed": True, "enforcement": "gate"}
    assert (said["edit"]["allowed"], said["edit"]["caveat"]) == (False, "tools")
    assert said["spent"] == [1, 1]
    assert said["wide"] == [True, 403, "tools"]
    assert said["many"] == [False, True, True]
    assert said["ana"]["allowed"] is True
    assert said["ben"]["caveat"] == "subject"
    assert said["held"] is False
    assert said["ended"]["caveat"] == "session"
    assert said["key"]["caveat"] == "session"
    assert said["mint"] == [True, 403, None]


@NODE
def test_whatever_is_not_wholly_an_allow_is_a_refusal(tmp_path: Path) -> None:
    """Redirects, errors, cut-off, endless and half answers allow nothing, and nobody hangs."""
    allow = b'{"decision":"allow","enforcement":"gate"}'
    answers = [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 41\r\n\r\n" + allow,
        b"",
        b"no HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 90\r\n\r\n" + allow,
        b"HTTP/1.1 307 No\r\nLocation: /\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 No\r\nConnection: close\r\nContent-Length: 41\r\n\r\n" + allow,
        b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 20\r\n\r\n{"decision":"allow"}',
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n[",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b" " * (5 * 2**20),
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def work() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65_536)
                    try:
                        connection.sendall(answer)
                    except ConnectionError:
                        continue  # a client that has read enough

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        said = _node(tmp_path, BAD, f"http://127.0.0.1:{port}", str(len(answers)))
        thread.join(10)
    assert said["found"] == ["allowed", *["session"] * (len(answers) - 1)]
    assert said["circular"] == "session"
    assert said["addresses"] == ["refused"] * 4


def test_the_types_name_what_the_client_has() -> None:
    """Every public method of the client has a type, and no type names another."""
    code = (FOLDER / "broker.mjs").read_text(encoding="utf-8")
    types = (FOLDER / "broker.d.mts").read_text(encoding="utf-8")
    methods = set(re.findall(r"^  (?:async )?(?!constructor)([a-z]\w*)\(", code, re.MULTILINE))
    typed = types[types.index("export class Broker ") :]
    assert methods == set(re.findall(r"^  (?!constructor)([a-z]\w*)\(", typed, re.MULTILINE))
    assert "require(" not in code
    assert re.findall(r"^import ", code, re.MULTILINE) == []
