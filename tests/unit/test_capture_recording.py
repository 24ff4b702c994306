"""A run is recorded from its beginning to its end, whatever ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from orca_trace import TraceReader

from broker.agents.adapter import Launch, Plain, Prepared
from broker.capture.recording import Recording
from broker.events import Bus
from broker.loopback.script import Say, Use
from broker.loopback.server import LoopbackModel
from broker.trace.reader import RunReader
from tests.hookkit import within
from tests.runkit import finished, start
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

KEY = "sk-proj-" + "Zx8Lq2Vt" * 6
# Asks its model, runs what it says as a decided call, and tells the result.
AGENT = """
import json, os, sys, time, urllib.request
from broker.service.client import SessionClient
messages = [{"role": "user", "content": "[script main] go"}]
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
while True:
    tools = [{"type": "function", "function": {"name": "Read"}}]
    body = {"model": "m", "messages": messages, "tools": tools}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(), {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    message = json.load(opener.open(request))["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        if "BROKER_SOCKET" in os.environ:
            given = json.loads(call["function"]["arguments"])
            client = SessionClient.find(os.environ)
            client.decide("Read", given, call_id=call["id"], cwd=os.getcwd())
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "a = 1"})
    if len(sys.argv) > 1:
        open(sys.argv[1], "w").write("asked")
        time.sleep(60)
"""
SCRIPT = {"main": [Use([("Read", {"file_path": "src/a.py"})]), Say("done")]}


def run_folders(bench: Bench) -> list[Path]:
    """Return the folders of all runs."""
    return sorted(bench.home.runs.glob("run_*"))


def events(folder: Path) -> list[dict[str, Any]]:
    """Return the events of a run, but for those of its files: they come when they are ready."""
    found = map(json.loads, (folder / "events.jsonl").read_text().splitlines())
    return [event for event in found if not event["type"].startswith("fs.")]


def started(
    bench: Bench, model: LoopbackModel, *arguments: str, **environ: str
) -> subprocess.Popen[str]:
    """Start the agent under a ticket."""
    return start(
        [sys.executable, "-c", AGENT, *arguments],
        home=bench.home.state.parent,
        workspace=bench.workspace,
        environ={"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": KEY, **environ},
    )


def test_a_run_is_recorded(bench: Bench) -> None:
    """What was said, called and decided is there, joined to the receipt, and says so at the end."""
    with LoopbackModel(SCRIPT) as model:
        code, _, err = finished(started(bench, model))
    assert code == 0, err
    (folder,) = run_folders(bench)
    assert f"recorded {folder.name}: 2 requests, 1 call; `broker runs show {folder.name}`" in err
    found = [(e["type"], e["turn"]) for e in events(folder)]
    assert found == [
        ("run.start", 0), ("model.request", 1), ("model.response", 1), ("tool.call", 1),
        ("note", 1), ("tool.result", 2), ("model.request", 2), ("model.response", 2),
        ("run.end", 2),
    ]  # fmt: skip
    call, note = events(folder)[3:5]
    assert call["attrs"]["call"] == note["attrs"]["call"] == "call_main-0-0"
    assert note["causes"] == [call["seq"]]
    (info,) = bench.receipts().sessions()
    assert events(folder)[0]["attrs"]["sid"] == info.sid == note["attrs"]["sid"]
    assert (folder / "receipt").resolve() == (bench.home.sessions / info.sid).resolve()
    reader = TraceReader.open(folder)
    assert not reader.problems()
    assert reader.verify_integrity()
    assert KEY.encode() not in b"".join(p.read_bytes() for p in folder.rglob("*") if p.is_file())
    assert {p.stat().st_mode & 0o077 for p in (folder, *folder.rglob("*.json*"))} == {0}


@pytest.mark.parametrize("off", ["typed", "configured"])
def test_a_run_that_nobody_wants_recorded(bench: Bench, off: str) -> None:
    """Without a recording the agent has its own address, and no folder is made."""
    from tests import runkit

    environ = {}
    if off == "configured":
        bench.home.config.mkdir(parents=True, exist_ok=True)
        bench.home.config.joinpath("broker.toml").write_text("[broker]\nrecord = false\n")
        bench.home.config.joinpath("broker.toml").chmod(0o600)
    with LoopbackModel(SCRIPT) as model:
        environ = {"OPENAI_BASE_URL": f"{model.url}/v1"}
        command = [sys.executable, "-c", "import os; print(os.environ['OPENAI_BASE_URL'])"]
        process = runkit.start(
            command, home=bench.home.state.parent, workspace=bench.workspace,
            environ=environ, record=False if off == "typed" else None,
        )  # fmt: skip
        code, out, err = finished(process)
    assert (code, out.strip()) == (0, f"{model.url}/v1"), err
    assert not run_folders(bench)
    assert "recorded" not in err


def test_a_killed_broker_leaves_a_run_that_can_be_read(bench: Bench, tmp_path: Path) -> None:
    """What was recorded before is there, unsealed, and nothing of it is damaged."""
    mark = tmp_path / "mark"
    with LoopbackModel(SCRIPT) as model:
        process = started(bench, model, str(mark))
        assert within(30, mark.exists)
        (folder,) = run_folders(bench)
        assert within(10, lambda: len(events(folder)) >= 5)
        process.kill()
        finished(process)
    reader = RunReader.open(folder)
    assert reader.integrity() == "unsealed"
    assert not reader.problems()
    assert [e["type"] for e in events(folder)][:4] == [
        "run.start", "model.request", "model.response", "tool.call",
    ]  # fmt: skip


def test_a_terminated_run_is_sealed(bench: Bench, tmp_path: Path) -> None:
    """A run that is told to end is recorded to its end."""
    mark = tmp_path / "mark"
    with LoopbackModel(SCRIPT) as model:
        process = started(bench, model, str(mark))
        assert within(30, mark.exists)
        process.send_signal(signal.SIGTERM)
        code, _, err = finished(process)
    assert code == 128 + signal.SIGTERM, err
    (folder,) = run_folders(bench)
    assert events(folder)[-1]["attrs"] == {"exit_code": code}
    assert RunReader.open(folder).integrity() == "ok"


def test_a_model_that_is_gone_is_told_and_recorded(bench: Bench) -> None:
    """The agent hears that its model cannot be reached, and the trace has the request."""
    with LoopbackModel(SCRIPT) as model:
        pass
    code, _, err = finished(started(bench, model))
    assert code == 1
    assert "HTTP Error 502" in err
    (folder,) = run_folders(bench)
    asked, heard = events(folder)[1:3]
    assert (asked["type"], heard["attrs"]["error"]) == ("model.request", "network")


def test_where_nothing_can_be_recorded_the_run_goes_on(bench: Bench) -> None:
    """A folder of runs that cannot be made is said in one line, and the agent runs."""
    bench.home.state.mkdir(parents=True, exist_ok=True)
    bench.home.runs.write_text("in the way")
    with LoopbackModel(SCRIPT) as model:
        code, _, err = finished(started(bench, model))
    assert code == 0, err
    assert "warning: not recorded: " in err


class Nowhere(Plain):
    """An agent whose model is at no address."""

    def through(self, launch: Launch, prepared: Prepared, front: Any) -> Any:
        """Point at something else."""
        found = super().through(launch, prepared, front)
        return type(found)(found.prepared, off="its model is on the moon")


def recording(root: Path, said: list[str], environ: Mapping[str, str]) -> tuple[Recording, Launch]:
    """Begin a recording in this process."""
    launch = Launch(("agent",), environ, root, root, root / "s")
    made = Recording.begin(root / "runs", launch, Plain(), said.append)
    assert made is not None
    return made, launch


def test_a_model_that_cannot_be_told_is_said(tmp_path: Path) -> None:
    """Without the model's address the agent is left as it is, and the trace says why."""
    said: list[str] = []
    made, launch = recording(tmp_path, said, {})
    prepared = Prepared(("agent",))
    assert made.through(Nowhere(), launch, prepared) is prepared
    assert made.hosts == ()
    made.start(Bus())
    assert made.lost() is None
    made.ended(3)
    made.end(quiet=False)
    assert said[0] == "model calls are not recorded: its model is on the moon"
    note, end = events(made.folder)[1:]
    assert note["attrs"] == {
        "kind": "layer off",
        "layer": "model",
        "why": "its model is on the moon",
    }
    assert end["attrs"] == {"exit_code": 3}


