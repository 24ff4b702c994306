"""Taking a text out of a run that is over."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from broker.capabilities.clock import FakeClock
from broker.errors import InputError, TraceError
from broker.redaction.hiding import Hider
from broker.redaction.trees import hide_tree
from broker.trace.bodies import rebuilt
from broker.trace.reader import RunReader
from broker.trace.requests import Requests
from broker.trace.scrub import left_in, scrub, spellings
from broker.trace.writer import RunWriter
from tests.unit.tracekit import begun, independent, lines, whole, written

SECRET = 'the "blue" Haus'
STREAM = "".join(
    f"data: {json.dumps({'type': 'content_block_delta', 'index': 0, 'delta': {'text': part}})}\n\n"
    for part in ("say the ", '"bl', 'ue" Ha', "us twice")
)


def told(runs: Path) -> tuple[RunWriter, list[int]]:
    """Return a run that holds the text in every place that a run has, and its requests."""
    run = begun(runs)
    run.event("run.start", "orca", attrs={"note": f"about {SECRET}."})
    requests = Requests(run)
    messages: list[object] = []
    seqs = []
    for turn in range(6):
        run.new_turn()
        messages.append({"role": "user", "content": f"{turn}: {SECRET} " + "word " * 900})
        seqs.append(requests.write("main", {"model": "m", "messages": list(messages)}))
        run.event("model.response", "model", payload=STREAM * 40, media_type="text/event-stream")
    run.event("tool.call", "model", attrs={"name": "x"}, payload={SECRET: [SECRET, {"n": 1}]})
    run.event("tool.result", "harness", payload=f"{SECRET}\n" * 900, media_type="text/plain")
    run.event("tool.result", "harness", payload={"inner": json.dumps({"a": SECRET})})
    run.event("shell.exec", "harness", attrs={"argv": ["echo", SECRET]})
    run.event("net.request", "orca", attrs={"url": f"http://h/?q={spellings(SECRET)[0]}"})
    run.event("run.end", "orca", attrs={"exit_code": 0})
    run.seal(0)
    independent(run.folder)
    return run, seqs


def test_a_text_goes_from_everywhere(tmp_path: Path) -> None:
    """In lines, blobs, streams cut in pieces, keys, nested documents and URLs: nothing is left."""
    run, seqs = told(tmp_path)
    assert len(list(left_in(run.folder, [SECRET]))) > 3  # and more in pieces
    before = RunReader.open(run.folder)
    bodies = {seq: rebuilt(before, seq) for seq in seqs}
    found = scrub(run.folder, [SECRET], clock=FakeClock())
    assert found.left == ()
    assert found.hidden["scrub"] > 100
    assert (found.lines_lost, found.snapshots) == (0, "none")
    everything = b"".join(written(run.folder))
    assert b"blue" not in everything
    reader = independent(run.folder)
    assert len(reader.events()) == len(lines(run.folder))
    ours = RunReader.open(run.folder)
    assert (ours.problems(), ours.integrity()) == ([], "ok")
    stream = b"".join(p for e in ours.events() if isinstance(p := ours.payload(e), bytes))
    assert stream.count(b"[hidden]") == 6 * 40 + 900
    for seq, body in bodies.items():
        assert json.dumps(rebuilt(ours, seq)) == json.dumps(body).replace(
            json.dumps(SECRET)[1:-1], "[hidden]"
        )


def test_it_is_said_in_the_run(tmp_path: Path) -> None:
    """A note at the end tells what was hidden, and how the seal stood before."""
    run = whole(tmp_path)
    (run.folder / "events.jsonl").write_bytes((run.folder / "events.jsonl").read_bytes() + b"{x\n")
    found = scrub(run.folder, ["src/app.py"], clock=FakeClock())
    assert found.lines_lost == 1
    last = lines(run.folder)[-1]
    assert last["attrs"] == {
        "kind": "scrub",
        "hidden": {"scrub": 1},
        "lines_lost": 1,
        "before": "mismatch",
    }
    assert last["seq"] == len(lines(run.folder)) - 1
    manifest = json.loads((run.folder / "manifest.json").read_text())
    assert manifest["redaction"]["rules_fired"] == {"scrub": 1}
    redactions = json.loads((run.folder / "redactions.json").read_text())
    assert redactions["scrubbed"] == [{"seq": 4, "paths": ["payload.path (substring)"]}]
    independent(run.folder)


def test_without_a_text_it_is_searched_by_today_s_rules(tmp_path: Path) -> None:
    """A run that was written with fewer rules loses what today's find; then nothing more."""
    run = begun(tmp_path)
    run.event("note", "orca", attrs={"text": "ZZZZWORD=hunter2-secret"}, payload="x" * 9_000)
    run.seal(0)
    path = run.folder / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b"ZZZZWORD", b"PASSWORD"))
    assert scrub(run.folder, clock=FakeClock()).hidden == {"name": 1}
    assert b"hunter2" not in path.read_bytes()
    assert scrub(run.folder, clock=FakeClock()).hidden == {}
    assert len(lines(run.folder)) == 3
    assert RunReader.open(run.folder).integrity() == "ok"


