"""What tests of replays share: recordings of the tests' making, and a small agent to play."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from broker.capabilities.clock import FakeClock
from broker.home import Home
from broker.loopback.script import Say, Use
from broker.loopback.server import LoopbackModel
from broker.trace.about import About, StartedBy
from broker.trace.reader import RunReader
from broker.trace.requests import Requests
from broker.trace.writer import RunWriter
from tests.console import Said, process

PATH = "/v1/messages"

# Asks as agents do: with the instant, the folder and an identifier of its own in every request.
AGENT = """
import json, os, sys, time, urllib.error, urllib.request, uuid
base = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
said = f"[script main] go in {os.getcwd()} at {time.strftime('%Y-%m-%dT%H:%M:%SZ')}, {uuid.uuid4()}"
messages = [{"role": "user", "content": said}]
tools = [{"name": "Read", "input_schema": {"type": "object"}}]
while True:
    body = {"model": "m", "messages": messages, "tools": tools}
    body["metadata"] = {"user_id": time.time()}
    headers = {"content-type": "application/json", "x-api-key": "none"}
    try:
        asked = urllib.request.Request(base, json.dumps(body).encode(), headers)
        answer = json.load(urllib.request.urlopen(asked))
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
        time.sleep(30)
        sys.exit(9)
    messages.append({"role": "assistant", "content": answer["content"]})
    uses = [part for part in answer["content"] if part["type"] == "tool_use"]
    if not uses:
        print(answer["content"][0]["text"])
        break
    told = []
    for use in uses:
        path = use["input"]["file_path"]
        text = open(path).read() if os.path.exists(path) else "there is no such file"
        open(path, "a").write("touched\\n")
        told.append({"type": "tool_result", "tool_use_id": use["id"], "content": text})
    messages.append({"role": "user", "content": told})
"""

SCRIPT = {
    "main": [
        Use([("Read", {"file_path": "a.txt"})]),
        Use([("Read", {"file_path": "b.txt"})]),
        Say("all is read"),
    ]
}


class Recorder:
    """A home, a workspace and an agent, and recordings of it."""

    def __init__(self, root: Path, home: Path) -> None:
        self.home = Home.find({"BROKER_HOME": str(home)})
        self.workspace = root / "ws"
        self.workspace.mkdir()
        self.program = root / "agent.py"
        self.program.write_text(AGENT, encoding="utf-8")
        self.command = [sys.executable, str(self.program)]

    def write(self, **files: str) -> None:
        """Write files of the workspace: `a="x"` is `a.txt`."""
        for name, text in files.items():
            (self.workspace / f"{name}.txt").write_text(text, encoding="utf-8")

    def broker(self, *words: str, url: str = "http://127.0.0.1:9") -> Said:
        """Run a command of the broker in the workspace; nobody listens at the model's address."""
        env = {**os.environ, "ANTHROPIC_BASE_URL": url}
        return process(*words, cwd=self.workspace, env=env, timeout_s=100)

    def record(self, *words: str) -> Said:
        """Record the agent against a scripted model, which is gone afterwards."""
        with LoopbackModel(SCRIPT) as model:
            return self.broker(*(words or ("record",)), "--", *self.command, url=model.url)


def recording(
    root: Path, rows: Sequence[tuple[str, object, dict[str, object], object]]
) -> RunReader:
    """
    Return a recording of the given exchanges.

    Each row is a conversation, a request's body, and an answer's attributes and content.
    """
    about = About(StartedBy("sh"), ["sh"], "/gone/ws")
    run = RunWriter.create(root / "runs", about, clock=FakeClock(), randomness=os.urandom)
    requests = Requests(run)
    for conversation, body, attrs, content in rows:
        asked = {"path": PATH, "method": "POST"}
        if conversation:
            run.new_turn()
            seq = requests.write(conversation, body, causes=[], attrs=asked)
        else:
            seq = run.event("model.request", "agent", attrs=asked, payload=body)
        given = {"status": 200, "content_type": "application/json", **attrs}
        kind = str(given["content_type"])
        said = content if isinstance(content, bytes) else json.dumps(content).encode()
        run.event(
            "model.response", "model", causes=[seq], attrs=given, payload=said, media_type=kind
        )
    run.seal(0)
    return RunReader.open(run.folder)


# Runs shells and asks an MCP server behind the gateway, as agents do: its words around the command.
HANDS = """
import json, os, subprocess, sys, urllib.error, urllib.request
base = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
messages = [{"role": "user", "content": "[script main] go"}]
server = None

def shell(command):
    words = ["sh", "-c", f"x{os.getpid()}=1; eval '" + command.replace("'", "'\\\\''") + "'"]
    done = subprocess.run(words, capture_output=True, text=True)
    return f"{done.returncode} {done.stdout!r} {done.stderr!r}"

def ask(method, params):
    body = {"jsonrpc": "2.0", "id": ask.n, "method": method, "params": params}
    ask.n += 1
    server.stdin.write(json.dumps(body) + "\\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    return answer.get("result", answer.get("error"))
ask.n = 1

def use(name, given):
    global server
    if name == "Bash":
        return shell(given["command"])
    if name == "Read":
        return open(given["file_path"]).read() if os.path.exists(given["file_path"]) else "no file"
    if server is None:
        broker = [sys.executable, "-c", "from broker.cli.main import main; main()"]
        words = [*broker, "mcp", "--quiet", "--server", "notes", "--", sys.executable, sys.argv[1]]
        pipe = subprocess.PIPE
        server = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)
        ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
        ask("tools/list", {})
    return json.dumps(ask("tools/call", {"name": name, "arguments": given}))

subprocess.run(["sh", "-c", "echo its own business >> $0", os.environ["OUTSIDE"]])
while True:
    body = {"model": "m", "messages": messages, "tools": [{"name": "Bash"}]}
    headers = {"content-type": "application/json", "x-api-key": "none"}
    asked = urllib.request.Request(base, json.dumps(body).encode(), headers)
    answer = json.load(urllib.request.urlopen(asked))
    messages.append({"role": "assistant", "content": answer["content"]})
    uses = [part for part in answer["content"] if part["type"] == "tool_use"]
    if not uses:
        print(answer["content"][0]["text"])
        break
    told = [{"type": "tool_result", "tool_use_id": each["id"],
             "content": use(each["name"], each["input"])} for each in uses]
    messages.append({"role": "user", "content": told})
if server is not None:
    server.stdin.close()
    server.wait(20)
"""
