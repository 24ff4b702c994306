"""The broker's own MCP server, from what was typed to its end, asked by the official client."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.mcp.offering import RunningSession
from broker.service.client import SessionClient
from broker.service.server import Server
from tests.sessionkit import Bench, bench
from tests.unit.test_mcp_serve import decided, start, talk

__all__ = ["bench"]

MAIN = "from broker.cli.main import main; main()"
READ = {"tool": "Read", "arguments": {"file_path": "src/a.py"}}
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"check","arguments":%s}}'
ASKED = CALL % b'{"tool":"Read","arguments":{"file_path":"src/a.py"}}'


def test_the_official_client_speaks_with_it(bench: Bench) -> None:
    """The SDK's client starts it, lists its tools, checks, narrows and describes."""
    import asyncio

    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    arguments = ["-c", MAIN, "mcp", "serve", "--scope", "tools=Read,Edit", "--scope", "calls=5"]
    server = StdioServerParameters(
        command=sys.executable,
        args=arguments,
        cwd=bench.workspace,
        env={**os.environ, "BROKER_HOME": str(bench.home.state.parent)},
    )

    async def work() -> dict[str, Any]:
        found: dict[str, Any] = {}
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            begun = await session.initialize()
            found["name"] = begun.server_info.name
            found["tools"] = [tool.name for tool in (await session.list_tools()).tools]
            allowed = await session.call_tool("check", READ)
            found["allowed"] = allowed.structured_content
            child = (
                await session.call_tool("attenuate", {"scope": ["tools=Read"]})
            ).structured_content
            edit = {"tool": "Edit", "arguments": {"file_path": "src/a.py"}}
            refused = await session.call_tool("check", {**edit, "ticket": child["ticket"]})
            found["refused"] = refused.structured_content["caveat"]
            described = await session.call_tool("describe", {})
            found["spent"] = described.structured_content["spent"]
            found["sid"] = described.structured_content["sid"]
        return found

    found = asyncio.run(work())
    sid = found.pop("sid")
    assert found == {
        "name": "capability-broker",
        "tools": ["check", "attenuate", "describe"],
        "allowed": {"decision": "allow", "enforcement": "gate"},
        "refused": "tools",
        "spent": [1],
    }
    assert decided(bench, sid) == [("Read", "allow"), ("Edit", "refuse")]
    assert bench.entries(sid)[-1][0] == "seal"


def test_a_signal_seals_as_well(bench: Bench) -> None:
    """Told to go while its client is still there, it seals what was recorded."""
    process = start(bench, "serve", "--scope", "tools=Read", "--intent", "look")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(ASKED + b"\n")
    process.stdin.flush()
    assert b'"decision":"allow"' in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    (sid,) = [path.name for path in bench.home.sessions.iterdir()]
    assert [kind for kind, _ in bench.entries(sid)] == [
        "open",
        "intent",
        "ticket",
        "decision",
        "seal",
    ]


def test_inside_a_run_the_live_session_is_asked(bench: Bench, tmp_path: Path) -> None:
    """No second ticket is minted: the run's own judges, narrowed by what was typed here."""
    session = bench.open(["tools=Read,Edit", "calls=3"])
    path = Path("/tmp") / f"serve-{os.getpid()}"
    server = Server(session, path, {})
    server.bind()
    server.start()
    try:
        process = start(bench, "serve", "--scope", "tools=Read", BROKER_SOCKET=str(path))
        edit = CALL % b'{"tool":"Edit","arguments":{"file_path":"src/a.py"}}'
        heard, err = talk(process, ASKED, edit)
        told = [answer["result"]["structuredContent"]["decision"] for answer in heard]
        assert (told, err) == (["allow", "refuse"], "")
        asked = RunningSession(SessionClient(str(path)))
        child = asked.attenuate(["calls=2"], ticket=None)
        assert asked.describe(ticket=str(child["ticket"]))["spent"] == [1, 0]
        decision = asked.decide(
            "Read",
            {"file_path": "x"},
            ticket=str(child["ticket"]),
            call_id="",
            server=None,
            cwd=None,
        )
        assert decision.allowed
        assert session.spent() == (2,)
    finally:
        server.stop()


@pytest.mark.parametrize("words", [("--", "serve"), ("--server", "x", "serve")])
def test_a_program_that_is_called_serve_is_named_behind_dashes(
    bench: Bench, words: tuple[str, ...]
) -> None:
    """`mcp serve` is ours; a server's program of that name is started as any other."""
    process = start(bench, *words)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert b"`serve` cannot be started: there is no such program" in err
