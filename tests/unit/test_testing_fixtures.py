"""The fixtures, as somebody else's tests use them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
pytest_plugins = ["broker.testing.fixtures"]

SCRIPT = {"lanes": {"main": [{"text": "hello"}]}}

def test_at_once(replay):
    assert replay(SCRIPT).said == "hello"

def test_step_by_step(replay_runtime):
    one, two = replay_runtime(SCRIPT), replay_runtime(SCRIPT)
    assert one.run().lines == two.run().lines
"""


def test_they_work_in_another_project(tmp_path: Path) -> None:
    """A test file that names the plugin has both fixtures, and nothing is left behind."""
    (tmp_path / "test_mine.py").write_text(TESTS)
    temp = tmp_path / "temp"
    temp.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c/dev/null", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(temp), "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert [each.name for each in temp.iterdir() if not each.name.startswith("pytest-")] == [
        f"broker-replay-{temp.stat().st_uid}"
    ]
