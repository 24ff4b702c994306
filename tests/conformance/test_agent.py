"""`broker agent` over the official clients, against scripted servers of the three wires."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from broker.errors import BrokerError, LimitError, ModelError, StoreError
from broker.harness.exits import exit_code
from broker.harness.verify import VerifyError
from broker.loopback.script import Say, Use
from tests.agentkit import KEY, MODELS, Bench, Typist, scripted
from tests.providerkit import Act, Provider, fails, provider, says

EACH = pytest.mark.parametrize("model", MODELS)
# What the three share above the wire is tried on one of them each time, and on all in the deep run.
ONE = pytest.mark.parametrize(
    "model",
    [pytest.param(m, marks=() if m.startswith("anthropic") else pytest.mark.deep) for m in MODELS],
)
SCRIPT = {
    "main": [
        Use([("read", {"path": "a.txt"}), ("write", {"path": "b.txt", "content": "two"})]),
        Say("It says one."),
    ],
    "leader": [
        Use([("task", {"prompt": "[script helper] go", "scope": ["tools=read"]})]),
        Say("Helped."),
    ],
    "helper": [
        Use([("write", {"path": "b.txt", "content": "x"}), ("read", {"path": "a.txt"})]),
        Say("I read."),
    ],
    "endless": [Use([("read", {"path": "a.txt"})])] * 9,
}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is asked without a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def streams(model: str, text: str = "hello") -> Act:
    """Return a good answer of the wire of a model."""
    return says(MODELS[model][2], text, stream=True)


def asked(tmp_path: Path, server: Provider, model: str, **more: Any) -> tuple[Bench, BrokerError]:
    """Ask a server that fails, and return what it left and the error that was told."""
    bench = Bench(tmp_path, server.url, Typist(tty=False))
    with pytest.raises(BrokerError) as raised:
        bench.run("hi", model=model, **more)
    return bench, raised.value


@EACH
def test_a_run_is_held_recorded_and_streamed(model: str, tmp_path: Path) -> None:
    """Calls are held to the ticket, every model call is recorded, and the receipt verifies."""
    with scripted(tmp_path, SCRIPT) as (bench, server):
        ended = bench.run("[script main] go", model=model, texts=["tools=read"])
        assert bench.terminal.shown.endswith("It says one.\n")
        (sid,) = bench.sids
        assert ended.code == 0
        assert ended.document["calls"] == {"done": 1, "failed": 0, "refused": 1}
        assert bench.decisions(sid) == [("read", "allow"), ("write", "refuse")]
        places = [(r.turn, r.attempt, r.branch) for r in bench.requests(sid)]
        assert places == [(0, 0, "main"), (1, 0, "main")]
        assert [r.failure for r in bench.responses(sid)] == [None, None]
        assert "refused by `tools`" in server.asked[-1]
    assert bench.entries(sid)[-1].data["reason"] == "complete"
    for file in (bench.folder / "home").rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes()


@ONE
def test_what_the_server_received_hashes_to_what_was_recorded(model: str, tmp_path: Path) -> None:
    """The digest and the length of a record are those of the bytes that arrived (row 37)."""
    with provider(streams(model)) as server:
        bench = Bench(tmp_path, server.url)
        bench.run("PASSWORD=hunter2", model=model)
        (request,) = bench.requests(bench.sids[0])
        assert [request.sha256] == server.digests
        assert request.size_bytes == len(server.received[0])
        assert b"hunter2" in server.received[0]
        assert request.body is not None
        assert request.body.redacted
        assert b"hunter2" not in bench.kept(bench.sids[0]).body(request.body)
        # No id of a record is part of what a model is shown (row 42).
        assert request.id.encode() not in server.received[0]


@ONE
@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (401, {"type": "authentication_error"}, "auth"),
        (429, {"type": "rate_limit_error", "message": "slower"}, "rate_limit"),
        (529, {"type": "overloaded_error", "message": "Overloaded"}, "overloaded"),
        (400, {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens",
               "code": "context_length_exceeded"}, "context_overflow"),
        (500, {"type": "api_error"}, "provider"),
    ],
    ids=["auth", "429", "529", "overflow", "500"],
)  # fmt: skip
def test_a_failure_is_told_by_its_kind(
    model: str, status: int, error: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    """The person reads one of the eight words, and the records have the same one (row 40)."""
    act = fails(status, error)
    act.headers = {"retry-after-ms": "1", "x-should-retry": "false"}
    with provider(act) as server:
        bench, raised = asked(tmp_path, server, model)
        assert isinstance(raised, ModelError)
        assert (raised.kind, exit_code(raised)) == (kind, 7)
        (sid,) = bench.sids
        assert [r.failure.kind for r in bench.responses(sid) if r.failure] == [kind]
        assert [r.sha256 for r in bench.requests(sid)] == server.digests
        if kind == "context_overflow":
            assert "longer than this model takes" in raised.message
        assert bench.entries(sid)[-1].data["reason"] == "interrupted"


@EACH
def test_what_the_client_tries_again_is_an_attempt(model: str, tmp_path: Path) -> None:
    """Trying again is the client's, and each attempt has its record (row 41)."""
    busy = fails(529, {"type": "overloaded_error"})
    busy.headers = {"retry-after-ms": "1"}
    with provider(busy, busy, streams(model)) as server:
        bench = Bench(tmp_path, server.url)
        bench.run("hi", model=model)
        places = [(r.turn, r.attempt) for r in bench.requests(bench.sids[0])]
        assert places == [(0, 0), (0, 1), (0, 2)]
        assert [r.sha256 for r in bench.requests(bench.sids[0])] == server.digests


