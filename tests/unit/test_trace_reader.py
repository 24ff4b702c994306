"""The one who reads a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orca_trace
import pytest

from broker.errors import TraceError
from broker.limits import MAX_TRACE_LINE_BYTES, MAX_TRACE_PROBLEMS
from broker.trace import graph
from broker.trace.format import BlobRef
from broker.trace.reader import RunReader
from tests.unit.tracekit import whole

CASES = [
    "00-clean", "01-tampered-unsealed", "02-tampered-resealed", "03-tail-dropped-resealed",
    "04-truncated-last-line", "05-malformed-middle-line", "06-unknown-type", "07-seq-gap",
    "08-malformed-blob-ref", "09-forward-cause", "10-extra-property", "11-bad-timestamp",
    "12-unknown-actor", "13-blob-missing", "14-blob-corrupt", "15-never-sealed",
    "16-unanswered-request",
]  # fmt: skip
BLOB_ERRORS = {
    "BlobNotFoundError": "trace.blob.missing",
    "BlobIntegrityError": "trace.blob.corrupt",
}


def answers(folder: Path) -> dict[str, Any]:
    """Return what our reader and our graph say of a run, in the words of the golden answers."""
    reader = RunReader.open(folder)
    events = reader.events()
    errors = []
    for each in events:
        if isinstance(each.payload, BlobRef):
            try:
                reader.blob(each.payload)
            except TraceError as error:
                errors.append([each.seq, error.code])
    return {
        "events": len(events),
        "problems": [problem.partition(":")[0] for problem in reader.problems()],
        "integrity": reader.integrity(),
        "checkpoints": [c.seq for c in graph.checkpoints(events)],
        "turns": [[t.turn, t.start_seq, t.end_seq] for t in graph.turns_of(events)],
        "blob_errors": errors,
    }


@pytest.mark.parametrize("name", CASES)
def test_the_answers_of_the_independent_reader(name: str, shared: Path) -> None:
    """Of each damaged run our reader says what the format's independent reader says."""
    golden = json.loads((shared / "traces/orca-mutations/golden.json").read_text())["cases"]
    assert sorted(golden) == CASES
    expected = golden[name]
    folder = shared / "traces/orca-mutations" / name
    got = answers(folder)
    assert got == {
        "events": expected["events"],
        "problems": [problem.partition(":")[0] for problem in expected["problems"]],
        "integrity": expected["integrity"],
        "checkpoints": expected["checkpoints"],
        "turns": expected["turns"],
        "blob_errors": [[seq, BLOB_ERRORS[kind]] for seq, kind in expected["blob_errors"]],
    }
    other = orca_trace.TraceReader.open(folder)
    assert [e.seq for e in other.events()] == [e.seq for e in RunReader.open(folder).events()]
    if name == "00-clean":
        events = RunReader.open(folder).events()
        assert [e.seq for e in graph.chain(events, 17)] == expected["causal_chain_17"]
        for asked, (seq, moved) in expected["snap"].items():
            found, other_place = graph.snap(graph.checkpoints(events), int(asked))
            assert (found.seq, other_place) == (seq, moved)


def test_the_example_of_the_format(shared: Path) -> None:
    """The format's own example, of an older version, is read without a problem."""
    reader = RunReader.open(shared / "traces/orca-example-trace/run_9f2c14a03b71")
    assert reader.manifest.schema_version == "0.1.0"
    assert (len(reader.events()), reader.problems(), reader.integrity()) == (26, [], "ok")


def tampered(folder: Path, **changes: object) -> Path:
    """Change keys of a run's manifest; None takes one away."""
    path = folder / "manifest.json"
    document = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in document.items() if v is not None}))
    return folder


