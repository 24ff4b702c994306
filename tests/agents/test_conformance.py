"""
What is promised of every agent, asked of each real one.

One test for all agents: what differs is how an agent spells a call, in its ``Tongue``. What an
agent cannot do is a skip with its reason, and counted. Each runs where its agent is installed, and
needs neither an account nor a network. Every receipt is verified when it is read.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from broker.loopback.script import Say, Use, Wire, place
from broker.loopback.server import LoopbackModel
from tests.agents.stage import PATIENCE_S, Stage
from tests.agents.tongues import NOTES, Tongue, stage, tongue
from tests.mcpkit import WebServer, notes
from tests.runkit import finished

__all__ = ["stage", "tongue"]

pytestmark = [pytest.mark.agent, pytest.mark.timeout(400)]

KEY = "Bearer key-of-the-notes"


def test_what_is_in_scope_runs_and_nothing_else(stage: Stage, tongue: Tongue) -> None:
    """
    Read and changed inside: allowed. Read and changed outside, a shell: refused, by name, and told
    to the model with what to do. The receipt has each decision, and the line that was typed.
    """
    inside, outside = stage.file("src/a.py"), stage.file("secret.txt")
    Path(outside).write_text("do not tell\na = 1\n")
    read = Use([tongue.read(inside)])  # between refusals: an agent may give up after three
    code, _, err = stage.run(
        {
            "main": [
                read,
                Use([tongue.read(outside)]),
                Use([tongue.edit(inside)]),
                Use([tongue.edit(outside)]),
                Use([tongue.write(stage.file("new.txt"))]),
                read,
                Use([tongue.shell("echo x > src/shell.txt")]),
                Use([tongue.write(stage.file("src/new.txt"))]),
                Say("done"),
            ]
        },
        *tongue.options(str(stage.workspace)),
        scope=[tongue.scope("read", "edit", "write"), "paths=src/**"],
    )
    assert code == 0, err
    names = tongue.names
    blind = [] if tongue.reads_first else [(names["edit"], "refuse", "paths")]
    assert stage.decisions() == [
        (names["read"], "allow", ""),
        (names["read"], "refuse", "paths"),
        (names["edit"], "allow", ""),
        *blind,
        (names["write"], "refuse", "paths"),
        (names["read"], "allow", ""),
        (names["shell"], "refuse", "tools"),
        (names["write"], "allow", ""),
    ]
    assert "a = 2" in Path(inside).read_text()
    assert Path(outside).read_text() == "do not tell\na = 1\n"
    assert (stage.workspace / "src/new.txt").exists()
    assert not (stage.workspace / "new.txt").exists()
    assert not (stage.workspace / "src/shell.txt").exists()
    told = stage.told("main-1-0")
    assert "refused by `paths`" in told
    assert "do not work around this; ask the person" in told
    assert "do not tell" not in "".join(result.text for result in stage.results.values())
    (intent,) = stage.of("intent")
    assert intent["line"] == "[script main] go"
    assert f"4 allowed, {3 + len(blind)} refused" in err


def test_a_fetch_is_held_to_its_hosts(stage: Stage, tongue: Tongue) -> None:
    """An address that the scope does not name is refused, and nobody is asked there."""
    tongue.needs("fetch")
    assert tongue.fetch is not None
    with WebServer(notes) as server:
        code, _, err = stage.run(
            {"main": [Use([tongue.fetch(server.url)]), Say("done")]},
            scope=[tongue.scope("fetch"), "hosts=a.example"],
        )
        assert server.heard == []
    assert code == 0, err
    assert stage.decisions() == [(tongue.names["fetch"], "refuse", "hosts")]


@pytest.mark.parametrize("how", ["started", "address"])
def test_a_server_stands_behind_the_gateway(stage: Stage, tongue: Tongue, how: str) -> None:
    """
    A tool that the scope names runs, its sibling is not even shown, and a call that hook and
    gateway see is decided, debited and ended once. A server with an address gets its key, which
    stands on no command line. Nothing of the person's is edited.
    """
    tongue.needs("servers")
    if how == "address":
        tongue.needs("addresses")
    assert tongue.put is not None
    look = Use([tongue.look()])
    calls = [look, Use([tongue.look("drop")]), look, look]
    waits = 1 if tongue.name == "codex" else 0  # it does not wait for servers before its first turn
    turns = [*([Use([tongue.shell("sleep 8")])] * waits), *calls, Say("done")]
    with WebServer(notes) as server:
        entry = NOTES if how == "started" else _with_address(server)
        file = tongue.put(stage, entry)
        before = file.read_text()
        with Listed() as listed:
            code, _, err = stage.run(
                {"main": turns},
                scope=[tongue.scope("shell", also=["mcp__notes__look"]), f"calls={2 + waits}"],
            )
        if how == "address":
            assert {headers.get("authorization") for _, headers, _ in server.heard} == {KEY}
            assert KEY not in "".join(listed.lines)
            assert server.url not in "".join(listed.lines)
    assert code == 0, err
    assert "look was called" in stage.told(f"main-{waits}-0")
    assert "drop was called" not in "".join(result.text for result in stage.results.values())
    found = Counter((d["tool"], d["decision"]) for d in stage.of("decision"))
    assert found[("mcp__notes__look", "allow")] == 2
    assert found[("mcp__notes__look", "refuse")] == 1
    assert found[("mcp__notes__drop", "allow")] == 0
    told = [data["text"] for data in stage.of("note") if "mcp:notes" in data["source"]]
    assert any("2 tools, 1 shown" in text for text in told), stage.of("note")
    assert "no gateway before" not in err
    assert _entry(file.read_text()) == _entry(before)
    assert not [path for path in stage.bench.home.state.rglob("*-servers.json") if path.exists()]


def _with_address(server: WebServer) -> dict[str, object]:
    return {"type": "http", "url": server.url, "headers": {"Authorization": KEY}}


def _entry(text: str) -> object:
    """Return what a file of settings says of the server; an agent may keep more there."""
    if text.lstrip().startswith("{"):
        return json.loads(text)["mcpServers"]["notes"]
    return text.partition("[mcp_servers.notes]")[2]


class Listed:
    """Every command line of this user while a test runs, as anybody on the machine could see it."""

    def __init__(self) -> None:
        self.lines: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Listed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        own = os.getpid()
        while not self._over.wait(0.1):
            for line in Path("/proc").glob("[0-9]*/cmdline"):
                if int(line.parent.name) == own:
                    continue
                try:
                    self.lines.add(
                        line.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                    )
                except OSError:
                    continue


def test_a_subagent_is_held_to_its_own_ticket(stage: Stage, tongue: Tongue) -> None:
    """It has what its task asks for and no more, and its parent has its own all along."""
    tongue.needs("subagents")
    names = tongue.names
    inside, new, after = (stage.file(f"src/{n}") for n in ("a.py", "sub.txt", "after.txt"))
    code, _, err = stage.run(
        {
            "main": [
                *tongue.main(f"[script sub] look\nscope: tools={names['read']}"),
                Use([tongue.write(after)]),
                Say("done"),
            ],
            "sub": [Use([tongue.read(inside), tongue.write(new)]), tongue.report],
        },
        scope=[tongue.spawning("read", "write"), "paths=src/**", "calls=9"],
    )
    assert code == 0, err
    found = {
        (data["tool"], data["decision"], data.get("caveat", ""), data["actor"] != "main")
        for data in stage.of("decision")
        if data["tool"] in (names["read"], names["write"])
    }
    assert found == {
        (names["read"], "allow", "", True),
        (names["write"], "refuse", "tools", True),
        (names["write"], "allow", "", False),
    }
    assert not Path(new).exists()
    assert Path(after).exists()
    (handed,) = stage.of("delegate")
    (root,) = stage.of("ticket")
    assert (handed["parent"], handed["asked_by"]) == (root["ticket"], "main")
    held = {d["ticket"] for d in stage.of("decision") if d["actor"] != "main"}
    assert held == {handed["ticket"]}


def test_a_subagent_cannot_be_given_more(stage: Stage, tongue: Tongue) -> None:
    """A task that asks for a wider scope is refused by name, and its subagent never starts."""
    tongue.needs("subagents")
    names = tongue.names
    stage.run(
        {
            "main": [
                *tongue.main(f"[script sub] go\nscope: tools={names['read']},Everything"),
                Say("done"),
            ],
            "sub": [Use([tongue.read(stage.file("src/a.py"))]), tongue.report],
        },
        scope=[tongue.spawning("read"), "paths=src/**", "calls=9"],
    )
    spawned = [row for row in stage.decisions() if row[0] == names["spawn"]]
    assert spawned == [(names["spawn"], "refuse", "tools")]
    assert names["read"] not in {row[0] for row in stage.decisions()}
    assert "sub-0-0" not in stage.results
    assert "the scope that this task asks for: `tools=" in stage.told("main-0-0")
    assert "widens" in stage.told("main-0-0")
    (handed,) = stage.of("delegate")
    assert (handed["decision"], handed["caveat"]) == ("refuse", "tools")


def test_calls_at_once_share_the_budget(stage: Stage, tongue: Tongue) -> None:
    """Of ten calls in one turn under a budget of four, four run."""
    calls = [tongue.shell(f"echo x > src/{n}.txt") for n in range(10)]
    code, _, err = stage.run(
        {"main": [Use(calls), Say("done")]}, scope=[tongue.scope("shell"), "calls=4"]
    )
    assert code == 0, err
    assert Counter(row[1] for row in stage.decisions()) == {"allow": 4, "refuse": 6}
    assert {row[2] for row in stage.decisions() if row[1] == "refuse"} == {"calls"}
    assert len(list((stage.workspace / "src").glob("?.txt"))) == 4


class Late(LoopbackModel):
    """A model whose second answer comes when a ticket has ended."""

    ends_s = 0.0

    def answer(self, wire: Wire, body: dict[str, Any], model: str) -> dict[str, Any]:
        """Answer; from the second turn on not before the end."""
        if place(wire.read(body)).turn:
            time.sleep(max(0, self.ends_s - time.monotonic()))
        return super().answer(wire, body, model)


def test_a_ticket_that_ends_during_the_run(stage: Stage, tongue: Tongue) -> None:
    """A call before the end passes, the same one after it is refused."""
    turns = [Use([tongue.shell("touch early")]), Use([tongue.shell("touch late")])]
    with Late({"main": [*turns, Say("done")]}) as model:
        process = stage.start(model, scope=[tongue.scope("shell"), f"until={tongue.starts_s}s"])
        model.ends_s = time.monotonic() + tongue.starts_s + 4  # the ticket is minted meanwhile
        code, _, err = finished(process, PATIENCE_S)
    assert code == 0, err
    assert [row[1:] for row in stage.decisions()] == [("allow", ""), ("refuse", "until")]
    assert (stage.workspace / "early").exists()
    assert not (stage.workspace / "late").exists()


def test_a_link_that_is_moved(stage: Stage, tongue: Tongue) -> None:
    """A link that led inside, and that a call has moved, is judged by where it leads now."""
    elsewhere = stage.root / "elsewhere"
    elsewhere.mkdir()
    (stage.workspace / "src/inner").mkdir()
    (stage.workspace / "src/link").symlink_to("inner")
    code, _, err = stage.run(
        {
            "main": [
                Use([tongue.write(stage.file("src/link/one.txt"))]),
                Use([tongue.shell(f"rm src/link; ln -s {elsewhere} src/link")]),
                Use([tongue.write(stage.file("src/link/two.txt"))]),
                Say("done"),
            ]
        },
        *tongue.options(str(elsewhere)),
        scope=[tongue.scope("shell", "write"), "paths=src/**"],
    )
    assert code == 0, err
    assert [row[1:] for row in stage.decisions()] == [
        ("allow", ""),
        ("allow", ""),
        ("refuse", "paths"),
    ]
    assert (stage.workspace / "src/inner/one.txt").exists()
    assert list(elsewhere.iterdir()) == []


def test_the_end_of_each_call_is_recorded(stage: Stage, tongue: Tongue) -> None:
    """Once for each call that ran, with its id, and for none that was refused."""
    (stage.workspace / "secret.txt").write_text("x\n")
    turns = [
        Use([tongue.shell("true")]),
        Use([tongue.read(stage.file("secret.txt"))]),
        Use([tongue.shell("true"), tongue.shell("true")]),
        Use([tongue.shell("seq 9999999 | tail -1")]),
        Use([tongue.shell("sleep 1")]),
    ]
    code, _, err = stage.run(
        {"main": [*turns, Say("done")]}, scope=[tongue.scope("read", "shell"), "paths=src/**"]
    )
    assert code == 0, err
    ran = [d["call"] for d in stage.of("decision") if d["decision"] == "allow"]
    told = [d["call"] for d in stage.of("result")]
    assert len(set(ran)) == len(ran) == 5
    # The last one may come too late: nothing waits for it.
    assert sorted(told) in (sorted(ran), sorted(ran[:-1]))
    assert all(d["ok"] for d in stage.of("result"))
    assert all(re.fullmatch(r"(sha256:)?[0-9a-f]{64}", d["output"]) for d in stage.of("result"))
