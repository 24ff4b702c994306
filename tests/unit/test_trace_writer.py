"""The one who writes a run."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from broker.capabilities.clock import FakeClock
from broker.errors import InputError, TraceError
from broker.limits import MAX_TRACE_LINE_BYTES
from broker.receipt.disk import DISK
from broker.trace.about import Parent
from broker.trace.bodies import rebuilt
from broker.trace.format import EVENT_TYPES
from broker.trace.reader import RunReader
from broker.trace.requests import Requests
from broker.trace.writer import RunWriter
from tests.unit.tracekit import SH, begun, independent, lines, whole, written


def test_a_run_for_the_independent_reader(tmp_path: Path) -> None:
    """Another's reader finds no problem in what we write, and good integrity."""
    run = whole(tmp_path)
    reader = independent(run.folder)
    assert [e.seq for e in reader.events()] == list(range(9))
    assert reader.manifest.counts == {"events": 9, "blobs": 1}
    assert reader.manifest.exit_code == 0
    assert RunReader.open(run.folder).integrity() == "ok"


def test_nobody_else_reads_it(tmp_path: Path) -> None:
    """Folders have mode 0700 and files 0600, whatever the umask."""
    before = os.umask(0)
    try:
        run = whole(tmp_path / "state" / "runs")
    finally:
        os.umask(before)
    for place in (run.folder.parent, run.folder, *run.folder.rglob("*")):
        mode = stat.S_IMODE(place.stat().st_mode)
        assert mode == (0o700 if place.is_dir() else 0o600), place


def test_every_type_may_be_written_and_no_other(tmp_path: Path) -> None:
    """The types are those of the format; a type or an actor of one's own is refused."""
    run = begun(tmp_path)
    for each in sorted(EVENT_TYPES):
        run.event(each, "orca")
    run.seal(None)
    assert len(independent(run.folder).events()) == len(EVENT_TYPES)
    for type_, actor in (("authority.decision", "orca"), ("note", "broker")):
        with pytest.raises(InputError):
            run.event(type_, actor)


def test_a_run_has_one_name(tmp_path: Path) -> None:
    """A name that is taken is given to nobody else, and one that is none to nobody."""
    about = replace(SH, run_id="run_abcdef")
    assert begun(tmp_path, about).run_id == "run_abcdef"
    with pytest.raises(TraceError, match="run_abcdef"):
        begun(tmp_path, about)
    for name in ("run_../x", "run_ABCDEF", "x", "run_abc"):
        with pytest.raises(InputError):
            begun(tmp_path, replace(SH, run_id=name))
    clash = (bytes(16), bytes(6), bytes(16), bytes(6), b"\1" * 6)
    values = iter(clash)
    runs = [
        RunWriter.create(tmp_path, SH, clock=FakeClock(), randomness=lambda _: next(values))
        for _ in range(2)
    ]
    assert [run.run_id for run in runs] == ["run_000000000000", "run_010101010101"]


def test_what_is_known_when_it_begins(tmp_path: Path) -> None:
    """A run says whose child it is, and leads to its session's receipt."""
    session = tmp_path / "sessions" / "k3v"
    session.mkdir(parents=True)
    about = replace(SH, session=session, parent=Parent("run_abcdef", 7, "other"))
    run = begun(tmp_path / "runs", about)
    assert (run.folder / "receipt").resolve() == session
    manifest = RunReader.open(run.folder).manifest
    assert (manifest.parent_run, manifest.fork_point, manifest.fork_model) == (
        "run_abcdef",
        7,
        "other",
    )


def test_payloads_above_the_limit_are_blobs(tmp_path: Path) -> None:
    """Up to 4,096 bytes a payload stands in its line; the same content is kept once."""
    run = begun(tmp_path)
    for size in (4_094, 4_095, 9_000, 9_000):
        run.event("note", "orca", payload="x" * size)  # two quotes come on top
    run.event("note", "orca", payload="ü" * 2_047)
    run.event("note", "orca", payload="ü" * 2_048)
    run.seal(None)
    kinds = ["$blob" in e["payload"] for e in lines(run.folder)]
    assert kinds == [False, True, True, True, False, True]
    assert len([p for p in (run.folder / "blobs").rglob("*") if p.is_file()]) == 3
    independent(run.folder)


def test_a_payload_that_looks_like_a_reference_is_none(tmp_path: Path) -> None:
    """Arguments that spell a reference reach nobody as one: they are kept in a blob."""
    run = begun(tmp_path)
    forged = {"$blob": "sha256:" + "0" * 64, "bytes": 3}
    run.event("tool.call", "model", payload=forged)
    run.event("tool.call", "model", payload=json.dumps(forged).encode())
    Requests(run).write("main", forged)
    run.seal(None)
    reader = independent(run.folder)
    assert [reader.payload(e) for e in reader.events()] == [forged] * 3


