"""
Real MCP servers behind the gateway, and the protocol's own conformance suite through it.

``BROKER_MCP_FILESYSTEM`` names the reference server for files, else ``mcp-server-filesystem`` is
looked for on the path. ``BROKER_MCP_CONFORMANCE`` is the suite's command, else ``conformance`` is;
``BROKER_MCP_CONFORMANCE_URL`` is the address of a server to try it with, else the reference server
``mcp-server-everything`` is started, which knows a third of its scenarios.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Use
from broker.mcp.config import gateway_command, wrap_servers
from tests.agents.test_claude_code import Stage, stage
from tests.hookkit import within
from tests.mcpkit import call, said
from tests.runkit import finished, start
from tests.sessionkit import Bench, bench

__all__ = ["bench", "stage"]
pytestmark = [pytest.mark.agent, pytest.mark.timeout(600)]

INITIALIZE = said(
    "initialize",
    0,
    protocolVersion="2025-06-18",
    capabilities={},
    clientInfo={"name": "test", "version": "1"},
)
INITIALIZED = said("notifications/initialized")

# An agent that starts the servers of its configuration, and calls what it is told to.
AGENT = """
import json, os, subprocess, sys
entry, calls = json.loads(sys.argv[1]), json.loads(sys.argv[2])
server = subprocess.Popen([entry["command"], *entry["args"]], env={**os.environ, **entry["env"]},
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(line):
    server.stdin.write(line + "\\n"); server.stdin.flush()
    return server.stdout.readline() if '"id"' in line else ""
for line in calls:
    print(ask(line).strip(), flush=True)
server.stdin.close(); server.wait(30)
"""


@pytest.fixture(scope="session")
def filesystem() -> str:
    """The reference server for files, or a skip."""
    found = os.environ.get("BROKER_MCP_FILESYSTEM") or shutil.which("mcp-server-filesystem")
    if not found:
        pytest.skip("the MCP server for files is not installed")
    return found


class Client:
    """A client of `broker mcp`, as an agent starts it."""

    def __init__(self, bench: Bench, program: str, *scope: str) -> None:
        texts = [word for text in scope for word in ("--scope", text)]
        self._process = subprocess.Popen(
            [*gateway_command(), "--server", "filesystem", *texts, "--", program, "."],
            cwd=bench.workspace,
            env={**os.environ, "BROKER_HOME": str(bench.home.state.parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._n = 0
        self.ask(INITIALIZE)
        self.send(INITIALIZED)

    def send(self, raw: bytes) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(raw + b"\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """Return the next line."""
        assert self._process.stdout is not None
        found = json.loads(self._process.stdout.readline())
        assert isinstance(found, dict)
        return found

    def ask(self, raw: bytes) -> dict[str, Any]:
        """Send a line and return the next one."""
        self.send(raw)
        return self.hear()

    def call(self, name: str, **arguments: object) -> tuple[bool, str]:
        """Call a tool; return whether it ran well, and its text."""
        self._n += 1
        result = self.ask(call(self._n, name, **arguments))["result"]
        return not result.get("isError"), result["content"][0].get("text", "")

    def end(self) -> None:
        """Hang up."""
        self._process.communicate(timeout=30)


@pytest.fixture
def scene(bench: Bench) -> Bench:
    """A workspace with a file inside the scope and one beside it."""
    (bench.workspace / "secret.txt").write_text("secret\n")
    return bench


def decisions(bench: Bench) -> list[tuple[str, str]]:
    """Return tool and decision of the one session's verified receipt."""
    (folder,) = bench.home.sessions.iterdir()
    assert bench.verdict(folder.name).state == "SEALED"
    found = [d for kind, d in bench.entries(folder.name) if kind == "decision"]
    return [(d["tool"].removeprefix("mcp__filesystem__"), d["decision"]) for d in found]


def test_a_server_is_held_to_the_scope(scene: Bench, filesystem: str) -> None:
    """Reading inside passes; reading beside, writing and an unnamed method do not."""
    client = Client(
        scene, filesystem, "tools=@reads,mcp__filesystem__*", "reads=src/**", "writes=none"
    )
    shown = [tool["name"] for tool in client.ask(said("tools/list", "l"))["result"]["tools"]]
    assert "read_text_file" in shown
    assert "write_file" not in shown
    assert client.call("read_text_file", path="src/a.py") == (True, "a = 1\n")
    assert client.call("read_text_file", path="secret.txt")[0] is False
    assert client.call("read_text_file", path="src/../secret.txt")[0] is False
    assert client.call("write_file", path="src/a.py", content="b")[0] is False
    assert "error" in client.ask(said("resources/read", "r", uri="file:///etc/passwd"))
    client.end()
    assert (scene.workspace / "src" / "a.py").read_text() == "a = 1\n"
    assert decisions(scene) == [
        ("read_text_file", "allow"),
        ("read_text_file", "refuse"),
        ("read_text_file", "refuse"),
        ("write_file", "refuse"),
        ("resources/read", "refuse"),
    ]


def test_a_link_that_is_moved_is_seen(scene: Bench, filesystem: str) -> None:
    """A link inside the scope that comes to lead out of it is refused from then on."""
    link = scene.workspace / "src" / "link"
    link.symlink_to("a.py")
    client = Client(scene, filesystem, "paths=src/**")
    assert client.call("read_text_file", path="src/link")[0] is True
    link.unlink()
    link.symlink_to("../secret.txt")
    ran, text = client.call("read_text_file", path="src/link")
    client.end()
    assert not ran
    assert "refused by `paths`" in text


def test_a_budget_holds_among_calls_at_once(scene: Bench, filesystem: str) -> None:
    """Ten calls that do not wait for each other make as many as the budget has."""
    client = Client(scene, filesystem, "calls=4")
    for n in range(10):
        client.send(call(n + 100, "read_text_file", path="src/a.py"))
    told = [client.hear()["result"] for _ in range(10)]
    client.end()
    assert sum(not result.get("isError") for result in told) == 4
    assert [d for _, d in decisions(scene)].count("allow") == 4


def test_a_ticket_ends_while_the_server_runs(scene: Bench, filesystem: str) -> None:
    """A call before the instant passes, and one after it is refused."""
    client = Client(scene, filesystem, "until=20s")
    assert client.call("read_text_file", path="src/a.py")[0] is True
    time.sleep(20.2)
    ran, text = client.call("read_text_file", path="src/a.py")
    client.end()
    assert not ran
    assert "`until`" in text


def test_a_configuration_is_held_in_a_run(scene: Bench, filesystem: str) -> None:
    """The wrapped entry asks the run's session, and its decisions stand in the run's receipt."""
    entry = {"command": filesystem, "args": [str(scene.workspace)]}
    # What the socket is called is known when the run begins, so the agent's environment has it.
    wrapped = wrap_servers({"filesystem": entry}, {"BROKER_HOME": str(scene.home.state.parent)})
    calls = [
        INITIALIZE,
        INITIALIZED,
        call(1, "read_text_file", path="src/a.py"),
        call(2, "read_text_file", path="secret.txt"),
    ]
    told = json.dumps([raw.decode() for raw in calls])
    command = [sys.executable, "-c", AGENT, json.dumps(wrapped["filesystem"]), told]
    run = start(
        command,
        home=scene.home.state.parent,
        workspace=scene.workspace,
        texts=("tools=mcp__filesystem__*", "paths=src/**"),
    )
    code, out, err = finished(run)
    assert code == 0, err
    assert "a = 1" in out
    assert "refused by `paths`" in out
    assert decisions(scene) == [("read_text_file", "allow"), ("read_text_file", "refuse")]


def test_a_hook_and_the_gateway_count_a_call_once(stage: Stage, filesystem: str) -> None:
    """A real agent's hook asks first, the gateway meets the same call, and one debit is made."""
    entry = {"command": filesystem, "args": [str(stage.workspace)]}
    home = {"BROKER_HOME": str(stage.bench.home.state.parent)}
    config = {"mcpServers": wrap_servers({"filesystem": entry}, home)}
    tool = "mcp__filesystem__read_text_file"
    place = str(stage.workspace / "src" / "a.py")
    uses: list[Use | Say] = [Use([(tool, {"path": place})]) for _ in range(3)]
    run = stage.play(
        {"main": [*uses, Say("done")]},
        "--mcp-config",
        json.dumps(config),
        scope=[f"tools={tool}", "paths=src/**", "calls=2"],
    )
    assert run.code == 0, run.err
    told = [data for kind, data in run.entries() if kind == "decision"]
    assert [(d["tool"], d["decision"]) for d in told] == [
        (tool, "allow"),
        (tool, "allow"),
        (tool, "refuse"),
    ]
    assert [d["ok"] for kind, d in run.entries() if kind == "result"] == [True, True]
    assert any("a = 1" in str(result) for result in run.results.values())


# ── conformance ──


@pytest.fixture(scope="session")
def suite() -> Sequence[str]:
    """The conformance suite's command, or a skip."""
    found = os.environ.get("BROKER_MCP_CONFORMANCE") or shutil.which("conformance")
    if not found:
        pytest.skip("the MCP conformance suite is not installed")
    command = shlex.split(found)
    if subprocess.run([*command, "--help"], capture_output=True, check=False).returncode:
        pytest.skip("the MCP conformance suite needs Node.js 22 or newer")
    return command


@pytest.fixture(scope="session")
def served(suite: Sequence[str]) -> Iterator[str]:
    """The address of a server for the suite: one that is named, or the reference server."""
    named = os.environ.get("BROKER_MCP_CONFORMANCE_URL")
    if named:
        yield named
        return
    program = shutil.which("mcp-server-everything")
    if program is None:
        pytest.skip("the MCP conformance suite is not installed")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    process = subprocess.Popen(
        [program, "streamableHttp"],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert within(60, lambda: listens(port))
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(30)


def listens(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def front(bench: Bench, served: str) -> Iterator[str]:
    """The address of a gateway under an open ticket, before the suite's server."""
    process = subprocess.Popen(
        [*gateway_command(), "--server", "suite", "--url", served, "--listen", "0"],
        cwd=bench.workspace,
        env={**os.environ, "BROKER_HOME": str(bench.home.state.parent)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    yield process.stderr.readline().split()[-1]
    process.terminate()
    process.communicate(timeout=30)


def passed(command: Sequence[str], url: str, folder: Path) -> set[str]:
    """Run the suite against an address, and return the scenarios that pass."""
    done = subprocess.run(
        [*command, "server", "--suite", "all", "--url", url],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert re.search(r"^Total: [1-9]", done.stdout, re.MULTILINE), done.stdout + done.stderr
    return set(re.findall(r"^✓ ([\w-]+):", done.stdout, re.MULTILINE))


def test_the_suite_sees_no_gateway(
    suite: Sequence[str], served: str, front: str, tmp_path: Path
) -> None:
    """Every scenario that passes with the server passes through the gateway."""
    alone = passed(suite, served, tmp_path)
    assert len(alone) > 8
    assert passed(suite, front, tmp_path) >= alone


SUITE_CLIENT = """
import json, subprocess, sys
gateway = subprocess.Popen([*json.loads(sys.argv[1]), "--server", "suite", "--url", sys.argv[-1]],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(method, ident=None, **params):
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    gateway.stdin.write(json.dumps(body | ({} if ident is None else {"id": ident})) + "\\n")
    gateway.stdin.flush()
    return None if ident is None else json.loads(gateway.stdout.readline())["result"]
ask("initialize", 0, protocolVersion="2025-11-25", capabilities={},
    clientInfo={"name": "suite", "version": "1"})
ask("notifications/initialized")
for n, tool in enumerate(ask("tools/list", 1)["tools"], 2):
    given = {"a": 5, "b": 3} if tool["name"] == "add_numbers" else {}
    ask("tools/call", n, name=tool["name"], arguments=given)
gateway.stdin.close(); gateway.wait(30)
"""


@pytest.mark.parametrize("scenario", ["initialize", "tools_call", "sse-retry"])
def test_the_suite_takes_the_gateway_for_a_client(
    suite: Sequence[str], scenario: str, bench: Bench
) -> None:
    """A client on standard streams reaches a server over HTTP as a client of its own would."""
    client = shlex.join([sys.executable, "-c", SUITE_CLIENT, json.dumps(gateway_command())])
    (bench.workspace / "client.sh").write_text(f'exec {client} "$1"\n')
    done = subprocess.run(
        [*suite, "client", "--command", "sh client.sh", "--scenario", scenario],
        cwd=bench.workspace,
        env={**os.environ, "BROKER_HOME": str(bench.home.state.parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
