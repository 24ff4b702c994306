"""A skip is not a pass: each is counted with its reason, and an unforeseen one fails the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("reason", "code"), [("bash is not installed", 0), ("it was late and I was tired", 1)]
)
def test_a_skip_needs_a_known_reason(reason: str, code: int, tmp_path: Path) -> None:
    """A run with a skip passes only if the table of reasons has it, and shows it either way."""
    (tmp_path / "conftest.py").symlink_to(ROOT / "tests/conftest.py")
    (tmp_path / "test_it.py").write_text(
        f"import pytest\ndef test_a(): pytest.skip({reason!r})\ndef test_b(): pass\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-c/dev/null", "--rootdir=.", "-q", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout
    assert f"1 skipped: {reason}" in done.stdout
    assert "1 passed, 1 skipped" in done.stdout
