"""Whether a run is over, or somebody still writes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker.errors import InputError, TraceError
from broker.trace.rest import at_rest
from tests.unit.tracekit import begun, whole

WRITES = """
import os, sys, time
from pathlib import Path
from broker.capabilities.clock import SystemClock
from broker.trace.about import About, StartedBy
from broker.trace.writer import RunWriter
run = RunWriter.create(
    Path(sys.argv[1]), About(StartedBy("sh"), [], "/"), clock=SystemClock(), randomness=os.urandom
)
print(run.folder, flush=True)
time.sleep(60)
"""


def test_a_writer_holds_its_run_until_it_dies(tmp_path: Path) -> None:
    """The kernel tells: also a writer that was killed holds nothing any more."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITES, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        with pytest.raises(InputError, match="being recorded"), at_rest(folder):
            pass
    finally:
        process.kill()
        process.wait()
    with at_rest(folder):
        assert folder.is_dir()


def test_a_sealed_run_is_over(tmp_path: Path) -> None:
    """The seal gives the run free; one hold keeps out another."""
    folder = whole(tmp_path).folder
    with at_rest(folder), pytest.raises(InputError), at_rest(folder):
        pass
    run = begun(tmp_path)
    run.close()
    with at_rest(run.folder):
        pass
    with pytest.raises(TraceError), at_rest(tmp_path / "none"):
        pass
