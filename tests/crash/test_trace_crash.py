"""A recorder that is killed, a file system that is full, and a run of half a gigabyte."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import orca_trace
import pytest

from broker.capabilities.clock import FakeClock
from broker.trace.bodies import all_rebuilt
from broker.trace.format import BlobRef
from broker.trace.reader import RunReader
from broker.trace.scrub import scrub
from tests.unit.tracekit import whole

WRITES = """
import os, sys
from pathlib import Path
from broker.capabilities.clock import SystemClock
from broker.trace.about import About, StartedBy
from broker.trace.requests import Requests
from broker.trace.writer import RunWriter
run = RunWriter.create(
    Path(sys.argv[1]), About(StartedBy("sh"), [], "/"), clock=SystemClock(), randomness=os.urandom
)
requests, said = Requests(run), []
os.write(1, f"{run.folder}\\n".encode())
while True:
    said.append("word " * 400 + str(len(said)))
    seq = requests.write("main", {"messages": said[-60:]})
    run.event("tool.result", "harness", causes=[seq], payload=os.urandom(6_000).hex())
    os.write(1, b"%d\\n" % (seq + 1))
"""


def killed(runs: Path, after_s: float) -> tuple[Path, int]:
    """Kill a recorder; return its run, and the last event that it had acknowledged."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITES, str(runs)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    time.sleep(after_s)
    process.kill()
    acknowledged = [line for line in process.stdout.read().split("\n") if line]
    process.wait()
    process.stdout.close()
    return folder, int(acknowledged[-1]) if acknowledged else -1


def still_whole(folder: Path, last: int) -> None:
    """Nothing that was acknowledged is lost, and both readers read what there is."""
    reader = RunReader.open(folder)
    events = reader.events()
    assert [e.seq for e in events] == list(range(len(events)))
    assert len(events) > last
    assert reader.integrity() == "unsealed"
    assert all("truncated final line" in problem for problem in reader.problems())
    for each in events:
        if isinstance(each.payload, BlobRef):
            assert len(reader.blob(each.payload)) == each.payload.size_bytes
    assert all(isinstance(body, dict) for _, body in all_rebuilt(reader))
    assert len(orca_trace.TraceReader.open(folder).events()) == len(events)


@pytest.mark.parametrize("after_s", [0.0, 0.15])
def test_a_killed_recorder_leaves_a_run_that_can_be_read(after_s: float, tmp_path: Path) -> None:
    """Killed at its start and in the middle, it has lost nothing that it had acknowledged."""
    still_whole(*killed(tmp_path, after_s))


@pytest.mark.deep
def test_a_recorder_that_is_killed_at_any_moment(tmp_path: Path) -> None:
    """A hundred kills at random moments."""
    chance = random.Random(7)
    for number in range(100):
        still_whole(*killed(tmp_path / str(number), chance.random() / 2))


FILLS = """
import os, resource, sys
from pathlib import Path
from broker.capabilities.clock import SystemClock
from broker.errors import TraceError
from broker.trace.about import About, StartedBy
from broker.trace.writer import RunWriter
run = RunWriter.create(
    Path(sys.argv[1]), About(StartedBy("sh"), [], "/"), clock=SystemClock(), randomness=os.urandom
)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
told, raised = 0, 0
for n in range(400):
    try:
        told += run.event("note", "orca", payload="x" * int(sys.argv[3])) >= 0
    except TraceError as error:
        raised += 1
try:
    run.seal(0)
except TraceError:
    pass
print(run.folder, told, raised, run.broken, sep="\\n")
"""


@pytest.mark.parametrize(
    ("room", "payload"), [(20_000, 50), (20_001, 50), (5_000, 4_500), (9_000, 20_000)]
)
def test_a_full_disk(room: int, payload: int, tmp_path: Path) -> None:
    """The system takes no more: it is raised once and told, and no half of a line is left."""
    words = [sys.executable, "-c", FILLS, str(tmp_path), str(room), str(payload)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    folder, told, raised, broken = done.stdout.splitlines()
    assert raised == "1"
    assert "large" in broken or "part of a line" in broken
    reader = RunReader.open(Path(folder))
    assert len(reader.events()) == int(told)
    assert (reader.problems(), reader.integrity()) == ([], "ok")
    assert orca_trace.TraceReader.open(folder).verify_integrity()[0]
    assert not [p for p in Path(folder).rglob("*") if p.name.endswith(".new")]


STOPPED = """
import os, sys
from pathlib import Path
from broker.capabilities.clock import FakeClock
from broker.trace import scrub as room
left = int(sys.argv[2])
def counting(event, arguments):
    global left
    if event in ("os.rename", "os.remove", "open", "os.rmdir") and sys.argv[1] in str(arguments):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
sys.addaudithook(counting)
room.scrub(Path(sys.argv[1]), ["print(1)"], clock=FakeClock())
"""


def test_a_scrub_that_is_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    """Killed at each of its steps on the disk, it leaves a run that is read and scrubbed again."""
    for step in range(200):
        folder = whole(tmp_path / str(step)).folder
        words = [sys.executable, "-c", STOPPED, str(folder), str(step * 2)]
        done = subprocess.run(words, capture_output=True, check=False)
        assert done.returncode in (0, -9), done.stderr.decode()
        reader = RunReader.open(folder)
        assert len(reader.events()) in (9, 10)
        assert reader.problems() == []
        assert scrub(folder, ["print(1)"], clock=FakeClock()).left == ()
        assert RunReader.open(folder).integrity() == "ok"
        if done.returncode == 0:
            break
    assert done.returncode == 0
    assert step > 3


READS = """
import resource, sys
from pathlib import Path
from broker.trace.reader import RunReader
from broker.trace.summary import summary
reader = RunReader.open(Path(sys.argv[1]))
print(summary(reader.stream()).events, reader.integrity())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.deep
def test_half_a_gigabyte_is_read_in_little_memory(tmp_path: Path) -> None:
    """A run of 500 MB takes less than 60 MB of memory to be read and to be checked."""
    folder = whole(tmp_path).folder
    line = {"ts": "2027-01-15T08:00:00Z", "mono_us": 0, "turn": 0, "type": "note", "actor": "orca"}
    with open(folder / "events.jsonl", "w", encoding="utf-8") as file:
        for seq in range(50_000):
            file.write(json.dumps({"seq": seq, **line, "attrs": {"text": "x" * 10_000}}) + "\n")
    try:
        words = [sys.executable, "-c", READS, str(folder)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    finally:
        os.remove(folder / "events.jsonl")
    counted, used = done.stdout.splitlines()
    assert counted == "50000 mismatch"
    assert int(used) < 60_000  # KiB, on Linux