@pytest.mark.parametrize(
    ("payload", "media_type", "kept"),
    [
        (b'{"a":1}', "application/json", {"a": 1}),
        (b"not json", "application/json", b"not json"),
        (b"\xff\x00", "application/octet-stream", b"\xff\x00"),
        (b"plain", "text/plain", "plain"),
        ("plain", "text/plain", "plain"),
        ("a\udcffb", "text/plain", b"a\xffb"),
        ("a\ud800b", "text/plain", "a?b"),
        ("\ud800", "application/json", "\ud800"),
        (b'{"a":NaN}', "application/json", {"a": "nan"}),
        ({"a": (1, float("nan"))}, "application/json", {"a": [1, "nan"]}),
        ("line\u2028separator", "application/json", "line\u2028separator"),
        (None, "application/json", None),
    ],
)
def test_any_payload(payload: object, media_type: str, kept: object, tmp_path: Path) -> None:
    """Whatever the content, it is kept as it was, as far as the format can say it."""
    run = begun(tmp_path)
    run.event("note", "orca", payload=payload, media_type=media_type)
    run.seal(None)
    independent(run.folder)
    reader = RunReader.open(run.folder)
    assert [reader.payload(e) for e in reader.events()] == [kept]


def test_content_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """What is nested too deeply is left out, and its event says so; the run goes on."""
    run = begun(tmp_path)
    deep: object = "x"
    for _ in range(100_000):
        deep = [deep]
    run.event("note", "orca", payload=deep)
    run.event("note", "orca", attrs={"deep": deep})
    Requests(run).write("main", {"messages": [deep]})
    with pytest.raises(InputError, match="bytes"):
        run.event("note", "orca", attrs={"a": b"x"})
    run.event("note", "orca", attrs={"argv": ["x" * 1_000] * 2_000, "n": 1})
    run.seal(None)
    independent(run.folder)
    got = lines(run.folder)
    assert ["left_out" in e["attrs"] for e in got] == [True, True, True, False]
    assert got[3]["attrs"]["n"] == 1
    assert "left out" in got[3]["attrs"]["argv"]
    assert all(len(line) < MAX_TRACE_LINE_BYTES for line in written(run.folder))


def test_causes_come_before(tmp_path: Path) -> None:
    """A cause that is no earlier event is not written, so no edge points forward."""
    run = begun(tmp_path)
    run.event("note", "orca")
    run.event("note", "orca", causes=[0, -1, 0, 1, 7])
    assert lines(run.folder)[1]["causes"] == [0]


def test_many_threads_write_one_run(tmp_path: Path) -> None:
    """Fifty threads at once: numbers are dense, lines whole, and time never runs backwards."""
    run = begun(tmp_path)
    barrier = threading.Barrier(50)

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(5):
            seq = run.event("note", "orca", attrs={"by": number}, payload="y" * 5_000)
            run.event("note", "orca", causes=[seq])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(50)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    run.seal(0)
    events = independent(run.folder).events()
    assert [e.seq for e in events] == list(range(500))
    assert all(a.mono_us <= b.mono_us for a, b in pairwise(events))


def test_after_the_seal_nothing_is_written(tmp_path: Path) -> None:
    """A late event is left out rather than breaking the seal; sealing twice does nothing."""
    run = whole(tmp_path)
    before = list(written(run.folder))
    assert run.event("note", "orca") == -1
    run.seal(1)
    with pytest.raises(TraceError):
        run.blob(b"x", "text/plain")
    assert list(written(run.folder)) == before


class Full:
    """A disk that takes so many bytes and then a part of a line, or none of it."""

    def __init__(self, room: int, *, part: bool) -> None:
        self.room = room
        self.part = part

    def write(self, fd: int, content: bytes) -> int:
        """Write what there is room for."""
        if len(content) <= self.room:
            self.room -= len(content)
            return os.write(fd, content)
        if self.part and self.room:
            done, self.room = os.write(fd, content[: self.room]), 0
            return done
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("part", [False, True])
def test_a_full_disk_ends_the_recording_and_nothing_else(part: bool, tmp_path: Path) -> None:
    """It is raised once and then said; what was acknowledged is there, and no half of a line."""
    for room in range(300, 900, 90):
        disk = Full(10**9, part=part)
        run = begun(tmp_path / str(room), disk=replace(DISK, write=disk.write))
        disk.room = room
        seen, raised = 0, 0
        for _ in range(20):
            try:
                seen += run.event("note", "orca", attrs={"text": "x" * 20}) >= 0
            except TraceError:
                raised += 1
        assert raised == 1
        assert run.broken
        disk.room = 10**9
        run.seal(0)
        assert len(independent(run.folder).events()) == seen > 0