def test_blobs_that_nothing_names_any_more_go(tmp_path: Path) -> None:
    """The old content is removed, and so is what a killed scrub left."""
    run = whole(tmp_path)
    blobs = run.folder / "blobs"
    (stale,) = [p for p in blobs.rglob("*") if p.is_file()]
    (blobs / "ff").mkdir()
    (blobs / "ff" / ("f" * 64)).write_bytes(b"print(1) of a killed scrub")
    (run.folder / ".events.jsonl.new").write_bytes(b"print(1)")
    assert scrub(run.folder, ["print(1)"], clock=FakeClock()).left == ()
    assert not stale.exists()
    assert not (blobs / "ff").exists()
    independent(run.folder)


def test_a_change_that_cannot_be_undone_goes(tmp_path: Path) -> None:
    """A request that nobody can make whole is dropped, since nobody can look into it."""
    run = begun(tmp_path)
    run.event(
        "model.request",
        "agent",
        attrs={"delta": True},
        payload={"base": 7, "change": {"is": SECRET}},
    )
    run.seal(0)
    assert scrub(run.folder, [SECRET], clock=FakeClock()).left == ()
    assert "lost" in lines(run.folder)[0]["payload"]
    independent(run.folder)


def test_what_cannot_be_taken_out_is_told(tmp_path: Path) -> None:
    """A text that also stands where nobody looks for it is found afterwards, and named."""
    run = begun(tmp_path)
    run.event("note", "orca", payload={"number": 123_456_789})
    run.seal(0)
    assert scrub(run.folder, ["123456789"], clock=FakeClock()).left == ("events.jsonl",)
    packed = base64.b64encode(SECRET.encode()).decode()
    assert packed not in spellings(SECRET)


@pytest.mark.parametrize("link", [False, True])
def test_snapshots(link: bool, tmp_path: Path) -> None:
    """They are kept and said to be unsearched, or removed; a link is removed and not followed."""
    run = whole(tmp_path / "runs")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    if link:
        (run.folder / "fs").symlink_to(outside)
    else:
        (run.folder / "fs").mkdir()
    assert scrub(run.folder, clock=FakeClock()).snapshots == "kept"
    assert scrub(run.folder, clock=FakeClock(), drop_snapshots=True).snapshots == "dropped"
    assert not (run.folder / "fs").is_symlink()
    assert not (run.folder / "fs").exists()
    assert (outside / "file").read_text() == "mine"


def test_a_run_that_is_written_is_left_alone(tmp_path: Path) -> None:
    """As long as its writer lives, nothing is changed; an unsealed run stays unsealed."""
    run = begun(tmp_path)
    run.event("note", "orca", attrs={"text": SECRET})
    with pytest.raises(InputError, match="being recorded"):
        scrub(run.folder, [SECRET], clock=FakeClock())
    assert left_in(run.folder, [SECRET])
    run.close()
    assert scrub(run.folder, [SECRET], clock=FakeClock()).left == ()
    assert RunReader.open(run.folder).integrity() == "unsealed"


def test_a_text_that_is_too_short(tmp_path: Path) -> None:
    """A few letters would be found everywhere, and are refused."""
    with pytest.raises(InputError, match="5 characters"):
        scrub(whole(tmp_path).folder, ["abcde"], clock=FakeClock())
    with pytest.raises(TraceError):
        scrub(tmp_path / "none", clock=FakeClock())


def test_what_makes_a_line_stays(tmp_path: Path) -> None:
    """A text that is also a word of the format does not spoil the line."""
    run = whole(tmp_path)
    scrub(run.folder, ["model.request", "harness"], clock=FakeClock())
    independent(run.folder)
    assert hide_tree("harness", Hider())[0] == "harness"
