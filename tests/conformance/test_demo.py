"""The demo is what it says: a real run, refused by name, verified, tampered with, and found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from demo.claude import installed

ROOT = Path(__file__).resolve().parents[2]


def play(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the demo as `make demo` does, its temporary folder below ``folder``."""
    return subprocess.run(
        [sys.executable, str(ROOT / "demo/demo.py")],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), **environ},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=110,
        check=False,
    )


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The demo without Claude Code, played once, and the folder it played in."""
    folder = tmp_path_factory.mktemp("d")
    return play(folder, BROKER_CLAUDE=""), folder


def step(text: str, number: int) -> str:
    """Return the text of one step of the demo."""
    parts = re.split(r"^── [0-9]+\. ", text, flags=re.MULTILINE)
    return parts[number]


def test_everything_came_out_as_it_should(played):
    """The demo's own expectations hold, and its exit code says so."""
    ended, _ = played
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "NOT SO" not in ended.stdout
    assert ended.stderr == ""


def test_the_work_is_done_and_the_rest_refused_by_name(played):
    """A real bug is mended, and each refusal names the caveat that refuses."""
    text = step(played[0].stdout, 1)
    assert text.index("FAIL: test_words") < text.index("ok      edit(") < text.index("| OK")
    for call, caveat in [
        ('REFUSED write(path=".github/workflows/ci.yml"', "refused by `writes`"),
        ("REFUSED fetch(", "refused by `tools`"),
        ('REFUSED read(path="tests/test_slug.py"', "refused by `paths`"),
        ("REFUSED task(", "refused by `tools`: `tools=read,shell` widens `tools=read,grep,task`"),
    ]:
        assert text.index(call) < text.index(caveat, text.index(call)) < text.index(call) + 250


def test_the_receipt_tells_the_story_and_verifies(played):
    """What was typed, allowed, refused and handed on stands in the receipt, which verifies."""
    text = step(played[0].stdout, 2)
    for word in ("fix the failing test", "allowed", "refused", "(writes)", "delegate", "helper-1"):
        assert word in text
    assert text.count("verified: SEALED") == 2


def test_one_changed_byte_is_found_and_named(played):
    """The changed receipt does not verify, the line is named, and put back it verifies."""
    text = step(played[0].stdout, 3)
    (line,) = re.findall(r"In line ([0-9]+) of", text)
    assert re.search(rf"^  not verified \(mac\): .*at line {line}\b", text, re.MULTILINE)
    assert text.index("not verified") < text.index("put back") < text.index("  verified: SEALED")


def test_nothing_is_left_behind(played):
    """The demo's folder is removed again."""
    assert list(played[1].iterdir()) == []


@pytest.mark.agent
@pytest.mark.skipif(not installed(), reason="Claude Code is not installed")
def test_claude_code_is_held_in_the_demo(tmp_path_factory):
    """With Claude Code itself, a call in scope runs and one outside is refused by name."""
    ended = play(tmp_path_factory.mktemp("d"), BROKER_CLAUDE=str(installed()))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    text = step(ended.stdout, 4)
    assert "1 allowed, 1 refused" in text
    assert "refused by `writes`" in text
