"""`broker verify`: a recording and the receipt of its session, held against each other."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from broker.capabilities.clock import FakeClock
from broker.capabilities.fs import SystemFiles
from broker.cli.wires import KEY_NAME
from broker.home import Home
from broker.receipt import Receipts, load_or_create_key
from broker.records.recorder import Recorder, Sent
from broker.records.store import RecordStore
from broker.resolution.arguments import canonical_digest
from broker.trace.requests import Requests
from broker.trace.writer import RunWriter
from tests.console import Console
from tests.unit.tracekit import SH, begun, independent, lines

AT = 1_767_225_600_000_000_000
CALLS = [
    ("read_file", "c1", {"path": "src/app.py"}, True),
    ("write_file", "c2", {"path": ".env", "password": "pw-secret"}, False),
    ("run", "", {"command": "ls"}, True),
]


@pytest.fixture
def home(broker_home: Path) -> Home:
    """The home of this test."""
    return Home.find({"BROKER_HOME": str(broker_home)})


def receipt(home: Home, *, sealed: bool = True, canary: str = "") -> Receipts:
    """Write the receipt of a session in which the calls were decided, and a canary's perhaps."""
    receipts = Receipts(home, load_or_create_key(home.keys / KEY_NAME))
    made = receipts.create("k3v", opening={}, at=AT)
    for tool, call, arguments, allowed in CALLS:
        data = {"call": call, "tool": tool, "args": canonical_digest(arguments)}
        decision = {"decision": "allow"} if allowed else {"decision": "refuse", "caveat": "paths"}
        made.append("decision", {**data, **decision}, at=AT)
    if canary:
        tried = {"call": "t", "tool": "Read", "args": "", "actor": "canary", "decision": canary}
        made.append("decision", tried, at=AT)
    if sealed:
        made.seal("complete", at=AT)
    made.close()
    return receipts


def recording(home: Home, *, calls: int = 3, more: int = 0, session: bool = True) -> RunWriter:
    """Write the run of that session; ``more`` calls ran without a decision."""
    run = begun(home.runs, replace(SH, session=home.sessions / "k3v") if session else SH)
    run.event("run.start", "orca", attrs={"adapter": "sh"})
    extra = [("read_file", f"x{n}", {"path": "etc/passwd"}, True) for n in range(more)]
    for at, (tool, call, arguments, allowed) in enumerate([*CALLS[:calls], *extra]):
        attrs = {"name": tool, "call": call, "args": canonical_digest(arguments)}
        asked = run.event("tool.call", "model", attrs=attrs, payload=arguments)
        if at < calls:
            told = {"kind": "authority.decision", "n": at + 1, "call": call, "allowed": allowed}
            run.event("note", "gateway", causes=[asked], attrs=told)
        run.event("tool.result", "harness", causes=[asked], attrs={"call": call, "ok": allowed})
    run.event("run.end", "orca", attrs={"exit_code": 0})
    run.seal(0)
    independent(run.folder)
    return run


def test_the_same_story(broker: Console, home: Home) -> None:
    """Receipt, seal and every call agree: verified, and each call has its decision."""
    receipt(home)
    run = recording(home)
    said = broker("verify")
    assert (said.code, said.err) == (0, "")
    assert f"verified: {run.run_id}, 3 calls, each with its decision" in said.out
    assert "3 calls with their decision (2 by id, 1 by content)" in said.out
    found = broker("verify", run.run_id, "--json").json()
    assert isinstance(found, dict)
    assert found["verified"]
    assert [m["by"] for m in found["join"]["matched"]] == ["id", "id", "content"]
    assert found["receipt"]["state"] == "SEALED"


@pytest.mark.parametrize(("canary", "code"), [("refuse", 0), ("allow", 1)])
def test_a_canary_is_no_call_of_the_run(
    canary: str, code: int, broker: Console, home: Home
) -> None:
    """That it was refused before the run is as it should be; one that got through is told."""
    receipt(home, canary=canary)
    recording(home)
    said = broker("verify", "--strict")
    assert said.code == code
    assert ("no call was seen" in said.out) is bool(code)


def test_a_call_past_the_gate(broker: Console, home: Home) -> None:
    """A call that was answered and that nobody decided is a break."""
    receipt(home)
    recording(home, more=2)
    said = broker("verify")
    assert said.code == 1
    assert said.out.count("has no decision") == 2
    found = broker("verify", "--json").json()
    assert isinstance(found, dict)
    assert [e["call"] for e in found["join"]["executions_without_a_decision"]] == ["x0", "x1"]


def test_a_decision_without_a_call(broker: Console, home: Home) -> None:
    """An allowed call that never ran is told, and is a break only if asked for."""
    receipt(home)
    recording(home, calls=2)
    said = broker("verify")
    assert said.code == 0
    assert "receipt line 3: the decision on `run`: allowed, and no call was seen" in said.out
    assert broker("verify", "--strict").code == 1


def test_a_receipt_that_was_changed(broker: Console, home: Home) -> None:
    """The receipt is verified first: a changed line is a break, and named."""
    receipts = receipt(home)
    recording(home)
    path = receipts.path("k3v")
    path.write_bytes(path.read_bytes().replace(b'"refuse"', b'"allow!"'))
    said = broker("verify")
    assert said.code == 1
    assert "the receipt: mac:" in said.out
    found = broker("verify", "--json").json()
    assert isinstance(found, dict)
    assert found["receipt_break"]["reason"] == "mac"