@EACH
@pytest.mark.parametrize("drop", [True, False], ids=["dropped", "ended"])
def test_a_connection_that_goes_in_a_stream(model: str, drop: bool, tmp_path: Path) -> None:
    """Half an answer is none: it is told, recorded as what came, and no part of what is said."""
    whole = streams(model).parts[0]
    half = whole[: whole.index(b"\n\n") + 2]
    with provider(Act(kind="text/event-stream", parts=[half], drop=drop)) as server:
        bench, raised = asked(tmp_path, server, model)
        assert isinstance(raised, ModelError)
        assert raised.kind == "network"
        (response,) = bench.responses(bench.sids[0])
        assert response.sha256 == hashlib.sha256(half).hexdigest()


@ONE
@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ([b'event: message_start\ndata: {"type": \n\n'], "provider"),
        ([b"event: error\ndata: " + json.dumps({"type": "error", "error": {
            "type": "overloaded_error", "message": "Overloaded"}}).encode() + b"\n\n"],
         "overloaded"),
    ],
    ids=["malformed", "error"],
)  # fmt: skip
def test_a_stream_that_is_none(model: str, parts: list[bytes], kind: str, tmp_path: Path) -> None:
    """Nonsense and an error in its midst are told by kind, and recorded by the same one."""
    with provider(Act(kind="text/event-stream", parts=parts)) as server:
        bench, raised = asked(tmp_path, server, model)
        assert isinstance(raised, ModelError)
        failures = [r.failure.kind for r in bench.responses(bench.sids[0]) if r.failure]
        assert (raised.kind, failures) == (kind, [kind])


@ONE
def test_nothing_leaves_when_it_cannot_be_recorded(model: str, tmp_path: Path) -> None:
    """With a folder that cannot be written the server is never asked (row 36)."""
    with provider(streams(model)) as server:
        bench = Bench(tmp_path, server.url)
        world = bench.world()

        class Full(type(world.fs)):  # type: ignore[misc]  # the real files, but for one folder
            def below(self, path: str) -> Any:
                folder = super().below(path)
                if path.endswith("/records"):
                    folder = _Full(folder.path)
                return folder

        class _Full(type(world.fs.below("/"))):  # type: ignore[misc]  # as above
            def append(self, place: str, content: bytes, *, mode: int = 0o600) -> None:
                raise OSError(28, "No space left on device")

        object.__setattr__(world, "fs", Full())
        bench.world = lambda: world  # type: ignore[method-assign]  # the one that was prepared
        with pytest.raises(StoreError) as raised:
            bench.run("hi", model=model)
        assert exit_code(raised.value) == 6
        assert server.received == []