def test_a_newer_minor_version_is_read(tmp_path: Path) -> None:
    """What a newer minor version adds is passed over; unknown types are told."""
    folder = tampered(whole(tmp_path).folder, schema_version="0.3.0", weather="fine")
    with open(folder / "events.jsonl", "a", encoding="utf-8") as file:
        line = {"seq": 9, "ts": "2027-01-15T08:00:00Z", "mono_us": 1, "turn": 2, "actor": "orca"}
        file.write(json.dumps({**line, "type": "note", "mood": "good"}) + "\n")
        file.write(json.dumps({**line, "seq": 10, "type": "future.kind"}) + "\n")
    reader = RunReader.open(folder)
    assert reader.manifest.newer
    assert [e.seq for e in reader.events()] == list(range(10))
    assert [problem[:26] for problem in reader.problems()] == ["line 11: unknown event typ"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"schema_version": "1.0.0"}, "1.0.0"),
        ({"schema_version": "0.2"}, "schema_version"),
        ({"schema_version": 2}, "schema_version"),
        ({"schema_version": None}, "schema_version"),
        ({"run_id": "run_../../x"}, "run_id"),
        ({"created_at": "yesterday"}, "created_at"),
        ({"argv": "sh"}, "argv"),
        ({"adapter": {}}, "adapter"),
        ({"weather": "fine"}, "weather"),
        ({"exit_code": True}, "exit_code"),
        ({"integrity": {"events_sha256": "x", "blob_count": 0}}, "events_sha256"),
        ({"counts": {"events": -1}}, "counts"),
        ({"git": {"dirty": "no"}}, "dirty"),
        ({"env_allowlisted": {"A": 1}}, "env_allowlisted"),
        ({"platform": {"os": "linux"}}, "platform"),
        ({"redaction": {"rules_fired": {}}}, "policy_version"),
        ({"parent_run": "x"}, "parent_run"),
        ({"fork_point": 10**30}, "fork_point"),
    ],
)
def test_a_manifest_that_is_none(changes: dict[str, object], word: str, tmp_path: Path) -> None:
    """A malformed manifest, or one of another major version, is refused by naming the place."""
    folder = tampered(whole(tmp_path).folder, **changes)
    with pytest.raises(TraceError, match=word.replace(".", r"\.")):
        RunReader.open(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"1" * 5_000])
def test_a_manifest_that_is_no_object(content: bytes, tmp_path: Path) -> None:
    """Whatever stands in its place, a manifest that cannot be read is said to be so."""
    folder = whole(tmp_path).folder
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(TraceError, match="manifest"):
        RunReader.open(folder)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    """A folder without a manifest, and none at all, are told from each other by no traceback."""
    for folder in (tmp_path, tmp_path / "none", Path("/dev/null")):
        with pytest.raises(TraceError, match=r"manifest\.json"):
            RunReader.open(folder)


GOOD = {"seq": 0, "ts": "2027-01-15T08:00:00Z", "mono_us": 0, "turn": 0, "type": "note"}
HOSTILE = [
    (b"[" * 50_000 + b"]" * 50_000, "nested too deeply"),
    (b'{"seq":' + b"9" * 4_300 + b',"type":"note"}', "/"),
    (b'{"seq":' + b"9" * 5_000 + b"}", "malformed JSON"),
    (b'{"a":"' + b"x" * (16 * MAX_TRACE_LINE_BYTES) + b'"}', "longer than"),
    (b"\x00\xff\xfe", "malformed JSON"),
    (b"null", "not a JSON object"),
    (b'{"seq":true,"type":"\\u001b[2J"}', "unknown event type"),
    (json.dumps({**GOOD, "actor": "orca", "turn": -1}).encode(), "/turn"),
    (json.dumps({**GOOD, "actor": "orca", "causes": [0.5]}).encode(), "/causes/0"),
    (json.dumps({**GOOD, "actor": "orca", "payload": {"$blob": "../x"}}).encode(), "/payload"),
    (
        json.dumps(
            {**GOOD, "actor": "orca", "payload": {"$blob": "sha256:" + "/" * 64, "bytes": 1}}
        ).encode(),
        "$blob",
    ),
]