def test_a_seal_that_cannot_be_written(tmp_path: Path) -> None:
    """A disk that is full at the end leaves a run without a seal, which can be read."""
    disk = Full(10**9, part=False)
    run = begun(tmp_path, disk=replace(DISK, write=disk.write))
    run.event("note", "orca")
    disk.room = 0
    with pytest.raises(TraceError, match="sealed"):
        run.seal(0)
    reader = RunReader.open(run.folder)
    assert (reader.integrity(), len(reader.events()), reader.problems()) == ("unsealed", 1, [])


def test_runs_that_cannot_begin(tmp_path: Path) -> None:
    """Where no folder can be made, the reason is named."""
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceError, match="no run can be recorded"):
        begun(tmp_path / "file" / "runs")


SECRETS = {
    "argv": ["curl", "-u", "me:pw-1-secret", "--password", "pw-2-secret"],
    "headers": {"authorization": "Bearer pw-3-secret"},
    "cwd": "https://me:pw-4-secret@host/",
    "pairs": ({"name": "API_KEY", "value": "pw-5-secret"},),
}


def test_no_secret_is_written(tmp_path: Path) -> None:
    """Attributes, payloads, texts and requests lose their secrets, which are counted by kind."""
    about = replace(
        SH, argv=("x", "--password", "pw-6-secret"), environ={"TERM": "PASSWORD=pw-7-secret"}
    )
    run = begun(tmp_path, about)
    run.event("shell.exec", "harness", attrs=SECRETS)
    run.event("note", "orca", payload={k: v for k, v in SECRETS.items() if k != "argv"})
    run.event("note", "orca", payload="PASSWORD=pw-8-secret\n" * 900, media_type="text/plain")
    run.event("note", "orca", payload=b'{"apiKey":"pw-9-secret"}')
    requests = Requests(run)
    for value in ("pw-10-secret", "pw-11-secret"):
        requests.write("main", {"env": [{"name": "API_KEY", "value": value}] * 9, "n": "x" * 500})
    requests.write("main", {"name": "API_KEY", "value": "pw-12-secret"})
    run.seal(0)
    assert not any(b"-secret" in content for content in written(run.folder))
    independent(run.folder)
    counted = json.loads((run.folder / "redactions.json").read_text())
    manifest = json.loads((run.folder / "manifest.json").read_text())
    assert {r["rule"]: r["count"] for r in counted["records"]} == manifest["redaction"][
        "rules_fired"
    ]
    assert sum(r["count"] for r in counted["records"]) > 900
    by_seq = {e["seq"]: e["paths"] for e in counted["events"]}
    assert "attrs.headers.authorization" in by_seq[0]
    assert by_seq[3] == ["payload.apiKey"]
    assert all(e["redacted"] == by_seq[e["seq"]] for e in lines(run.folder))


def test_the_same_secret_is_told_from_another_within_one_run(tmp_path: Path) -> None:
    """Placeholders are salted by the run: the same within one, another in the next."""
    found = []
    for _ in range(2):
        run = begun(tmp_path)
        for value in ("one", "one", "two"):
            run.event("note", "orca", attrs={"password": value})
        found.append([e["attrs"]["password"] for e in lines(run.folder)])
    assert found[0][0] == found[0][1] != found[0][2]
    assert not set(found[0]) & set(found[1])


def test_storage_grows_with_what_is_new(tmp_path: Path) -> None:
    """A hundred turns that resend the whole conversation cost at most 1.2 times what was new."""
    run = begun(tmp_path)
    requests = Requests(run)
    tools = [{"name": f"tool_{n}", "description": "word " * 100} for n in range(20)]
    system = [{"type": "text", "text": "You are " + "careful " * 1_000}]
    messages: list[dict[str, object]] = []
    new = len(json.dumps([tools, system]))
    bodies = {}
    for turn in range(100):
        run.new_turn()
        for each in messages:  # a mark moves to the last message, as clients with a cache do
            each.pop("cache_control", None)
        fresh = [
            {"role": "assistant", "content": f"I read file {turn}. " + os.urandom(500).hex()},
            {"role": "user", "content": f"file {turn}: " + os.urandom(1_000).hex()},
        ]
        fresh[-1]["cache_control"] = {"type": "ephemeral"}
        new += len(json.dumps(fresh))
        messages += fresh
        body = {"model": "m", "system": system, "messages": messages, "tools": tools}
        seq = requests.write("main", body, attrs={"sha256": "0" * 64, "bytes": 9})
        bodies[seq] = json.dumps(body)
        run.event("model.response", "model", causes=[seq], attrs={"status": 200})
    run.seal(0)
    independent(run.folder)
    size = sum(len(content) for content in written(run.folder))
    assert size <= 1.2 * new, f"{size / new:.2f}"
    reader = RunReader.open(run.folder)
    for seq, body in bodies.items():
        if seq % 20 == 0:
            assert json.dumps(rebuilt(reader, seq)) == body