@pytest.mark.deep
def test_a_body_of_thirty_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent as it is; what is kept lies in files of the person's alone (row 38)."""
    monkeypatch.setattr("broker.agentloop.starting.prompt_text", lambda: "word " * (6 * 2**20))
    with provider(streams("anthropic/m-1")) as server:
        bench = Bench(tmp_path, server.url)
        bench.run("hi")
        (sid,) = bench.sids
        (request,) = bench.requests(sid)
        assert [request.sha256] == server.digests
        assert request.size_bytes > 30 * 2**20
        assert request.body is not None
        assert request.body.spilled
        assert bench.kept(sid).body(request.body) == server.received[0]
    folder = bench.home.sessions / sid / "records"
    (blob,) = folder.rglob("blobs/*/*")
    assert stat.S_IMODE(blob.stat().st_mode) == 0o600
    assert stat.S_IMODE(blob.parent.stat().st_mode) == 0o700


def test_two_sittings_at_once(tmp_path: Path) -> None:
    """Two agents at the same time have a session, records and a budget each."""
    with scripted(tmp_path, SCRIPT) as (_, server):
        benches = [Bench(tmp_path / name, server.url) for name in "ab"]
        for each in benches:
            each.folder.mkdir()

        def run(each: Bench) -> None:
            each.run("[script main] go", texts=["tools=read"])

        threads = [threading.Thread(target=run, args=(each,)) for each in benches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for each in benches:
            (sid,) = each.sids
            assert each.decisions(sid) == [("read", "allow"), ("write", "refuse")]
            assert [(r.turn, r.attempt) for r in each.requests(sid)] == [(0, 0), (1, 0)]


def test_a_helper_holds_a_narrower_ticket(tmp_path: Path) -> None:
    """A subagent of a real model has a branch, a ticket and no more than was handed on (row 28)."""
    with scripted(tmp_path, SCRIPT) as (bench, _):
        bench.run("[script leader] go", texts=["tools=task,read,write"], mode="auto")
        (sid,) = bench.sids
        assert bench.decisions(sid) == [("task", "allow"), ("write", "refuse"), ("read", "allow")]
        assert [r.branch for r in bench.requests(sid)] == ["main", "helper-1", "helper-1", "main"]
        (told,) = [e.data for e in bench.entries(sid) if e.kind == "delegate"]
        assert (told["holder"], told["caveats"]) == ("helper-1", ["tools=read"])
        assert "helper-1: I read.\n" in bench.terminal.shown


def test_a_loop_without_end_is_stopped(tmp_path: Path) -> None:
    """Turns have a cap for each line, and the person is told."""
    with scripted(tmp_path, SCRIPT) as (bench, server):
        with pytest.raises(LimitError, match="3 turns"):
            bench.run("[script endless] go", turns=3)
        assert len(server.asked) == 3


def test_a_declared_check_must_pass(tmp_path: Path) -> None:
    """`--verify false` ends a line that changed something with code 9 (row 27)."""
    from broker.capabilities.process import Finished

    script = {"main": [Use([("write", {"path": "b", "content": ""})]), Say("Done."), Say("Again.")]}
    with scripted(tmp_path, script, processes=[Finished(1)] * 3) as (bench, _):
        with pytest.raises(VerifyError) as raised:
            bench.run("[script main] go", mode="auto", verify="false")
        assert exit_code(raised.value) == 9


@ONE
def test_a_session_is_gone_on_with(model: str, tmp_path: Path) -> None:
    """The conversation comes from the records, what is left of the ticket from the receipt."""
    with scripted(tmp_path, SCRIPT) as (bench, _):
        bench.run("[script main] go", model=model, texts=["tools=read", "calls=2"])
        (old,) = bench.sids
        ended = bench.run("[script main] more", model=model, texts=None, resume=old[:8])
        (new,) = ended.document["sessions"]
        entries = bench.entries(new)
        assert entries[0].data["previous"]["sid"] == old
        ticket = next(e.data["caveats"] for e in entries if e.kind == "ticket")
        assert ticket == ["tools=read", "calls=1"]
        assert bench.decisions(new)[0] == ("read", "allow")
        first = json.loads(bench.kept(new).body(bench.requests(new)[0].body))
        rows = first.get("messages") or first["input"]
        assert "[script main] go" in json.dumps(rows[:2])
        assert "It says one." in json.dumps(rows[:-1])


def test_a_conversation_goes_on_with_another_provider(tmp_path: Path) -> None:
    """What one API said is told to another one's model."""
    with scripted(tmp_path, SCRIPT) as (bench, server):
        bench.run("[script main] go", texts=["tools=read"])
        (old,) = bench.sids
        bench.run("[script main] more", model="openai/m-1", texts=None, resume=old)
        assert "It says one." in server.asked[-1]


COMMAND = [sys.executable, "-c", "from broker.cli.main import main; main()", "agent"]


def started(tmp_path: Path, url: str, *words: str, **more: Any) -> subprocess.Popen[str]:
    """Start the command as a process of its own."""
    (tmp_path / "ws").mkdir(exist_ok=True)
    environ = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("BROKER_", "ANTHROPIC_"))},
        "BROKER_HOME": str(tmp_path / "home"),
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
    }
    return subprocess.Popen(
        [*COMMAND, "--model", "anthropic/m-1", *words],
        cwd=tmp_path / "ws",
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 130, id="ctrl-c"),
        pytest.param(signal.SIGTERM, 143, id="term", marks=pytest.mark.deep),
    ],
)
def test_a_signal_in_a_stream_seals_what_is_there(number: int, code: int, tmp_path: Path) -> None:
    """A real process that is stopped while a model speaks leaves a sealed receipt and a record."""
    gate = threading.Event()
    parts = [part + b"\n\n" for part in streams("anthropic/m-1").parts[0].split(b"\n\n") if part]
    act = Act(kind="text/event-stream", parts=parts)
    act.between = lambda n: gate.wait(30) if n == 2 else None  # type: ignore[func-returns-value,assignment]  # waits
    with provider(act) as server:
        process = started(tmp_path, server.url, "--scope", "tools=read", "hi")
        try:
            end = time.monotonic() + 60
            while not server.received and time.monotonic() < end:
                time.sleep(0.05)
            time.sleep(0.3)
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
        finally:
            gate.set()
            process.kill()
        assert process.returncode == code, errors
        assert "Traceback" not in errors
        bench = Bench(tmp_path, server.url)
        (sid,) = bench.sids
        assert bench.entries(sid)[-1].data["reason"] == "interrupted"
        assert [r.failure.kind for r in bench.responses(sid)] == ["aborted"]


@pytest.mark.deep
def test_one_document_for_a_script(tmp_path: Path) -> None:
    """`--json` answers with one document, and nothing else on standard output."""
    with scripted(tmp_path, SCRIPT) as (bench, server):
        words = ("--scope", "tools=read", "--json", "[script main] go")
        process = started(tmp_path, server.url, *words)
        out, errors = process.communicate(timeout=100)
        assert (process.returncode, errors) == (0, "")
        document = json.loads(out)
        assert document["said"] == "It says one."
        assert document["model"] == "anthropic/m-1"
        assert document["sessions"] == bench.sids
        assert document["usage"] == {"input": 2, "output": 2, "cache_read": 0, "cache_write": 0}
