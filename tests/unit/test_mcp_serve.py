"""One gateway from what was typed to its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.errors import InputError, LaunchError
from broker.home import Home
from broker.mcp.serve import Served, serve, server_name
from broker.service.server import Server
from tests.hookkit import within
from tests.mcpkit import SERVER, WebServer, call, echo, said
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

MAIN = "from broker.cli.main import main; main()"
NOTES = (sys.executable, "-c", SERVER)


def start(bench: Bench, *words: str, **environ: str) -> subprocess.Popen[bytes]:
    """Start `broker mcp` as a client does."""
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "mcp", *words],
        cwd=bench.workspace,
        env={**os.environ, "BROKER_HOME": str(bench.home.state.parent), **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def talk(process: subprocess.Popen[bytes], *raw: bytes) -> tuple[list[dict[str, Any]], str]:
    """Send lines, one after the other's answer, hang up, and return what was heard."""
    assert process.stdin is not None
    assert process.stdout is not None
    heard = []
    for line in raw:
        process.stdin.write(line + b"\n")
        process.stdin.flush()
        if b'"id"' in line:
            heard.append(json.loads(process.stdout.readline()))
    out, err = process.communicate(timeout=30)
    assert out == b""
    return heard, err.decode()


def decided(bench: Bench, sid: str) -> list[tuple[str, str]]:
    """Return tool and decision of every decision of a receipt."""
    found = bench.entries(sid)
    return [(d["tool"], d["decision"]) for kind, d in found if kind == "decision"]


def only_session(home: Home) -> str:
    """Return the one session of a home."""
    (folder,) = home.sessions.iterdir()
    return folder.name


def test_alone_it_has_a_session_and_a_receipt(bench: Bench) -> None:
    """What was typed is the ticket, every decision is in the receipt, and it is sealed."""
    words = ("--server", "notes", "--scope", "tools=mcp__notes__look", "--scope", "calls=1")
    process = start(bench, *words, "--", *NOTES)
    heard, said_ = talk(
        process, said("tools/list", 1), call(2, "look"), call(3, "look"), call(4, "drop")
    )
    assert [tool["name"] for tool in heard[0]["result"]["tools"]] == ["look"]
    assert "isError" not in heard[1]["result"]
    assert "`calls`" in heard[2]["result"]["content"][0]["text"]
    assert "`tools`" in heard[3]["result"]["content"][0]["text"]
    assert process.returncode == 0
    sid = only_session(bench.home)
    assert decided(bench, sid) == [
        ("mcp__notes__look", "allow"),
        ("mcp__notes__look", "refuse"),
        ("mcp__notes__drop", "refuse"),
    ]
    entries = bench.entries(sid)
    assert entries[-1][0] == "seal"
    assert [d["ok"] for kind, d in entries if kind == "result"] == [True]
    assert [d["source"] for kind, d in entries if kind == "note"] == ["mcp:notes"]
    assert "1 allowed, 2 refused" in said_


def test_inside_a_run_the_live_session_is_asked(bench: Bench, tmp_path: Path) -> None:
    """Its ticket decides, and a call that a hook asked about before is debited once."""
    session = bench.open(("tools=mcp__notes__look", "calls=2"))
    server = Server(session, tmp_path / "s", {})
    server.bind()
    server.start()
    try:
        session.decide("mcp__notes__look", {"n": 1}, call_id="hook", server="notes")
        process = start(bench, "--server", "notes", "--", *NOTES, BROKER_SOCKET=str(server.path))
        heard, err = talk(
            process, said("tools/list", 1), call(2, "look", n=1), call(3, "look"), call(4, "look")
        )
    finally:
        server.stop()
        session.seal()
    assert [tool["name"] for tool in heard[0]["result"]["tools"]] == ["look"]
    assert ["isError" in told["result"] for told in heard[1:]] == [False, False, True]
    assert decided(bench, session.sid) == [
        ("mcp__notes__look", "allow"),
        ("mcp__notes__look", "allow"),
        ("mcp__notes__look", "refuse"),
    ]
    assert "socket:mcp:notes" in [d.get("source") for _, d in bench.entries(session.sid)]
    assert "receipt" not in err


def test_inside_a_run_a_scope_narrows(bench: Bench, tmp_path: Path) -> None:
    """A delegation is recorded and holds; a widening starts nothing."""
    session = bench.open(("tools=mcp__notes__*",))
    server = Server(session, tmp_path / "s", {})
    server.bind()
    server.start()
    environ = {"BROKER_SOCKET": str(server.path)}
    try:
        words = ("--server", "notes", "--scope")
        process = start(bench, *words, "tools=mcp__notes__look", "--", *NOTES, **environ)
        heard, _ = talk(process, call(1, "drop"), call(2, "look"))
        wide = start(bench, *words, "tools=*", "--", *NOTES, **environ)
        _, err = talk(wide)
    finally:
        server.stop()
        session.seal()
    assert ["isError" in told["result"] for told in heard] == [True, False]
    assert wide.returncode == 1
    assert "widens" in err
    assert [k for k, _ in bench.entries(session.sid)].count("delegate") == 2