def test_a_proxy_of_the_environment_is_not_asked_for_us(tmp_path: Path) -> None:
    """Where the environment names a proxy, this machine is left out of it, beside what was."""
    made, launch = recording(tmp_path, [], {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a, b"})
    found = made.through(Plain(), launch, Prepared(("agent",)))
    assert found.environ["NO_PROXY"] == found.environ["no_proxy"] == "a,b,127.0.0.1,localhost"
    (host,) = made.hosts
    assert found.environ["OPENAI_BASE_URL"].startswith(f"http://{host}/")
    made.end(quiet=True)


def test_an_address_that_is_none(tmp_path: Path) -> None:
    """A variable that holds no address turns the layer off, with the reason, and no password."""
    said: list[str] = []
    made, launch = recording(tmp_path, said, {"OPENAI_BASE_URL": "http://me:hunter2@host/v1"})
    made.through(Plain(), launch, Prepared(("agent",)))
    made.end(quiet=True)
    assert "no address of a model" in said[0]
    assert "hunter2" not in "".join(said)


def test_what_is_not_started_is_sealed_too(tmp_path: Path) -> None:
    """A run whose agent never began has an end, without an exit code."""
    said: list[str] = []
    made, launch = recording(tmp_path, said, dict(os.environ))
    made.through(Plain(), launch, Prepared(("agent",)))
    made.end(quiet=False)
    assert said == [
        f"recorded {made.run_id}: 0 requests, 0 calls; `broker runs show {made.run_id}`"
    ]
    assert RunReader.open(made.folder).integrity() == "ok"