def resealed(run: RunWriter, change: dict[str, object], type_: str) -> None:
    """Change the attributes of all events of a type, and seal the run anew, as a forger would."""
    path = run.folder / "events.jsonl"
    rows = lines(run.folder)
    for row in rows:
        if row["type"] == type_:
            row["attrs"] |= change
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(content)
    manifest = json.loads((run.folder / "manifest.json").read_text())
    manifest["integrity"]["events_sha256"] = hashlib.sha256(content).hexdigest()
    (run.folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_recording_that_was_changed(broker: Console, home: Home) -> None:
    """A changed line breaks the seal; sealed anew, it breaks against the receipt."""
    receipt(home)
    run = recording(home)
    path = run.folder / "events.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"allowed":false', b'"allowed":true '))
    said = broker("verify")
    assert said.code == 1
    assert "not those that the run was sealed with" in said.out
    path.write_bytes(whole)
    resealed(run, {"allowed": True}, "note")
    independent(run.folder)  # the format itself cannot notice
    said = broker("verify")
    assert said.code == 1
    assert "tells the decision in line 2 as the opposite of what it is" in said.out


def test_a_blob_that_is_gone(broker: Console, home: Home) -> None:
    """Every payload is read and hashed: a missing one and a changed one are breaks."""
    receipt(home)
    run = begun(home.runs, replace(SH, session=home.sessions / "k3v"))
    run.event("note", "orca", payload="x" * 9_000)
    run.event("note", "orca", payload="y" * 9_000)
    run.event("run.end", "orca")
    run.seal(0)
    first, second = (p for p in sorted((run.folder / "blobs").rglob("*")) if p.is_file())
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1] + b"z")
    said = broker("verify")
    assert said.code == 1
    assert "is not there" in said.out
    assert "does not hash to its name" in said.out


def test_without_a_receipt_there_is_no_verdict(broker: Console, home: Home) -> None:
    """A run without a ticket, or of a session that is not here, cannot be judged."""
    recording(home, session=False)
    said = broker("verify")
    assert said.code == 2
    assert "recorded without a ticket" in said.out
    recording(home)
    said = broker("verify", "run_")
    assert said.code == 2  # several begin like that
    run = recording(home)
    said = broker("verify", run.run_id)
    assert said.code == 2
    assert "not judged" in said.out


def test_a_run_that_was_not_sealed(broker: Console, home: Home) -> None:
    """A run that is still written, or whose recorder died, cannot be judged."""
    receipt(home)
    run = begun(home.runs, replace(SH, session=home.sessions / "k3v"))
    run.event("run.start", "orca")
    said = broker("verify")
    assert said.code == 2
    assert "never sealed" in said.out
    run.seal(0)
    said = broker("verify")
    assert said.code == 2
    assert "stopped before its run did" in said.out


@pytest.mark.parametrize("target", ["../../etc", "a b", "K3V", "x" * 200])
def test_a_run_that_names_a_strange_session(target: str, broker: Console, home: Home) -> None:
    """The link in a run is read as a name and never followed."""
    run = recording(home, session=False)
    (run.folder / "receipt").symlink_to(f"/tmp/{target}")
    said = broker("verify")
    assert said.code == 2
    assert "names none" in said.err or "not judged" in said.out


def test_the_session_may_be_told_by_the_first_event(broker: Console, home: Home) -> None:
    """Where there is no link, the run's own start names the session."""
    receipt(home)
    run = begun(home.runs)
    run.event("run.start", "orca", attrs={"sid": "k3v"})
    run.event("run.end", "orca")
    run.seal(0)
    found = broker("verify", "--json").json()
    assert isinstance(found, dict)
    assert found["session"] == "k3v"
    assert found["receipt"]["lines"] == 5


ASK = b'{"model":"m-1","messages":[{"role":"user","content":"%d"}]}'


def asked(home: Home, tmp_path: Path, *, wire: list[int], meant: list[int]) -> str:
    """Record requests on the wire and in a harness; return the folder of the harness's records."""
    receipt(home)
    run = begun(home.runs, replace(SH, session=home.sessions / "k3v"))
    for number in wire:
        body = ASK % number
        attrs = {"sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body)}
        Requests(run).write("main", json.loads(body), attrs=attrs)
    run.event("run.end", "orca")
    run.seal(0)
    folder = tmp_path / "records"
    recorder = Recorder(RecordStore(SystemFiles().below(str(folder))), FakeClock())
    for number in meant:
        recorder.begin(Sent("POST", "api.test", "/v1/messages", ASK % number))
    return str(folder)


def test_what_a_harness_meant_is_what_was_sent(broker: Console, home: Home, tmp_path: Path) -> None:
    """The records of a harness and the wire were made apart, and their digests agree."""
    folder = asked(home, tmp_path, wire=[1, 2, 2], meant=[1, 2, 2])
    said = broker("verify", "--records", folder)
    assert said.code == 0
    assert "harness    3 requests that it meant, as they were sent" in said.out


def test_what_a_harness_did_not_mean_is_a_break(
    broker: Console, home: Home, tmp_path: Path
) -> None:
    """A request of somebody else, and one that never came by, are told, each by its place."""
    folder = asked(home, tmp_path, wire=[1, 2], meant=[1, 3])
    said = broker("verify", "--records", folder)
    assert said.code == 1
    assert "event 1: the harness did not mean this request" in said.out
    assert "never passed" in said.out
    found = broker("verify", "--records", folder, "--json").json()
    assert isinstance(found, dict)
    assert (len(found["wire"]["matched"]), found["wire"]["unmeant"]) == (1, [1])
    assert broker("verify", "--records", str(tmp_path / "none")).code == 2
    assert broker("verify", "--records", str(tmp_path)).code == 2
