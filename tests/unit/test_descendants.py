"""What a process has started, and that all of it can be ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.descendants import Descendants
from tests.hookkit import within

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel does not tell")

# Starts one in a session of its own and one that ignores being told, says who they are, and waits.
TREE = """
setsid sh -c 'echo $$ > {0}/apart; exec sleep 60' &
sh -c 'trap "" TERM; echo $$ > {0}/deaf; while :; do sleep 0.05; done' &
while [ ! -s {0}/apart ] || [ ! -s {0}/deaf ]; do sleep 0.02; done
echo ready > {0}/ready
exec sleep 60
"""


def runs(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A process, and the two that it has started."""
    root = subprocess.Popen(["/bin/sh", "-c", TREE.format(tmp_path)])
    try:
        assert within(20, (tmp_path / "ready").exists)
        yield root, [int((tmp_path / name).read_text()) for name in ("apart", "deaf")]
    finally:
        root.kill()
        root.wait()


def test_all_are_ended_though_their_parent_is_gone(
    tree: tuple[subprocess.Popen[bytes], list[int]],
) -> None:
    """One in another session ends when told, one that ignores it is killed; no descriptor stays."""
    root, others = tree
    before = len(os.listdir("/proc/self/fd"))
    seen = Descendants(root.pid)
    seen.look()
    seen.look()
    root.kill()
    root.wait()
    assert all(runs(pid) for pid in others)
    assert seen.end(0.3) >= len(others)
    assert within(5, lambda: not any(runs(pid) for pid in others))
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_was_started_after_the_first_look_is_ended_too(tmp_path: Path) -> None:
    """The child of one that was seen counts as well, and its child, though all above are gone."""
    late = "sleep 0.3; (sleep 60 & echo $! > {0}/late; echo x > {0}/made; wait) & wait"
    root = subprocess.Popen(["/bin/sh", "-c", f"({late.format(tmp_path)}) & wait"])
    seen = Descendants(root.pid)
    try:
        while not (tmp_path / "made").exists():
            seen.look()
    finally:
        root.kill()
        root.wait()
    pid = int((tmp_path / "late").read_text())
    seen.look()
    seen.end(5)
    assert within(5, lambda: not runs(pid))


def test_a_stranger_is_left_alone(tree: tuple[subprocess.Popen[bytes], list[int]]) -> None:
    """Neither a sibling nor the process itself is signalled."""
    root, others = tree
    sibling = subprocess.Popen(["sleep", "60"])
    try:
        Descendants(root.pid).end(0.0)
        assert within(5, lambda: not any(runs(pid) for pid in others))
        time.sleep(0.05)
        assert root.poll() is None
        assert sibling.poll() is None
    finally:
        sibling.kill()
        sibling.wait()


def test_a_number_that_another_took_is_not_signalled(
    tree: tuple[subprocess.Popen[bytes], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that began at another time than the one that was seen is not kept."""
    from broker import descendants as module

    root, others = tree
    real = module._stat
    monkeypatch.setattr(module, "_processes", lambda: iter([(others[0], root.pid, "1")]))
    assert Descendants(root.pid).end(0.0) == 0
    assert real(others[0]) is not None


def test_elsewhere_nothing_is_seen(
    tree: tuple[subprocess.Popen[bytes], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the kernel does not tell, nobody is ended, and nothing fails."""
    monkeypatch.setattr("broker.descendants.sys.platform", "darwin")
    root, others = tree
    assert Descendants(root.pid).end(0.0) == 0
    assert all(runs(pid) for pid in others)
    monkeypatch.undo()
    Descendants(root.pid).end(0.0)