@pytest.mark.parametrize(("line", "word"), HOSTILE, ids=[word for _, word in HOSTILE])
def test_a_hostile_line_is_told_and_left_out(line: bytes, word: str, tmp_path: Path) -> None:
    """No line breaks the reader: it is told, and what follows it is read."""
    folder = whole(tmp_path).folder
    path = folder / "events.jsonl"
    before = path.read_bytes()
    path.write_bytes(line + b"\n" + before)
    reader = RunReader.open(folder)
    assert len(reader.events()) == len(before.splitlines())
    assert word in reader.problems()[0]
    assert "\x1b" not in "".join(reader.problems())
    assert all(len(problem) < 9_000 for problem in reader.problems())


def test_problems_have_a_limit(tmp_path: Path) -> None:
    """A file of nothing but faults is told of in bounded memory, with the number of the rest."""
    folder = whole(tmp_path).folder
    (folder / "events.jsonl").write_bytes(b"x\n" * (MAX_TRACE_PROBLEMS + 5))
    reader = RunReader.open(folder)
    assert reader.events() == []
    assert len(reader.problems()) == MAX_TRACE_PROBLEMS + 1
    assert reader.problems()[-1] == "and 5 more problems"


@pytest.mark.parametrize("name", ["events.jsonl", "manifest.json"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_opened(name: str, kind: str, tmp_path: Path) -> None:
    """A link is not followed, and a pipe holds nobody up."""
    folder = whole(tmp_path / "runs").folder
    secret = tmp_path / "secret"
    secret.write_bytes((folder / name).read_bytes())
    (folder / name).unlink()
    if kind == "link":
        (folder / name).symlink_to(secret)
    elif kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).mkdir()
    with pytest.raises(TraceError, match=name):
        RunReader.open(folder).events()


@pytest.mark.parametrize("what", ["blob", "shard", "blobs"])
def test_a_blob_is_reached_by_no_link(what: str, tmp_path: Path) -> None:
    """Neither a blob nor a folder on its way may be a link, though its content be right."""
    folder = whole(tmp_path / "runs").folder
    reader = RunReader.open(folder)
    (ref,) = [e.payload for e in reader.events() if isinstance(e.payload, BlobRef)]
    assert reader.blob(ref) == b"print(1)\n" * 1_000
    place = folder / "blobs"
    if what != "blobs":
        place /= ref.digest[:2]
    if what == "blob":
        place /= ref.digest
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TraceError) as caught:
        reader.blob(ref)
    assert caught.value.code == "trace.unsafe"


def test_payloads_come_back(tmp_path: Path) -> None:
    """A payload is its value, or the bytes of a blob that is not JSON."""
    reader = RunReader.open(whole(tmp_path).folder)
    got = {e.seq: reader.payload(e) for e in reader.events()}
    assert got[2] == {"messages": ["hi"]}
    assert got[4] == {"path": "src/app.py"}
    assert got[5] == b"print(1)\n" * 1_000
    assert got[0] is None


def test_a_run_without_events(tmp_path: Path) -> None:
    """A run that lost its events is told of as such, and its seal does not fit."""
    folder = whole(tmp_path).folder
    (folder / "events.jsonl").unlink()
    reader = RunReader.open(folder)
    assert reader.events() == []
    assert reader.problems() == ["events.jsonl: there is none"]
    assert reader.integrity() == "mismatch"


LARGE = """
import resource, sys
from pathlib import Path
from broker.trace.reader import RunReader
reader = RunReader.open(Path(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(sum(1 for _ in reader.stream()), reader.integrity())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_large_run_is_read_in_little_memory(tmp_path: Path) -> None:
    """Sixty megabytes of events pass through a few of memory, since a line is read at a time."""
    folder = whole(tmp_path).folder
    line = {**GOOD, "actor": "orca", "attrs": {"text": "x" * 60_000}}
    with open(folder / "events.jsonl", "w", encoding="utf-8") as file:
        for seq in range(1_000):
            file.write(json.dumps({**line, "seq": seq}) + "\n")
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(folder)], capture_output=True, text=True, check=True
    )
    counted, grown = done.stdout.splitlines()
    assert counted == "1000 mismatch"
    assert int(grown) < 16_000  # KiB, on Linux; bytes on macOS, where the limit says less
