"""A run that is not recorded does nothing, and loads nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from broker.agents.adapter import Launch, Plain, Prepared
from broker.capture.begin import NotRecorded, begin
from broker.capture.recording import Recording
from broker.events import Bus


def test_no_recording_is_nothing(tmp_path: Path) -> None:
    """Each step of a run passes it by."""
    launch = Launch(("x",), {}, tmp_path, tmp_path, tmp_path)
    made = begin(False, tmp_path / "runs", launch, Plain(), print)
    prepared = Prepared(("x",))
    assert isinstance(made, NotRecorded)
    assert made.through(Plain(), launch, prepared) is prepared
    bus = Bus()
    made.start(bus)
    made.ended(0)
    made.end(quiet=False)
    assert (made.hosts, made.lost()) == ((), None)
    assert not (tmp_path / "runs").exists()


def test_a_wanted_recording_begins(tmp_path: Path) -> None:
    """Where one is wanted, there is a folder, with a link to the session's."""
    (tmp_path / "session").mkdir()
    launch = Launch(("x",), {}, tmp_path, tmp_path / "session", tmp_path / "s")
    made = begin(True, tmp_path / "runs", launch, Plain(), print, sid="sid")
    assert isinstance(made, Recording)
    assert (made.folder / "receipt").resolve() == (tmp_path / "session").resolve()
    made.end(quiet=True)


def test_a_launch_loads_no_tls() -> None:
    """Knowing of recordings costs a launch nothing until one begins."""
    code = "import broker.launch, sys; print('broker.capture.proxy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
