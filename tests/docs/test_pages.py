"""What the documentation shows is what happens: every block of every page is run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import run_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: a socket's path has room for about a hundred letters."""
    made = Path(tempfile.mkdtemp(prefix="b-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page: Path, folder: Path) -> None:
    """Every block of the page that can run does what the page shows."""
    workspace, home = folder / "workspace", folder / "home"
    workspace.mkdir()
    home.mkdir()
    faults = run_page(page, workspace, home)
    assert not faults, "\n".join(faults)