def test_a_session_that_is_gone_refuses(bench: Bench, tmp_path: Path) -> None:
    """A broker that dies during the run leaves a gateway that lets nothing through."""
    session = bench.open(())
    server = Server(session, tmp_path / "s", {})
    server.bind()
    server.start()
    process = start(bench, "--server", "notes", "--", *NOTES, BROKER_SOCKET=str(server.path))
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(call(1, "look") + b"\n")
    process.stdin.flush()
    assert b'"isError"' not in process.stdout.readline()
    server.stop()
    session.seal()
    heard, _ = talk(process, call(2, "look"), said("resources/read", 3, uri="a:b"))
    assert "`session`" in heard[0]["result"]["content"][0]["text"]
    assert "`session`" in heard[1]["error"]["message"]
    without = start(bench, "--", *NOTES, BROKER_SOCKET=str(tmp_path / "nowhere"))
    talk(without)
    assert without.returncode == 2


def test_a_signal_seals_the_receipt(bench: Bench) -> None:
    """A client that ends its servers by SIGTERM leaves a sealed receipt."""
    process = start(bench, "--server", "notes", "--", *NOTES)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(said("ping", 1) + b"\n")
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode in (0, 128 + signal.SIGTERM)
    assert bench.entries(only_session(bench.home))[-1][0] == "seal"


def test_an_address_is_reached_from_our_streams(bench: Bench) -> None:
    """A client that starts servers reaches one over HTTP, with the header that was given."""
    with WebServer(echo) as web:
        words = ("--server", "notes", "--scope", "tools=mcp__notes__look", "--url", web.url)
        process = start(bench, *words, BROKER_MCP_HEADERS='{"Authorization":"Bearer x"}')
        heard, _ = talk(process, said("tools/list", 1), call(2, "look"), call(3, "drop"))
    assert [tool["name"] for tool in heard[0]["result"]["tools"]] == ["look"]
    assert heard[1]["result"] == {"heard": "tools/call"}
    assert heard[2]["result"]["isError"] is True
    posts = [headers for method, headers, _ in web.heard if method == "POST"]
    assert len(posts) == 2
    assert {headers["authorization"] for headers in posts} == {"Bearer x"}


def test_clients_are_served_over_http(bench: Bench) -> None:
    """The address is said, and SIGTERM seals the receipt."""
    import http.client

    with WebServer(echo) as web:
        process = start(bench, "--server", "notes", "--url", web.url, "--listen", "0")
        assert process.stderr is not None
        url = process.stderr.readline().decode().split()[-1]
        connection = http.client.HTTPConnection(url.split("/")[2], timeout=20)
        connection.request("POST", "/mcp", call(1, "look"))
        assert json.loads(connection.getresponse().read())["id"] == 1
        connection.close()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0
    sid = only_session(bench.home)
    assert within(5, lambda: bench.entries(sid)[-1][0] == "seal")
    assert decided(bench, sid) == [("mcp__notes__look", "allow")]


@pytest.mark.parametrize(
    "typed",
    [
        Served(),
        Served(("s",), url="http://h/"),
        Served(("s",), listen=0),
        Served(("s",), server="a b"),
        Served(("s",), server=""),
        Served(url="ftp://h/"),
    ],
)
def test_what_was_typed_must_make_sense(typed: Served) -> None:
    """A server has a command or an address, and a name that a scope can spell."""
    with pytest.raises(InputError):
        server_name(typed)


def test_a_broker_that_is_switched_off_serves_nothing(bench: Bench) -> None:
    """Where nothing would be refused, the gateway does not pretend."""
    bench.home.config.mkdir(parents=True, exist_ok=True)
    path = bench.home.config / "broker.toml"
    path.write_text("[broker]\nenabled = false\n")
    path.chmod(0o600)
    environ = {"BROKER_HOME": str(bench.home.state.parent)}
    with pytest.raises(LaunchError):
        serve(Served(NOTES, workspace=bench.workspace), environ=environ)


def test_a_server_that_cannot_be_started_leaves_a_sealed_receipt(bench: Bench) -> None:
    """What was begun is brought to its end."""
    process = start(bench, "--", "no-such-server-here")
    _, err = talk(process)
    assert process.returncode == 2
    assert "no such program" in err
    assert bench.entries(only_session(bench.home))[-1][0] == "seal"
