"""What a replay cannot reach, tried in processes of their own, since it is for good."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from broker.replay.isolation import Isolation

_TRY = """
import json, os, socket, sys
from pathlib import Path
from broker.replay.isolation import cut_off
scratch, workspace = sys.argv[1:]
found = cut_off(Path(scratch), workspace)
listener = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listener.getsockname()).close()
try:
    socket.create_connection(("192.0.2.1", 80), 3)
    reached = "reached"
except OSError as error:
    reached = type(error).__name__ + str(error.errno)
Path(workspace, "new.txt").write_text("new")
print(json.dumps([found.level, found.in_place, reached, sorted(os.listdir(workspace)), str(found)]))
"""


def test_the_network_is_gone_and_the_workspace_is_another(tmp_path: Path) -> None:
    """Loopback answers and nothing else does; what is written lands in the scratch folder."""
    scratch, workspace = tmp_path / "scratch", tmp_path / "ws"
    scratch.mkdir()
    workspace.mkdir()
    (workspace / "mine.txt").write_text("mine", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _TRY, str(scratch), str(workspace)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    level, in_place, reached, listed, _ = json.loads(done.stdout)
    if level == "none":
        pytest.skip("bubblewrap cannot work here")
    assert reached == "OSError101"  # the network is unreachable
    assert in_place
    assert listed == ["new.txt"]
    assert [each.name for each in workspace.iterdir()] == ["mine.txt"]


def test_what_was_reached_is_told_as_it_is() -> None:
    """Each level has its words, and the worst of them shouts."""
    assert str(Isolation("none", "the kernel gives none")) == (
        "the network is NOT cut off: the kernel gives none"
    )
    assert "stands where the workspace was" in str(Isolation("namespace", in_place=True))
